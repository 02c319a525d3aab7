"""The one interval holds the truth as often as it says, where those of before do not."""

import importlib
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    return importlib.import_module("interval_coverage")


def test_it_holds_the_truth_in_93_to_98_percent_of_every_cell(tool):
    """2, 3 and 5 seeds, 0 to 4 points between them; seven sets and one; paired both ways."""
    found = tool.coverage({"ours": tool.ours}, replications=1500, seed=1)
    assert len(found) == 2 * 2 * len(tool.SEEDS) * len(tool.SPREADS_PTS) == 72
    assert found["coverage_pct"].between(*tool.BAND).all(), found.to_string()


def test_what_is_stored_is_of_all_rules():
    stored = pd.read_csv(ROOT / "docs/results/coverage.csv").groupby("rule")["coverage_pct"]
    inside = stored.agg(["min", "max"])
    assert inside.loc["the wider of two"].between(93, 98).all()
    assert inside.loc["resampling", "min"] < 86 and inside.loc["root of squares", "max"] > 98
