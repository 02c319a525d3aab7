"""The three terms of RobustViT's loss (Sec. 3).

total = w_relevance (w_bg L_bg + w_fg L_fg) + w_class L_class, with the paper's weights
0.8, 2, 0.3 and 0.2 (Table 5). The relevance is a heatmap in [0, 1] (differences A1).
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cross_entropy

from relevit.relevance import Protocol, check_protocol


def background_loss(
    relevance: Float[Tensor, "batch 1 height width"],
    mask: Float[Tensor, "batch 1 height width"],
    *,
    protocol: Protocol = "published",
) -> Float[Tensor, ""]:
    """Mean squared relevance on the background.

    Source: RobustViT Eq. 1, MSE(R * (1 - S), 0).
    Shapes: relevance in [0, 1] (unitless), mask in [0, 1], 1 on the object.
    `published` turns only exact zeros and ones of the mask round, so that a fractional edge
    pixel counts in both terms; `described` takes 1 - S (differences A7).
    Averages over all pixels, so the term grows with the background's area (A6).
    Raises: ValueError when the shapes differ or a mask leaves [0, 1].
    """
    _check(relevance, mask, protocol)
    background = 1 - mask
    if protocol == "published":
        background = torch.where((mask == 0) | (mask == 1), background, mask)
    return (relevance * background).square().mean()


def foreground_loss(
    relevance: Float[Tensor, "batch 1 height width"],
    mask: Float[Tensor, "batch 1 height width"],
    *,
    protocol: Protocol = "published",
) -> Float[Tensor, ""]:
    """Mean squared distance of the object's relevance from one.

    Source: RobustViT Eq. 2, MSE(R * S, 1). `published` takes the mask itself as the target,
    so the background contributes nothing; `described` takes one everywhere, so that every
    background pixel adds a constant 1 (differences A6).
    Shapes and errors: as `background_loss`.
    """
    _check(relevance, mask, protocol)
    goal = mask if protocol == "published" else torch.ones_like(mask)
    return (relevance * mask - goal).square().mean()


def confidence_loss(
    logits: Float[Tensor, "batch classes"], temperature: float = 1.0
) -> Float[Tensor, ""]:
    """Cross-entropy with the model's own current prediction, in nats.

    Source: RobustViT Eq. 4. The target is the arg-max of the model as it is now, not of the
    original (differences A9). `temperature` divides the logits, after the arg-max; the paper
    has none (1.0), the published code 0.65 for DeiT-B and 0.55 for DeiT-S (A8).
    Raises: ValueError unless the temperature is positive.
    """
    if not temperature > 0:
        raise ValueError(f"confidence_loss: temperature is {temperature}; it must be above 0")
    return cross_entropy(logits / temperature, logits.argmax(dim=1))


def _check(relevance: Tensor, mask: Tensor, protocol: str) -> None:
    check_protocol(protocol)
    if relevance.shape != mask.shape:
        raise ValueError(
            f"losses: relevance {tuple(relevance.shape)} and mask {tuple(mask.shape)} differ; "
            "give one mask pixel for each heatmap pixel"
        )
    if not bool(((mask >= 0) & (mask <= 1)).all()):  # NaN is in no range
        raise ValueError(
            f"losses: the mask spans [{float(mask.min()):g}, {float(mask.max()):g}]; "
            "it must lie in [0, 1], 1 on the object"
        )
