"""What the tests of the attribution methods share: kinds of methods, calls of one form."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from relevit.attribution import METHODS

PROTOCOLS = ("published", "described")
LRP = ("partial_lrp", "lrp", "transformer_attribution")
OURS = ("head_wise", "token_wise")
RULES = ("attn_lrp", "libra_grad")  # of the backward pass
PIXELS = ("smoothgrad", "integrated_gradients")
GRAPH = ("raw_attention", "rollout", "gradcam", "attention_gradient", "gae", "ga", *OURS)
CLASS_AGNOSTIC = ("raw_attention", "rollout")
TARGET = torch.tensor([4, 0, 2])  # of the three `images`
FACTORS = torch.linspace(-1, 2, 48).reshape(3, 16).double()  # another for each entry of a map


def explain(name: str, model: nn.Module, images: Tensor, target: Any = None, **options: Any):
    """One method's map, with few steps where it integrates over pixels."""
    few = {"smoothgrad": {"draws": 3}, "integrated_gradients": {"steps": 4}}.get(name, {})
    return METHODS[name](model, images, target, **(few | options))


def close(ours: Tensor, theirs: Tensor, tolerance: float = 1e-12, atol: float = 1e-14) -> None:
    """Equal but for rounding."""
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=atol)


def slope_by_differences(figure, weights: Tensor, way: Tensor, step: float = 1e-6) -> float:
    """How much `figure()` changes as the weights go this way."""
    values = []
    with torch.no_grad():
        before = weights.clone()
        for sign in (1, -1):
            weights.copy_(before + sign * step * way)
            with torch.enable_grad():
                values.append(float(figure()))
        weights.copy_(before)
    return (values[0] - values[1]) / (2 * step)


def read(matrix: Tensor, model: nn.Module) -> Tensor:
    """The mean of the rows that the head reads, over the patches."""
    rows = slice(2 if hasattr(model, "head_dist") else 1)
    if model.global_pool == "avg":
        rows = slice(0 if model.pool_include_prefix else model.num_prefix_tokens, None)
    return matrix[:, rows, model.num_prefix_tokens :].mean(dim=1)
