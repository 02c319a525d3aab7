"""Train a classifier on labelled pictures, the plain way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from relevit.attention.recording import attention_for_gradients
from relevit.base.device import Precision, autocast, choose_precision
from relevit.config import Params
from relevit.data.image_set import ImageSet
from relevit.evaluate.predictions import BATCH, predict
from relevit.models.spec import ModelSpec
from relevit.training.epochs import History, epoch_plan, loss_figures, run_epochs

# Normalised images and labels of a batch, mixed: soft labels [batch, classes] come back.
Mixing = Callable[[Tensor, Tensor, int, np.random.Generator], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class TrainSettings:
    """Plain supervised training: AdamW, linear warm-up, then a cosine to zero.

    `fresh=True` shows new images in every epoch instead of the same ones again.
    """

    lr: float
    head_lr: float
    images: int = 3200
    epochs: int = 1
    batch_size: int = 32
    weight_decay: float = 0.05
    precision: Precision = "float32"
    fresh: bool = False
    seed: int = 0
    warmup: float = 0.1  # share of all steps with a rising learning rate

    @classmethod
    def from_params(cls, cfg: Params, device: torch.device, **others: Any) -> TrainSettings:
        """The settings that a notebook's parameters name alike; `others` go before them."""
        shared = {f.name for f in fields(cls)} & set(type(cfg).model_fields) - {"precision"}
        given = {name: getattr(cfg, name) for name in shared}
        given["precision"] = choose_precision(cfg.precision, device)
        return cls(**given | others)

    def rate_share(self, step: float, steps: int) -> float:
        """Share of the peak learning rate at one step, counted from 0."""
        warm = max(1, round(self.warmup * steps))
        if step < warm:
            return (step + 1) / warm
        return 0.5 * (1 + float(np.cos(np.pi * (step - warm) / max(1, steps - warm))))


def train_classifier(
    model: nn.Module,
    spec: ModelSpec,
    settings: TrainSettings,
    folder: Path,
    *,
    train: ImageSet,
    validation: ImageSet,
    identity: dict[str, Any],
    mixing: Mixing | None = None,
    keep_epochs: bool = False,
    on_epoch: Callable[[dict[str, Any]], None] = lambda row: None,
) -> History:
    """Train `model` in place; weights, log and checkpoints go to `folder` (see `run_epochs`).

    Every row of the log holds the losses in nats (`loss_figures`) and top-1 on the validation
    images. `identity` says what the images are; with the settings it decides whether an earlier
    run is resumed. `mixing` changes each batch before its step.
    """
    asked = settings.images * (settings.epochs if settings.fresh else 1)
    if asked > len(train):
        raise ValueError(
            f"train_classifier: {asked} training images asked for, and {train.name} has "
            f"{len(train)}; lower images or epochs"
        )
    optimizer = torch.optim.AdamW(
        parameter_groups(model, settings), weight_decay=settings.weight_decay, fused=True
    )
    device = next(model.parameters()).device

    def train_epoch(epoch: int) -> dict[str, Any]:
        model.train()
        offset = settings.images * (epoch - 1) if settings.fresh else 0
        plan = epoch_plan(settings.images, settings.batch_size, settings.seed, epoch)
        losses = []
        for step, (rows, rng) in enumerate(plan):
            _set_rates(optimizer, settings, (epoch - 1) * len(plan) + step, len(plan))
            batch = train.read((rows + offset).tolist())
            pixels = spec.normalise(batch.images.to(device))
            target = batch.labels.to(device)
            if mixing:
                pixels, target = mixing(pixels, target, model.num_classes, rng)
            losses.append(_step(model, optimizer, pixels, target, settings.precision))
        return loss_figures(losses)

    def validate() -> dict[str, float]:
        return {"validation_top1_pct": top1_pct(model.eval(), spec, validation, settings.precision)}

    return run_epochs(
        model,
        optimizer,
        folder,
        architecture=spec.name,
        identity=identity | asdict(settings),
        epochs=settings.epochs,
        train_epoch=train_epoch,
        validate=validate,
        on_epoch=on_epoch,
        keep_epochs=keep_epochs,
    )


def top1_pct(model: nn.Module, spec: ModelSpec, images: ImageSet, precision: Precision) -> float:
    """Share of pictures whose highest logit is at the label, in percent."""
    ranks = predict(model, spec, images.batches(BATCH), precision)["label_rank"]
    return 100 * int((ranks == 0).sum()) / len(images)


def parameter_groups(model: nn.Module, settings: TrainSettings) -> list[dict[str, Any]]:
    """The head and all else, each with the peak of its learning rate.

    Raises: ValueError where all of it is frozen.
    """
    if not any(weight.requires_grad for weight in model.parameters()):
        name = type(model).__name__
        raise ValueError(f"training: all weights of {name} are frozen; call .requires_grad_(True)")
    head = list(model.head.parameters())
    known = {id(parameter) for parameter in head}
    body = [p for p in model.parameters() if id(p) not in known]
    return [
        {"params": body, "lr": settings.lr, "peak": settings.lr},
        {"params": head, "lr": settings.head_lr, "peak": settings.head_lr},
    ]


def _set_rates(
    optimizer: torch.optim.Optimizer, settings: TrainSettings, step: int, steps_an_epoch: int
) -> None:
    share = settings.rate_share(step, settings.epochs * steps_an_epoch)
    for group in optimizer.param_groups:
        group["lr"] = share * group["peak"]


def _step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    pixels: Tensor,
    target: Tensor,
    precision: Precision,
) -> float:
    with autocast(pixels.device, precision), attention_for_gradients(model):
        logits = model(pixels)
    loss = cross_entropy(logits.float(), target)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return float(loss.detach())
