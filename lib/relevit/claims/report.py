"""What the report shows of claims and texts: links to the evidence, tables of texts and phrases.

The evidence of a claim are the notebook cells that carry its id as a tag.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import nbformat
import pandas as pd

from relevit.base import errors
from relevit.base.files import project_root
from relevit.claims.paper_form import NOT_RUN
from relevit.claims.registry import TABLES, ResultTables, check_tables
from relevit.paper.attribution import published_perturbation

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
_COLOURS = {
    "holds": "#1b7f4b",
    "fails": "#b3261e",
    "not testable here": "#6b7280",
    "open": "#6b7280",
}


def _coloured(verdict: str) -> str:
    return f'<span style="color: {_COLOURS[verdict]}; white-space: nowrap">{verdict}</span>'


# Texts, and images with text. All take the result tables by name; a table that is missing leaves
# its part out, and `not_shown` says why.


TEXT, CLIP = "11_text", "12_clip"
SHADED = "shaded.html"  # that 11_text writes: reviews with their tokens shaded
TARGETS = {"predicted": "predicted class", "target": "label", "label": "label"}
Tables = Mapping[str, pd.DataFrame]


def not_shown(tables: Tables, notebook: str) -> str:
    """Why tables of a notebook are left out, and what to do; empty where all are there."""
    reason = _usable(tables, notebook).lacking(_names(notebook))
    if not reason:
        return ""
    absent = errors.absent()
    needs = f" It needs {' and '.join(absent)}: {errors.INSTALL}." if absent else ""
    return f"**Not all of `{notebook}` is shown**: {reason}.{needs}"


def text_overview(tables: Tables) -> pd.DataFrame:
    """By corpus and method: areas under both curves and F1, in percent ± standard error; text.

    The F1 is averaged over the numbers of tokens taken.
    """
    usable = _usable(tables, TEXT)
    parts = []
    if "text_perturbation" in usable:
        areas = usable["text_perturbation"]
        for column, value, error in (
            ("AUC", "auc_pct", "standard_error_pts"),
            ("first half", "first_half_auc_pct", "first_half_error_pts"),
        ):
            score = areas["direction"].astype(str) + " " + column
            cells = areas.assign(cell=_with_error(areas, value, error), score=score)
            parts.append(_wide(cells))
    if "text_rationales" in usable:
        keys = ["corpus", "method"]
        reasons = usable["text_rationales"].astype(dict.fromkeys(keys, str))
        means = reasons.groupby(keys, sort=False)[
            ["f1_pct", "standard_error_pts", "top_token_pct"]
        ].mean()
        f1 = _with_error(means, "f1_pct", "standard_error_pts")
        top = means["top_token_pct"].map("{:.1f}".format)
        parts.append(pd.DataFrame({"F1": f1, "highest token in the rationale (%)": top}))
    return _joined(parts)


def accuracy_overview(tables: Tables) -> pd.DataFrame:
    """Accuracy of the text classifier on held-out texts with its 95 % interval, in percent."""
    table = _usable(tables, TEXT).get("text_accuracy", pd.DataFrame())
    return table if table.empty else table.set_index("corpus").round(1)


def clip_overview(tables: Tables) -> pd.DataFrame:
    """Table 3 and our areas below it, in percent (ours ± standard error over images); text."""
    usable = _usable(tables, CLIP)
    if "clip_perturbation" not in usable:
        return pd.DataFrame()
    theirs = published_perturbation()
    theirs = theirs[theirs["table"] == "T3"]
    theirs = theirs.assign(model="CLIP (paper)", cell=theirs["auc_pct"].map("{:.1f}".format))
    ours = usable["clip_perturbation"]
    ours = ours.assign(cell=_with_error(ours, "auc_pct", "standard_error_pts"))
    keys = ["model", "method", "target", "direction"]
    both = pd.concat([part[[*keys, "cell"]].astype(str) for part in (theirs, ours)])
    both["target"] = both["target"].map(TARGETS)
    wide = both.pivot(index=keys[:2], columns=keys[2:], values="cell")
    order = both[keys[:2]].drop_duplicates().itertuples(index=False, name=None)
    columns = [(t, d) for t in dict.fromkeys(TARGETS.values()) for d in ("positive", "negative")]
    return wide.reindex(index=list(order), columns=columns).fillna(NOT_RUN)


def phrases_overview(tables: Tables) -> pd.DataFrame:
    """By model and classes, mean ± standard deviation over seeds, in percent; text.

    The zero-shot accuracy, its chance level, and of each method how often a phrase's map points
    at that phrase's own object (chance 50).
    """
    usable, keys = _usable(tables, CLIP), ["model", "classes"]
    parts = []
    if "clip_zero_shot" in usable:
        groups = usable["clip_zero_shot"].groupby(keys, observed=True, sort=False)
        parts.append(
            pd.DataFrame(
                {
                    "zero-shot": groups["accuracy_pct"].agg(_over_seeds),
                    "chance": groups["chance_pct"].mean().map("{:.1f}".format),
                }
            )
        )
    if "clip_pointing" in usable:
        groups = usable["clip_pointing"].groupby([*keys, "method"], observed=True, sort=False)
        points = groups["own_object_pct"].agg(_over_seeds).unstack("method")
        methods = usable["clip_pointing"]["method"].astype(str).unique()
        parts.append(points[methods].add_prefix("points: "))
    return _joined(parts)


def shaded_texts(folder: Path) -> str:
    """The shaded reviews that 11_text wrote into its folder, as HTML; a note without them."""
    path = folder / SHADED
    if path.is_file():
        return path.read_text(encoding="utf-8")
    return f"<p>No shaded texts: {html.escape(TEXT)} has not written {SHADED}.</p>"


def _names(notebook: str) -> list[str]:
    return [name for name, table in TABLES.items() if table.notebook == notebook]


def _usable(tables: Tables, notebook: str) -> ResultTables:
    found = {name: tables[name] for name in _names(notebook) if name in tables}
    waiting = getattr(tables, "waiting", ())
    return check_tables(ResultTables(found, waiting=waiting), f"report: {notebook}")


def _with_error(table: pd.DataFrame, value: str, error: str) -> pd.Series:
    cell: Callable[[float, float], str] = "{:.1f} ± {:.1f}".format
    cells = [cell(*pair) for pair in zip(table[value], table[error], strict=True)]
    return pd.Series(cells, index=table.index, dtype=object)


def _over_seeds(values: pd.Series) -> str:
    mean = f"{values.mean():.1f}"
    return mean if len(values) < 2 else f"{mean} ± {values.std():.1f}"


def _wide(cells: pd.DataFrame) -> pd.DataFrame:
    keys = ["corpus", "method"]
    cells = cells.astype(dict.fromkeys(keys, str))
    wide = cells.pivot(index=keys, columns="score", values="cell")
    order = cells[keys].drop_duplicates().itertuples(index=False, name=None)
    return wide.reindex(index=list(order), columns=cells["score"].unique())


def _joined(parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Side by side; what a part lacks is a dash."""
    if not parts:
        return pd.DataFrame()
    return pd.concat(parts, axis=1).fillna(NOT_RUN).rename_axis(columns=None)
