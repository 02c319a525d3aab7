"""One step of finetuning: the losses of a batch, for RobustViT's method and for its baselines.

Ours (RobustViT Sec. 3): the relevance map of a class lies on the object and not off it, while
the answers stay as they are. The baselines (appendices C and D, after Simpson et al. 2019 and
Ross, Hughes, Doshi-Velez 2017): the gradient of the answer is small on the background.

**What the published baselines train.** Their background term has no gradient (differences B9,
B10): the gradient of the total is that of the cross-entropy alone, on every parameter.
`published` keeps that, `described` differentiates through the gradient as the text's formulas
say. `relevit.finetune.baselines` measures the two.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from relevit.attention.recording import attention_for_gradients, unfused_attention
from relevit.attribution import checked_target, patch_grid, relevance_and_logits, to_heatmap
from relevit.base.device import autocast
from relevit.config.words import Baseline, Protocol
from relevit.finetune.hyperparameters import check_baseline
from relevit.finetune.settings import FinetuneSettings
from relevit.losses import (
    background_loss,
    confidence_loss,
    foreground_loss,
    gradmask_loss,
    rrr_loss,
)
from relevit.protocols import check_protocol

TERMS = ("background", "foreground", "relevance", "classification", "total")


@dataclass(frozen=True)
class StepLosses:
    """The terms of one batch, unweighted but for `relevance` and `total`; all in the graph.

    A baseline has no foreground term (0) and no heatmaps (None), a control in training neither
    relevance term.
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
    alone do not need. In training a control, whose relevance terms weigh nothing, makes no maps.
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
    if train and settings.weights.relevance == 0:
        with autocast(images.device, settings.precision), attention_for_gradients(model):
            logits = _at_least_float32(model(images))
        nothing = logits.new_zeros(())
        classification = _class_term(settings, logits, labels)
        return _weighted(settings, nothing, nothing, classification, None, logits)
    target = labels if settings.target == "label" else None
    with autocast(images.device, settings.precision):
        relevance, logits = relevance_and_logits(
            model,
            images,
            target,
            exact_gradient=settings.exact_gradient and train,
            explanation=settings.explanation,
        )
    relevance, logits = _at_least_float32(relevance), _at_least_float32(logits)
    scaled = settings.protocol == "published"
    grid = patch_grid(model, images)
    heatmaps = to_heatmap(relevance, masks.shape[-2:], grid, normalise=scaled)
    background = background_loss(heatmaps, masks, protocol=settings.protocol)
    foreground = foreground_loss(heatmaps, masks, protocol=settings.protocol)
    classification = _class_term(settings, logits, labels)
    return _weighted(settings, background, foreground, classification, heatmaps, logits)


def baseline_losses(
    model: nn.Module,
    images: Float[Tensor, "batch 3 height width"],
    masks: Float[Tensor, "batch 1 height width"],
    labels: Int[Tensor, " batch"],
    *,
    method: Baseline,
    protocol: Protocol = "published",
    create_graph: bool | None = None,
    temperature: float = 1.0,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""], Float[Tensor, "batch classes"]]:
    """Background term, cross-entropy of the labels, and logits, from one forward pass (B13).

    Source: RobustViT Eq. 9 and 10. `images` are normalised, `masks` in [0, 1], 1 on the object.
    Each term has the graph that it really has: with `published` the background term's
    `requires_grad` is False. `create_graph` and errors as `gradmask_loss`; `temperature` divides
    the logits of the cross-entropy alone (A8). Computed in the dtype of the weights, outside any
    autocast: second derivatives need the digits.
    Raises: ValueError for an unknown method or protocol, labels or masks that do not fit.
    The model's fused attention is as it was afterwards.
    """
    check_protocol(protocol)
    check_baseline(method)
    graph = protocol == "described" if create_graph is None else create_graph
    images = images.detach().requires_grad_()  # a new tensor: the caller's is left alone
    options = {"protocol": protocol, "create_graph": graph}
    attention = unfused_attention(model) if graph else nullcontext()
    exact = torch.autocast(images.device.type, enabled=False)
    with torch.enable_grad(), exact, attention:
        logits = model(images)
        classes = checked_target(logits, labels)
        if method == "gradmask":
            background = gradmask_loss(logits, images, masks, classes, **options)
        else:
            background = rrr_loss(logits, images, masks, **options)
        classification = cross_entropy(logits / temperature, classes)
    return background, classification, logits


def make_optimizer(model: nn.Module, settings: FinetuneSettings) -> torch.optim.AdamW:
    """AdamW with weight decay on all parameters, biases and norms too (differences A10)."""
    return torch.optim.AdamW(
        model.parameters(), lr=settings.lr, weight_decay=settings.weight_decay, fused=True
    )


def _class_term(settings: FinetuneSettings, logits: Tensor, labels: Tensor) -> Tensor:
    if settings.class_term == "label":
        return cross_entropy(logits / settings.temperature, labels)
    return confidence_loss(logits, settings.temperature)


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
