"""What the report shows: three findings, the claims with their evidence, texts and phrases.

The evidence of a claim are the notebook cells that carry its id as a tag.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
import numpy as np
import pandas as pd
from pandas.io.formats.style import Styler

from relevit.base import errors
from relevit.base.errors import NotYetError
from relevit.base.files import project_root
from relevit.claims.paper_form import NOT_RUN
from relevit.claims.registry import (
    CONTRADICTED,
    HOLDS,
    NO_ROOM,
    NOT_TESTABLE,
    OPEN,
    TABLES,
    VERDICTS,
    Lacking,
    ResultTables,
    Verdict,
    check_tables,
    signed,
)
from relevit.claims.statistics import seed_count
from relevit.evaluate.looking import RIGHT, WRONG
from relevit.paper.attribution import published_perturbation

CLAIM = re.compile(r"(RV|BI|IAV)-\d\d")
Tables = Mapping[str, pd.DataFrame]
PAPERS = {"RV": "RobustViT", "BI": "Beyond Intuition", "IAV": "IAV"}  # by how ids begin


class Cell(NamedTuple):
    """A cell of a notebook, by the notebook's name and the cell's id."""

    notebook: str
    id: str

    def link(self) -> str:
        """Address of the cell from the folder of notebooks, as JupyterLab writes it."""
        return f"{self.notebook}.ipynb#cell-id={self.id}"


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


def findings(tables: Tables, runs: Iterable[Mapping[str, Any]], verdicts: Iterable[Verdict]) -> str:
    """The three things to take home, as Markdown.

    `tables` has `shifted` and `changes`, and `added` of 03_controls where that has landed; `runs`
    are the summaries of 02_finetune, with `iou_pct` and `on_object_pct` before and after.
    """
    runs, verdicts = list(runs), list(verdicts)
    counts = Counter(verdict.verdict for verdict in verdicts)
    kinds = ", ".join(f"*{name}* {counts[name]}" for name in VERDICTS if counts[name])
    texts = [
        f"**What the relevance terms add.** {_what_is_added(tables, len(runs))}",
        f"**Where the model looks.** {_where_it_looks(tables, runs)}",
        f"**What holds here.** The three papers make {len(verdicts)} claims: {kinds}.",
    ]
    return "\n".join(f"{number}. {text}" for number, text in enumerate(texts, 1))


def _what_is_added(tables: Tables, seeds: int) -> str:
    try:
        added = tables["added"]
    except (Lacking, NotYetError):
        added = pd.DataFrame()
    if len(added):
        own = (added["world"] == "own") & (added["arm"] == "ours") & (added["classes"] == "all")
        ends = np.isfinite(added[["adds_low_pts", "adds_high_pts"]].astype(float)).all(axis=1)
        added = added[own & ends]
    if added.empty:
        mean, std = tables["shifted"].set_index("metric").loc["top1", ["mean_pts", "std_pts"]]
        return (
            f"Finetuned on where it looks, the model changes by **{signed(mean, std)} points** on "
            f"the seven shifted sets ({seed_count(seeds)}). What finetuning alone would do is not "
            "known here."
        )
    row = added.iloc[0]
    chance = row["adds_low_pts"] <= 0 <= row["adds_high_pts"]
    told = "this may be chance" if chance else "more than chance"
    return (
        f"Finetuned on where it looks, the model changes by {signed(row['with_pts'])} points on "
        f"the seven shifted sets. The same finetuning without the relevance terms changes it by "
        f"{signed(row['without_pts'])}. So the terms add **{signed(row['adds_pts'])} points** "
        f"(95 % interval {signed(row['adds_low_pts'])} to {signed(row['adds_high_pts'])}, "
        f"{seed_count(int(row['seeds']))}): {told}."
    )


def _where_it_looks(tables: Tables, runs: list[Mapping[str, Any]]) -> str:
    (on, on_after), (iou, iou_after) = (
        np.mean([run[name] for run in runs], axis=0) for name in ("on_object_pct", "iou_pct")
    )
    val = tables["changes"].set_index("dataset").loc["val"]
    return (
        f"Before finetuning {on:.0f} % of the relevance lies on the object, after it "
        f"**{on_after:.0f} %**. Map and mask overlap by {iou:.0f} % before and {iou_after:.0f} % "
        "after (IoU). On `val`, where nothing is shifted, top-1 changes by "
        f"{signed(val['change_top1_pts'], val['change_top1_std_pts'])} points."
    )


def claim_grid(table: pd.DataFrame, cells: Mapping[str, list[Cell]]) -> str:
    """`claims.verdict_table` as a grid of HTML that can be filtered by paper and verdict.

    Without JavaScript all claims are shown. Links to the cells with the evidence are relative to
    the folder of notebooks.
    """
    named = table.assign(paper=[PAPERS[claim.split("-")[0]] for claim in table["id"]])
    counts = pd.crosstab(named["paper"], named["verdict"])
    found = [name for name in VERDICTS if name in counts]
    counts = counts.reindex(index=list(dict.fromkeys(named["paper"])), columns=found)
    counts.loc["all"] = counts.sum()
    filters = "".join(
        f'<label>{name} <select><option value="">all</option>'
        f"{''.join(f'<option>{value}</option>' for value in values)}</select></label> "
        for name, values in (("Paper", counts.index[:-1]), ("Verdict", found))
    )
    cards = "".join(_card(row, cells.get(row["id"], [])) for row in named.to_dict("records"))
    return (
        f'<style>{_STYLE}</style><section class="claims">'
        f"{counts.rename_axis(index=None, columns=None).to_html(border=0)}"
        f'<form hidden>{filters}<output aria-live="polite"></output></form>'
        f'<div class="grid">{cards}</div></section><script>{_SCRIPT}</script>'
    )


def _card(row: Mapping[str, str], cells: list[Cell]) -> str:
    text = {name: html.escape(str(row[name])) for name in ("claim", "criterion", "reason")}
    number, verdict = html.escape(row["number"]), row["verdict"]
    whole = f"<p><b>Numbers</b> {number}</p>" if len(row["number"]) > LONG_NUMBER else ""
    links = f"<footer>{_links(cells)}</footer>" if cells else ""
    return (
        f'<article data-paper="{row["paper"]}" data-verdict="{verdict}">'
        f'<header><b>{row["id"]}</b> <span style="background: {COLOURS[verdict]}">{verdict}</span>'
        f'</header><p>{text["claim"]}</p><p class="number">{number}</p>'
        f"<details><summary>criterion and reason</summary><p><b>Criterion</b> {text['criterion']}"
        f"</p><p><b>Reason</b> {text['reason']}</p>{whole}</details>{links}</article>"
    )


def folded(title: str, table: pd.DataFrame | Styler) -> str:
    """A large table as HTML that opens on a click."""
    page = table.to_html() if isinstance(table, Styler) else table.to_html(border=0)
    inner = f'<div style="overflow-x: auto">{page}</div>'
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


LONG_NUMBER = 150  # characters; more are cut, and stand whole beside the reason
# White on these is easy to read. Those that decide have the colours of gain and loss in pictures,
# those that do not are grey; nothing is red, which stands for our runs.
COLOURS = {
    HOLDS: RIGHT,
    CONTRADICTED: WRONG,
    NO_ROOM: "#3d434c",
    NOT_TESTABLE: "#69707d",
    OPEN: "#69707d",
}
# The pages' own style aligns tables to the right and indents paragraphs of some outputs.
_STYLE = (
    ".claims .grid {display: grid; gap: .7em; "
    "grid-template-columns: repeat(auto-fill, minmax(17em, 1fr))} "
    ".claims article {border: 1px solid #bbb; border-radius: 6px; padding: .6em .8em; "
    "overflow-wrap: anywhere} "
    ".claims article[hidden], .claims form[hidden] {display: none} "
    ".claims form {margin: .8em 0} .claims label {margin-right: 1em} "
    ".claims header span {color: white; border-radius: 4px; padding: .1em .5em; float: right; "
    "white-space: nowrap} "
    ".claims p {margin: .5em 0 !important} .claims footer {margin-top: .5em} "
    ".claims .number {color: inherit; opacity: .85; font-size: .92em; overflow: hidden; "
    "display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 3} "
    ".claims summary {cursor: pointer} .claims table {margin: .5em 0} "
    ".claims th, .claims td {text-align: right; padding: .2em .8em}"
)
_SCRIPT = """
for (const claims of document.querySelectorAll(".claims")) {
  const form = claims.querySelector("form");
  const cards = [...claims.querySelectorAll("article")];
  const show = () => {
    const [paper, verdict] = [...form.querySelectorAll("select")].map((list) => list.value);
    for (const card of cards) {
      const { paper: its, verdict: found } = card.dataset;
      card.hidden = (paper && its !== paper) || (verdict && found !== verdict);
    }
    const shown = cards.filter((card) => !card.hidden).length;
    form.querySelector("output").textContent = `${shown} of ${cards.length} claims`;
  };
  form.addEventListener("change", show);
  form.hidden = false;
  show();
}
"""


# Texts, and images with text. All take the result tables by name; a table that is missing leaves
# its part out, and `not_shown` says why.


TEXT, CLIP = "11_text", "12_clip"
SHADED = "shaded.html"  # that 11_text writes: reviews with their tokens shaded
TARGETS = {"predicted": "predicted class", "target": "label", "label": "label"}


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
