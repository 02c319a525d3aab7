"""The count of printed intervals: Holm's own arithmetic, and that it is of today's pages."""

import importlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri, stdtrit


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "tools")
    return importlib.import_module("printed_intervals")


@pytest.mark.parametrize("seeds", [1, 3])
def test_p_is_held_beside_all_the_others(tool, seeds):
    """By Student's t over the seeds, or the normal distribution of one."""
    p = np.array([0.01, 0.04, 0.03, 0.005])
    end, own = (ndtri(q) if seeds == 1 else stdtrit(seeds - 1, q) for q in (0.975, p / 2))
    half = -end / own
    made = {
        "value_pts": 1.0,
        "low_pts": 1 - half,
        "high_pts": 1 + half,
        "seeds": seeds,
        "earlier": False,
    }
    found = tool.judged(pd.DataFrame(made))
    assert found["p"].tolist() == pytest.approx(p.tolist())
    assert found["holm"].tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert found["beyond"].all()


def test_the_stored_count_is_of_the_pages_as_they_are(tool):
    stored = pd.read_csv(tool.quoted.RESULTS / "intervals.csv")
    found = tool.judged(tool.printed())
    assert found["page"].tolist() == stored["page"].tolist()
    for name in (*tool.ENDS, "p"):
        assert found[name].tolist() == pytest.approx(stored[name].tolist(), rel=2e-3, nan_ok=True)


def test_an_interval_is_filed_under_what_its_page_quotes_and_by_its_seeds(tool):
    found = tool.printed()
    study = found[found["file"].str.startswith("why")]
    assert len(study) and study["seeds"].eq(5).all()
    assert (
        study["page"].isin(["README.md", "docs/index.md", "docs/results.md", "docs/why.md"]).all()
    )
