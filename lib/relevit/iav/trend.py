"""The trend of IA-scores over depth, image by image and run by run.

Source: IAV Sec. V.E, Fig. 7: global-IAV falls with depth in supervised models and stays in
self-supervised ones. The paper shows curves and gives no statistic. Ours was fixed before any
result was seen: the least-squares slope of the layers' mean scores against depth, which runs
from 0 (first layer) to 1 (last). It is the change over the whole depth, in units of the score.

Tensors first, tables after. Tables are those of notebook 07_iav: `scores` (model, kind, seed,
map, image, layer, head, score) and `slopes` (model, kind, seed, map, slope, low, high).
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from relevit.evaluate.intervals import LEVEL_PCT, RESAMPLES, bootstrap_interval, need_columns

RUN = ["model", "kind", "seed", "map"]
PLACE = ["image", "layer", "head"]


# Tensors


def slopes(scores: Float[Tensor, "batch layers heads"]) -> Float[Tensor, " batch"]:
    """Slope over depth of each image's mean score of a layer (see the module).

    Their mean over images is the slope of global-IAV, because both are linear in the scores.
    Raises: ValueError for another shape or fewer than two layers.
    """
    if scores.ndim != 3 or scores.shape[1] < 2:
        raise ValueError(
            f"slopes: scores {tuple(scores.shape)}; needed is [batch, layers, heads] with at least "
            "two layers; take them from ia_scores"
        )
    depth = torch.linspace(-0.5, 0.5, scores.shape[1], dtype=scores.dtype, device=scores.device)
    return scores.mean(dim=2) @ depth / depth.square().sum()


# Tables


def score_rows(
    scores: Float[Tensor, "images layers heads"], labels: Int[Tensor, " images"]
) -> pd.DataFrame:
    """One row an image, layer and head, in this order: image, label, layer, head, score.

    Images are counted from 0, layers and heads from 1; `score_tensor` is the way back.
    Raises: ValueError unless there is one label an image.
    """
    if scores.ndim != 3 or labels.shape != scores.shape[:1]:
        raise ValueError(
            f"score_rows: scores {tuple(scores.shape)} and labels {tuple(labels.shape)}; needed "
            "are [images, layers, heads] and one label an image"
        )
    image, layer, head = np.indices(scores.shape).reshape(3, -1)
    return pd.DataFrame(
        {
            "image": image,
            "label": labels.cpu().numpy()[image],
            "layer": layer + 1,
            "head": head + 1,
            "score": scores.detach().cpu().numpy().ravel(),
        }
    )


def score_tensor(rows: pd.DataFrame) -> Float[Tensor, "images layers heads"]:
    """The scores of one run and map as a float64 tensor; images, layers, heads in rising order.

    Raises: ValueError for a missing column, a score that is missing, repeated or not finite.
    """
    need_columns("score_tensor", rows, [*PLACE, "score"])
    shape = [rows[name].nunique() for name in PLACE]
    values = rows.sort_values(PLACE)["score"].to_numpy(np.float64)
    once = len(rows) == math.prod(shape) and not rows.duplicated(PLACE).any()
    if rows.empty or not once or not np.isfinite(values).all():
        raise ValueError(
            f"score_tensor: {len(rows)} rows, {np.isfinite(values).sum()} with a finite score, for "
            f"{shape[0]} images x {shape[1]} layers x {shape[2]} heads; needed is each of these "
            "once: give the rows of one model, seed and map"
        )
    return torch.from_numpy(values.reshape(shape).copy())


def image_slopes(scores: pd.DataFrame) -> pd.DataFrame:
    """`slopes` of every image of every run: model, kind, seed, map, image, slope.

    `scores` is the long table. Raises: ValueError as `score_tensor` and `slopes`.
    """
    need_columns("image_slopes", scores, [*RUN, *PLACE, "score"])
    parts = []
    for run, rows in scores.groupby(RUN, sort=False, observed=True):
        found = slopes(score_tensor(rows)).numpy()
        named = dict(zip(RUN, run, strict=True))
        parts.append(
            pd.DataFrame({**named, "image": np.sort(rows["image"].unique()), "slope": found})
        )
    columns = [*RUN, "image", "slope"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def trend_table(
    scores: pd.DataFrame, *, resamples: int = RESAMPLES, seed: int = 0, level_pct: float = LEVEL_PCT
) -> pd.DataFrame:
    """Slope of global-IAV of every run and map, with its interval over images.

    `scores` is the long table. Columns: model, kind, seed, map, slope, low, high, in the order
    of the table. Raises: ValueError as `image_slopes` and `bootstrap_interval`.
    """
    rows = []
    for run, part in image_slopes(scores).groupby(RUN, sort=False, observed=True):
        values = torch.tensor(part["slope"].to_numpy())
        interval = bootstrap_interval(values, resamples, seed, level_pct)
        rows.append((*run, float(values.mean()), *interval))
    return pd.DataFrame(rows, columns=[*RUN, "slope", "low", "high"])
