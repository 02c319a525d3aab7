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

from relevit.evaluate.intervals import check_bootstrap
from relevit.protocols import Protocol, check_protocol

METRICS = ("pixel_accuracy_pct", "miou_pct", "map_pct", "mf1_pct")
# Cuts of the described mF1, all inside [0, 1]: at 0 and 1 every map gives the same answer.
THRESHOLDS = torch.arange(1, 100) / 100


def segmentation_rows(
    heatmaps: Float[Tensor, "batch 1 height width"],
    masks: Bool[Tensor, "batch 1 height width"],
    *,
    protocol: Protocol = "published",
) -> pd.DataFrame:
    """Figures of each image on its own; any scale of the maps will do.

    A pixel is found when its scaled value is above the map's mean (differences E1). Columns,
    in pixels: `pixels`, `correct`, `inter_*` and `union_*` of `background` and `foreground`;
    then `ap_pct`, `f1_pct`, and `empty` (see the module).
    `ap_pct` (E2): `published` is the average precision over the pixels of both channels,
    (1 - map) against the background and map against the object; `described` that of the map
    against the object. An average precision is a mean of precisions over all thresholds.
    `f1_pct` (E3): `published` cuts at the mean and takes one F1 an image row, 0 for a row
    with nothing in it; `described` is the F1 of the whole image, averaged over THRESHOLDS.
    The text says "averaging the scores at each threshold"; it leaves open which thresholds,
    and whether background counts: evenly spaced ones, and no, are our choices.
    An empty map has, by what is said above, the published AP 50, the described AP of chance
    (the object's share of the image) and F1 0.
    Raises: ValueError for other shapes, masks that are not boolean, an unknown protocol, and
    with `described` for a mask without object, which has neither recall nor F1.
    """
    check_protocol(protocol)
    _check(heatmaps, masks, protocol)
    scaled, empty = _scaled(heatmaps.detach().cpu())
    masks = masks.cpu()
    found = scaled > scaled.mean(dim=(1, 2, 3), keepdim=True)
    columns = _counts(found, masks)
    if protocol == "published":
        background = torch.where(empty[:, None, None, None], 0.0, 1 - scaled)
        scores, truth = torch.cat([background, scaled], 1), torch.cat([~masks, masks], 1)
        columns["ap_pct"] = 100 * average_precision(scores.flatten(1), truth.flatten(1))
        columns["f1_pct"] = 100 * _f1(found, masks, dim=3).mean(dim=(1, 2))
    else:
        columns["ap_pct"] = 100 * average_precision(scaled.flatten(1), masks.flatten(1))
        columns["f1_pct"] = 100 * _f1_over_thresholds(scaled.flatten(1), masks.flatten(1))
    columns["empty"] = empty
    return pd.DataFrame({name: values.numpy() for name, values in columns.items()})


def segmentation_scores(rows: pd.DataFrame) -> dict[str, float]:
    """The four numbers of the papers, in percent, from one row an image.

    Pixel accuracy and IoU are over the pixels of the whole data set, mIoU is the mean of the
    IoU of background and of foreground (differences E1); mAP and mF1 are means over images.
    Raises: ValueError when there are no rows or columns are missing.
    """
    _check_rows(rows, "segmentation_scores")
    return dict(zip(METRICS, _scores(rows, np.ones((1, len(rows))))[0].tolist(), strict=True))


def segmentation_intervals(
    rows: pd.DataFrame, *, level_pct: float = 95.0, resamples: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """The four numbers with bootstrap intervals over images.

    Columns: metric, value_pct, low_pct, high_pct. Images are drawn with replacement, as many
    as there are; the interval holds the middle `level_pct` of the numbers of all resamples.
    It tells how far other images of the same kind could move a number, not other models.
    Raises: ValueError for a level outside 0..100 or less than one resample, or as
    `segmentation_scores`.
    """
    _check_rows(rows, "segmentation_intervals")
    check_bootstrap("segmentation_intervals", resamples, level_pct)
    images = len(rows)
    draws = np.random.default_rng(seed).multinomial(images, [1 / images] * images, resamples)
    tail = (1 - level_pct / 100) / 2
    low, high = np.quantile(_scores(rows, draws), [tail, 1 - tail], axis=0)
    value = _scores(rows, np.ones((1, images)))[0]
    columns = {"metric": METRICS, "value_pct": value, "low_pct": low, "high_pct": high}
    return pd.DataFrame(columns)


def average_precision(
    scores: Float[Tensor, "batch items"], truth: Bool[Tensor, "batch items"]
) -> Float[Tensor, " batch"]:
    """Average precision of each row, in 0..1: scikit-learn's average_precision_score.

    The sum over the distinct scores, from high to low, of the gain in recall times the
    precision there, so that equal scores come in together. Scores lie in [0, 1]; 0 when
    nothing is true, as in scikit-learn. Float32 and float64 are compared as they are.
    Raises: ValueError for other formats, and for scores outside [0, 1] or NaN.
    """
    kinds = {torch.float32: torch.int32, torch.float64: torch.int64}
    if scores.dtype not in kinds or not bool(((scores >= 0) & (scores <= 1)).all()):
        raise ValueError(
            f"average_precision: {scores.dtype} scores from {scores.min():g} to "
            f"{scores.max():g}; needed are float32 or float64 in [0, 1]: scale them first"
        )
    # In [0, 1] floats are ordered as their bits are, and the highest bit but the sign is free;
    # the product drops the sign, so that -0 is 0.
    # Sorting integers that end in the truth is 10 times as fast as sorting with indices.
    keys = scores.contiguous().view(kinds[scores.dtype]) * 2 + truth
    means = [_average_precision_of_keys(row) for row in keys.cpu().numpy()]
    return torch.tensor(means, dtype=torch.float64)


def _average_precision_of_keys(keys: np.ndarray) -> float:
    keys = np.sort(keys)[::-1]
    last_of_its_score = np.append(np.flatnonzero(np.diff(keys >> 1)), len(keys) - 1)
    true = np.cumsum(keys & 1)[last_of_its_score]
    precision = true / (last_of_its_score + 1)
    return float((np.diff(true, prepend=0) * precision).sum() / max(true[-1], 1))


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


def _counts(
    found: Bool[Tensor, "batch 1 height width"], masks: Bool[Tensor, "batch 1 height width"]
) -> dict[str, Int[Tensor, " batch"]]:
    def count(where: Tensor) -> Tensor:
        return where.sum(dim=(1, 2, 3))

    return {
        "pixels": count(torch.ones_like(masks)),
        "correct": count(found == masks),
        "inter_background": count(~found & ~masks),
        "inter_foreground": count(found & masks),
        "union_background": count(~found | ~masks),
        "union_foreground": count(found | masks),
    }


def _f1(
    found: Bool[Tensor, "*shape"], masks: Bool[Tensor, "*shape"], dim: int
) -> Float[Tensor, "*others"]:
    """F1 along one dimension, 0 where nothing is found and nothing is there."""
    both = (found & masks).sum(dim=dim)
    either_twice = found.sum(dim=dim) + masks.sum(dim=dim)
    return 2 * both.double() / either_twice.clamp_min(1)


def _f1_over_thresholds(
    scaled: Float[Tensor, "batch pixels"], masks: Bool[Tensor, "batch pixels"]
) -> Float[Tensor, " batch"]:
    """Mean over THRESHOLDS of the F1 of (scaled > threshold)."""
    cuts = THRESHOLDS.to(scaled)
    bins = len(cuts) + 1
    # A pixel in bin b is above the first b thresholds, so one histogram serves them all.
    place = torch.bucketize(scaled, cuts) + bins * torch.arange(len(scaled))[:, None]
    found = _above(place, bins, len(scaled))
    both = _above(place[masks], bins, len(scaled))
    there = masks.sum(dim=1, keepdim=True)
    return (2 * both.double() / (found + there)).mean(dim=1)


def _above(place: Int[Tensor, "*pixels"], bins: int, batch: int) -> Int[Tensor, "batch thresholds"]:
    """How many pixels of each image lie above each threshold."""
    histogram = torch.bincount(place.flatten(), minlength=batch * bins).reshape(batch, bins)
    return histogram.flip(1).cumsum(1).flip(1)[:, 1:]


def _scores(rows: pd.DataFrame, weights: np.ndarray) -> np.ndarray:
    """The METRICS for each row of `weights` (how often an image counts), [weights, 4]."""

    def total(column: str) -> np.ndarray:
        return weights @ rows[column].to_numpy(dtype=float)

    ious = [
        # A class that is neither found nor there in any image has no union: its IoU is 0.
        total(f"inter_{kind}") / np.maximum(total(f"union_{kind}"), 1)
        for kind in ("background", "foreground")
    ]
    images = weights.sum(axis=1)
    accuracy = total("correct") / total("pixels")
    means = [total(column) / images for column in ("ap_pct", "f1_pct")]
    return np.stack([100 * accuracy, 100 * (ious[0] + ious[1]) / 2, *means], axis=1)


def _check(heatmaps: Tensor, masks: Tensor, protocol: Protocol) -> None:
    shapes = tuple(heatmaps.shape), tuple(masks.shape)
    if shapes[0] != shapes[1] or len(shapes[0]) != 4 or shapes[0][1] != 1 or 0 in shapes[0]:
        raise ValueError(
            f"segmentation: heatmaps {shapes[0]} and masks {shapes[1]}; both must be [batch, 1, "
            "height, width]: bring patch maps to the size of the masks with relevance.to_pixels"
        )
    if masks.dtype != torch.bool or not heatmaps.is_floating_point():
        raise ValueError(
            f"segmentation: heatmaps are {heatmaps.dtype} and masks {masks.dtype}; needed are "
            "floats and booleans: cut the masks, say with masks > 0.5"
        )
    bare = (~masks.flatten(1).any(dim=1)).nonzero()[:, 0].tolist()
    if protocol == "described" and bare:
        raise ValueError(
            f"segmentation: the masks of images {bare} of the batch hold no object; AP and F1 "
            "need one: leave these images out, or use protocol='published'"
        )


def _check_rows(rows: pd.DataFrame, where: str) -> None:
    needed = ["pixels", "correct", "ap_pct", "f1_pct"]
    needed += [
        f"{part}_{kind}" for part in ("inter", "union") for kind in ("background", "foreground")
    ]
    absent = [name for name in needed if name not in rows.columns]
    if absent or rows.empty:
        raise ValueError(
            f"{where}: {len(rows)} rows, columns missing: {absent}; needed is one row an image "
            "from segmentation_rows"
        )
