"""Does a map point at its object: at the one of an image, or of two at that of its class?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from scipy.stats import binomtest
from torch import Tensor

from relevit.attribution import to_heatmap
from relevit.data.batch import Batch
from relevit.evaluate.intervals import draw_times, middle


def pointing_table(
    pairs: Batch, maps: Mapping[str, Float[Tensor, "pairs 2 patches"]], grid: tuple[int, int]
) -> pd.DataFrame:
    """The pointing game between the two objects, for each method.

    `maps` has one for each class of an image, of a `grid` of patches. Each map points where it is
    highest; what counts is whether that is nearer to its own class's object than to the other's.
    Chance is 50 %.
    Columns: method, images (explanations, two a pair), own_object_pct, low_pct, high_pct.
    """
    rows = []
    for name, both in maps.items():
        own = points_at_own(pairs, both, grid)
        rows.append([name, own.numel(), *own_share_pct(own)])
    columns = ["method", "images", "own_object_pct", "low_pct", "high_pct"]
    return pd.DataFrame(rows, columns=columns)


def own_share_pct(
    own: Bool[Tensor, "pairs 2"], counted: Bool[Tensor, "pairs 2"] | None = None
) -> tuple[float, float, float]:
    """Of the maps that are `counted` (None: all), those that point at their own object, in percent.

    And the ends of the 95 % interval over images, as the two maps of one image are not independent:
    a map that is the same for both points right once an image, whatever the images. Where all maps
    are right, or all wrong, the images' spread says nothing; then it is Wilson's interval.
    Raises: ValueError when none is counted.
    """
    counted = torch.ones_like(own) if counted is None else counted
    images = counted.any(dim=1)
    right, maps = ((own & counted)[images].sum(dim=1).numpy(), counted[images].sum(dim=1).numpy())
    if not len(maps):
        raise ValueError("own_share_pct: no map is counted; draw more pairs")
    share = right.sum() / maps.sum()
    if share in (0, 1):
        wilson = binomtest(int(share * len(maps)), len(maps)).proportion_ci(method="wilson")
        return 100 * share, 100 * wilson.low, 100 * wilson.high
    times = np.concatenate(list(draw_times(len(maps), np.random.default_rng(0))))
    low, high = middle((times @ right) / (times @ maps))
    return 100 * share, 100 * low, 100 * high


def points_at_object(
    heatmaps: Float[Tensor, "batch 1 height width"], masks: Bool[Tensor, "batch 1 height width"]
) -> Bool[Tensor, " batch"]:
    """Whether each map is highest on its object.

    Source: the pointing game of Zhang et al. 2016, to the pixel.
    """
    peaks = heatmaps.flatten(1).argmax(dim=1, keepdim=True)
    return masks.flatten(1).gather(1, peaks)[:, 0]


def points_at_own(
    pairs: Batch, maps: Float[Tensor, "pairs 2 patches"], grid: tuple[int, int]
) -> Bool[Tensor, "pairs 2"]:
    """Whether each map is highest nearer to its own object than to the other."""
    return torch.stack([_points_at(pairs, maps[:, i], i, grid) for i in (0, 1)], dim=1)


def _points_at(
    pairs: Batch, maps: Tensor, which: int, grid: tuple[int, int]
) -> Bool[Tensor, " pairs"]:
    height, width = pairs.images.shape[-2:]
    heat = to_heatmap(maps.float(), (height, width), grid, normalise=False)
    peaks = heat.flatten(1).argmax(dim=1)[:, None, None]
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    far = ((y - peaks // width).square() + (x - peaks % width).square()).float()
    nearest = torch.where(pairs.masks, far[:, None], torch.inf).amin(dim=(2, 3))
    return nearest[:, which] < nearest[:, 1 - which]
