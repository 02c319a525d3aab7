"""The one kind of interval: 95 % over images and seeds, by bootstrap.

All seeds answer the same images. A resample draws as many images of each set as there are, the
same ones for all seeds, and then as many seeds, both with replacement; the interval holds the
middle 95 % of the means of all resamples. It tells how far other images of the same kinds and
other finetunings could move a mean, not other original models. With few seeds it is narrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

RESAMPLES = 2000
LEVEL_PCT = 95.0
AT_ONCE = 2**22  # numbers drawn at once; the draws do not depend on it


class Estimate(NamedTuple):
    """A mean over sets, images and seeds."""

    mean: float
    std: float  # over the seeds, sample; NaN for one
    low: float
    high: float


def estimate(sets: Iterable[Float[np.ndarray, "seeds _"]], seed: int = 0) -> Estimate:
    """The mean, each set with the same weight; rows are the same seeds in all sets.

    A seed's missing images are NaN; a set of which it has none is left out of its mean.
    """
    random = np.random.default_rng(seed)
    means, drawn = [], []
    for values in sets:
        drawn.append(resampled_means(values, random))
        with np.errstate(invalid="ignore"):  # 0 of 0 images: NaN
            means.append(np.nansum(values, axis=1) / (~np.isnan(values)).sum(axis=1))
    of_seeds = np.nanmean(means, axis=0)
    draws = resampled_seeds(np.nanmean(drawn, axis=0), random)
    std = of_seeds.std(ddof=1) if len(of_seeds) > 1 else np.nan
    return Estimate(of_seeds.mean(), std, *middle(draws))


def bootstrap_interval(values: Float[Tensor, " images"], seed: int = 0) -> tuple[float, float]:
    """The interval of one run's mean over images, documents, pairs ...: (low, high).

    Raises: ValueError for fewer than two values, NaN or infinity.
    """
    numbers = values.detach().cpu().double().numpy()
    if numbers.ndim != 1 or len(numbers) < 2 or not np.isfinite(numbers).all():
        raise ValueError(
            f"bootstrap_interval: values {numbers.shape}, {np.isfinite(numbers).sum()} of them "
            "finite; needed is one finite value an image, for two images or more"
        )
    found = estimate([numbers[None]], seed)
    return float(found.low), float(found.high)


def middle(draws: np.ndarray) -> np.ndarray:
    """Low and high end of the middle 95 % of the draws, which run along the first axis."""
    tail = (100 - LEVEL_PCT) / 2
    return np.percentile(draws, [tail, 100 - tail], axis=0)


def draw_times(
    count: int, random: np.random.Generator
) -> Iterator[Int[np.ndarray, "resamples count"]]:
    """How often each of `count` things is drawn in each resample, some resamples at a time."""
    step = max(1, AT_ONCE // count)
    for start in range(0, RESAMPLES, step):
        size = min(step, RESAMPLES - start)
        yield random.multinomial(count, np.full(count, 1 / count), size=size)


def resampled_means(
    values: Float[np.ndarray, "runs images"], random: np.random.Generator
) -> Float[np.ndarray, "resamples runs"]:
    """Each run's mean over the images of each resample, NaN where it has none of them."""
    known, filled = (~np.isnan(values)).astype(float), np.nan_to_num(values)
    with np.errstate(invalid="ignore"):
        parts = [
            (times @ filled.T) / (times @ known.T) for times in draw_times(values.shape[1], random)
        ]
    return np.concatenate(parts)


def resampled_seeds(
    draws: Float[np.ndarray, "resamples seeds"], random: np.random.Generator
) -> Float[np.ndarray, " resamples"]:
    """The mean over as many seeds as there are, drawn anew in each resample."""
    chosen = random.integers(draws.shape[1], size=draws.shape)
    return np.take_along_axis(draws, chosen, axis=1).mean(axis=1)
