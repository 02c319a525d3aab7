"""Made tables with which every claim holds, ways to change them, and one claim judged on them."""

from __future__ import annotations

from functools import cache

import pandas as pd

from relevit.claims import CLAIMS, TABLES, judge
from relevit.data.cutouts import CUTOUTS

from . import heads, maps, runs

MAKERS = {
    name: getattr(module, name)
    for name in TABLES
    for module in (maps, runs, heads)
    if hasattr(module, name)
}
# The report shows them, and no claim is about them.
SHOWN = ("split_accuracies", "added", "clip_pointing")
# What `changed` adds to.
COLUMNS = {
    "models": ["validation_top1_pct"],
    "shift": ["top1_pct"],
    "scores": ["score"],
    "slopes": ["slope", "low", "high"],
    "epochs": ["entropy"],
    "drift": ["difference"],
    "masking": ["top1_pct"],
    "entropy": ["entropy"],
    "space": ["knn_pct"],
}


@cache
def table(name):
    """A made table, shared: copy it before a change."""
    return MAKERS[name]()


def made(*names):
    return {name: table(name) for name in names or MAKERS}


def needed(claim):
    """The made tables that a claim reads."""
    return {name: table(name) for name in (*CLAIMS[claim].tables, *CLAIMS[claim].also)}


def verdict(claim, tables=None, bench=CUTOUTS):
    """One claim alone, on its own made tables: some of these, or others, change."""
    return judge(needed(claim) | (tables or {}), bench, only=[claim])[0]


def other(name, *args, **options):
    """{name: the table made otherwise}."""
    return {name: MAKERS[name](*args, **options)}


def check(case):
    """A claim, its verdict on changed tables (or "shows"), and the text that says so."""
    claim, outcome, tables, text = case
    found = verdict(claim, tables)
    if outcome == "shows":
        assert text in found.number
        return
    assert found.verdict == outcome, found
    assert text in found.reason
    assert outcome != "contradicted" or found.reason.startswith("not met: ")


def missed(found):
    """What the reason says is not met."""
    assert found.reason.startswith("not met: "), found
    return found.reason.removeprefix("not met: ").split(". ")[0]


def chosen(name, **where):
    """Which rows have these values; a tuple stands for any of its values."""
    found = pd.Series(True, index=table(name).index)
    for column, value in where.items():
        found &= table(name)[column].isin(value if isinstance(value, tuple) else (value,))
    return found


def changed(name, add, **where):
    """{name: the table with something added to the numbers of some rows}."""
    copy = table(name).copy()
    copy.loc[chosen(name, **where), COLUMNS[name]] += add
    return {name: copy}


def without(name, **where):
    """{name: the table without the rows that have these values}."""
    return {name: table(name)[~chosen(name, **where)]}
