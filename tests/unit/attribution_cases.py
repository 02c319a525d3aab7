"""What the tests of the attribution methods share: kinds of methods, calls of one form."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from relevit.attribution import METHODS

PROTOCOLS = ("published", "described")
LRP = ("partial_lrp", "lrp", "transformer_attribution")
START_BLOCK = ("rollout", "ga", "transformer_attribution", "head_wise", "token_wise")
OURS = ("head_wise", "token_wise")
RULES = ("attn_lrp", "libra_grad")  # of the backward pass
PIXELS = ("smoothgrad", "integrated_gradients")
GRAPH = ("raw_attention", "rollout", "gradcam", "attention_gradient", "gae", "ga", *OURS)
CLASS_AGNOSTIC = ("raw_attention", "rollout")
HALF = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}


def know_black(model: nn.Module) -> nn.Module:
    """Tell a model how its inputs were normalised, as timm's factory does."""
    model.pretrained_cfg = HALF
    return model


def explain(name: str, model: nn.Module, images: Tensor, target: Any = None, **options: Any):
    """One method's map, with few steps where it integrates over pixels."""
    few = {"smoothgrad": {"draws": 3}, "integrated_gradients": {"steps": 4}}.get(name, {})
    return METHODS[name](model, images, target, **(few | options))


def close(ours: Tensor, theirs: Tensor, tolerance: float = 1e-12, atol: float = 1e-14) -> None:
    """Equal but for rounding."""
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=atol)


def same_gradients(model: nn.Module, slow: nn.Module) -> int:
    """Both have the same gradients of all weights; of how many weights these are not 0."""
    moved = 0
    for (name, ours), theirs in zip(model.named_parameters(), slow.parameters(), strict=True):
        wanted = torch.zeros_like(theirs) if theirs.grad is None else theirs.grad
        found = torch.zeros_like(ours) if ours.grad is None else ours.grad
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12, msg=name)
        moved += bool(wanted.abs().max() > 1e-6)
    return moved


def read_tokens(model):
    """The tokens that the head reads: class token, and DeiT's second one, or those of its mean."""
    if model.global_pool == "avg":
        return slice(0 if model.pool_include_prefix else model.num_prefix_tokens, None)
    return slice(2 if hasattr(model, "head_dist") else 1)


def read(matrix, model):
    """The mean of the rows that the head reads, over the patches."""
    return matrix[:, read_tokens(model), model.num_prefix_tokens :].mean(dim=1)
