"""What one way of finetuning adds to another, paired by seed and image, with its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from relevit.data.cutouts import SHIFTED_SETS
from relevit.evaluate.intervals import LEVEL_PCT, RESAMPLES, middle

GROUPS = ("all", "A", "B")  # of classes: all, those finetuned first, and the others
IMAGE = ["seed", "dataset", "index"]


def paired_change(
    ours: pd.DataFrame,
    other: pd.DataFrame,
    sets: Sequence[str] = SHIFTED_SETS,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level_pct: float = LEVEL_PCT,
) -> pd.DataFrame:
    """Difference of top-1, in points, mean over `sets`, by group of classes.

    Both tables have one row a seed and image: `seed`, `dataset`, `index`, `right`, `in_a`. Columns
    of the result: `change_pts` (mean over the seeds), `std_pts` (spread over them; NaN for one),
    `se_pts`, `low_pts` and `high_pts` (`level_pct` of the bootstrap that draws seeds, and images
    within each set, with replacement), `seeds`.
    Raises: ValueError when the two did not see the same images.
    """
    both = ours.merge(other[[*IMAGE, "right"]], on=IMAGE, suffixes=("", "_other"))
    both = both[both["dataset"].isin(sets)]
    wanted = int(ours["dataset"].isin(sets).sum())
    if len(both) != wanted or wanted == 0 or len(other) != len(ours):
        raise ValueError(
            f"paired_change: {len(both)} of {wanted} images are in both tables; give answers of "
            "both to the same seeds, sets and images"
        )
    both["change"] = 100.0 * (both["right"].astype(float) - both["right_other"].astype(float))
    rows = {}
    for group in GROUPS:
        part = both if group == "all" else both[both["in_a"] == (group == "A")]
        rows[group] = _summary(part, resamples, seed, level_pct)
    return pd.DataFrame(rows).T.rename_axis("classes").astype({"seeds": int})


def _summary(part: pd.DataFrame, resamples: int, seed: int, level_pct: float) -> Mapping:
    """Mean over sets and seeds of the changes of the images, with its intervals."""
    cells = [
        [images["change"].to_numpy() for _, images in run.groupby("dataset", sort=True)]
        for _, run in part.groupby("seed", sort=True)
    ]
    means = np.array([[images.mean() for images in run] for run in cells]).mean(axis=1)
    random = np.random.default_rng(seed)
    # Of each seed, as many draws of its images; a resample takes seeds, and a draw of each.
    drawn = np.array([_resampled(run, resamples, random) for run in cells])
    chosen = random.integers(len(cells), size=(resamples, len(cells)))
    draws = drawn[chosen, np.arange(resamples)[:, None]].mean(axis=1)
    low, high = middle(draws, level_pct)
    return {
        "change_pts": means.mean(),
        "std_pts": means.std(ddof=1) if len(means) > 1 else np.nan,
        "se_pts": draws.std(ddof=1),
        "low_pts": low,
        "high_pts": high,
        "seeds": len(means),
    }


def _resampled(
    sets: Sequence[np.ndarray], resamples: int, random: np.random.Generator
) -> np.ndarray:
    """The mean over sets of one seed, for as many draws of its images."""
    means = [
        images[random.integers(len(images), size=(resamples, len(images)))].mean(axis=1)
        for images in sets
    ]
    return np.mean(means, axis=0)
