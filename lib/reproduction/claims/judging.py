"""A claim is a function of a run's tables, and one rule gives all verdicts.

Its docstring is the criterion, its body yields the numbers that decide (`claims.numbers`). Each has
a 95 % interval over seeds and images, which is held against the number's line.

- *holds*: of every number the whole interval is on the right side of its line.
- *contradicted*: of some number the whole interval is on the wrong side.
- *no difference*: of each number that is not on its side the whole interval is within `d` of its
  line. That is what the paper's own tables have there, in the mean over its models, or else one
  point; a criterion says which.
- *undecided*: the line is within an interval; or there is none, because of one seed alone.
- *no room*: what the claim takes for granted is not so here, so that there is nothing to see.
- *not testable*: a table, a model, a run or images that the claim needs are not there, or no run
  could tell.

Each interval stands for itself: with many numbers one may miss its line by luck, and what missed is
named.

**The method.** A claim about RobustViT's method is judged by runs with the class term of its Eq. 4,
the model's own answer. Where a preset finetunes with another one, these are the runs of the arm
PUBLISHED of 03_robustness, and what the same criterion says of the preset's own runs stands beside
it, as `ours`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import getdoc

import pandas as pd

from reproduction.claims.numbers import LEVEL, Lacking, Number

HOLDS, CONTRADICTED, SAME = "holds", "contradicted", "no difference"
UNDECIDED, NO_ROOM, NOT_TESTABLE = "undecided", "no room", "not testable"
VERDICTS = (HOLDS, CONTRADICTED, SAME, UNDECIDED, NO_ROOM, NOT_TESTABLE)
SHOWN = 6  # numbers of a claim in a table
MOST = 100  # times the seeds or images: beyond that nothing here decides a number
FEWEST = 3  # seeds of an interval that is worth something
DECIDED, NOTHING = "decided", "nothing here"
PAPERS = {"RV": "RobustViT", "BI": "Beyond Intuition", "IAV": "IAV"}  # by how ids begin
OURS, PUBLISHED = "ours", "published"  # arms of 03_robustness: the preset's own, and the paper's
OF_ARMS = ("03_robustness", "03a_robustness")  # stages whose tables may have a column `arm`
FINETUNED = ("02_finetune", *OF_ARMS, "04a_cures", "05_ablations", "07a_segmentation")
NO_RUN = "no run has the class term of Eq. 4; see what ours say"

Tables = Mapping[str, pd.DataFrame]
Yielded = Iterator[list[Number]]


class Seen:
    """Result tables by `stage/stem`, as far as they are of one arm; it keeps what was read.

    Tables of finetuned models (FINETUNED) that do not tell arms apart are of OURS alone. Where a
    table has all models of `instead`, and none of the paper's, they are read as those.
    """

    def __init__(
        self, tables: Tables, arm: str = OURS, instead: Mapping[str, str] | None = None
    ) -> None:
        self._tables, self._arm, self._instead = tables, arm, instead or {}
        self.stages: set[str] = set()
        self.stand_ins: list[str] = []
        self.renamed: dict[str, str] = {}  # the paper's models with those that were read as them
        self._theirs = False  # whether a table has one of the paper's

    def table(self, name: str) -> pd.DataFrame:
        """A whole table. Raises: Lacking where it is not there, or empty."""
        self.stages.add(name.split("/")[0])
        if name not in self._tables:
            raise Lacking(f"no table {name}: run {name.split('/')[0]}")
        table, stage = self._tables[name], name.split("/")[0]
        if stage in OF_ARMS and "arm" in table:
            table = table[table["arm"] == self._arm].drop(columns="arm")
        elif self._arm != OURS and stage in FINETUNED:
            raise Lacking(f"{name}: {NO_RUN}")
        if table.empty:
            raise Lacking(f"{name} is empty: this preset has nothing to put there")
        return self._renamed(table.reset_index(drop=True))

    def _renamed(self, table: pd.DataFrame) -> pd.DataFrame:
        there = set(table["model"]) if "model" in table else set()
        theirs = there & {*self._instead.values()}
        self._theirs = self._theirs or bool(theirs)
        if theirs or not self._instead.keys() <= there or not self._instead:
            return self._unmixed(table)
        told = (f"{own} for {of}" for own, of in self._instead.items())
        self.stand_ins += [text for text in told if text not in self.stand_ins]
        self.renamed |= {of: own for own, of in self._instead.items()}
        columns = table.columns.intersection(["model", "other"])
        read = {name: table[name].astype(str).replace(dict(self._instead)) for name in columns}
        return self._unmixed(table.assign(**read))

    def _unmixed(self, table: pd.DataFrame) -> pd.DataFrame:
        if self._theirs and self.renamed:
            raise Lacking(
                "Some tables are of the paper's models, others of what stands in for them."
            )
        return table

    def rows(self, name: str, *queries: str) -> pd.DataFrame:
        """Rows of a table by queries of pandas, one after the other. Raises: Lacking for none."""
        table = self.table(name)
        for query in filter(None, queries):
            table = table.query(query, engine="python")
        if table.empty:
            raise Lacking(f"{name} has no rows where {'; '.join(filter(None, queries))}: run it")
        table.attrs["table"] = name
        return table

    def has(self, name: str, *queries: str) -> bool:
        """Whether a table has such rows."""
        try:
            return not self.rows(name, *queries).empty
        except Lacking:
            return False

    def first(self, column: str, names: Sequence[str], of: str, *tables: str) -> str:
        """The first name that is in a column of each of these tables that has it, else the last.

        All but the first stand in for what the paper has, `of`, which is told.
        """
        there = [self._tables[name] for name in tables if name in self._tables]
        known = [set(map(str, table[column])) for table in there if column in table]
        found = next((n for n in names if known and all(n in one for one in known)), names[-1])
        if of and found != names[0]:
            self.stand_ins.append(f"{found} for {of}")
        return found


@dataclass(frozen=True)
class Claim:
    """A function with its docstring, or the reason why no run can decide."""

    id: str
    function: Callable[[Seen], Yielded]
    method: bool = False
    reason: str = ""
    instead: Mapping[str, str] = field(default_factory=dict)

    @property
    def criterion(self) -> str:
        """The words of the docstring."""
        return " ".join((getdoc(self.function) or "").split())


@dataclass(frozen=True)
class Verdict:
    """What our runs say about one claim, by the numbers that decided."""

    id: str
    verdict: str
    reason: str
    parts: Sequence[Number] = field(default=())
    criterion: str = ""
    stages: Sequence[str] = ()
    stand_ins: Sequence[str] = ()
    ours: str = ""  # the verdict on the preset's own runs, where these are not the method's

    @property
    def ranked(self) -> list[Number]:
        """The numbers, those that missed first."""
        return sorted(self.parts, key=lambda one: (not one.against, one.met))

    @property
    def number(self) -> str:
        """The numbers with their intervals and lines, as ranked."""
        more = f"; and {len(self.parts) - SHOWN} more" if len(self.parts) > SHOWN else ""
        return "; ".join(str(one) for one in self.ranked[:SHOWN]) + more

    @property
    def decides(self) -> str:
        """How many seeds, or times the seeds and images, would decide it.

        An interval shrinks as 1 / sqrt(n) if all else stays as it is. One number on the wrong side
        is enough to contradict, so the cheapest counts; where there is none, all have to come off
        their lines.
        """
        if self.verdict != UNDECIDED:
            return NOTHING if self.verdict in (NO_ROOM, NOT_TESTABLE) else DECIDED
        missed = [one for one in self.parts if not (one.met or one.against)]
        wrong = [one for one in missed if one.ahead < 0]
        open_ = [one for one in wrong or missed if one.known]
        if not open_:
            return f"{NOTHING}: {missed[0].name or 'the number'} has no interval"
        few = [one.runs for one in open_ if math.isinf(one.high)]
        times = [((n.high - n.low) / 2 / n.ahead) ** 2 for n in open_ if n.ahead and not few]
        if few:
            return f"{FEWEST} seeds or more (here {few[0]})"
        least = min(times, default=math.inf) if wrong else max(times, default=math.inf)
        if least > MOST or (not wrong and len(times) < len(open_)):
            return f"{NOTHING}: a number is too near its line"
        return f"about {max(least, 1.1):.{least < 10:d}f} times the seeds and images"


CLAIMS: dict[str, Claim] = {}


def claim(
    id: str, *, method: bool = False, reason: str = "", instead: Mapping[str, str] | None = None
) -> Callable:
    """Make a function the claim of this id. `reason`: why nothing stands in for what it names.

    `method`: it is said of RobustViT's method, which has the class term of its Eq. 4. `instead`:
    models of ours, with those of the paper that they stand in for.
    """

    def enter(function: Callable[[Seen], Yielded]) -> Callable[[Seen], Yielded]:
        CLAIMS[id] = Claim(id, function, method, reason, instead or {})
        return function

    return enter


def judge(
    tables: Tables, only: Sequence[str] = (), *, own_terms: bool = False, level: float = LEVEL
) -> list[Verdict]:
    """Judge the claims, in the order of the papers; `only` are ids, or what ids begin with.

    `tables` are result tables by `stage/stem`. `own_terms`: the preset finetunes with a class term
    of its own, and not with that of Eq. 4. `level` is that of the intervals.
    Raises: ValueError for a table whose columns are others than a claim needs.
    """
    found = []
    for one in sorted(CLAIMS.values(), key=lambda one: [*PAPERS].index(one.id.split("-")[0])):
        if one.id.startswith(tuple(only) or ""):
            verdict = judged(one, tables, level=level)
            if one.method and own_terms:
                ours = f"{verdict.verdict}: {verdict.number or verdict.reason}"
                verdict = replace(judged(one, tables, PUBLISHED, level), ours=ours)
            found.append(verdict)
    return found


def judged(one: Claim, tables: Tables, arm: str = OURS, level: float = LEVEL) -> Verdict:
    """The verdict on one claim by the runs of an arm. Raises: ValueError as `judge`."""
    seen = Seen(tables, arm, one.instead)
    try:
        found = _decide(
            [[_told(part.at(level), seen.renamed) for part in some] for some in one.function(seen)]
        )
    except Lacking as lack:
        seen.stand_ins.clear()
        found = NOT_TESTABLE, f"{one.reason} {lack}".strip(), []
    except (NameError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(
            f"{one.id}: {error}; a table has other columns than it needs: delete the folder of "
            f"{' and '.join(sorted(seen.stages))}, and run again"
        ) from None
    return Verdict(one.id, *found, one.criterion, sorted(seen.stages), seen.stand_ins)


def _decide(found: Iterable[list[Number]]) -> tuple[str, str, list[Number]]:
    """The verdict on the numbers of a claim, by the rule of the module, and why."""
    parts, needs, room = [], [], []
    for some in filter(None, found):
        {"needs": needs, "room": room}.get(some[0].role, parts).append(some)
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
    if all(part.small for part in missed):
        return SAME, f"within d of the line: {_named(missed)}", counted
    single = any(math.isinf(part.high) for part in missed)
    alone = "; too few seeds for an interval over seeds" * single
    return UNDECIDED, f"cannot be told: {_named(missed)}{alone}", counted


def by_own(name: str, renamed: Mapping[str, str]) -> str:
    """The name of a number with our models for those of the paper, the keys of `renamed`."""
    for of, own in renamed.items():
        name = name.replace(of, own)
    return name


def _told(part: Number, renamed: Mapping[str, str]) -> Number:
    """A number whose name has the models that were run, and not those that they stand in for."""
    return part._replace(name=by_own(part.name, renamed))


def _named(parts: Iterable[Number]) -> str:
    return "; ".join(dict.fromkeys(part.name or "the number" for part in parts))


def _same(part: Number, other: Number) -> bool:
    """Whether two numbers are of the same group, as far as both have its columns."""
    both = set(part.group) & set(other.group)
    return all(part.group[name] == other.group[name] for name in both)


def _granted(part: Number, need: Sequence[Number]) -> bool:
    return any(one.met for one in need if _same(part, one))
