"""The tables of docs/context.md, from made results of the study."""

from __future__ import annotations

import importlib

import pandas as pd
import pytest

from relevit.data.cutouts import TEST_SETS

from .conftest import SCRIPT

ARMS = ("ours", "half", "published", "labels")


@pytest.fixture
def made(monkeypatch):
    """What the script makes of two worlds: all sets alike, and 2 points more with relevance."""
    monkeypatch.syspath_prepend(SCRIPT.parent)
    script = importlib.import_module("context_pictures")
    models = [("own", arm, on) for arm in ARMS for on in (False, True)] + [
        ("own", "original", False)
    ]
    models += [("home 0.5", "labels", False), ("home 0.5", "labels", True),
               ("home 0.5", "original", False)]  # fmt: skip
    named = pd.DataFrame(models, columns=["world", "arm", "relevance"]).assign(seed=0)
    figures = named.assign(on_object_pct=50.4, on_props_pct=9.6, on_texture_pct=40.0,
                           background_gap_pts=12.34)  # fmt: skip
    answers = named.merge(pd.DataFrame({"dataset": TEST_SETS}), how="cross").assign(right=True)
    rows = [("own", arm, classes) for arm in ARMS for classes in ("all", "A", "B")]
    rows += [("home 0.5", "labels", "all")]
    added = pd.DataFrame(rows, columns=["world", "arm", "classes"]).assign(seeds=2)
    for name, value in {"with": 1.25, "without": -0.75, "adds": 2.0}.items():
        added[f"{name}_pts"], added[f"{name}_low_pts"] = value, value - 1
        added[f"{name}_high_pts"] = value + 1
    columns = added[added["world"] == "own"].merge(
        pd.DataFrame({"dataset": TEST_SETS}), how="cross"
    )
    study = {"added": added, "columns": columns, "answers": answers, "figures": figures}
    return script.tables(study, "labels")


def test_the_study_is_told_as_its_page_has_it(made):
    arms = made["study_arms"].set_index(["setting", "classes"])
    assert len(arms) == 12
    assert arms.loc[("`confidence`", "B"), "relevance adds"] == "+2.0 (+1.0 to +3.0)"
    looks = made["study_gaps"].set_index("")
    assert looks.loc["original"].tolist() == ["100.0", "12.3", "50 / 10 / 40"]
    assert looks.loc["`labels`, without", "`val`"] == "-0.8 (-1.8 to +0.2)"
    by_set = made["study_sets"].set_index("")
    assert by_set.shape == (7, 9) and by_set.loc["`published`, with", "`a`"] == "+1.2"


def test_doses_are_numbers_by_share(made):
    doses = made["doses"].set_index("home_pct")
    assert doses.index.tolist() == [50, 95]
    assert doses.loc[95, ["a_before_pct", "gap_pts", "adds_low_pts"]].tolist() == [100, 12.34, 1]
