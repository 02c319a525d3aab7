"""Numbers by model and finetuning seed, and whether models or kinds of pretraining differ."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from relevit.claims.attribution.scores import NOT_HERE
from relevit.claims.iav import criteria as fixed
from relevit.claims.iav.criteria import MODELS, SELF_SUPERVISED, SUPERVISED
from relevit.claims.robustvit.by_seed import Tables, seed_count
from relevit.claims.tables import Lacking, need
from relevit.claims.verdicts import EPS, MIN_SEEDS, Verdict, judge

Wide = dict[str, pd.DataFrame]  # of each model: seeds down, epochs, layers or the like across
BySeed = Mapping[str, pd.Series]  # of each model: one number a seed
Parts = dict[str, bool | None]  # None: the spread over seeds leaves it open


class Difference(NamedTuple):
    """One mean over seeds minus another, and their combined standard deviation."""

    value: float
    std: float

    @property
    def clear(self) -> bool:
        return self.value > self.std + EPS


def pick(tables: Tables, name: str, **where: object) -> pd.DataFrame:
    """The rows of a table with these values. Raises: Lacking without any."""
    table = need(tables, name)
    for column, value in where.items():
        table = table[table[column] == value]
    if table.empty:
        named = ", ".join(f"{column} {value}" for column, value in where.items())
        raise Lacking(f"{name} has no rows with {named}: run it")
    return table


def wide(
    tables: Tables,
    name: str,
    column: str,
    axes: Sequence[str],
    how: str | Callable[[pd.Series], float] = "mean",
    models: Iterable[str] = MODELS,
    **where: object,
) -> Wide:
    """A column by seed (down) and by `axes` (across), the rest averaged or whatever `how` says.

    A run that lacks what others have is left out. Raises: Lacking for a model without a run.
    """
    found = {}
    for model in models:
        rows = pick(tables, name, model=model, **where)
        texts = {axis: str for axis in axes if not pd.api.types.is_numeric_dtype(rows[axis])}
        rows = rows.astype(texts) if texts else rows
        groups = rows.groupby(["seed", *axes])[column]
        found[model] = groups.agg(how).unstack(list(axes))
    columns = next(iter(found.values())).columns
    for table in found.values():
        columns = columns.union(table.columns)
    for model, table in found.items():
        found[model] = table.reindex(columns=columns).dropna()
        if found[model].empty:
            raise Lacking(
                f"{name}: no run of {model} has every {' and '.join(axes)} that others have"
            )
    return found


def over(table: Wide, columns: object) -> dict[str, pd.Series]:
    """The mean over some columns, of each seed."""
    return {model: rows[columns].mean(axis=1) for model, rows in table.items()}


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


def share_of_depth(layers: Iterable[int], start: float, stop: float) -> list[int]:
    """The layers after the share `start` of the depth, up to the share `stop`."""
    layers = sorted(layers)
    return [layer for layer in layers if start < layer / layers[-1] <= stop]


def difference(a: pd.Series, b: pd.Series) -> Difference:
    """Of two models or groups of layers whose seeds are not paired."""
    return Difference(float(a.mean() - b.mean()), math.hypot(a.std(), b.std()))


def above(values: BySeed, upper: Iterable[str], lower: Iterable[str]) -> dict[str, Difference]:
    """Each model of one group minus each of another."""
    lower = tuple(lower)
    return {
        f"{a} above {b}": difference(values[a], values[b]) for a in upper for b in lower if a != b
    }


def clear(differences: Mapping[str, Difference], what: str = "") -> Parts:
    """Whether each is above its spread; `what` is put before its name."""
    return {f"{what}{name}": found.clear for name, found in differences.items()}


def overlap(values: BySeed) -> bool | None:
    """Whether neither kind lies above the other; None where one does, within the spread."""
    both = [
        above(values, *kinds)
        for kinds in ((SELF_SUPERVISED, SUPERVISED), (SUPERVISED, SELF_SUPERVISED))
    ]
    if any(all(pair.clear for pair in pairs.values()) for pairs in both):
        return False
    apart = any(all(pair.value > EPS for pair in pairs.values()) for pairs in both)
    return None if apart else True


def similar(found: Difference) -> bool | None:
    """Whether two accuracies are as good as equal; None where the spread is too large to say."""
    if abs(found.value) > max(fixed.SIMILAR_PTS, found.std) + EPS:
        return False
    return None if found.std > fixed.MAX_STD_PTS else True


def mean_of(values: BySeed, models: Sequence[str]) -> float:
    """Mean over models, each of which is the mean over its seeds."""
    return float(np.mean([values[model].mean() for model in models]))


def kinds_differ(values: BySeed, upper: Sequence[str], lower: Sequence[str]) -> Difference:
    """Mean of one group of models minus that of another."""
    means = [mean_of(values, models) for models in (upper, lower)]
    stds = [values[model].std() / len(group) for group in (upper, lower) for model in group]
    return Difference(means[0] - means[1], math.hypot(*stds))


def seeds_of(*values: Mapping[str, pd.Series | pd.DataFrame]) -> int:
    """The smallest number of seeds that a model has."""
    return min(len(of_model) for part in values for of_model in part.values())


def decide(claim: str, parts: Parts, number: str, seeds: int, least: int = MIN_SEEDS) -> Verdict:
    """Holds when every part does; not testable when no part fails and some are left open."""
    if seeds < least:
        count = seed_count(pd.Series(range(seeds)))
        reason = f"{count} of finetuning a model; at least {least} are needed"
        return Verdict(claim, NOT_HERE, number, reason)
    undecided = [name for name, met in parts.items() if met is None]
    settled = {name: bool(met) for name, met in parts.items() if met is not None}
    if undecided and all(settled.values()):
        reason = f"left open by the spread or the interval: {'; '.join(undecided)}"
        return Verdict(claim, NOT_HERE, number, reason)
    return judge(claim, settled, number)


def shown(values: pd.Series, digits: int = 2, sign: str = "") -> str:
    """Mean ± std over seeds, without ± for one seed; `sign` is + for changes."""
    mean = round(float(values.mean()), digits) + 0.0
    text = f"{mean:{sign}.{digits}f}"
    return text if len(values) < 2 else f"{text} ± {values.std():.{digits}f}"


def listed(values: BySeed, digits: int = 2, sign: str = "") -> str:
    """`model 0.71 ± 0.02, ...`."""
    return ", ".join(f"{model} {shown(one, digits, sign)}" for model, one in values.items())
