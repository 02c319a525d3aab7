"""One evaluator for all claims: intervals of numbers against lines.

**The rule.** Each number of a criterion has a 95 % interval over seeds and images, which is held
against the number's line.

- *holds*: of every number the whole interval is on the right side of its line.
- *contradicted*: of some number the whole interval is on the wrong side.
- *undecided*: the line is within an interval; or there is none, because of one seed alone.
- *no room*: what the claim takes for granted is not so here, so that there is nothing to see.
- *not testable*: a table, a model, a run or images that the claim needs are not there.

**The interval.** That of `relevit.evaluate.intervals`, of the seeds' means and of an error over
images. Where a table does not tell what images add to the seeds, its error is that of one run,
which is on the safe side; where it has none, the least that a change of accuracy over so many
images can have. Images are taken as other ones in a difference, which is on the safe side, too.
Each interval stands for itself: with many numbers one may miss its line by luck, and what missed
is named.

A number without any error, a count or a yes or no, can be on its side, and contradicts nothing.
*Not above* and *not below* are for criteria whose words deny a clear difference: the interval is
not wholly there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from relevit.evaluate.intervals import interval, shared_variance
from reproduction.claims.criteria import FILE, Book, Claim, Row, criteria
from reproduction.measures.robustness import ORIGINAL

HOLDS, CONTRADICTED, UNDECIDED = "holds", "contradicted", "undecided"
NO_ROOM, NOT_TESTABLE = "no room", "not testable"
NOTHING = "nothing here"  # would decide it
VERDICTS = (HOLDS, CONTRADICTED, UNDECIDED, NO_ROOM, NOT_TESTABLE)
EPS = 1e-9  # below any real change, above rounding
SHOWN = 6  # numbers of a claim in a table

Outcome = Literal["holds", "contradicted", "undecided", "no room", "not testable"]
Tables = Mapping[str, pd.DataFrame]


class Lacking(Exception):
    """What a claim needs is not in the tables: not testable; `needs` would decide it."""

    def __init__(self, reason: str, needs: str = NOTHING) -> None:
        super().__init__(reason)
        self.needs = needs


class Part(NamedTuple):
    """One number with its 95 % interval, and the line that it is held against.

    `known` is False for a number without any error. `group` are the values of the columns `by`.
    `std` is over the runs, `error` over images; NaN where none is.
    """

    name: str
    value: float
    low: float
    high: float
    side: str
    line: float
    known: bool = True
    group: Mapping[str, object] = {}
    std: float = math.nan
    runs: int = 0
    error: float = math.nan

    @property
    def met(self) -> bool:
        """Whether the whole interval is on the right side."""
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
        return f"{text}, {self.side} {'±' * (self.side == 'within')}{self.line:g}"


@dataclass(frozen=True)
class Verdict:
    """What our runs say about one claim, by the numbers that decided."""

    id: str
    verdict: Outcome
    reason: str
    parts: Sequence[Part] = field(default=())
    criterion: str = ""
    stand_ins: Sequence[str] = ()
    needs: str = NOTHING  # where it is not testable

    @property
    def number(self) -> str:
        """The numbers with their intervals and lines, those that missed first."""
        ranked = sorted(self.parts, key=lambda one: (not one.against, one.met))
        more = f"; and {len(ranked) - SHOWN} more" if len(ranked) > SHOWN else ""
        return "; ".join(str(one) for one in ranked[:SHOWN]) + more


def judge(tables: Tables, only: Sequence[str] = ()) -> list[Verdict]:
    """Judge the claims, in the order of the file; `only` are ids, or what ids begin with.

    `tables` are result tables by `stage/stem`. What needs one that is not there is 'not testable'.
    Raises: ValueError for a row that names no column of its table, with what there is.
    """
    book = criteria()
    chosen = {id: claim for id, claim in book.claims.items() if id.startswith(tuple(only) or "")}
    return [judge_claim(id, claim, tables, book) for id, claim in chosen.items()]


def judge_claim(id: str, claim: Claim, tables: Tables, book: Book) -> Verdict:
    """The verdict on one claim. Raises: ValueError as `judge`."""
    names = book.chosen(tables, claim)
    words = book.criterion(claim, names)
    if claim.verdict:
        return Verdict(id, claim.verdict, claim.reason, (), words)
    try:
        found = _all_parts(id, claim, tables, names)
    except Lacking as lack:
        reason = f"{claim.reason} {lack}".strip()
        needs = NOTHING if claim.reason else lack.needs
        return Verdict(id, NOT_TESTABLE, reason, (), words, needs=needs)
    verdict, reason, parts = _decide(found)
    return Verdict(id, verdict, reason, parts, words, book.stand_ins(claim, names))


def _all_parts(
    id: str, claim: Claim, tables: Tables, names: Mapping[str, object]
) -> list[tuple[str, list[Part]]]:
    found = []
    for place, row in enumerate(claim.rows, 1):
        try:
            found.append((row.kind, row_parts(row, tables, names)))
        except Lacking:
            if row.kind not in ("if run", "or needs"):
                raise
        except (NameError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(
                f"{FILE}: {id}, row {place}: {row.value!r}{_where(row, names)}: {error}; "
                f"{row.table} has the columns {list(tables[row.table].columns)}: delete the folder "
                f"of {row.stage} and run again, or mend the row"
            ) from None
    return found


def _decide(found: Iterable[tuple[str, list[Part]]]) -> tuple[Outcome, str, list[Part]]:
    """The verdict on the parts of a claim, by the rule of the module, and why."""
    parts, needs, room = [], [], []
    for kind, some in found:
        if kind == "or needs":
            needs[-1] = needs[-1] + some
        else:
            {"needs": needs, "room": room}.get(kind, parts).append(some)
    parts = [part for some in parts for part in some]
    counted = [part for part in parts if all(_granted(part, need) for need in needs)]
    if not counted and all(one.met for need in needs for one in need):
        return NOT_TESTABLE, f"what is taken for granted is of others: {_named(parts)}", parts
    if not counted:
        lack = [one for need in needs for one in need if not one.met]
        shut = any(all(n.against or not n.known for n in need if not n.met) for need in needs)
        why = f"taken for granted, and not {'so' if shut else 'shown'} here: {_named(lack)}"
        return (NO_ROOM if shut and lack else UNDECIDED), why, lack + parts
    against = [part for part in counted if part.against]
    if against:
        return CONTRADICTED, f"on the wrong side: {_named(against)}", counted
    missed = [part for part in counted if not part.met]
    if not missed:
        return HOLDS, "all on the right side", counted
    full = [one for some in room for one in some if not one.met and math.isfinite(one.low)]
    if any(_same(part, one) for part in missed for one in full):
        return NO_ROOM, f"no gain could be seen: {_named(full)}", counted
    single = any(math.isinf(part.high) for part in missed)
    alone = "; too few seeds for an interval over seeds" * single
    return UNDECIDED, f"cannot be told: {_named(missed)}{alone}", counted


def _named(parts: Iterable[Part]) -> str:
    return "; ".join(dict.fromkeys(part.name or "the number" for part in parts))


def _same(part: Part, other: Part) -> bool:
    """Whether two parts are of the same group, as far as both have its columns."""
    both = set(part.group) & set(other.group)
    return all(part.group[name] == other.group[name] for name in both)


def _granted(part: Part, need: Sequence[Part]) -> bool:
    return any(one.met for one in need if _same(part, one))


def row_parts(row: Row, tables: Tables, names: Mapping[str, object]) -> list[Part]:
    """The numbers of one row with their intervals. Raises: Lacking without what it needs."""
    if row.table not in tables:
        raise Lacking(f"no table {row.table}: run {row.stage}", f"a run of {row.stage}")
    table = tables[row.table]
    if table.empty:
        raise Lacking(f"{row.table} is empty: this preset has nothing to put there")
    left = _numbers(table, row, row.where, row.value, row.by, names)
    if row.minus or row.than:
        keys = row.against or row.by
        right = _numbers(table, row, row.minus or row.where, row.than or row.value, keys, names)
        left = _difference(left, right, row)
    keys = [name for name in _columns(left, row) if name not in row.over]
    if row.over:
        left = _taken_together(left, row, keys)
    found = _over_seeds(left, row, keys)
    if len(found) < row.parts:
        raise Lacking(f"{len(found)} of {row.parts} numbers in {row.table}{_where(row, names)}")
    return [_part(one, row, {key: one[key] for key in keys}) for one in found.to_dict("records")]


def _columns(frame: pd.DataFrame, row: Row) -> list[str]:
    """The columns that name a number, without those of the evaluator."""
    return [name for name in frame if name not in (*INNER, row.seed)]


IMAGE = ["dataset", "index"]  # what names an image, where a row is one
INNER = ("_x", "_e", "_n", "_std", "_runs", "_at")


def _numbers(
    table: pd.DataFrame,
    row: Row,
    where: str,
    value: str,
    by: Sequence[str],
    names: Mapping[str, object],
) -> pd.DataFrame:
    """One number a group and run: value, error, images; std and runs as the table has them."""
    part = _chosen(table, where, names)
    if part.empty:
        raise Lacking(f"{row.table} has no rows{_where(row, names, where)}: run it")
    if row.wide:
        part = _widened(part, *row.wide.split("="))
    keys = {name.split("=")[0]: part[name.split("=")[-1]] for name in by}
    x = part.eval(value, engine="python", local_dict=names)
    x = pd.Series(x, index=part.index).rename("_x")
    x = x if row.how == "nunique" else x.astype(float)
    if x.isna().any() or (row.how != "nunique" and not np.isfinite(x).all()):
        raise Lacking(f"{row.table} has no number for {value}{_where(row, names, where)}")
    frame = pd.DataFrame(keys, index=part.index).assign(_x=x, _at=part.index)
    if row.seed:
        frame[row.seed] = part[row.seed]
    by_number = [*keys, row.seed] if row.seed else list(keys)
    groups = frame.groupby(by_number or (lambda _: 0))
    many = groups.size()
    if many.min() < row.least:
        raise Lacking(
            f"{many.min()} rows of {row.table}{_where(row, names, where)}; at least {row.least} "
            "are needed",
            f"{row.least} rows of {row.table} (here {many.min()})",
        )
    found = pd.DataFrame({"_x": groups["_x"].agg("mean" if row.over else row.how)})
    found = found.assign(_at=groups["_at"].min(), _e=math.nan, _n=math.nan, _std=math.nan, _runs=0)
    if row.error == "sem":
        found["_e"] = _sem(frame.assign(**part.filter(IMAGE)), list(keys), row.seed, found.index)
    if row.images == "rows":
        found["_n"] = many
    texts = {"_e": row.error, "_n": row.images, "_std": row.std, "_runs": "seeds" * bool(row.std)}
    texts = {name: text for name, text in texts.items() if text not in ("", "sem", "rows")}
    if texts:
        known = {
            name: pd.Series(part.assign(x=x).eval(text, engine="python"), index=part.index)
            for name, text in texts.items()
        }
        errors = frame[by_number].assign(**known, _set=part.get("dataset", ""))
        found = found.assign(**_errors(errors.astype(dict.fromkeys(texts, float)), by_number))
    return _plain(found)


def _sem(frame: pd.DataFrame, keys: list[str], seed: str, index: pd.Index) -> list[float]:
    """Errors over images of the numbers of `index`: of seeds, what images add to their mean.

    Rows of seeds name their image by the columns IMAGE, or by `index` alone.
    """
    if not seed:
        return frame.groupby(keys or (lambda _: 0))["_x"].sem().reindex(index).tolist()
    found = {}
    for key, rows in frame.groupby(keys) if keys else [((), frame)]:
        runs = rows[seed].unique()
        sets = rows.groupby("dataset", observed=True) if "dataset" in rows else [("", rows)]
        wide = (one.pivot(index=seed, columns="index", values="_x") for _, one in sets)
        values = [one.reindex(runs).to_numpy() for one in wide]
        found[key] = float(shared_variance(values) ** 0.5)
    return [found[one[:-1] if keys else ()] for one in index]


def _errors(frame: pd.DataFrame, by_number: list[str]) -> dict[str, pd.Series]:
    """Errors, images and runs of the mean of each number.

    Rows of other sets have other images: their errors are the root of the summed squares over their
    number. All other rows have the same images, and all rows the same seeds.
    """
    columns = [name for name in INNER if name in frame]
    sets = frame.groupby([*by_number, "_set"])[columns].mean()
    key = by_number or (lambda _: 0)
    many, found = sets.groupby(key).size(), {}
    for name in columns:
        if name == "_std":
            found[name] = sets[name].groupby(key).mean()
        elif name == "_e":
            found[name] = (sets[name] ** 2).groupby(key).sum(min_count=1) ** 0.5 / many
        else:
            of = sets[name].groupby(key)
            found[name] = of.sum() if name == "_n" else of.min()
    return found


def _plain(found: pd.DataFrame) -> pd.DataFrame:
    """Groups as columns; the one group of all rows has none."""
    return found.reset_index(drop=found.index.name is None and found.index.nlevels == 1)


def _widened(part: pd.DataFrame, column: str, of: str) -> pd.DataFrame:
    """The values of a column as columns that hold `of`, averaged over what floats tell apart."""
    floats = part.select_dtypes("float").columns
    index = [name for name in part if name not in (*floats, column)]
    return part.groupby([*index, column])[of].mean().unstack(column).reset_index()


def _chosen(table: pd.DataFrame, where: str, names: Mapping[str, object]) -> pd.DataFrame:
    table = table.reset_index(drop=True)
    for query in filter(None, map(str.strip, where.split(";"))):
        table = table.query(query, engine="python", local_dict=names)
    return table


def _where(row: Row, names: Mapping[str, object], where: str | None = None) -> str:
    text = row.where if where is None else where
    for name in sorted(names, key=len, reverse=True):
        one = names[name]
        text = text.replace(f"@{name}", repr(one) if isinstance(one, str) else str(list(one)))
    return f" where {text}" if text else ""


def _difference(left: pd.DataFrame, right: pd.DataFrame, row: Row) -> pd.DataFrame:
    """Left minus right, run by run; the one original is compared with each run."""
    if row.seed and set(right[row.seed]) == {ORIGINAL}:
        right = right.drop(columns=row.seed)
    keys = [name for name in left if name in right and name not in INNER]
    how = {"on": keys} if keys else {"how": "cross"}
    both = left.merge(right, suffixes=("", "_r"), **how)
    both = both[(both["_at"] != both["_at_r"]) | bool(row.than or row.wide)]
    if both.empty:
        raise Lacking(f"{row.table}: nothing to compare, no {' and '.join(keys)} is in both")
    f = row.factor
    root = {
        name: np.sqrt(
            both[[name, f"{name}_r"]].pow(2).mul([1, f**2]).sum(axis=1, min_count=1).astype(float)
        )
        for name in ("_e", "_std")
    }
    both = both.assign(
        _x=both["_x"] - f * both["_x_r"],
        _n=both[["_n", "_n_r"]].min(axis=1),
        _runs=both[["_runs", "_runs_r"]].min(axis=1),
        **root,
    )
    return both[[name for name in both if not name.endswith("_r")]]


def _slope(values: pd.Series) -> float:
    """Change of a least-squares line from the first to the last place, which is the index."""
    at = values.index.to_numpy(float)
    if len(at) < 3:
        raise Lacking(f"{len(at)} places: a trend needs at least 3", f"3 places (here {len(at)})")
    centred = at - at.mean()
    return float(values.to_numpy() @ centred / (centred @ centred) * (at.max() - at.min()))


# By how much two kinds are apart: their smallest difference, in the better order; and how far the
# one that is furthest from 0 is.
OWN: dict[str, Callable[[pd.Series], float]] = {
    "apart": lambda values: max(values.min(), -values.max()),
    "furthest": lambda values: float(values.abs().max()),
    "slope": _slope,
}


def _taken_together(numbers: pd.DataFrame, row: Row, keys: list[str]) -> pd.DataFrame:
    """One number of those that differ in `over` alone; they see the same images."""
    numbers = numbers.set_index(row.over[0])
    groups = numbers.groupby([*keys, row.seed] if row.seed else keys or (lambda _: 0))
    columns = {"_x": groups["_x"].agg(OWN.get(row.how, row.how))}
    columns |= {name: groups[name].mean() for name in ("_e", "_std")}
    columns |= {name: groups[name].min() for name in ("_n", "_runs", "_at")}
    return _plain(pd.DataFrame(columns))


def _over_seeds(numbers: pd.DataFrame, row: Row, keys: list[str]) -> pd.DataFrame:
    if not row.seed:
        return numbers
    groups = numbers.groupby(keys or (lambda _: 0), sort=False)
    columns = {name: groups[name].mean() for name in ("_x", "_e", "_n")}
    columns |= {"_std": groups["_x"].std(), "_runs": groups["_x"].size()}
    return _plain(pd.DataFrame(columns))


def _part(one: Mapping[str, float], row: Row, group: Mapping[str, object]) -> Part:
    """The interval of a number, by the rule of the module."""
    x, error, runs = float(one["_x"]), float(one["_e"]), int(one["_runs"])
    if math.isnan(error) and not math.isnan(one["_n"]):
        error = least_error(max(abs(x), abs(row.line)), one["_n"])
    images = 0.0 if math.isnan(error) else error**2
    if not (row.seed or row.std):
        low, high = interval(x, images=images).tolist()
    elif runs < max(2, row.runs):
        low, high = -math.inf, math.inf
    else:
        seeds = one["_std"] ** 2 / runs
        low, high = interval(x, seeds=seeds, freedom=runs - 1, images=images).tolist()
    words = " ".join(filter(None, (row.name, *map(str, group.values()))))
    known = high - low > 2 * EPS or row.error == "0"
    about = {"std": float(one["_std"]), "runs": runs, "error": error}
    return Part(words, x, low, high, row.side, row.line, known, group, **about)


def least_error(change_pts: float, images: float) -> float:
    """The least standard error over images that a change of accuracy can have, in points.

    It has this one where no answer changed the other way.
    """
    size = min(abs(change_pts), 100.0)
    return math.sqrt(size * (100.0 - size) / images)
