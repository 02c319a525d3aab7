"""Our numbers beside the published ones of the very same model, cell by cell."""

from __future__ import annotations

import math

import pandas as pd
from pandas.io.formats.style import Styler

from relevit.claims.layout import NOT_RUN, ORIGINAL, OURS, published_name, published_rows
from relevit.claims.verdicts import signed
from relevit.data.cutouts import TEST_SETS
from relevit.paper import published as paper

MARK = "*"
COLUMNS = [
    ("original", "paper"),
    ("original", "here"),
    ("original", "difference"),
    ("finetuned", "paper"),
    ("finetuned", "here"),
    ("finetuned", "difference"),
    ("change", "paper"),
    ("change", "here"),
    ("change", "difference"),
]


def nine_sets(changes: pd.DataFrame, tests: pd.DataFrame, model: str) -> pd.DataFrame:
    """RobustViT T1 and T2 for one model: published, here, and here minus published; as text.

    `changes` is `robustness.change_table` (means over seeds, ± std), `tests` is
    `robustness.mcnemar_table`, whose significant changes are marked. Rows: metric and set.
    Columns: original and finetuned in percent, both with the difference in points, and the
    change. A dash stands where the paper does not have the model.
    """
    rows = published_rows("main_T1", "main_T2")
    rows = rows[
        (rows["model"] == published_name(model)) & rows["masks"].isin(["none", "annotated"])
    ]
    keys = ["metric", "dataset", "method"]
    printed = rows.drop_duplicates(keys).set_index(keys)["value_pct"].to_dict()
    marked = set(
        tests.loc[tests["significant"], ["metric", "dataset"]].itertuples(index=False, name=None)
    )
    ours = changes.set_index("dataset")
    table = {}
    for metric in paper.METRICS:
        for name in TEST_SETS:
            theirs = [printed.get((metric, name, method), math.nan) for method in (ORIGINAL, OURS)]
            cells = _cells(ours.loc[name], metric, *theirs)
            cells[7] += f" {MARK}" if (metric, name) in marked else ""
            table[metric, name] = cells
    columns = pd.MultiIndex.from_tuples(COLUMNS)
    index = pd.MultiIndex.from_tuples(table, names=["metric", "dataset"])
    return pd.DataFrame(list(table.values()), index=index, columns=columns)


def with_note(table: pd.DataFrame, note: str) -> Styler:
    """The table with a sentence under it."""
    below = [{"selector": "caption", "props": "caption-side: bottom; text-align: left"}]
    return table.style.set_caption(note).set_table_styles(below)


def _cells(row: pd.Series, metric: str, original: float, finetuned: float) -> list[str]:
    """The texts of one row; `original` and `finetuned` are the paper's, NaN without them."""
    before, after = row[f"original_{metric}_pct"], row[f"ours_{metric}_pct"]
    change, std = row[f"change_{metric}_pts"], row[f"change_{metric}_std_pts"]
    published = finetuned - original
    return [
        _percent(original),
        _percent(before),
        _points(before - original),
        _percent(finetuned),
        _percent(after),
        _points(after - finetuned),
        _points(published),
        signed(change, std),
        _points(change - published),
    ]


def _percent(value: float) -> str:
    return NOT_RUN if math.isnan(value) else f"{value:.1f}"


def _points(value: float) -> str:
    return NOT_RUN if math.isnan(value) else signed(value)
