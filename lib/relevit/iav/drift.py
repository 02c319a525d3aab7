"""Training dynamics: how far maps are from what they will be after the last epoch."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from relevit.iav.scores import unit_norm


def map_drift(
    maps: Float[Tensor, "batch *rows patches"], last: Float[Tensor, "batch *rows patches"]
) -> Float[Tensor, " batch"]:
    """Mean absolute difference of each image's maps from those of the last epoch.

    Source: IAV Fig. 4, epoch t against epoch 30. The paper does not say how maps are scaled:
    here every map has unit norm over its patches, as in Eq. 1, so that a gradient that grows
    without moving is no change. `rows` may be layers and heads: their differences are
    averaged, as the paper averages over layers. Two maps on different patches differ
    by 2 / patches if each is on a single one: compare models with as many patches.
    Raises: ValueError when the shapes differ, and for NaN or infinity.
    """
    if maps.shape != last.shape or maps.ndim < 2:
        raise ValueError(
            f"map_drift: maps {tuple(maps.shape)} and last {tuple(last.shape)}; needed is "
            "[batch, ..., patches], the same for both; take them from the same images"
        )
    return (unit_norm(maps) - unit_norm(last)).abs().flatten(1).mean(dim=1)
