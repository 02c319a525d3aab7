"""Criteria of the claims as rows: what is compared with which line, in which table of a stage.

They stand in `assets/paper/criteria.yaml`: of each id the criterion in words, which was written
before any run, and its rows. The claims themselves are `assets/paper/claims.csv`. To add a claim,
add a line to each of the two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import pandas as pd
import yaml
from pydantic import BaseModel, ConfigDict, Field, field_validator

FILE = "criteria.yaml"
Side = Literal["above", "below", "at least", "at most", "within", "not above", "not below"]
How = Literal["mean", "median", "min", "max", "sum", "nunique", "apart", "furthest", "slope"]


class Row(BaseModel):
    """One number, or one of each group, against a line.

    The number is `value` of the rows `where`, averaged (or `how`) by the columns `by` and by run
    (`seed`), minus `factor` times `than` of the rows `minus`, taken by `against` alike: columns
    of the same name are paired, others crossed (`other=model` calls a column `other`). Of columns
    named in `over` the differences are taken together by `how`, and no group is left.

    `where` and `minus` are queries, one after the other where `;` parts them; `@name` is one of the
    file's `names` or `words`. `wide` (`column=values`) makes columns of
    the values of one. The interval over runs is of `seed`, or of the table's own `std` and
    `seeds`. That over images is of `error`, a standard error (`x` is the value, `sem` that of the
    rows), or the least one over so many `images`. Fewer than `least` rows in a group, or fewer
    than `parts` groups, cannot be tested.

    `kind`: a *part* decides; *if run* too where its table and rows are there; *needs* is taken
    for granted, of two with *or needs* one is enough; *room* says whether a gain could be seen.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["part", "if run", "needs", "or needs", "room"] = "part"
    name: str = ""
    table: str = Field(pattern=r"^\w+/\w+$")
    where: str = ""
    wide: str = Field("", pattern=r"^(\w+=\w+)?$")
    value: str
    by: tuple[str, ...] = ()
    minus: str = ""
    than: str = ""
    against: tuple[str, ...] = ()
    factor: float = 1.0
    over: tuple[str, ...] = ()
    how: How = "mean"
    seed: str = ""
    std: str = ""
    runs: int = 2
    error: str = ""
    images: str = ""
    side: Side = "above"
    line: float = 0.0
    least: int = 1
    parts: int = 1

    @field_validator("by", "against", "over", mode="before")
    @classmethod
    def _words(cls, value: object) -> object:
        return tuple(value.split()) if isinstance(value, str) else value

    @property
    def stage(self) -> str:
        """The stage that writes the table."""
        return self.table.split("/")[0]


class Claim(BaseModel):
    """What decides a claim: rows, or a verdict that no run can change, with its reason.

    Beside rows the reason says why nothing stands in for what they name, where it was not run.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    criterion: str
    rows: tuple[Row, ...] = ()
    verdict: Literal["", "not testable", "holds"] = ""
    reason: str = ""


class Choice(BaseModel):
    """A name: the first value in a column that the tables of a claim have, else the last.

    All but the first stand in for what the paper has, `of`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    column: str
    first: tuple[str, ...]
    of: str = ""


class Note(BaseModel):
    """A clause of criteria on a stand-in, left out where `name` is not our own model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    text: str


class Book(BaseModel):
    """All criteria, and the names that they use."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    names: Mapping[str, Choice]
    words: Mapping[str, str]
    notes: Mapping[str, Note]
    claims: Mapping[str, Claim]

    def chosen(self, tables: Mapping[str, pd.DataFrame], claim: Claim) -> dict[str, str]:
        """What each name stands for in the tables of a claim."""
        used = [tables[name] for name in {row.table for row in claim.rows} if name in tables]
        chosen = {}
        for name, choice in self.names.items():
            columns = [
                set(map(str, table[choice.column])) for table in used if choice.column in table
            ]
            found = (one for one in choice.first if columns and all(one in c for c in columns))
            chosen[name] = next(found, choice.first[-1])
        return chosen

    def criterion(self, claim: Claim, chosen: Mapping[str, str]) -> str:
        """The criterion of a claim in words, with the names that stand in it."""
        notes = {
            key: note.text.format(**chosen)
            if chosen[note.name] == self.names[note.name].first[-1]
            else ""
            for key, note in self.notes.items()
        }
        return claim.criterion.format(**chosen, **notes)

    def stand_ins(self, claim: Claim, chosen: Mapping[str, str]) -> list[str]:
        """`tiny for ViT-B`: what stands in for what in the rows of a claim."""
        texts = " ".join(f"{row.where} {row.minus} {row.value}" for row in claim.rows)
        used = [name for name in self.names if re.search(rf"@{name}\b", texts)]
        return [
            f"{chosen[name]} for {choice.of}"
            for name, choice in self.names.items()
            if name in used and choice.of and chosen[name] != choice.first[0]
        ]

    def tables(self, *ids: str) -> list[str]:
        """The tables, as `stage/stem`, of all claims or of those whose ids begin so."""
        chosen = [claim for id, claim in self.claims.items() if not ids or id.startswith(ids)]
        return list(dict.fromkeys(row.table for claim in chosen for row in claim.rows))


@cache
def criteria() -> Book:
    """The criteria of the package. Raises: ValidationError that names id, row and key."""
    raw = yaml.safe_load((files("reproduction") / "assets" / "paper" / FILE).read_text("utf-8"))
    raw.pop("templates")
    for claim in raw["claims"].values():
        rows = claim.get("rows", ())
        claim["rows"] = [one for row in rows for one in _spread(row, raw["words"])]
    return Book.model_validate(raw)


def _spread(row: Mapping[str, Any], words: Mapping[str, str]) -> list[dict[str, Any]]:
    """A row for each word of `each`, which takes the place of {} in its texts; `words` written."""
    row = dict(row)
    found = []
    for one in str(row.pop("each", "")).split() or [""]:
        texts = {k: v.replace("{}", one) if isinstance(v, str) else v for k, v in row.items()}
        for key in ("where", "minus", "value"):
            for _ in range(2 * (key in texts)):  # words may hold words
                texts[key] = re.sub(r"@(\w+)", lambda m: words.get(m[1], m[0]), texts[key])
        found.append(texts)
    return found
