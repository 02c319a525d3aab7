"""Where the evidence of a claim is: the notebook cells that carry its id as a tag."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import nbformat
import pandas as pd

from relevit.base.files import project_root

CLAIM = re.compile(r"(RV|BI|IAV)-\d\d")
PAGE = "executed.html"  # nbconvert's page of a run, beside its executed.ipynb


class Cell(NamedTuple):
    """A cell of a notebook, by the notebook's name and the cell's id."""

    notebook: str
    id: str

    def link(self) -> str:
        """Address of the cell's output in the stage's page, relative to the preset's folder.

        The anchor is the one that nbconvert's HTML templates write for a cell with an id.
        """
        return f"{self.notebook}/{PAGE}#cell-id={self.id}"


def evidence_cells(notebooks: Path | None = None) -> dict[str, list[Cell]]:
    """The tagged cells of each claim, in the order of the notebooks and cells.

    `notebooks` is their folder; without it the project's.
    Raises: FileNotFoundError without notebooks.
    """
    notebooks = notebooks or project_root() / "notebooks"
    paths = sorted(notebooks.glob("*.ipynb"))
    if not paths:
        raise FileNotFoundError(
            f"evidence_cells: no notebooks in {notebooks}; give the project's notebooks folder"
        )
    found: dict[str, list[Cell]] = {}
    for path in paths:
        for cell in nbformat.read(path, as_version=4).cells:
            for claim in filter(CLAIM.fullmatch, cell.metadata.get("tags", [])):
                found.setdefault(claim, []).append(Cell(path.stem, cell.id))
    return found


def linked_table(table: pd.DataFrame, cells: Mapping[str, list[Cell]]) -> str:
    """`claims.verdict_table` as HTML, with a link to each cell that shows the evidence.

    Links are relative to `outputs/<preset>/report.html`.
    """
    rows = table.assign(evidence=[_links(cells.get(claim, [])) for claim in table["id"]])
    rows["verdict"] = [_coloured(verdict) for verdict in rows["verdict"]]
    for column in ("claim", "criterion", "number", "reason"):
        rows[column] = rows[column].map(html.escape)
    first = ["id", "evidence", "verdict", "number", "claim", "criterion", "reason"]
    page = rows[first].to_html(index=False, escape=False, border=0, classes="claims")
    return f"<style>{_STYLE}</style>{page}"


def folded(title: str, table: pd.DataFrame) -> str:
    """A large table as HTML that opens on a click."""
    inner = f'<div style="overflow-x: auto">{table.to_html(border=0)}</div>'
    return f"<details><summary>{html.escape(title)}</summary>{inner}</details>"


def _links(cells: list[Cell]) -> str:
    """One link a cell; further cells of the same notebook are numbered."""
    texts, seen = [], Counter()
    for cell in cells:
        seen[cell.notebook] += 1
        count = seen[cell.notebook]
        name = cell.notebook if count == 1 else f"{cell.notebook} ({count})"
        texts.append(f'<a href="{html.escape(cell.link())}">{name}</a>')
    return "<br>".join(texts)


# The pages' own style aligns to the right and lets a table grow beyond the page. Columns: id,
# evidence, verdict; then number, claim, criterion and reason, which share what is left.
_STYLE = (
    ".claims {table-layout: fixed; width: 100%} "
    ".claims th, .claims td {text-align: left !important; vertical-align: top} "
    ".claims th:nth-child(1) {width: 4em} "
    ".claims th:nth-child(2) {width: 9em} "
    ".claims th:nth-child(3) {width: 9em} "
    ".claims td:nth-child(-n+2) {white-space: nowrap} "
    ".claims td:nth-child(n+4) {overflow-wrap: anywhere; white-space: normal}"
)
# Colours that are told apart in print too: dark, middle and light.
_COLOURS = {"holds": "#1b7f4b", "fails": "#b3261e", "not testable here": "#6b7280"}


def _coloured(verdict: str) -> str:
    return f'<span style="color: {_COLOURS[verdict]}; white-space: nowrap">{verdict}</span>'
