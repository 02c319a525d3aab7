"""Train the original model, the one that relevance finetuning starts from, on Cutouts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from relevit.config import OriginalParams
from relevit.data import cutouts
from relevit.evaluate import BATCH, predict
from relevit.files import write_atomically
from relevit.finetune import epoch_plan
from relevit.models import (
    ModelSpec,
    load_model,
    load_pretrained,
    model_spec,
    shipped_weights,
)
from relevit.precision import Precision, autocast, choose_precision
from relevit.training import LOG, WEIGHTS, History, run_epochs

WARMUP = 0.1  # share of all steps with a rising learning rate


@dataclass(frozen=True)
class TrainSettings:
    """Plain supervised training: AdamW, linear warm-up, then a cosine to zero.

    `fresh=True` draws new images in every epoch instead of showing the same ones again.
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

    def rate_share(self, step: int, steps: int) -> float:
        """Share of the peak learning rate at one step, counted from 0."""
        warm = max(1, round(WARMUP * steps))
        if step < warm:
            return (step + 1) / warm
        return 0.5 * (1 + float(np.cos(np.pi * (step - warm) / max(1, steps - warm))))


def make_original(
    cfg: OriginalParams,
    folder: Path,
    device: torch.device,
    on_epoch: Callable[[dict[str, Any]], None] = lambda row: None,
) -> tuple[nn.Module, History]:
    """The original model of a preset, with `weights.safetensors` and `log.jsonl` in `folder`.

    `source="shipped"` copies the weights and the log that come with the suite, `"train"` trains.
    Raises: ValueError when the model has no shipped weights; further as `run_epochs`.
    """
    spec = model_spec(cfg.model)
    if cfg.source == "shipped":
        weights = shipped_weights(cfg.model)
        history = [json.loads(line) for line in weights.with_suffix(".jsonl").open()]
        model = load_model(cfg.model, weights, device)
        for source, name in ((weights, WEIGHTS), (weights.with_suffix(".jsonl"), LOG)):
            write_atomically(folder / name, partial(shutil.copyfile, source))
        for row in history:
            on_epoch(row)
        return model, history
    model = load_pretrained(cfg.model, cfg.seed).to(device)
    settings = TrainSettings(
        lr=cfg.lr,
        head_lr=cfg.head_lr,
        images=cfg.images,
        epochs=cfg.epochs,
        batch_size=cfg.batch_size,
        weight_decay=cfg.weight_decay,
        precision=choose_precision(cfg.precision, device),
        seed=cfg.seed,
    )
    return model, train_original(model, spec, settings, folder, on_epoch=on_epoch)


def train_original(
    model: nn.Module,
    spec: ModelSpec,
    settings: TrainSettings,
    folder: Path,
    *,
    validation_images: int = 400,
    on_epoch: Callable[[dict[str, Any]], None] = lambda row: None,
    on_step: Callable[[int, int, float], None] = lambda step, steps, loss: None,
) -> History:
    """Train `model` in place; weights, log and checkpoints go to `folder` (see `run_epochs`).

    Every row of the log holds the epoch's mean loss, the losses in twenty equal parts of the
    epoch (`curve`) and top-1 on the validation images.
    """
    optimizer = torch.optim.AdamW(_groups(model, settings), weight_decay=settings.weight_decay)
    shown = cutouts.draw("validation", range(validation_images), size=spec.image_size)

    def train_epoch(epoch: int) -> dict[str, Any]:
        model.train()
        offset = settings.images * (epoch - 1) if settings.fresh else 0
        plan = epoch_plan(settings.images, settings.batch_size, settings.seed, epoch)
        losses = []
        for step, (rows, _) in enumerate(plan):
            batch = cutouts.draw(
                "train", (rows + offset).tolist(), seed=settings.seed, size=spec.image_size
            )
            share = settings.rate_share((epoch - 1) * len(plan) + step, settings.epochs * len(plan))
            losses.append(_train_step(model, spec, optimizer, batch, share, settings.precision))
            on_step(step + 1, len(plan), losses[-1])
        curve = [float(np.mean(part)) for part in np.array_split(losses, min(20, len(losses)))]
        return {"train_loss": float(np.mean(losses)), "curve": curve}

    def validate() -> dict[str, float]:
        answers = predict(model.eval(), spec, shown.split(BATCH), settings.precision)
        return {"validation_top1_pct": 100 * float((answers["label_rank"] == 0).mean())}

    return run_epochs(
        model,
        optimizer,
        folder,
        architecture=spec.name,
        identity={"kind": "original", **asdict(settings)},
        epochs=settings.epochs,
        train_epoch=train_epoch,
        validate=validate,
        on_epoch=on_epoch,
    )


def _groups(model: nn.Module, settings: TrainSettings) -> list[dict[str, Any]]:
    head = list(model.head.parameters())
    known = {id(parameter) for parameter in head}
    body = [p for p in model.parameters() if id(p) not in known]
    return [
        {"params": body, "lr": settings.lr, "peak": settings.lr},
        {"params": head, "lr": settings.head_lr, "peak": settings.head_lr},
    ]


def _train_step(
    model: nn.Module,
    spec: ModelSpec,
    optimizer: torch.optim.Optimizer,
    batch: cutouts.Batch,
    share: float,
    precision: Precision,
) -> float:
    device = next(model.parameters()).device
    for group in optimizer.param_groups:
        group["lr"] = share * group["peak"]
    with autocast(device, precision):
        logits = model(spec.normalise(batch.images.to(device)))
    loss = cross_entropy(logits.float(), batch.labels.to(device))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return float(loss.detach())
