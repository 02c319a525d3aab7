"""The one kind of interval: 95 % over images and seeds.

All seeds answer the same images. So a mean over both varies for two reasons: other seeds, and other
images, which move all seeds alike. The interval is the wider of two:

- **seeds**: Student's t with n - 1 degrees of freedom, times s / sqrt(n), where s is the standard
  deviation of the n seeds' means;
- **seeds and images**: Student's t with as many degrees of freedom as there are images, about 1.96,
  times sqrt(s^2 / n + c). What images add to the seeds is c, the covariance over images of two
  seeds' means, averaged over all pairs of seeds (Obuchowski and Rockette 1995; Hillis 2007). Where
  it comes out below 0, it is 0.

One seed has images alone. Each set has the same weight and images of its own.

With 2, 3 and 5 seeds that differ by 0 to 4 points it holds the truth in 94 to 98 % of simulations
(`tools/interval_coverage.py`). Others do not: drawing seeds and images anew 75 to 98 %, Hillis's
degrees of freedom 86 to 95 %, the root of both squared halves 97 to 100 %. It tells how far other
images of the same kinds and other finetunings could move a mean, not other original models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Float
from torch import Tensor

Number = float | np.ndarray
UPPER = 0.975  # quantile of a two-sided 95 %
PERCENT = 0.0, 100.0  # bounds of a share


def student(freedom: Number, upper: float = UPPER) -> Number:
    """How many standard errors a 95 % interval reaches to each side; NaN without freedom."""
    return scipy.special.stdtrit(freedom, upper)  # as scipy.stats.t.ppf, which loads for a second


def smallest_effect(half: Number, freedom: Number = np.inf, power: float = 0.8) -> Number:
    """The effect that runs like these would see, at an interval of half width `half`, so often.

    It is seen where its 95 % interval lies wholly above 0: Student's t around it, non-central, with
    `freedom` degrees (n - 1 for n seeds; none said: images decide the width). The spread is that of
    the interval at hand, and so as uncertain as it is.
    """
    freedom = np.minimum(freedom, 1e6)  # beyond it the quantile is the normal's
    reach = student(freedom)
    return half * scipy.special.nctdtrinc(freedom, 1 - power, reach) / reach


class Estimate(NamedTuple):
    """A mean over sets, images and seeds; arrays where the values have more axes."""

    mean: float
    std: float  # over the seeds, sample; NaN for one
    low: float
    high: float


def interval(
    mean: Number,
    *,
    seeds: Number = 0.0,
    freedom: Number = np.inf,
    images: Number = 0.0,
    images_freedom: Number = np.inf,
    upper: float = UPPER,
) -> np.ndarray:
    """(low, high) by the rule of the module.

    `seeds` is the variance of the mean over seeds, s^2 / n, with its degrees of freedom; `images`
    what images add to it. `upper` is the quantile of the upper end.
    """
    whole = student(images_freedom, upper) * np.sqrt(np.add(seeds, images))
    half = np.fmax(whole, student(freedom, upper) * np.sqrt(seeds))  # NaN: no freedom, no seeds
    return np.stack([mean - half, mean + half])


def estimate(sets: Sequence[Float[np.ndarray, "*many seeds _"]]) -> Estimate:
    """The mean, each set with the same weight; rows are the same seeds in all sets.

    A seed's missing images are NaN; a set of which it has none is left out of its mean.
    """
    of_seeds = np.nanmean([_means(values)[..., 0] for values in sets], axis=0)
    mean, count = of_seeds.mean(axis=-1), of_seeds.shape[-1]
    several = count > 1
    std = of_seeds.std(axis=-1, ddof=1) if several else np.full_like(mean, np.nan)[()]
    ends = interval(
        mean,
        seeds=std**2 / count if several else 0.0,
        freedom=count - 1 if several else np.inf,
        images=shared_variance(sets),
        images_freedom=sum(answered(values) - 1 for values in sets),
    )
    return Estimate(mean, std, *ends)


def answered(values: Float[np.ndarray, "*many seeds images"]) -> int:
    """How many images a seed has answered: the most, where others are NaN."""
    return int((~np.isnan(values)).sum(axis=-1).max())


def mean_interval(
    values: Float[Tensor, " images"], bounds: tuple[float, float] = (-np.inf, np.inf)
) -> tuple[float, float]:
    """The interval of one run's mean over images, documents, pairs ...: (low, high).

    It ends at the `bounds` of what a value can be. Where all values are one of these, their spread
    says nothing, and the other end is Wilson's, as of a share of 0 or 1.
    Raises: ValueError for fewer than two values, NaN or infinity.
    """
    numbers = values.detach().cpu().double().numpy()
    if numbers.ndim != 1 or len(numbers) < 2 or not np.isfinite(numbers).all():
        raise ValueError(
            f"mean_interval: values {numbers.shape}, {np.isfinite(numbers).sum()} of them "
            "finite; needed is one finite value an image, for two images or more"
        )
    low, high = np.clip(estimate([numbers[None]])[2:], *bounds)
    least, most = bounds
    if (numbers == most).all():
        low = most - wilson_share(len(numbers)) * (most - least)
    elif (numbers == least).all():
        high = least + wilson_share(len(numbers)) * (most - least)
    return float(low), float(high)


def wilson_share(count: int) -> float:
    """The upper end of Wilson's 95 % interval where none of so many is right."""
    square = float(student(np.inf)) ** 2
    return square / (count + square)


def ratio_values(
    part: Float[np.ndarray, " images"], whole: Float[np.ndarray, " images"]
) -> Float[np.ndarray, " images"]:
    """A value an image whose mean is sum(part) / sum(whole), and whose spread is this ratio's.

    So a ratio has the interval of a mean (the linear part of its error, the delta method).
    """
    share = part.sum() / max(whole.sum(), 1)
    return share + (part - share * whole) / max(whole.mean(), 1 / len(whole))


def shared_variance(sets: Sequence[Float[np.ndarray, "*many seeds _"]]) -> Number:
    """What images add to the variance of the mean over seeds and `sets` (c of the module)."""
    means = np.stack([_means(values)[..., 0] for values in sets])
    weight = 1 / (~np.isnan(means)).sum(axis=0)  # of each set in a seed's mean
    found = sum(map(covariances, sets)) * weight[..., :, None] * weight[..., None, :]
    return np.maximum(found[..., _pairs(means.shape[-1])].mean(axis=-1), 0.0)


def covariances(values: Float[np.ndarray, "*many runs _"]) -> Float[np.ndarray, "*many runs runs"]:
    """Of the runs' means over images, by images that two runs share; NaN: an image is missing."""
    count = (~np.isnan(values)).sum(axis=-1, keepdims=True)
    apart = np.nan_to_num(values - _means(values)) / np.sqrt(np.maximum(count * (count - 1), 1))
    return apart @ apart.swapaxes(-1, -2)


def _means(values: Float[np.ndarray, "*many runs _"]) -> Float[np.ndarray, "*many runs 1"]:
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):  # 0 of 0 images: NaN
        return np.nansum(values, axis=-1, keepdims=True) / known.sum(axis=-1, keepdims=True)


def _pairs(count: int) -> np.ndarray:
    """Which entries of a matrix are of two runs; of a single run its own."""
    return ~np.eye(count, dtype=bool) if count > 1 else np.ones((1, 1), bool)
