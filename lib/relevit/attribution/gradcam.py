"""GradCAM on the last block's attention."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from relevit.attention.recording import Inputs
from relevit.attention.token_rows import Pooling, pool_rows
from relevit.attribution.method import Target, method
from relevit.attribution.raw_attention import scaled_to_one
from relevit.attribution.seen import Map, Seen, observe


@method()
def gradcam(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    weigh: Literal["heads", "queries", "map"] = "heads",
    scale: bool = False,
    pooling: Pooling | None = None,
    exact_gradient: bool = False,
) -> Map:
    """Sum over heads of attention times the head's mean gradient, negative values set to 0.

    Source: Selvaraju et al. 2017 as in Chefer et al. 2021; Beyond Intuition App. B. Where the head
    averages the patches, `weigh="queries"` weights each query instead of each head (differences D3)
    and averages over keys (D2). `map` weights and scales by all queries and keys, the class token's
    among them, as the published code for BERT does (F3). `scale` brings each map to [0, 1], so that
    one whose values are all clamped is NaN (C19).
    """
    seen = observe(
        model, images, target, gradients="last", pooling=pooling, exact_gradient=exact_gradient
    )
    if weigh == "map" and seen.pooling == "class_token":
        return _by_whole_map(seen)
    if weigh != "heads" and seen.pooling == "patches":
        found = _by_query(seen)
    else:
        rows, slopes = (
            seen.rows(matrix)[..., seen.prefix :] for matrix in (seen.maps[-1], seen.gradients[-1])
        )
        cam = (rows * slopes.mean(dim=(2, 3), keepdim=True)).mean(dim=1).clamp(min=0)
        found = pool_rows(cam, seen.pooling, 0)
    return scaled_to_one(found) if scale else found


def _by_query(seen: Seen) -> Map:
    attention, slope = (
        matrix[:, :, seen.prefix :, seen.prefix :] for matrix in (seen.maps[-1], seen.gradients[-1])
    )
    weight = slope.mean(dim=(1, 3), keepdim=True)
    return torch.mean(weight * attention, dim=(1, 3)).clamp(min=0)


def _by_whole_map(seen: Seen) -> Map:
    """The class token's row of the whole map of all queries and keys, scaled as one."""
    weight = seen.gradients[-1].mean(dim=(2, 3), keepdim=True)
    cam = (weight * seen.maps[-1]).mean(dim=1).clamp(min=0)
    return scaled_to_one(cam.flatten(1)).view_as(cam)[:, 0, seen.prefix :]
