"""Does a map point at its object: at the one of an image, or of two at that of its class?"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from relevit.attribution import to_heatmap
from relevit.data.batch import Batch


def pointing_table(
    pairs: Batch,
    explain: dict[str, Callable[[Int[Tensor, " pairs"]], Tensor]],
    grid: tuple[int, int],
) -> pd.DataFrame:
    """The pointing game between the two objects, for each method.

    `explain[method](target)` gives patch maps [pairs, patches] for one class an image, of a
    `grid` of patches. Each map points where it is highest; what counts is whether that is nearer
    to its own class's object than to the other's. Chance is 50 %.
    Columns: method, images (explanations, two a pair), own_object_pct, standard_error_pts.
    """
    rows = []
    for name, method in explain.items():
        sides = [points_at_own(pairs, method(pairs.labels[:, i]), i, grid) for i in (0, 1)]
        own = torch.stack(sides, dim=1)
        rows.append([name, own.numel(), *own_share_pct(own)])
    return pd.DataFrame(rows, columns=["method", "images", "own_object_pct", "standard_error_pts"])


def own_share_pct(
    own: Bool[Tensor, "pairs 2"], counted: Bool[Tensor, "pairs 2"] | None = None
) -> tuple[float, float]:
    """Of the maps that are `counted` (None: all), those that point at their own object, in percent.

    And the standard error over images, as the two maps of one image are not independent: a map
    that is the same for both points right once an image, without any error. Where all maps are
    right, or all wrong, the images' spread says nothing; then it is half the width of Wilson's
    interval. Raises: ValueError when none is counted.
    """
    counted = torch.ones_like(own) if counted is None else counted
    images = counted.any(dim=1)
    right, maps = ((own & counted)[images].sum(dim=1).double(), counted[images].sum(dim=1).double())
    count, total = len(maps), maps.sum()
    if not count:
        raise ValueError("own_share_pct: no map is counted; draw more pairs")
    share = right.sum() / total
    if count < 2 or share in (0, 1):
        return 100 * share.item(), 50 / (count + 1)
    squares = (right - share * maps).square().sum() * count / (count - 1)
    return 100 * share.item(), 100 * (squares.sqrt() / total).item()


def points_at_object(
    heatmaps: Float[Tensor, "batch 1 height width"], masks: Bool[Tensor, "batch 1 height width"]
) -> Bool[Tensor, " batch"]:
    """Whether each map is highest on its object.

    Source: the pointing game of Zhang et al. 2016, to the pixel.
    """
    peaks = heatmaps.flatten(1).argmax(dim=1, keepdim=True)
    return masks.flatten(1).gather(1, peaks)[:, 0]


def points_at_own(
    pairs: Batch, maps: Tensor, which: int, grid: tuple[int, int]
) -> Bool[Tensor, " pairs"]:
    """Whether each map is highest nearer to the object `which` (0 or 1) than to the other."""
    height, width = pairs.images.shape[-2:]
    heat = to_heatmap(maps.float(), (height, width), grid, normalise=False)
    peaks = heat.flatten(1).argmax(dim=1)[:, None, None]
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    far = ((y - peaks // width).square() + (x - peaks % width).square()).float()
    nearest = torch.where(pairs.masks, far[:, None], torch.inf).amin(dim=(2, 3))
    return nearest[:, which] < nearest[:, 1 - which]
