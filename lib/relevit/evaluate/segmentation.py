"""The papers' segmentation test: how well attribution maps outline the object.

Source: RobustViT Tab. 3 and Beyond Intuition Sec. 4, after Chefer, Gur, Wolf 2021 (CVPR).
One row an image is kept, so that the four numbers can be made for any part of a data set and
with intervals over its images. Each map is scaled to [0, 1] first; RobustViT's script is given
GAE's scaled already, which comes to the same, and takes no mF1 (differences B20). A map that is
constant or holds a value that is no finite number says nothing (GradCAM can be NaN, C19): it
is `empty`, finds background everywhere and its scores are 0 at every pixel.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from relevit.evaluate.intervals import PERCENT, mean_interval, ratio_values

METRICS = ("pixel_accuracy_pct", "miou_pct", "map_pct", "mf1_pct")
# Cuts of the mF1, all inside [0, 1]: at 0 and 1 every map gives the same answer.
THRESHOLDS = torch.arange(1, 100) / 100


def segmentation_rows(
    heatmaps: Float[Tensor, "batch 1 height width"],
    masks: Bool[Tensor, "batch 1 height width"],
    *,
    both_channels: bool = False,
    f1_by_row: bool = False,
) -> pd.DataFrame:
    """Figures of each image on its own; any scale of the maps will do.

    A pixel is found when its scaled value is above the map's mean (differences E1). Columns,
    in pixels: `pixels`, `correct`, `inter_*` and `union_*` of `background` and `foreground`;
    then `ap_pct`, `f1_pct`, and `empty` (see the module).
    `ap_pct` is the average precision of the map against the object, a mean of precisions over all
    thresholds; with `both_channels` over the pixels of (1 - map) against the background and of the
    map against the object (E2).
    `f1_pct` is the F1 of the whole image, averaged over THRESHOLDS: the text says "averaging the
    scores at each threshold"; it leaves open which thresholds, and whether background counts:
    evenly spaced ones, and no, are our choices. `f1_by_row` cuts at the mean and takes one F1 an
    image row, 0 for a row with nothing in it (E3).
    By what is said above an empty map has the AP of chance (the object's share of the image, or 50
    with `both_channels`) and F1 0, and an image without object 0 in both, as in scikit-learn.
    """
    if masks.dtype != torch.bool:
        raise ValueError(f"segmentation_rows: masks of {masks.dtype}; give true on the object")
    scaled, empty = _scaled(heatmaps.detach().cpu())
    masks = masks.cpu()
    found = scaled > scaled.mean(dim=(1, 2, 3), keepdim=True)
    counted = {
        "pixels": torch.ones_like(masks),
        "correct": found == masks,
        "inter_background": ~found & ~masks,
        "inter_foreground": found & masks,
        "union_background": ~found | ~masks,
        "union_foreground": found | masks,
    }
    columns = {name: where.sum(dim=(1, 2, 3)) for name, where in counted.items()}
    scores, truth = scaled, masks
    if both_channels:
        background = torch.where(empty[:, None, None, None], 0.0, 1 - scaled)
        scores, truth = torch.cat([background, scaled], 1), torch.cat([~masks, masks], 1)
    columns["ap_pct"] = 100 * average_precision(scores.flatten(1), truth.flatten(1))
    if f1_by_row:
        columns["f1_pct"] = 100 * _f1(found, masks, dim=3).mean(dim=(1, 2))
    else:
        columns["f1_pct"] = 100 * _f1_at_thresholds(scaled, masks).mean(dim=1)
    columns["empty"] = empty
    return pd.DataFrame({name: values.numpy() for name, values in columns.items()})


def segmentation_scores(rows: pd.DataFrame) -> dict[str, float]:
    """The four numbers of the papers, in percent, from one row an image.

    Pixel accuracy and IoU are over the pixels of the whole data set, mIoU is the mean of the
    IoU of background and of foreground (differences E1); mAP and mF1 are means over images.
    """
    return {name: float(values.mean()) for name, values in image_values(rows).items()}


def segmentation_intervals(rows: pd.DataFrame) -> pd.DataFrame:
    """The four numbers with their intervals over images: metric, value_pct, low_pct, high_pct."""
    found = [
        (name, float(values.mean()), *mean_interval(torch.tensor(values), PERCENT))
        for name, values in image_values(rows).items()
    ]
    return pd.DataFrame(found, columns=["metric", "value_pct", "low_pct", "high_pct"])


def average_precision(
    scores: Float[Tensor, "batch items"], truth: Bool[Tensor, "batch items"]
) -> Float[Tensor, " batch"]:
    """scikit-learn's average_precision_score of each row, ten times as fast; scores in [0, 1].

    The sum over the distinct scores, from high to low, of the gain in recall times the precision
    there, so that equal scores come in together; 0 when nothing is true.
    """
    kinds = {torch.float32: torch.int32, torch.float64: torch.int64}
    # In [0, 1] floats are ordered as their bits are, and the highest bit but the sign is free, so
    # that integers can be sorted that end in the truth. The product drops the sign of -0.
    keys = scores.contiguous().view(kinds[scores.dtype]) * 2 + truth
    found = []
    for row in np.sort(keys.numpy(), axis=1)[:, ::-1]:
        last_of_its_score = np.append(np.flatnonzero(np.diff(row >> 1)), len(row) - 1)
        true = np.cumsum(row & 1)[last_of_its_score]
        precision = true / (last_of_its_score + 1)
        found.append((np.diff(true, prepend=0) * precision).sum() / max(true[-1], 1))
    return torch.tensor(found, dtype=torch.float64)


def _scaled(
    heatmaps: Float[Tensor, "batch 1 height width"],
) -> tuple[Float[Tensor, "batch 1 height width"], Bool[Tensor, " batch"]]:
    """Maps from 0 to 1 in at least float32, zero where empty; and which are empty."""
    heat = heatmaps if heatmaps.dtype == torch.float64 else heatmaps.float()
    low, high = heat.amin(dim=(1, 2, 3)), heat.amax(dim=(1, 2, 3))
    span = high - low
    useful = span.isfinite() & (span > 0)  # a NaN or infinite value makes the span one
    low, span, keep = (value[:, None, None, None] for value in (low, span, useful))
    return torch.where(keep, (heat - low) / torch.where(keep, span, 1.0), 0.0), ~useful


def _f1(
    found: Bool[Tensor, "*shape"], masks: Bool[Tensor, "*shape"], dim: int
) -> Float[Tensor, "*others"]:
    """F1 along one dimension, 0 where nothing is found and nothing is there."""
    return _f1_of((found & masks).sum(dim=dim), found.sum(dim=dim) + masks.sum(dim=dim))


def _f1_of(
    both: Int[Tensor, "*others"], either_twice: Int[Tensor, "*others"]
) -> Float[Tensor, "*others"]:
    return 2 * both.double() / either_twice.clamp_min(1)


def _f1_at_thresholds(
    scaled: Float[Tensor, "batch 1 height width"], masks: Bool[Tensor, "batch 1 height width"]
) -> Float[Tensor, "batch thresholds"]:
    """F1 of the pixels above each of THRESHOLDS, all counted in one pass."""
    steps, batch = len(THRESHOLDS) + 1, len(scaled)
    below = torch.bucketize(scaled, THRESHOLDS.to(scaled.dtype))  # how many a pixel is above
    kinds = below + steps * (masks + 2 * torch.arange(batch)[:, None, None, None])
    counts = torch.bincount(kinds.flatten(), minlength=2 * batch * steps).view(batch, 2, steps)
    above = counts.flip(2).cumsum(2).flip(2)[..., 1:]  # off the object, and on it
    return _f1_of(above[:, 1], above.sum(dim=1) + counts[:, 1].sum(dim=1, keepdim=True))


def image_values(rows: pd.DataFrame) -> dict[str, Float[np.ndarray, " images"]]:
    """Of each of METRICS a value an image, whose mean is the number.

    A class that is neither found nor there in any image has no union: its IoU is 0.
    """
    column = {name: values.to_numpy(dtype=float) for name, values in rows.items()}
    ious = [
        ratio_values(column[f"inter_{kind}"], column[f"union_{kind}"])
        for kind in ("background", "foreground")
    ]
    accuracy = ratio_values(column["correct"], column["pixels"])
    values = [100 * accuracy, 100 * np.mean(ious, axis=0), column["ap_pct"], column["f1_pct"]]
    return dict(zip(METRICS, values, strict=True))


def iou_changes(maps: pd.DataFrame) -> pd.DataFrame:
    """Change of the IoU of map and mask, of images that a run does not turn wrong.

    `maps` has model_run ('original' and others), index, iou_pct and right (whether the model
    answers the image rightly). Columns: model_run, index, change_pts.
    """
    maps = maps.dropna(subset="iou_pct")
    is_original = maps["model_run"] == "original"
    before = maps[is_original].drop(columns="model_run")
    pairs = maps[~is_original].merge(before, on="index", suffixes=("", "_before"))
    pairs = pairs[pairs["right"] >= pairs["right_before"]]
    pairs = pairs.assign(change_pts=pairs["iou_pct"] - pairs["iou_pct_before"])
    return pairs[["model_run", "index", "change_pts"]].reset_index(drop=True)
