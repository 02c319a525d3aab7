"""GradCAM on attention: the last block's heads, weighted by their gradient."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from relevit.attention.recording import Inputs
from relevit.attention.token_rows import Pooling, pool_rows, read_rows
from relevit.attribution.observe import (
    Observation,
    baseline_pooling,
    model_family,
    observe,
    scaled_to_one,
)
from relevit.relevance import Protocol, Target, explaining


@explaining
def gradcam(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    protocol: Protocol = "published",
    pooling: Pooling | None = None,
    create_graph: bool = False,
) -> Float[Tensor, "batch patches"]:
    """Sum over heads of attention times the head's mean gradient, negative values set to 0.

    Source: Selvaraju et al. 2017 as in Chefer et al. 2021; Beyond Intuition App. B. `published`
    scales each map to [0, 1], so that one whose values are all clamped is NaN (differences
    C19), and for average pooling weights each query instead of each head (D3) and averages
    over keys (D2). For BERT it weights and scales by all queries and keys, the class token's
    among them (F3). Of DINO it reads the class token (D5). As `described` the clamped map is zero.
    Raises: as `observe`.
    """
    pooling = baseline_pooling(model, pooling, protocol)
    as_bert = protocol == "published" and model_family(model) == "bert"
    seen = observe(
        model,
        images,
        target,
        gradients="last",
        pooling=pooling,
        whole=as_bert,
        create_graph=create_graph,
    )
    if protocol == "published" and seen.pooling == "patches":
        return scaled_to_one(_by_query(seen))
    if as_bert and seen.pooling == "class_token":
        return _by_whole_map(seen)
    rows, slopes = (
        read_rows(matrix, seen.pooling, seen.prefix)[..., seen.prefix :]
        for matrix in (seen.maps[-1], seen.gradients[-1])
    )
    cam = (rows * slopes.mean(dim=(2, 3), keepdim=True)).mean(dim=1).clamp(min=0)
    pooled = pool_rows(cam, seen.pooling, 0)
    return scaled_to_one(pooled) if protocol == "published" else pooled


def _by_whole_map(seen: Observation) -> Tensor:
    """The class token's row of the whole map of all queries and keys, scaled as one."""
    weight = seen.gradients[-1].mean(dim=(2, 3), keepdim=True)
    cam = (weight * seen.maps[-1]).mean(dim=1).clamp(min=0)
    return scaled_to_one(cam.flatten(1)).view_as(cam)[:, 0, seen.prefix :]


def _by_query(seen: Observation) -> Tensor:
    attention, slope = (
        matrix[:, :, seen.prefix :, seen.prefix :] for matrix in (seen.maps[-1], seen.gradients[-1])
    )
    weight = slope.mean(dim=(1, 3), keepdim=True)
    return torch.mean(weight * attention, dim=(1, 3)).clamp(min=0)
