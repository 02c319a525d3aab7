"""What pretrainings without labels share: settings, optimiser, and epochs of new images."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from timm.optim import param_groups_weight_decay
from timm.scheduler import CosineLRScheduler
from torch import Tensor, nn

from relevit.data.image_set import ImageSet
from relevit.finetune.epochs import History, curve, epoch_plan, fit

WARMUP = 0.1  # share of all steps with a rising learning rate

Images = UInt8[Tensor, "batch 3 height width"]
# Optimiser, images, generator and the share of all steps that is done give the loss of a step.
Step = Callable[[torch.optim.Optimizer, Images, np.random.Generator, float], float]


@dataclass(frozen=True)
class UnlabelledSettings:
    """AdamW, linear warm-up, then a cosine to zero; new images each epoch."""

    lr: float
    images: int = 3200
    epochs: int = 1
    batch_size: int = 64
    weight_decay: float = 0.05
    seed: int = 0


def train_unlabelled(
    model: nn.Module,
    learner: nn.Module,
    settings: UnlabelledSettings,
    folder: Path,
    *,
    betas: tuple[float, float],
    train: ImageSet,
    step: Step,
    validate: Callable[[], dict[str, float]],
    architecture: str,
    identity: dict[str, Any],
    on_epoch: Callable[[dict[str, Any]], None],
) -> History:
    """Train `learner`, a part of `model` or all of it; files go to `folder` (`fit`).

    Each row of the log has the epoch's mean loss, the losses in at most twenty parts of it
    (`curve`), and what `validate` gives. Images, their order and a step's generator follow from
    (seed, epoch, step). `identity` with the settings says which run it is.
    Raises: as `fit`.
    """
    per_epoch = math.ceil(settings.images / settings.batch_size)
    steps = settings.epochs * per_epoch
    optimizer, rates = make_optimizer(
        learner, lr=settings.lr, weight_decay=settings.weight_decay, betas=betas, steps=steps
    )

    def batches(epoch: int) -> list[tuple[int, Tensor, np.random.Generator]]:
        plan = epoch_plan(settings.images, settings.batch_size, settings.seed, epoch)
        offset, done = settings.images * (epoch - 1), (epoch - 1) * per_epoch
        return [(done + place, rows + offset, rng) for place, (rows, rng) in enumerate(plan)]

    def take(batch: tuple[int, Tensor, np.random.Generator]) -> dict[str, float]:
        done, rows, rng = batch
        rates.step_update(done + 1)
        return {"loss": step(optimizer, train.read(rows.tolist()).images, rng, done / steps)}

    return fit(
        model,
        optimizer,
        folder,
        batches,
        take,
        summary=curve,
        architecture=architecture,
        identity=identity | asdict(settings),
        epochs=settings.epochs,
        validate=validate,
        on_epoch=on_epoch,
    )


def make_optimizer(
    model: nn.Module, *, lr: float, weight_decay: float, betas: tuple[float, float], steps: int
) -> tuple[torch.optim.Optimizer, CosineLRScheduler]:
    """AdamW, which spares biases, norms, tokens and positions the decay, and its learning rates.

    They rise linearly and fall as a cosine to zero; `step_update(n)` sets that of step n, from 1.
    """
    groups = param_groups_weight_decay(
        model, weight_decay, no_weight_decay_list=("*_token", "*.pos_embed")
    )
    optimizer = torch.optim.AdamW(groups, lr=lr, betas=betas)
    warm = max(1, round(WARMUP * steps))
    # One more step than there are, so that the last one still learns.
    rates = CosineLRScheduler(
        optimizer, steps - warm + 1, warmup_t=warm, warmup_prefix=True, t_in_epochs=False
    )
    return optimizer, rates
