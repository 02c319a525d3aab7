"""The losses of one batch, for the method and for its baselines."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from relevit.base.device import autocast
from relevit.finetune.baselines import baseline_losses
from relevit.finetune.settings import FinetuneSettings
from relevit.losses import background_loss, confidence_loss, foreground_loss
from relevit.relevance import relevance_and_logits, to_pixels

TERMS = ("background", "foreground", "relevance", "classification", "total")


@dataclass(frozen=True)
class StepLosses:
    """The terms of one batch, unweighted but for `relevance` and `total`; all in the graph.

    A baseline has no foreground term (0) and no heatmaps (None).
    """

    background: Float[Tensor, ""]
    foreground: Float[Tensor, ""]
    relevance: Float[Tensor, ""]
    classification: Float[Tensor, ""]
    total: Float[Tensor, ""]
    heatmaps: Float[Tensor, "batch 1 height width"] | None
    logits: Float[Tensor, "batch classes"]

    def numbers(self) -> dict[str, float]:
        """The five terms as plain numbers, for the log."""
        return {f"loss_{name}": float(getattr(self, name).detach()) for name in TERMS}


def step_losses(
    model: nn.Module,
    images: Float[Tensor, "batch 3 height width"],
    masks: Float[Tensor, "batch 1 height width"],
    labels: Int[Tensor, " batch"],
    settings: FinetuneSettings,
    *,
    train: bool = True,
) -> StepLosses:
    """All losses of a batch from one forward pass, shared by the map and the class term.

    Source: RobustViT Sec. 3, for the baselines App. C and D. `images` are normalised, `masks`
    are in [0, 1]. `train=False` leaves out the graph of second derivatives, which the numbers
    alone do not need.
    """
    if settings.method != "relevance":
        background, classification, logits = baseline_losses(
            model,
            images,
            masks,
            labels,
            method=settings.method,
            protocol=settings.protocol,
            create_graph=None if train else False,
            temperature=settings.temperature,
        )
        nothing = torch.zeros_like(background)
        return _weighted(settings, background, nothing, classification, None, logits)
    target = labels if settings.target == "label" else None
    with autocast(images.device, settings.precision):
        relevance, logits = relevance_and_logits(
            model,
            images,
            target,
            exact=settings.exact_gradient and train,
            explanation=settings.explanation,
        )
    relevance, logits = _at_least_float32(relevance), _at_least_float32(logits)
    scaled = settings.protocol == "published"
    heatmaps = to_pixels(relevance, masks.shape[-2:], normalise=scaled)
    background = background_loss(heatmaps, masks, protocol=settings.protocol)
    foreground = foreground_loss(heatmaps, masks, protocol=settings.protocol)
    if settings.class_term == "label":
        classification = cross_entropy(logits / settings.temperature, labels)
    else:
        classification = confidence_loss(logits, settings.temperature)
    return _weighted(settings, background, foreground, classification, heatmaps, logits)


def _weighted(
    settings: FinetuneSettings,
    background: Tensor,
    foreground: Tensor,
    classification: Tensor,
    heatmaps: Tensor | None,
    logits: Tensor,
) -> StepLosses:
    weights = settings.weights
    combined = weights.background * background + weights.foreground * foreground
    total = weights.relevance * combined + weights.classification * classification
    return StepLosses(background, foreground, combined, classification, total, heatmaps, logits)


def _at_least_float32(values: Tensor) -> Tensor:
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values
