"""The numbers of a claim: means of a table's rows with their 95 % intervals.

`mean` takes one number of each group and run, `minus` pairs two of them, `over` takes several
together, and `held` gives each its interval and a line. The interval is that of
`relevit.evaluate.intervals`, of the seeds' means and of an error over images. Where a table does
not tell what images add to the seeds, its error is that of one run, which is on the safe side;
where it has none, or a smaller one, the least that a change of accuracy over so many images can
have. Images are taken as other ones in a difference, which is on the safe side, too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from relevit.evaluate.intervals import interval, shared_variance, student

EPS = 1e-9  # below any real change, above rounding
IMAGE = ["dataset", "index"]  # what names an image, where a row is one
KEPT = ["x", "error", "images", "std", "runs"]  # columns of a number
LEVEL = 0.95  # of an interval
POINTS, COUNT = "points", "count"  # units; one of neither has that of its table
IN_POINTS = re.compile(r"_(pct|pts)\b")  # a column's name ends in its unit


class Lacking(Exception):
    """What a claim needs is not in the tables, so that it is not testable."""


class Number(NamedTuple):
    """One number with its 95 % interval, and the line that it is held against.

    `known` is False for a number without any error, as a count: it can be on its side, and
    contradicts nothing. `group` are the values that tell it from others of the same name. `role`: a
    *part* decides; *needs* is taken for granted; *room* says whether a gain could be seen. `d`: the
    largest distance from the line that is no difference; 0 where none was fixed. `spread` is what
    the interval was made of, as `interval` takes it; empty where there is none.
    """

    name: str
    value: float
    low: float
    high: float
    side: str
    line: float
    known: bool = True
    group: Mapping[str, object] = {}
    runs: int = 0
    role: str = "part"
    d: float = 0.0
    unit: str = ""
    spread: Mapping[str, float] = {}

    def at(self, level: float) -> Number:
        """The same with an interval of this level; one without any keeps none."""
        if not self.spread:
            return self
        low, high = interval(self.value, **self.spread, upper=(1 + level) / 2).tolist()
        return self._replace(low=low, high=high)

    @property
    def met(self) -> bool:
        """Whether the whole interval is on the right side.

        *Not above* and *not below* deny a clear difference: the interval is not wholly there.
        """
        low, high, line = self.low, self.high, self.line
        return {
            "above": low > line + EPS,
            "at least": low >= line - EPS,
            "below": high < line - EPS,
            "at most": high <= line + EPS,
            "within": -line - EPS <= low and high <= line + EPS,
            "not above": math.isfinite(low) and low <= line + EPS,
            "not below": math.isfinite(high) and high >= line - EPS,
        }[self.side]

    @property
    def against(self) -> bool:
        """Whether the whole interval is on the wrong side."""
        under, over = self.high < self.line - EPS, self.low > self.line + EPS
        if self.side == "within":
            under = self.high < -self.line - EPS
            return self.known and (under or over)
        return self.known and (under if self.side in ("above", "at least", "not below") else over)

    @property
    def small(self) -> bool:
        """Whether the whole interval is within `d` of the line."""
        ends = (self.low - self.line, self.high - self.line)
        return self.known and 0 < max(map(abs, ends)) <= self.d + EPS

    @property
    def ahead(self) -> float:
        """By how much the number is on the right side of its line; below 0 on the wrong one."""
        if self.side == "within":
            return self.line - abs(self.value)
        sign = -1 if self.side in ("below", "at most", "not above") else 1
        return sign * (self.value - self.line)

    def __str__(self) -> str:
        """`a +1.9 (-0.3 to +4.1), above 0`."""
        half = (self.high - self.low) / 2
        size = half if 0 < half < math.inf else abs(self.value)
        digits = 1 if size >= 0.5 or size < EPS else min(4, 1 - math.floor(math.log10(size)))
        show = f"{{:+.{digits}f}}".format
        text = f"{self.name} {show(round(self.value, digits) + 0.0)}".strip()
        if half == math.inf:
            text += " (too few seeds)"
        elif self.known:
            text += f" ({show(self.low)} to {show(self.high)})"
        text += f", {self.side} {'±' * (self.side == 'within')}{self.line:g}"
        return text + (f", d {self.d:.2g}" if self.d else "")


@dataclass(frozen=True)
class Numbers:
    """One number a group and run; `keys` name the groups, `seed` the runs."""

    frame: pd.DataFrame
    keys: list[str]
    seed: str = ""
    unit: str = ""

    def minus(self, other: Numbers, factor: float = 1.0) -> Numbers:
        """This minus `factor` times another, run by run; groups of the same name are paired.

        Others are crossed. Another without runs, as of one original, is taken from each run.
        Raises: Lacking where nothing is paired.
        """
        shared = [key for key in self.keys if key in other.keys]
        shared += [self.seed] * (self.seed == other.seed != "")
        how = {"on": shared} if shared else {"how": "cross"}
        both = self.frame.merge(other.frame, suffixes=("", "_r"), **how)
        if both.empty:
            raise Lacking(f"nothing to compare, no {' and '.join(shared)} is in both")
        both["x"] -= factor * both["x_r"]
        for name in ("error", "std"):
            pair = both[[name, f"{name}_r"]].pow(2).mul([1, factor**2])
            both[name] = np.sqrt(pair.sum(axis=1, min_count=1).astype(float))
        for name in ("images", "runs"):
            both[name] = both[[name, f"{name}_r"]].min(axis=1)
        keys = list(dict.fromkeys([*self.keys, *other.keys]))
        frame = both[[*keys, *([self.seed] if self.seed else []), *KEPT]]
        return Numbers(frame, keys, self.seed, self.unit)

    def over(self, *columns: str, how: str = "mean") -> Numbers:
        """Those that differ in these columns alone as one, which sees the same images.

        `how` is pandas' word, or of TOGETHER.
        """
        keys = [key for key in self.keys if key not in columns]
        groups = self.frame.set_index(columns[0])
        groups = groups.groupby([*keys, self.seed] if self.seed else keys or (lambda _: 0))
        frame = pd.DataFrame({"x": groups["x"].agg(TOGETHER.get(how, how))})
        frame[["error", "std"]] = groups[["error", "std"]].mean()
        frame[["images", "runs"]] = groups[["images", "runs"]].min()
        return Numbers(_plain(frame), keys, self.seed, self.unit)

    def held(
        self, side: str, line: float = 0.0, name: str = "", *, parts: int = 1, runs: int = 2,
        role: str = "part", d: float | Mapping[str, float] = 0.0,
    ) -> list[Number]:  # fmt: skip
        """Each number with its interval and line; fewer than `runs` seeds have none.

        `d` is that of all, or by the last of the `keys`.
        Raises: Lacking for fewer than `parts` numbers.
        """
        frame = self.frame
        if self.seed:
            groups = frame.groupby(self.keys or (lambda _: 0), sort=False)
            frame = groups[["x", "error", "images"]].mean()
            frame = _plain(frame.assign(std=groups["x"].std(), runs=groups["x"].size()))
        if len(frame) < parts:
            raise Lacking(f"{len(frame)} of {parts} numbers are there{f': {name}' * bool(name)}")
        found = []
        for one in frame.to_dict("records"):
            group = {key: one[key] for key in self.keys}
            words = " ".join(filter(None, (name, *map(str, group.values()))))
            spread = _spread(one, line, runs)
            small = d[one[self.keys[-1]]] if isinstance(d, Mapping) else d
            alone = Number(
                words, float(one["x"]), -math.inf, math.inf, side, line, True, group,
                int(one["runs"]), role, abs(float(small)), self.unit, spread,
            ).at(LEVEL)  # fmt: skip
            found.append(alone._replace(known=alone.high - alone.low > 2 * EPS))
        return found


def _spread(one: Mapping[str, float], line: float, runs: int) -> dict[str, float]:
    """What `interval` makes the interval of a number of; nothing for too few seeds."""
    x, error, seeds = one["x"], one["error"], one["runs"]
    if not math.isnan(one["images"]):  # where no answer changes, it would be 0
        error = np.fmax(error, least_error(max(abs(x), abs(line)), one["images"]))
    images, several = (0.0 if math.isnan(error) else error**2), seeds > 0
    if several and seeds < max(2, runs):
        return {}
    of_seeds = {"seeds": one["std"] ** 2 / seeds, "freedom": seeds - 1} if several else {}
    return {"images": images, **of_seeds}


def least_error(change_pts: float, images: float) -> float:
    """The least standard error over images that a change of accuracy can have, in points.

    It has this one where no answer changed the other way.
    """
    size = min(abs(change_pts), 100.0)
    return math.sqrt(size * (100.0 - size) / images)


def mean(
    rows: pd.DataFrame, x: str, by: str = "", *, seed: str = "", error: str = "",
    images: str = "", std: str = "", how: str = "mean", least: int = 1,
) -> Numbers:  # fmt: skip
    """`x` (an expression of columns) averaged by the columns `by`, and by run where `seed` is
    given.

    `error` is a column or expression, a standard error over images in which `x` is the value, or
    "sem", that of the rows. `images` is how many a number is of, "rows" as many as rows: the error
    of a change of accuracy is then not below `least_error`. `std` is a table's own spread over its
    column `seeds`. Fewer than `least` rows in a group are Lacking.
    """
    keys, where = by.split(), rows.attrs.get("table", "the table")
    if rows.empty:
        raise Lacking(f"{where} has no such rows: run it")
    values = rows.eval(x, engine="python")
    values = pd.Series(values, index=rows.index)
    values = values if how == "nunique" else values.astype(float)
    if values.isna().any() or (how != "nunique" and not np.isfinite(values).all()):
        raise Lacking(f"{where} has no number for {x}")
    frame = rows[[*keys, *([seed] if seed else [])]].assign(x=values)
    by_number = [*keys, seed] if seed else keys
    groups = frame.groupby(by_number or (lambda _: 0))
    if (few := groups.size().min()) < least:
        raise Lacking(f"{where} has {few} rows of {least} that are needed")
    found = pd.DataFrame({"x": groups["x"].agg(how)})
    found = found.assign(error=math.nan, images=math.nan, std=math.nan, runs=0)
    if error == "sem":
        found["error"] = _sem(frame.assign(**rows.filter(IMAGE)), keys, seed, found.index)
    if images == "rows":
        found["images"] = groups.size()
    texts = {"error": error, "images": images, "std": std, "runs": "seeds" * bool(std)}
    told = {
        name: pd.Series(rows.assign(x=values).eval(text, engine="python"), index=rows.index)
        for name, text in texts.items()
        if text not in ("", "sem", "rows")
    }
    if told:
        of = rows[by_number].assign(**told, _set=rows.get("dataset", ""))
        found = found.assign(**_errors(of.astype(dict.fromkeys(told, float)), by_number))
    points = POINTS if IN_POINTS.search(f"{x} {rows.attrs.get('of', '')}") else ""
    unit = COUNT if how in ("sum", "nunique") else points
    return Numbers(_plain(found), keys, seed, unit)


def _sem(frame: pd.DataFrame, keys: list[str], seed: str, index: pd.Index) -> list[float]:
    """Errors over images of the numbers of `index`: of seeds, what images add to their mean.

    Rows of seeds name their image by the columns IMAGE, or by `index` alone. Of few images they are
    larger by what Student's t reaches further than the normal.
    """
    if not seed:
        groups = frame.groupby(keys or (lambda _: 0))["x"]
        return (groups.sem() * _further(groups.size().to_numpy() - 1)).reindex(index).tolist()
    found = {}
    for key, rows in frame.groupby(keys) if keys else [((), frame)]:
        runs = rows[seed].unique()
        sets = rows.groupby("dataset", observed=True) if "dataset" in rows else [("", rows)]
        wide = [
            one.pivot(index=seed, columns="index", values="x").reindex(runs).to_numpy()
            for _, one in sets
        ]
        freedom = sum(one.shape[1] - 1 for one in wide)
        found[key] = float(shared_variance(wide) ** 0.5 * _further(freedom))
    return [found[one[:-1] if keys else ()] for one in index]


def _further(freedom: Any) -> Any:
    return student(freedom) / student(np.inf)


def _errors(frame: pd.DataFrame, by_number: list[str]) -> dict[str, pd.Series]:
    """Errors, images and runs of the mean of each number.

    Rows of other sets have other images: their errors are the root of the summed squares over their
    number. All other rows have the same images, and all rows the same seeds.
    """
    columns = [name for name in KEPT if name in frame]
    sets = frame.groupby([*by_number, "_set"])[columns].mean()
    key = by_number or (lambda _: 0)
    many, found = sets.groupby(key).size(), {}
    for name in columns:
        of = sets[name].groupby(key)
        if name == "error":
            found[name] = (sets[name] ** 2).groupby(key).sum(min_count=1) ** 0.5 / many
        else:
            found[name] = {"std": of.mean, "images": of.sum, "runs": of.min}[name]()
    return found


def _plain(found: pd.DataFrame) -> pd.DataFrame:
    """Groups as columns; the one group of all rows has none."""
    return found.reset_index(drop=found.index.name is None and found.index.nlevels == 1)


def wide(rows: pd.DataFrame, column: str, of: str) -> pd.DataFrame:
    """The values of a column as columns that hold `of`, averaged over what floats tell apart."""
    floats = rows.select_dtypes("float").columns
    index = [name for name in rows if name not in (*floats, column)]
    found = rows.groupby([*index, column])[of].mean().unstack(column).reset_index()
    found.attrs = rows.attrs | {"of": of}
    return found


def _slope(values: pd.Series) -> float:
    """Change of a least-squares line from the first to the last place, which is the index."""
    at = values.index.to_numpy(float)
    if len(at) < 3:
        raise Lacking(f"{len(at)} places: a trend needs at least 3")
    centred = at - at.mean()
    return float(values.to_numpy() @ centred / (centred @ centred) * (at.max() - at.min()))


# By how much two kinds are apart: their smallest difference, in the better order; and a trend.
TOGETHER: dict[str, Callable[[pd.Series], float]] = {
    "apart": lambda values: max(values.min(), -values.max()),
    "slope": _slope,
}
