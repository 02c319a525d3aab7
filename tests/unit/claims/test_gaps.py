"""Claims on tables with gaps: what a preset has not is named in the reason, and never an error."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest

from relevit.claims import attribution as claims_attribution
from relevit.claims import iav as claims_iav
from relevit.claims import robustvit as claims_robustvit

from .. import attribution_tables, iav_tables, robustvit_tables

NOT_HERE = "not testable here"
JUDGES = {
    "attribution": (claims_attribution, claims_attribution.attribution_verdicts),
    "iav": (claims_iav, claims_iav.iav_verdicts),
    "robustvit": (claims_robustvit, claims_robustvit.robustvit_verdicts),
}
IDS = [(name, claim) for name, (module, _) in JUDGES.items() for claim in module.CRITERIA]
TABLES = [(name, table) for name, (module, _) in JUDGES.items() for table in module.SCHEMAS]
MASKED = {"robustvit": claims_robustvit.criteria.MASKED, "iav": claims_iav.criteria.MASKED}
# Tables that some claim reads together with others: only these are judged beside one with gaps.
TOGETHER = {
    "methods_segmentation": ("methods_perturbation",),
    "methods_perturbation": ("methods_segmentation",),
    "changed_images": ("object_size", "finetuned_images"),
    "object_size": ("changed_images",),
    "finetuned_images": ("changed_images",),
    "quality": ("accuracies",),
    "models": ("shift", "slopes", "entropy"),
    "shift": ("models",),
    "slopes": ("models", "entropy"),
    "entropy": ("scores",),
    "scores": ("entropy",),
}
NUMBERED = {"seed", "index", "image", "layer", "head", "block", "epoch", "level", "lr", "ratio_pct"}


@cache
def whole(name):
    """Made tables with which the claims hold, those of IAV with fewer heads and images."""
    if name == "attribution":
        return attribution_tables.made()
    if name == "robustvit":
        return robustvit_tables.made()
    few = {"head": (1, 2, 3, 4), "image": tuple(range(4))}
    found = {}
    for key, table in iav_tables.made().items():
        for column, values in few.items():
            table = table[table[column].isin(values)] if column in table else table
        found[key] = table
    return found


def gaps(name, key):
    """A table that is empty, lacks a column, or lacks all rows with one of the names in it."""
    table, (keys, numbers) = whole(name)[key], JUDGES[name][0].SCHEMAS[key]
    yield "no row", table.head(0)
    yield "nothing", pd.DataFrame()
    columns = (*keys, *numbers, *MASKED.get(name, {}).get(key, ()))
    yield from ((f"no {column}", table.drop(columns=column)) for column in columns)
    for column in [column for column in keys if column not in NUMBERED]:
        first = table[column] == table[column].iloc[0]
        yield f"not the first {column}", table[~first]
        yield f"the first {column} alone", table[first]


def judged(name, tables):
    return {verdict.id: verdict for verdict in JUDGES[name][1](tables)}


@cache
def with_gaps(name):
    """The verdicts for each table and gap."""
    return {
        (key, gap): judged(name, beside(name, key) | {key: table})
        for key in JUDGES[name][0].SCHEMAS
        for gap, table in gaps(name, key)
    }


def beside(name, key):
    return {other: whole(name)[other] for other in TOGETHER.get(key, ()) if other in whole(name)}


@pytest.mark.parametrize(("name", "claim"), IDS)
def test_a_gap_is_no_error(name, claim):
    for gap, verdicts in with_gaps(name).items():
        verdict = verdicts[claim]
        assert verdict.verdict in ("holds", "fails", NOT_HERE), gap
        assert verdict.reason, gap


@pytest.mark.parametrize(("name", "key"), TABLES)
def test_a_table_that_cannot_be_judged_counts_as_not_there(name, key):
    absent = judged(name, beside(name, key))
    column = JUDGES[name][0].SCHEMAS[key][0][0]
    for gap, reason in {
        "no row": f"table {key} is empty: this preset has nothing to put there",
        f"no {column}": f"table {key} lacks ['{column}']: run the notebook that writes it again",
    }.items():
        for claim, verdict in with_gaps(name)[key, gap].items():
            assert verdict.verdict == absent[claim].verdict
            if verdict.reason != absent[claim].reason:
                assert reason in verdict.reason


def test_images_without_masks_are_left_out():
    """Sets without masks have NaN, which is not an average of 0."""
    tables = dict(whole("robustvit"))
    for key, columns in MASKED["robustvit"].items():
        tables[key] = tables[key].assign(**dict.fromkeys(columns, np.nan))
    verdicts = judged("robustvit", tables)
    assert verdicts["RV-27"].reason == (
        "0 images answered with more than 90 % confidence; at least 300 are needed"
    )
    assert verdicts["RV-41"].reason == "0 images of val and v2; at least 20 are needed"
    assert verdicts["RV-28"].verdict == verdicts["RV-23"].verdict == NOT_HERE
    assert "IoU" not in verdicts["RV-07"].number
    assert "nan" not in "".join(verdict.number for verdict in verdicts.values())
    some = robustvit_tables.looks()
    some.loc[some["dataset"] == "v2", ["on_object_pct", "covered_pct"]] = np.nan
    assert judged("robustvit", {"looks": some})["RV-41"].number.startswith("off the object 37.5 %")


def test_iav_without_masks_keeps_what_needs_none():
    table = whole("iav")["entropy"].assign(object_share_pct=np.nan)
    verdicts = judged("iav", whole("iav") | {"entropy": table})
    with_masks = judged("iav", whole("iav"))
    assert {claim for claim in verdicts if verdicts[claim] != with_masks[claim]} == {"IAV-20"}
    assert (
        verdicts["IAV-20"].reason == "no masks, so that the size of no object of mini-dino is known"
    )
