"""Relevance maps and finetuning steps: the published order of work, and ours.

The published order (RobustViT's code) makes one gradient call per block, multiplies N x N
matrices, and runs two more forward passes a step: the current model for the class term, the
original for the log. Ours is `relevit.maps` and `relevit.finetune.step.step_losses`. The
floor is a step with one forward pass, one gradient of the class score down to the attention
maps, left unused, and one backward pass to the weights; none uses fused attention.
"""

from __future__ import annotations

import copy
from functools import cache

import torch
from torch import Tensor, nn

from bench_core import Numbers, Table, Variant
from relevit.attribution import gae, patch_grid, to_heatmap
from relevit.finetune.settings import FinetuneSettings
from relevit.finetune.step import make_optimizer, step_losses
from relevit.losses import Step, background_loss, confidence_loss, foreground_loss
from relevit.maps import record_attention

SETTINGS = FinetuneSettings(lr=1.0e-6)
LOSSES = ("background", "foreground", "relevance", "classification", "total")

TABLES = (
    Table("relevance", "vit_b", 2, (("published", "ours", ">=", 3.5),)),
    Table("relevance", "vit_l", 8, (("published", "ours", ">=", 6.0),)),
    Table("step", "vit_b", 1, (("published", "ours", ">=", 3.2), ("ours", "floor", "<=", 1.1))),
)

# What a step needs beside the model, once for each model.


@cache
def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    """At a rate of 0 a step does all its work, and every variant meets the same weights."""
    optimizer = make_optimizer(model, SETTINGS)
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    return optimizer


original_of = cache(copy.deepcopy)


def published_relevance(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """The class token's row of R over the patches, in the graph."""
    with record_attention(model) as tape:
        logits = model(images)
    score = logits.gather(1, labels[:, None]).sum()
    joint = torch.eye(tape.maps[0].shape[-1], device=logits.device).repeat(len(logits), 1, 1)
    for attention in tape.maps:
        (gradient,) = torch.autograd.grad(score, attention, retain_graph=True)
        joint = joint + (gradient * attention).clamp(min=0).mean(dim=1) @ joint
    return joint[:, 0, 1:]


def published_step(model: nn.Module, images: Tensor, masks: Tensor, labels: Tensor) -> Numbers:
    """A finetuning step in the published order."""
    relevance = published_relevance(model, images, labels)
    heat = to_heatmap(relevance, masks.shape[-2:], patch_grid(model, images))
    looked = Step(heatmaps=heat, masks=masks)
    background = background_loss(looked, edges_in_both=True)
    foreground = foreground_loss(looked, towards_mask=True)
    with record_attention(model):
        logits = model(images)
    with record_attention(original_of(model)), torch.no_grad():
        original_of(model)(images)
    classification = confidence_loss(Step(logits=logits), temperature=SETTINGS.temperature)
    w = SETTINGS.weights
    combined = w["background"] * background + w["foreground"] * foreground
    total = w["relevance"] * combined + w["classification"] * classification
    terms = (background, foreground, combined, classification, total)
    return update(model, dict(zip(LOSSES, terms, strict=True)))


def our_step(model: nn.Module, images: Tensor, masks: Tensor, labels: Tensor) -> Numbers:
    """A finetuning step by this library."""
    found = step_losses(model, images, masks, labels, SETTINGS)
    whole = {name: getattr(found, name) for name in ("relevance", "classification", "total")}
    return update(model, {**found.terms, **whole})


def floor_step(model: nn.Module, images: Tensor, masks: Tensor, labels: Tensor) -> Numbers:
    """A step that computes the attention gradients and leaves them unused."""
    with record_attention(model) as tape:
        logits = model(images)
    score = logits.gather(1, labels[:, None]).sum()
    torch.autograd.grad(score, tape.maps, retain_graph=True)
    return update(model, {"total": nn.functional.cross_entropy(logits, labels)})


def update(model: nn.Module, losses: dict[str, Tensor]) -> Numbers:
    """Backward pass and optimiser step; gives the losses and the gradients of all weights."""
    optimizer_of(model).zero_grad(set_to_none=True)
    losses["total"].backward()
    optimizer_of(model).step()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    named = {f"{name} loss": [value.detach()] for name, value in losses.items()}
    return named | {"weight gradients": gradients}


TASKS: dict[str, dict[str, Variant]] = {
    "relevance": {
        "published": lambda m, x, _, y: {"relevance": [published_relevance(m, x, y).detach()]},
        "ours": lambda m, x, _, y: {"relevance": [gae(m, x, y)]},
    },
    "step": {"published": published_step, "ours": our_step, "floor": floor_step},
}
