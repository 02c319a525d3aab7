"""The optimiser of the pretrainings without labels, and its learning rates."""

from __future__ import annotations

import torch
from timm.optim import param_groups_weight_decay
from timm.scheduler import CosineLRScheduler
from torch import nn

WARMUP = 0.1  # share of all steps with a rising learning rate


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
