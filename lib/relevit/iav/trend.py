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

RESAMPLES = 2000
LEVEL_PCT = 95.0
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


def bootstrap_interval(
    values: Float[Tensor, " images"],
    resamples: int = RESAMPLES,
    seed: int = 0,
    level_pct: float = LEVEL_PCT,
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean: (low, high).

    Images are drawn with replacement, as many as there are; the interval holds the middle
    `level_pct` of the means. It tells how far other images of the same kind could move the
    mean, not other finetunings. As many values and the same seed make the same draws, so runs
    on the same images share them.
    Raises: ValueError for fewer than two values, NaN or infinity, a level outside 0..100, or
    no resample.
    """
    check_bootstrap("bootstrap_interval", resamples, level_pct)
    numbers = values.detach().cpu().double().numpy()
    if numbers.ndim != 1 or len(numbers) < 2 or not np.isfinite(numbers).all():
        raise ValueError(
            f"bootstrap_interval: values {numbers.shape}, {np.isfinite(numbers).sum()} of them "
            "finite; needed is one finite value an image, for two images or more"
        )
    random = np.random.default_rng(seed)
    count = len(numbers)
    means = [numbers[random.integers(count, size=count)].mean() for _ in range(resamples)]
    low, high = middle(np.array(means), level_pct)
    return float(low), float(high)


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


def middle(draws: np.ndarray, level_pct: float) -> np.ndarray:
    tail = (100 - level_pct) / 2
    return np.percentile(draws, [tail, 100 - tail])


def check_bootstrap(where: str, resamples: int, level_pct: float) -> None:
    if not 0 < level_pct < 100 or resamples < 1:
        raise ValueError(
            f"{where}: level_pct {level_pct} and {resamples} resamples; needed are a level between "
            "0 and 100 and at least one resample"
        )


def need_columns(where: str, table: pd.DataFrame, columns: list[str]) -> None:
    missing = [name for name in columns if name not in table]
    if missing:
        raise ValueError(f"{where}: no columns {missing}; needed are {columns}; add them")
