"""What the report shows of texts, and of images with text: our numbers beside the paper's.

All take the tables of `claims_attribution.SOURCES` by name. A table that is missing leaves its
part out; `not_shown` says why.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd

from relevit.base import errors
from relevit.claims.attribution import SCHEMAS, SOURCES
from relevit.claims.layout import NOT_RUN
from relevit.claims.tables import ResultTables, check_tables, lacking
from relevit.paper.attribution import published_perturbation

TEXT, CLIP = "11_text", "12_clip"
SHADED = "shaded.html"  # that 11_text writes: reviews with their tokens shaded
TARGETS = {"predicted": "predicted class", "target": "label", "label": "label"}
Tables = Mapping[str, pd.DataFrame]


def not_shown(tables: Tables, notebook: str) -> str:
    """Why tables of a notebook are left out, and what to do; empty where all are there."""
    reason = lacking(_usable(tables, notebook), *SOURCES[notebook])
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


def _usable(tables: Tables, notebook: str) -> ResultTables:
    found = {name: tables[name] for name in SOURCES[notebook] if name in tables}
    return check_tables(found, SCHEMAS, f"report: {notebook}")


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
