"""Do IA-scores, or other properties of the models, tell the kinds of pretraining apart?

Source: IAV Sec. V.E and its conclusion: the trend of the scores over depth does, while accuracy,
robustness and entropy do not. A run is one finetuning of one model; its slope is that of
`relevit.iav.trend`. Functions here take tables, one row a run or a run and image.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from relevit.evaluate.intervals import LEVEL_PCT, RESAMPLES, check_bootstrap, middle, need_columns
from relevit.iav.trend import RUN

SUPERVISED, SELF_SUPERVISED = "supervised", "self-supervised"
KINDS = (SUPERVISED, SELF_SUPERVISED)
DIFFERENCE = "difference"  # self-supervised minus supervised


def model_trends(slopes: pd.DataFrame) -> pd.DataFrame:
    """Slope of every model over its finetuning seeds: map, kind, model, seeds, slope, slope_std.

    `slopes` is the table of `trend_table`; `slope_std` is the sample deviation, NaN for one
    seed. Raises: ValueError for a missing column or a run that occurs twice.
    """
    need_columns("model_trends", slopes, [*RUN, "slope"])
    _once("model_trends", slopes, RUN)
    groups = slopes.groupby(["map", "kind", "model"], sort=False, observed=True)["slope"]
    return groups.agg(seeds="size", slope="mean", slope_std="std").reset_index()


def kind_trends(slopes: pd.DataFrame) -> pd.DataFrame:
    """Slope of every kind over its models, each model being the mean of its seeds.

    `slopes` as `model_trends`. Columns: map, kind, models, slope, slope_std (sample deviation
    over models, NaN for one), lowest, highest (of all runs). Raises: as `model_trends`.
    """
    keys = ["map", "kind"]
    models = model_trends(slopes).groupby(keys, sort=False, observed=True)["slope"]
    runs = slopes.groupby(keys, sort=False, observed=True)["slope"]
    table = models.agg(models="size", slope="mean", slope_std="std")
    return table.join(runs.agg(lowest="min", highest="max")).reset_index()


def kind_intervals(
    per_image: pd.DataFrame,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level_pct: float = LEVEL_PCT,
) -> pd.DataFrame:
    """Slopes of both kinds and their difference, with intervals over images and seeds.

    `per_image` is the table of `image_slopes`. In each resample the images are drawn with
    replacement, the same ones for every model, and each model's seeds are drawn from its own.
    A kind is the mean over its models. The interval covers other images and other finetunings
    of these very models (a model of one seed adds none of the latter). It does not cover other
    pretrained models: with a few of each kind nothing can.
    Columns: map, kind (supervised, self-supervised, difference: the latter minus the former),
    models, slope, low, high.
    Raises: ValueError for a missing column or kind, runs of a map on different images, a level
    outside 0..100, or no resample.
    """
    need_columns("kind_intervals", per_image, [*RUN, "image", "slope"])
    check_bootstrap("kind_intervals", resamples, level_pct)
    parts = []
    for name, rows in per_image.groupby("map", sort=False, observed=True):
        models, kinds = _runs_by_model(name, rows)
        members = [np.flatnonzero(kinds == kind) for kind in KINDS]
        means = _resampled(models, resamples, np.random.default_rng(seed))
        draws = [means[:, group].mean(axis=1) for group in members]
        exact = [np.mean([models[i].mean() for i in group]) for group in members]
        table = pd.DataFrame({"map": name, "kind": [*KINDS, DIFFERENCE]})
        table["models"] = [*map(len, members), len(models)]
        table["slope"] = [*exact, exact[1] - exact[0]]
        table[["low", "high"]] = [
            middle(drawn, level_pct) for drawn in (*draws, draws[1] - draws[0])
        ]
        parts.append(table)
    return pd.concat(parts, ignore_index=True)


def separation(values: pd.Series, kinds: pd.Series) -> float:
    """Smallest self-supervised value minus the largest supervised one.

    Above 0 when every self-supervised run lies above every supervised run, in units of the
    values, which may be any property of the runs (slope, accuracy, entropy ...). For one that
    should be lower give the negative values. Both have the same index, one entry a run.
    Raises: ValueError when the indices differ, a kind is unknown or missing, or a value is
    not finite.
    """
    high, low = _by_kind("separation", values, kinds)
    return float(high.min() - low.max())


def kind_auc(values: pd.Series, kinds: pd.Series) -> float:
    """Area under the ROC curve between the kinds: 1 where self-supervised runs are all higher.

    The share of pairs of a self-supervised and a supervised run in which the former is higher,
    ties as half: 0.5 is no order at all, 0 the opposite one. Runs of one model are no
    independent evidence. Raises: as `separation`.
    """
    high, low = _by_kind("kind_auc", values, kinds)
    return float(((high[:, None] > low) + 0.5 * (high[:, None] == low)).mean())


def separations(properties: pd.DataFrame, kinds: pd.Series) -> pd.DataFrame:
    """Which properties of the runs tell the kinds apart, one row a property.

    `properties` has one column a property and one row a run, `kinds` the same index. Columns:
    property, above (`separation`), below (of the negative values), auc. A property separates
    the kinds when `above` or `below` is positive. Raises: as `separation`.
    """
    rows = [
        (name, separation(values, kinds), separation(-values, kinds), kind_auc(values, kinds))
        for name, values in properties.items()
    ]
    return pd.DataFrame(rows, columns=["property", "above", "below", "auc"])


def _runs_by_model(name: str, rows: pd.DataFrame) -> tuple[list[np.ndarray], np.ndarray]:
    """Each model's slopes as [seeds, images], and each model's kind."""
    _once("kind_intervals", rows, [*RUN, "image"])
    wide = rows.pivot(index=["kind", "model", "seed"], columns="image", values="slope")
    kinds = wide.index.get_level_values("kind")
    if set(kinds) != set(KINDS) or not np.isfinite(wide.to_numpy()).all():
        raise ValueError(
            f"kind_intervals: map {name!r} has kinds {sorted(set(kinds))} and {len(wide)} runs on "
            f"{wide.shape[1]} images, {int(wide.isna().to_numpy().sum())} slopes missing; needed "
            f"are both of {KINDS} and the same images for every run"
        )
    groups = [(key[0], part.to_numpy()) for key, part in wide.groupby(["kind", "model"])]
    return [values for _, values in groups], np.array([kind for kind, _ in groups])


def _resampled(
    models: Sequence[np.ndarray], resamples: int, random: np.random.Generator
) -> np.ndarray:
    """Means of each model's slopes, [resamples, models]; images drawn once for all models."""
    runs = np.concatenate(models)
    count = runs.shape[1]
    means = np.empty((resamples, len(runs)))
    for row in means:
        times = np.bincount(random.integers(count, size=count), minlength=count)
        row[:] = runs @ times / count
    drawn = []
    for part in np.split(means, np.cumsum([len(values) for values in models])[:-1], axis=1):
        seeds = random.integers(part.shape[1], size=part.shape)
        drawn.append(np.take_along_axis(part, seeds, axis=1).mean(axis=1))
    return np.stack(drawn, axis=1)


def _by_kind(where: str, values: pd.Series, kinds: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Values of the self-supervised and of the supervised runs."""
    numbers = values.to_numpy(np.float64)
    if not (
        values.index.equals(kinds.index)
        and np.isfinite(numbers).all()
        and set(kinds.unique()) == set(KINDS)
    ):
        raise ValueError(
            f"{where}: {len(values)} values ({np.isfinite(numbers).sum()} finite) of kinds "
            f"{list(kinds.unique())}; needed are both of {KINDS}, finite values and the same index "
            "in both"
        )
    chosen = kinds.to_numpy() == SELF_SUPERVISED
    return numbers[chosen], numbers[~chosen]


def _once(where: str, table: pd.DataFrame, keys: list[str]) -> None:
    if table.duplicated(keys).any():
        raise ValueError(f"{where}: rows with the same {keys} occur twice; give each run once")
