"""Differences with their spread: of runs seed by seed, of models, of scores with errors.

A mean or a standard deviation (std) is over seeds. A combined std or standard error is the root
of the summed squares.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from relevit.claims.registry import CHANCE_ERRORS, EPS, Lacking, Part, part, signed
from relevit.data.cutouts import SHIFTED_SETS, TEST_SETS

# A difference that is similar whatever its spread: RV-07, 09, 12, 16, 17, BI-17, 18, IAV-01, 06.
# In BI-18 Ours-T differs by up to 0.94; IAV-01's 98 and 97 % are as far apart.
SIMILAR_PTS = 1.0
# A larger spread or error hides what is asked: nothing is called small, similar or kept (RV-07,
# 12, 16, 17, IAV-01), nor a gain absent (RV-40, 43). The paper's differences that contradict BI-17
# and BI-18 (4.1 to 6.7 points) could hide in it.
MAX_SPREAD_PTS = 3.0

BySeed = Mapping[str, pd.Series]  # of each model: one number a seed


class Difference(NamedTuple):
    """By how much one is above another, with the combined std over seeds or standard error.

    `seeds` are those that the std is over, 0 for a standard error.
    """

    value: float
    spread: float
    seeds: int = 0

    def part(self, met: bool | None = None) -> Part:
        """Whether it is above 0 by any difference, unless `met` says otherwise."""
        return part(self.value, self.spread, met, self.seeds)

    @property
    def clear(self) -> Part:
        """Whether it is above its spread."""
        return self.part(self.value > self.spread + EPS)

    @property
    def unclear(self) -> Part:
        """Whether it is not."""
        return part(-self.value, self.spread, not self.clear, self.seeds)

    def above(self, line: float) -> Part:
        """Whether it is at or above a line, its spread not counted."""
        return part(self.value - line, self.spread, self.value >= line - EPS, self.seeds)

    def __str__(self) -> str:
        return signed(self.value, self.spread)


# Runs: tables with `seed`, `dataset`, `top1_pct`, `original_top1_pct` and the same for top-5.


def select(table: pd.DataFrame, **where: object) -> pd.DataFrame:
    """The rows with these values, compared as text. Raises: Lacking without any.

    08_ablations leaves out variants that diverged, and shows which.
    """
    for column, value in where.items():
        table = table[table[column].astype(str) == str(value)]
    if table.empty:
        hint = ", or see what diverged in 08_ablations" if "variant" in where else ""
        raise Lacking(f"no run with {_named(where)}: run it{hint}")
    return table


def changes(table: pd.DataFrame, metric: str = "top1", **where: object) -> pd.DataFrame:
    """Change against the original in points: seeds down, the nine sets across.

    A run that lacks a set is left out. Raises: Lacking when no run is left.
    """
    rows = select(table, **where)
    rows = rows.assign(change=rows[f"{metric}_pct"] - rows[f"original_{metric}_pct"])
    return _whole(rows, "change", where)


def accuracies(table: pd.DataFrame, column: str = "top1_pct", **where: object) -> pd.Series:
    """Accuracy on each of the nine sets, mean over seeds. Raises: Lacking."""
    return _whole(select(table, **where), column, where).mean()


def original_accuracy(table: pd.DataFrame, model: str) -> pd.Series:
    """Top-1 of a model before finetuning on the nine sets, from any of its runs."""
    rows = select(table, model=model).drop_duplicates("dataset").assign(seed=0)
    return _whole(rows, "original_top1_pct", {"model": model}).iloc[0]


def standard_error(pct: pd.Series, images: float) -> pd.Series:
    """Of an accuracy in percent over so many images, in points."""
    return (pct * (100 - pct) / images) ** 0.5


def images_of(table: pd.DataFrame) -> float:
    """On how many images each set was answered, at least."""
    return float(table["images"].min())


def paired(ours: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Ours minus other over the seeds that both have. Raises: Lacking without a common one."""
    common = ours.index.intersection(other.index)
    if common.empty:
        raise Lacking(f"seeds {list(ours.index)} and {list(other.index)}: none is in both")
    return ours.loc[common] - other.loc[common]


def shifted(by_seed: pd.DataFrame) -> pd.Series:
    """Average over the seven shifted sets, of each seed."""
    return by_seed[list(SHIFTED_SETS)].mean(axis=1)


def image_error(change_pts: float, images: float) -> float:
    """The least standard error over images that a change of accuracy can have, in points.

    It has this one where no answer changed the other way. So a change is more than CHANCE_ERRORS
    of it only with more than four images, however well seeds on the same images agree.
    """
    size = min(abs(change_pts), 100.0)
    return math.sqrt(size * (100.0 - size) / images)


def leaves_room(original_pct: float, images: float) -> bool:
    """Whether right answers to all of so many images would be a gain by more than chance."""
    most = 100.0 - original_pct
    return bool(most > CHANCE_ERRORS * image_error(most, images) + EPS)


def beyond_spread(gain: Part) -> bool:
    """Whether a gain is above its own error, so that others can be measured by it."""
    return bool(gain.margin > max(gain.error, EPS))


def of_seeds(values: pd.Series, images: float, line: float = 0.0, sign: int = 1) -> Part:
    """Whether a mean change over seeds is above a line (`sign` -1: below), by any difference.

    `images` is over how many it is an average. Its error is the std over seeds or the least error
    over images, whichever is larger.
    """
    margin = sign * (float(values.mean()) - line)
    return part(margin, *_error(values, images, line))


def at_least(values: pd.Series, images: float, line: float) -> Part:
    """Whether a mean change over seeds is no less than a line."""
    found = of_seeds(values, images, line)
    return found._replace(met=bool(found.margin >= -EPS))


def above_std(values: pd.Series, images: float) -> Part:
    """Whether the mean over seeds is above the std; `images` as in `of_seeds`."""
    return of_seeds(values, images)._replace(met=bool(values.mean() > values.std() + EPS))


def small_loss(difference: pd.Series, images: float) -> Part:
    """Whether ours falls short of the other by little: SIMILAR_PTS, or the std.

    Open where the spread over seeds is too large to call a difference small.
    """
    near = bool(-difference.mean() <= max(SIMILAR_PTS, difference.std()) + EPS)
    found = of_seeds(difference, images, -SIMILAR_PTS)
    return found._replace(met=None if near and difference.std() > MAX_SPREAD_PTS else near)


def in_most(by_seed: pd.DataFrame, images: float) -> Part:
    """Whether the mean change is above 0 on more than half of an odd number of sets."""
    # Then, and only then, the median over the sets is.
    median = float(by_seed.mean().median())
    return part(median, *_error(by_seed.median(axis=1), images))


def _error(values: pd.Series, images: float, line: float = 0.0) -> tuple[float, None, int]:
    """Error, no other rule, and over how many seeds: the arguments of `part` after the margin.

    Over images it is that of a change to the line, where that is farther from 0 than the mean:
    where no answer changed, others could have.
    """
    floor = image_error(max(abs(float(values.mean())), abs(line)), images)
    std = float(values.std()) if len(values) > 1 else 0.0
    return (std, None, len(values)) if std > floor else (floor, None, 0)


def text(values: pd.Series) -> str:
    """Mean ± std over seeds."""
    return signed(values.mean(), values.std())


def seed_count(count: int) -> str:
    """`1 seed`, `3 seeds`."""
    return f"{count} seed{'' if count == 1 else 's'}"


def by_set(by_seed: pd.DataFrame, sets: tuple[str, ...]) -> str:
    """`a +1.2 ± 0.3, ...` over seeds."""
    return ", ".join(f"{name} {text(by_seed[name])}" for name in sets)


def _whole(rows: pd.DataFrame, column: str, where: Mapping[str, object]) -> pd.DataFrame:
    rows = rows.astype({"dataset": str})
    wide = rows.pivot(index="seed", columns="dataset", values=column)
    wide = wide.reindex(columns=list(TEST_SETS)).dropna()
    if wide.empty:
        raise Lacking(f"no run with {_named(where)} has all nine sets: evaluate it on them")
    return wide


def _named(where: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in where.items())


# Models: one number a seed, and the seeds of two models are not paired.


def difference(a: pd.Series, b: pd.Series) -> Difference:
    """Of two models or groups of layers whose seeds are not paired."""
    spread = math.hypot(a.std(), b.std())
    return Difference(float(a.mean() - b.mean()), spread, min(len(a), len(b)))


def above(values: BySeed, upper: Iterable[str], lower: Iterable[str]) -> dict[str, Difference]:
    """Each model of one group minus each of another."""
    lower = tuple(lower)
    return {
        f"{a} above {b}": difference(values[a], values[b]) for a in upper for b in lower if a != b
    }


def similar(found: Difference) -> Part:
    """Whether two numbers are as good as equal; open where the spread is too large to say."""
    size = abs(found.value)
    near = bool(size <= max(SIMILAR_PTS, found.spread) + EPS)
    met = None if near and found.spread > MAX_SPREAD_PTS else near
    return Part(met, SIMILAR_PTS - size, found.spread, seeds=found.seeds)


def mean_of(values: BySeed, models: Iterable[str]) -> float:
    """Mean over models, each of which is the mean over its seeds."""
    return float(np.mean([values[model].mean() for model in models]))


def kinds_differ(values: BySeed, upper: tuple[str, ...], lower: tuple[str, ...]) -> Difference:
    """Mean of one group of models minus that of another."""
    means = [mean_of(values, models) for models in (upper, lower)]
    stds = [values[model].std() / len(group) for group in (upper, lower) for model in group]
    seeds = min(len(values[model]) for model in (*upper, *lower))
    return Difference(means[0] - means[1], math.hypot(*stds), seeds)


def slope(rows: pd.DataFrame) -> pd.Series:
    """Change of a least-squares line from the first column to the last, of each seed.

    Raises: Lacking with fewer than three columns.
    """
    at = np.asarray(rows.columns, dtype=float)
    if len(at) < 3:
        raise Lacking(f"{len(at)} {rows.columns.name}s: a trend needs at least 3")
    centred = at - at.mean()
    change = (rows - rows.mean(axis=1).to_numpy()[:, None]) @ centred
    return change / (centred @ centred) * (at.max() - at.min())


def seeds_of(*values: Mapping[str, pd.Series | pd.DataFrame]) -> int:
    """The smallest number of seeds that a model has."""
    return min(len(of_model) for part in values for of_model in part.values())


def shown(values: pd.Series, digits: int = 2, sign: str = "") -> str:
    """Mean ± std over seeds, without ± for one seed; `sign` is + for changes."""
    mean = round(float(values.mean()), digits) + 0.0
    text = f"{mean:{sign}.{digits}f}"
    return text if len(values) < 2 else f"{text} ± {values.std():.{digits}f}"
