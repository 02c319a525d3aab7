"""Train a classifier on labelled pictures, the plain way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer

from relevit.base.device import Precision, autocast, choose_precision, sent, tensor_float32
from relevit.data.image_set import ImageSet
from relevit.evaluate.predictions import BATCH, predict
from relevit.finetune.cuda_graph import Recorded
from relevit.finetune.epochs import History, Losses, curve, descend, epoch_plan, fit
from relevit.maps import attention_for_gradients
from relevit.models.spec import ModelSpec
from reproduction.params.cells import Params


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

    def rate_share(self, epoch: int, step: float, steps: int) -> float:
        """Share of the peak learning rate at a step (from 0) of an epoch (from 1) of `steps`."""
        done, all_ = (epoch - 1) * steps + step, self.epochs * steps
        warm = max(1, round(self.warmup * all_))
        if done < warm:
            return (done + 1) / warm
        return 0.5 * (1 + float(np.cos(np.pi * (done - warm) / max(1, all_ - warm))))


def train_classifier(
    model: nn.Module,
    spec: ModelSpec,
    settings: TrainSettings,
    folder: Path,
    *,
    train: ImageSet,
    validation: ImageSet,
    identity: dict[str, Any],
    keep_epochs: bool = False,
    on_epoch: Callable[[dict[str, Any]], None] = lambda row: None,
) -> History:
    """Train `model` in place; weights, log and checkpoints go to `folder` (see `fit`).

    Every row of the log holds the losses in nats (`curve`) and top-1 on the validation
    images. `identity` says what the images are; with the settings it decides whether an earlier
    run is resumed.
    """
    asked = settings.images * (settings.epochs if settings.fresh else 1)
    if asked > len(train):
        raise ValueError(
            f"train_classifier: {asked} training images asked for, and {train.name} has "
            f"{len(train)}; lower images or epochs"
        )
    optimizer, device = make_optimizer(model, settings), next(model.parameters()).device
    recorded = Recorded(optimizer) if device.type == "cuda" else None
    update = partial(_update, model, optimizer, settings.precision)

    def batches(epoch: int) -> list[Tensor]:
        offset = settings.images * (epoch - 1) if settings.fresh else 0
        plan = epoch_plan(settings.images, settings.batch_size, settings.seed, epoch)
        return [rows + offset for rows, _ in plan]

    def step(rows: Tensor) -> Losses:
        batch = train.read(rows.tolist())
        pixels, target = spec.normalise(sent(batch.images, device)), sent(batch.labels, device)
        with tensor_float32(device, settings.precision == "tf32"):
            return recorded(update, pixels, target) if recorded else update(pixels, target)

    return fit(
        model,
        optimizer,
        folder,
        batches,
        step,
        rate=settings.rate_share,
        summary=curve,
        architecture=spec.name,
        identity=identity | asdict(settings),
        epochs=settings.epochs,
        validate=lambda: {
            "validation_top1_pct": top1_pct(model, spec, validation, settings.precision)
        },
        on_epoch=on_epoch,
        keep_epochs=keep_epochs,
    )


def _update(
    model: nn.Module, optimizer: Optimizer, precision: Precision, pixels: Tensor, target: Tensor
) -> Losses:
    with autocast(pixels.device, precision), attention_for_gradients(model):
        logits = model(pixels)
    return descend(optimizer, {"loss": cross_entropy(logits.float(), target)})


def top1_pct(model: nn.Module, spec: ModelSpec, images: ImageSet, precision: Precision) -> float:
    """Share of pictures whose highest logit is at the label, in percent."""
    ranks = predict(model, spec, images.batches(BATCH), precision)["label_rank"]
    return 100 * int((ranks == 0).sum()) / len(images)


def make_optimizer(model: nn.Module, settings: TrainSettings) -> torch.optim.AdamW:
    """AdamW with a learning rate for the head and one for all else.

    Raises: ValueError where all of it is frozen.
    """
    if not any(weight.requires_grad for weight in model.parameters()):
        name = type(model).__name__
        raise ValueError(f"training: all weights of {name} are frozen; call .requires_grad_(True)")
    head = list(model.head.parameters())
    known = {id(parameter) for parameter in head}
    body = [p for p in model.parameters() if id(p) not in known]
    groups = [{"params": body, "lr": settings.lr}, {"params": head, "lr": settings.head_lr}]
    return torch.optim.AdamW(groups, weight_decay=settings.weight_decay, fused=True)
