"""Generic attribution (GA): GAE as Beyond Intuition compares with it."""

from __future__ import annotations

from torch import nn

from relevit.attention.recording import Inputs
from relevit.attention.token_rows import Pooling
from relevit.attribution.method import Target, method
from relevit.attribution.seen import Map, observe


@method()
def ga(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    start_block: int = 1,
    mean_first: bool = False,
    pooling: Pooling | None = None,
    exact_gradient: bool = False,
) -> Map:
    """R <- R + A_bar R over the blocks, A_bar the attention weighted by its gradient.

    Source: Beyond Intuition's baseline GA. `mean_first` takes the mean over heads of grad A * A and
    then clamps, where GAE clamps first (differences C1).
    """
    seen = observe(
        model, images, target, gradients="all", pooling=pooling, exact_gradient=exact_gradient
    )
    products = [a * slope for a, slope in zip(seen.maps, seen.gradients, strict=True)]
    if mean_first:
        matrices = [product.mean(dim=1).clamp(min=0) for product in products]
    else:
        matrices = [product.clamp(min=0).mean(dim=1) for product in products]
    return seen.pool(seen.propagate(matrices, start_block))
