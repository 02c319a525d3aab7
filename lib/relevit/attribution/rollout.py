"""Attention rollout: the product of all blocks' attention maps."""

from __future__ import annotations

from torch import nn

from relevit.attention.recording import Inputs
from relevit.attention.token_rows import Pooling
from relevit.attribution.method import Target, method
from relevit.attribution.seen import Map, observe


@method()
def rollout(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    start_block: int = 1,
    normalise: bool = False,
    pooling: Pooling | None = None,
    exact_gradient: bool = False,
) -> Map:
    """Rows of (A_L + I) ... (A_start + I), attention averaged over heads.

    Source: Abnar and Zuidema 2020; Beyond Intuition Sec. 2. `normalise` divides each A + I by
    its row sums (differences C15). The same for every class: `target` is only checked.
    """
    seen = observe(model, images, target, pooling=pooling, exact_gradient=exact_gradient)
    matrices = [attention.mean(dim=1) for attention in seen.maps]
    rows = seen.propagate(matrices, start_block)
    if normalise:
        # Rows of A sum to 1, so that A + I divided by its row sums is half of it.
        rows = rows / 2 ** (len(matrices) - start_block + 1)
    return seen.pool(rows)
