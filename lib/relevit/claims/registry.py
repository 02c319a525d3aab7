"""The registry of claims, and how each is judged on the tables that the stages save.

A claim is one function: its id and the tables that it reads stand in the decorator, its criterion,
which was written before any run, is the docstring, and the body judges:

    @claim("RV-42", "ablations")
    def without_labels(given: Given) -> Finding:
        \"\"\"Explaining the predicted class instead of the label, the {_GAIN} is above 0.\"\"\"

`claim` is that of a `Subject`: claims on the same models. Criteria name constants of their module,
`{SLIGHT_PTS:g}`, and models by their role, `{dino}`; what a role is called depends on the tables.
The claim's sentence, its source and what the paper's own tables say of it are data:
`assets/paper/claims.csv`.

Verdicts, which `decide` alone gives:

- *holds*: every part of the criterion is met.
- *contradicted*: the runs could show it, and some part lies on the other side of its line by more
  than chance: CHANCE_ERRORS of its errors, and more where many parts are looked at.
- *no room*: what the claim takes for granted is not so here (no gain that could be lost, say), or
  the test cannot tell: a part is missed by no more than chance, or no error of it is known, or,
  where the criterion says so, its error is so large that being met says nothing.
- *not testable*: a table, a run, a model or images that the claim needs are not there.
- *open*: a stage of a run that still goes on has not landed.

A line is the criterion's threshold without its spread. The error is the standard deviation over
seeds or the standard error over images, whichever the rule has; the larger where it has both. A
standard deviation over few seeds is itself uncertain, so that more of it is needed: by Student's t.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import norm, t

from relevit.base.errors import NotYetError
from relevit.base.results import read_table
from relevit.data.benchmark import Benchmark
from relevit.data.habitats import habitats
from relevit.models.registry import CUT, PAPER_MODELS
from relevit.paper import published as paper

HOLDS, CONTRADICTED, NO_ROOM, NOT_TESTABLE = "holds", "contradicted", "no room", "not testable"
OPEN = "open"  # in a report on a run that still goes on
VERDICTS = (HOLDS, CONTRADICTED, NO_ROOM, NOT_TESTABLE, OPEN)
# A miss by fewer errors is chance. With a standard error over images one part of one claim is so
# far off by luck one time in 44; `errors_needed` makes it as rare with few seeds and many parts.
CHANCE_ERRORS = 2.0
# Runs below which there is no spread, so nothing is decided. RV-21, one seed a rate, is excepted.
MIN_SEEDS = 2
EPS = 1e-9  # points; below any real change, above rounding

Outcome = Literal["holds", "contradicted", "no room", "not testable", "open"]


class Lacking(Exception):
    """What a claim needs is not in the tables: not testable."""


class NoRoom(Exception):
    """The tables are there, and what they hold cannot tell: no room."""


class Part(NamedTuple):
    """One part of a criterion, as truthful as it is met.

    `met` is None where that cannot be said, the error being too large. `margin` is by how much the
    number lies on the right side of its line, below 0 on the wrong one; `error` is the margin's,
    in the same unit. It is NaN where the rule has none. An error of 0 is none: seeds that agree on
    a few images say nothing of how far other images would be. `looks` is of how many numbers this
    one is the worst. `seeds` is how many runs the error is a standard deviation of, 0 where it is a
    standard error over images.
    """

    met: bool | None
    margin: float = math.nan
    error: float = math.nan
    looks: int = 1
    seeds: int = 0

    def __bool__(self) -> bool:
        return bool(self.met)

    @property
    def judged(self) -> bool:
        """Whether an error is known."""
        return self.error > EPS

    @property
    def errors(self) -> float:
        """How many errors the number lies on the right side of its line; NaN without an error."""
        return self.margin / self.error if self.judged else math.nan

    def beyond_chance(self, looks: int = 0) -> bool:
        """Whether it lies on the wrong side by more than chance, among so many numbers."""
        return self.errors < -errors_needed(looks or self.looks, self.seeds)


def part(margin: float, error: float = math.nan, met: bool | None = None, seeds: int = 0) -> Part:
    """A part that is met where its margin is above 0, unless `met` says otherwise."""
    met = bool(margin > EPS) if met is None else bool(met)
    return Part(met, float(margin), float(error), seeds=seeds)


def every(parts: Iterable[Part]) -> Part:
    """Several parts as one: met where all are, with the margin of the one that is worst."""
    parts = list(parts)
    judged = [one for one in parts if one.judged]
    worst = min(judged, key=lambda one: one.errors) if judged else Part(None)
    unknown = None if any(one.met is None for one in parts) else True
    missed = any(one.met is not None and not one.met for one in parts)
    looks = sum(one.looks for one in judged)
    return worst._replace(met=False if missed else unknown, looks=max(1, looks))


class Finding(NamedTuple):
    """What a rule says.

    `number` is in percentage points unless it names another unit: mean ± std over seeds, or
    ± standard error over images where there are none.
    """

    verdict: Outcome
    number: str
    reason: str


@dataclass(frozen=True)
class Verdict:
    """What our runs say about one claim, by the criterion that it was judged by."""

    id: str
    verdict: Outcome
    number: str
    reason: str
    criterion: str = ""


@dataclass(frozen=True)
class Table:
    """A result table as a stage saves it, in `<notebook>/<file>.parquet`.

    `keys` are the columns that name a row, `numbers` those that hold finite numbers, `masked`
    those whose numbers may be NaN, say for an image without a mask. `large` ones have millions
    of rows, which are found faster where texts are categories.
    """

    name: str
    notebook: str
    keys: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    masked: tuple[str, ...] = ()
    file: str = ""
    large: bool = False

    @property
    def path(self) -> Path:
        """Where it lies in the preset's folder of results."""
        return Path(self.notebook) / f"{self.file or self.name}.parquet"


class ResultTables(dict[str, pd.DataFrame]):
    """Tables that can be judged, by name; `reasons` says of others what they lack.

    `waiting` are those whose stages are still to come, in a report on a run that goes on.
    """

    def __init__(
        self,
        tables: Mapping[str, pd.DataFrame],
        reasons: Mapping[str, str] = MappingProxyType({}),
        waiting: Iterable[str] = (),
    ) -> None:
        super().__init__(tables)
        self.reasons, self.waiting = dict(reasons), frozenset(waiting)

    def __missing__(self, name: str) -> pd.DataFrame:
        raise Lacking(self.lacking([name]))

    def lacking(self, names: Iterable[str]) -> str:
        """Why some of these tables cannot be judged; empty where all can. Raises: NotYetError."""
        names = list(names)
        if later := {TABLES[name].notebook for name in names if name in self.waiting}:
            raise NotYetError(f"{' and '.join(sorted(later))} has no results yet")
        reasons = [self.reasons[name] for name in names if name in self.reasons]
        absent = [name for name in names if name not in self and name not in self.reasons]
        if absent:
            reasons.append(f"no table {' and no '.join(absent)}: run the notebook that writes it")
        return "; ".join(reasons)


@dataclass(frozen=True)
class Given:
    """What a rule judges: tables by name, the models in their roles, the preset's images.

    `given["ablations"]` raises Lacking without that table.
    """

    tables: ResultTables
    models: SimpleNamespace
    bench: Benchmark

    def __getitem__(self, name: str) -> pd.DataFrame:
        return self.tables[name]

    def __contains__(self, name: str) -> bool:
        return name in self.tables


Rule = Callable[[Given], Finding]


@dataclass(frozen=True)
class Claim:
    """A claim of a paper: criterion, the tables it needs, those it reads where they are, rule."""

    id: str
    criterion: str
    tables: tuple[str, ...]
    also: tuple[str, ...]
    on_imagenet: str
    rule: Rule
    subject: Subject

    def judge(self, given: Given) -> Verdict:
        """The verdict; 'not testable' where something lacks, 'open' where it is to come."""
        try:
            given.tables.lacking(self.also)  # they would change the verdict
            missing = given.tables.lacking(self.tables)
            finding = not_testable(missing) if missing else self.rule(given)
        except Lacking as reason:
            finding = not_testable(str(reason))
        except NoRoom as reason:
            finding = no_room(str(reason))
        except NotYetError as reason:
            finding = Finding(OPEN, "", str(reason))
        real = self.on_imagenet and given.bench.of_the_papers
        criterion = self.on_imagenet if real else self.criterion
        fields = self.subject.fields(given.models, given.bench)
        return Verdict(self.id, *finding, criterion.format(**fields))


class _Constants(dict[str, object]):
    """Constants for `str.format_map`; roles, which are not among them, stay fields."""

    def __missing__(self, name: str) -> str:
        return f"{{{name}}}"


CLAIMS: dict[str, Claim] = {}
# What pandas calls the kinds of a column.
NUMBERS = ("integer", "floating", "mixed-integer-float", "boolean")
NAMES = ("string", "categorical", *NUMBERS)
TABLES: dict[str, Table] = {}
SUBJECTS: list[Subject] = []


@dataclass(frozen=True)
class Subject:
    """Claims on the same models, and the tables that these are judged on.

    `roles` gives of each role our model, which stands in, and the paper's; `groups` name several
    roles. `notes` are sentences and clauses of criteria on stand-ins, left out where the paper's
    own models are judged; `by_images` those that differ between generated images and ImageNet.
    """

    tables: Sequence[Table]
    roles: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    by_images: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        TABLES.update({table.name: table for table in self.tables})
        SUBJECTS.append(self)

    def claim(
        self, id: str, *tables: str, also: Sequence[str] = (), on_imagenet: str = ""
    ) -> Callable[[Rule], Rule]:
        """Register the rule of a claim, whose docstring is the criterion.

        Without one of `tables` the claim is not testable; `also` are read where they are there.
        `on_imagenet` is another criterion for the data that the paper names.
        """

        def register(rule: Rule) -> Rule:
            constants = {k: v for k, v in rule.__globals__.items() if k.isupper()}
            criterion = " ".join(rule.__doc__.split()).format_map(_Constants(constants))
            CLAIMS[id] = Claim(id, criterion, tables, tuple(also), on_imagenet, rule, self)
            return rule

        return register

    def untestable(self, id: str, criterion: str, reason: str) -> None:
        """Register a claim that nothing here can decide, whatever the runs."""
        CLAIMS[id] = Claim(id, criterion, (), (), "", lambda given: not_testable(reason), self)

    def models(self, tables: Mapping[str, pd.DataFrame]) -> SimpleNamespace:
        """What the tables call the model in each role, and those of each group.

        As soon as one of them has a model of the papers, all roles are these: one that is cut
        for a rehearsal counts as the whole.
        """
        ours = [tables[table.name] for table in self.tables if table.name in tables]
        named = [table["model"].unique() for table in ours if "model" in table]
        found = {str(name) for names in named for name in names}
        names = {role: name for role, (name, _) in self.roles.items()}
        if found & set(PAPER_MODELS):
            for role, (_, name) in self.roles.items():
                cut = name not in found and name + CUT in found
                names[role] = name + CUT if cut else name
        groups = {group: tuple(names[r] for r in roles) for group, roles in self.groups.items()}
        return SimpleNamespace(**names, **groups)

    def fields(self, models: SimpleNamespace, bench: Benchmark) -> dict[str, str]:
        """What stands in criteria for `{role}`, `{note}` and what depends on the images."""
        names = {role: getattr(models, role) for role in self.roles}
        stand_in = all(names[role] == name for role, (name, _) in self.roles.items())
        notes = {key: text.format(**names) if stand_in else "" for key, text in self.notes.items()}
        images = {key: pair[bench.of_the_papers] for key, pair in self.by_images.items()}
        return names | notes | images


def judge(
    tables: Mapping[str, pd.DataFrame], bench: Benchmark | None = None, only: Sequence[str] = ()
) -> list[Verdict]:
    """Judge the claims, in the order of the papers and ids.

    `tables` has any of the names in TABLES, each with the columns given there (others are
    ignored). What needs a table, columns or rows that are not there is 'not testable', and
    the reason says what is missing. `bench` are the preset's images; None: Habitats. `only` are
    ids, or what ids begin with ('IAV'); without it all claims are judged.
    Raises: ValueError for an unknown name, a repeated row or a number that is not finite.
    """
    usable, bench = check_tables(tables, "judge"), bench or habitats()
    chosen = [CLAIMS[id] for id in sorted(CLAIMS, key=_place)]
    if only:
        chosen = [claim for claim in chosen if claim.id.startswith(tuple(only))]
    given = {id(s): Given(usable, s.models(usable), bench) for s in SUBJECTS}
    return [claim.judge(given[id(claim.subject)]) for claim in chosen]


def verdict_table(verdicts: Iterable[Verdict]) -> pd.DataFrame:
    """The verdicts for a report: id, claim, criterion, verdict, number, reason.

    Raises: ValueError for an id without a claim or a criterion.
    """
    verdicts = list(verdicts)
    texts = paper.claims().set_index("id")["claim"]
    unknown = [v.id for v in verdicts if v.id not in texts.index or v.id not in CLAIMS]
    if unknown:
        raise ValueError(
            f"verdict_table: no claim or criterion for {unknown}; ids with both are "
            f"{sorted(CLAIMS, key=_place)}: add them to claims.csv, and a rule with @claim"
        )
    return pd.DataFrame(
        [[v.id, texts[v.id], v.criterion, v.verdict, v.number, v.reason] for v in verdicts],
        columns=["id", "claim", "criterion", "verdict", "number", "reason"],
    )


def read_tables(folders: Mapping[str, Path], landed: Iterable[str] = ()) -> ResultTables:
    """The tables that the stages have written, by name. A missing file is left out.

    `folders` gives the stage folder of each notebook whose tables are wanted; where only some
    have `landed`, the tables of the others are waited for.
    """
    landed = set(landed or folders)
    paths = {
        name: folders[table.notebook] / table.path.name
        for name, table in TABLES.items()
        if table.notebook in landed & set(folders)
    }
    found = {name: read_table(path) for name, path in paths.items() if path.is_file()}
    later = set(folders) - landed
    return ResultTables(found, {}, [n for n, table in TABLES.items() if table.notebook in later])


def check_tables(tables: Mapping[str, pd.DataFrame], where: str) -> ResultTables:
    """The tables that can be judged.

    An empty table, or one without a column of TABLES, is left out with the reason: what it
    should hold may not exist in a preset.
    Raises: ValueError for an unknown name, a column of another kind, a repeated row, or a number
    that is not finite.
    """
    unknown = sorted(set(tables) - set(TABLES))
    if unknown:
        raise ValueError(f"{where}: tables {unknown} are unknown; use some of {list(TABLES)}")
    usable, reasons = {}, {}
    for name, table in tables.items():
        known = TABLES[name]
        columns = (*known.keys, *known.numbers, *known.masked)
        absent = [column for column in columns if column not in table.columns]
        if table.empty:
            reasons[name] = f"table {name} is empty: this preset has nothing to put there"
        elif absent:
            reasons[name] = f"table {name} lacks {absent}: run the notebook that writes it again"
        else:
            _check_kinds(table, known, f"{where}: {name}")
            _check_rows(table, known, f"{where}: {name}")
            usable[name] = _compact(table) if known.large else table
    return ResultTables(usable, reasons, getattr(tables, "waiting", ()))


def decide(
    parts: Mapping[str, Part | bool | None],
    number: str,
    seeds: int | None = None,
    needs: Mapping[str, Part | bool] = MappingProxyType({}),
    least: int = MIN_SEEDS,
    unknown: str = "No error is known, so this may be chance",
) -> Finding:
    """The verdict on a criterion: the one rule for all claims, see the module's text.

    `needs` is what the claim takes for granted; where that is not so, the names say, there is no
    room. `seeds` is the number of finetuned runs behind the parts, None where there are none; below
    `least` nothing is decided. A plain truth value is a part without an error; `unknown` says what
    that means where nothing but such parts is missed.
    """
    if seeds is not None and seeds < least:
        runs = f"{seeds} finetuned run{'' if seeds == 1 else 's'}"
        return not_testable(f"{runs}; at least {least} seeds are needed", number)
    absent = [name for name, met in needs.items() if not met]
    if absent:
        return no_room("; ".join(absent), number)
    found = {name: one if isinstance(one, Part) else Part(one) for name, one in parts.items()}
    missed = {name: one for name, one in found.items() if one.met is not None and not one.met}
    if missed:
        looks = sum(one.looks for one in found.values() if one.judged)
        return _missed(missed, looks, number, unknown)
    unsettled = [name for name, one in found.items() if one.met is None]
    if unsettled:
        return no_room(f"cannot be told from chance: {'; '.join(unsettled)}", number)
    return Finding(HOLDS, number, "every part is met")


def errors_needed(looks: int, seeds: int = 0) -> float:
    """By how many errors a miss is more than chance, when so many parts could be missed.

    CHANCE_ERRORS for one; for more, so many that any of them is missed by luck as rarely
    (Bonferroni, normal errors): 2.5 for four parts, 3.2 for thirty. Where the error is the standard
    deviation over so many `seeds`, mean over error is Student's t over the root of their number:
    9.9 for one part and two seeds, 2.6 for three. Never fewer than without seeds, since all seeds
    see the same images. A difference of runs that are not paired has more degrees of freedom than
    one of its models; it is judged as if it had not.
    """
    luck = norm.sf(CHANCE_ERRORS) / max(1, looks)
    least = float(norm.isf(luck))
    return least if seeds < 2 else max(least, float(t.isf(luck, seeds - 1)) / math.sqrt(seeds))


def _missed(missed: Mapping[str, Part], looks: int, number: str, unknown: str) -> Finding:
    text = f"not met: {'; '.join(missed)}"
    needed = {name: f"{errors_needed(looks, one.seeds):.1f}" for name, one in missed.items()}
    against = {name: one for name, one in missed.items() if one.beyond_chance(looks)}
    if against:
        shown = (
            f"{name}, {'at worst ' if one.looks > 1 else ''}by {-one.errors:.1f} errors "
            f"({needed[name]} needed)"
            for name, one in against.items()
        )
        return Finding(CONTRADICTED, number, f"{text}. Beyond chance: {'; '.join(shown)}")
    without = [name for name, one in missed.items() if not one.judged]
    if len(without) == len(missed):
        return no_room(f"{text}. {unknown}", number)
    bars = sorted({needed[name] for name in missed if name not in without}, key=float)
    within = f"{text}. None beyond chance ({' or '.join(bars)} errors)"
    return no_room(f"{within}; no error known: {'; '.join(without)}" if without else within, number)


def not_testable(reason: str, number: str = "") -> Finding:
    """Something that the claim needs is not there."""
    return Finding(NOT_TESTABLE, number, reason)


def no_room(reason: str, number: str = "") -> Finding:
    """The runs are there and cannot tell."""
    return Finding(NO_ROOM, number, reason)


def signed(mean: float, std: float = math.nan) -> str:
    """`+1.2 ± 0.3`, or `+1.2` without a std; a change that rounds to nothing is `+0.0`."""
    text = f"{round(mean, 1) + 0.0:+.1f}"
    return text if math.isnan(std) else f"{text} ± {std:.1f}"


def _place(id: str) -> tuple[int, str]:
    """Where a claim stands: RobustViT, Beyond Intuition, IAV."""
    return ("RV", "BI", "IAV").index(id.split("-")[0]), id


def _compact(table: pd.DataFrame) -> pd.DataFrame:
    texts = [name for name in table if not pd.api.types.is_numeric_dtype(table[name])]
    return table.astype(dict.fromkeys(texts, "category"))


def _check_kinds(table: pd.DataFrame, known: Table, where: str) -> None:
    for columns, what, kinds in (
        ((*known.numbers, *known.masked), "numbers", NUMBERS),
        (known.keys, "names or numbers", NAMES),
    ):
        for column in columns:
            kind = pd.api.types.infer_dtype(table[column])
            if kind not in kinds:
                raise ValueError(
                    f"{where} has {kind} in the column {column!r}, needs {what}; delete the folder "
                    f"of {known.notebook}, and run again to make it anew"
                )


def _check_rows(table: pd.DataFrame, known: Table, where: str) -> None:
    keys, numbers = list(known.keys), list(known.numbers)
    repeated = table.duplicated(keys) if keys else pd.Series(False, index=table.index)
    if repeated.any():
        row = table.loc[repeated, keys].iloc[0].to_dict()
        raise ValueError(f"{where} has {row} twice; one row is needed: drop or average the others")
    finite = np.isfinite(table[numbers].to_numpy(dtype=float))
    if not finite.all():
        row = table.loc[~finite.all(axis=1), keys].iloc[0].to_dict()
        raise ValueError(
            f"{where} has a number that is not finite at {row}; standard errors "
            "need at least 2 images: run more of them"
        )
