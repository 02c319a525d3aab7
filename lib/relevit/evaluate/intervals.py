"""Bootstrap intervals of a mean, over whatever the numbers stand for (images, documents, classes).

And the check of a table's columns that statistics over tables begin with.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float
from torch import Tensor

RESAMPLES = 2000
LEVEL_PCT = 95.0


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


def middle(draws: np.ndarray, level_pct: float) -> np.ndarray:
    """Low and high end of the middle `level_pct` of the draws."""
    tail = (100 - level_pct) / 2
    return np.percentile(draws, [tail, 100 - tail])


def check_bootstrap(where: str, resamples: int, level_pct: float) -> None:
    """Raises: ValueError for a level outside 0..100 or no resample."""
    if not 0 < level_pct < 100 or resamples < 1:
        raise ValueError(
            f"{where}: level_pct {level_pct} and {resamples} resamples; needed are a level between "
            "0 and 100 and at least one resample"
        )


def need_columns(where: str, table: pd.DataFrame, columns: Sequence[str]) -> None:
    """Raises: ValueError for columns that the table lacks."""
    missing = [name for name in columns if name not in table]
    if missing:
        raise ValueError(f"{where}: no columns {missing}; needed are {columns}; add them")
