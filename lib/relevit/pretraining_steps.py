"""What the pretrainings without labels share: the optimiser, its rates, an epoch's line of log."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from timm.optim import param_groups_weight_decay
from timm.scheduler import CosineLRScheduler
from torch import nn

WARMUP = 0.1  # share of all steps with a rising learning rate


def make_optimizer(
    model: nn.Module,
    *,
    lr: float,
    weight_decay: float,
    betas: tuple[float, float],
    steps: int,
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


def loss_figures(losses: list[float]) -> dict[str, Any]:
    """The mean of an epoch's losses, and the means of at most twenty parts of it (`curve`)."""
    curve = [float(np.mean(part)) for part in np.array_split(losses, min(20, len(losses)))]
    return {"train_loss": float(np.mean(losses)), "curve": curve}
