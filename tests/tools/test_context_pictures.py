"""The picture of all verdicts: which number of a claim it shows, and on which side."""

import sys

import numpy as np
import pandas as pd
import pytest

from relevit.base.files import project_root

sys.path.append(str(project_root() / "tools"))
import context_pictures as pictures

COLUMNS = ["id", "verdict", "name", "value", "low", "high", "unit", "side", "line", "d"]
MADE = [
    ("RV-01", "undecided", "a", 2.0, -1.0, 5.0, "points", "above", 1.0, 0.0),
    ("RV-01", "undecided", "b", 9.0, 8.0, 10.0, "points", "above", 1.0, 0.0),
    ("RV-02", "holds", "c", -3.0, -4.0, -2.0, "points", "below", 0.0, 0.0),
    ("RV-03", "undecided", "w", 1.0, -1.0, 3.0, "points", "within", 2.0, 0.0),
    ("BI-01", "contradicted", "e", 0.2, 0.1, 0.3, "", "at least", 0.5, 0.0),
    ("BI-02", "not testable", "f", 1.0, 0.0, 2.0, "points", "above", 0.0, 0.0),
    ("BI-03", "undecided", "g", 85.0, 85.0, 85.0, "points", "at least", 100.0, 0.0),
    ("BI-04", "undecided", "h", 1.0, -np.inf, np.inf, "", "above", 0.0, 0.0),
]
PAPER = pd.DataFrame([("RV-02", "c", -5.0), ("BI-01", "e", 0.7)], columns=["id", "name", "value"])
DRAWN = {  # at, low, high, the paper's
    "RV-01": (1.0, -2.0, 4.0, np.nan),
    "RV-02": (3.0, 2.0, 4.0, 5.0),
    "RV-03": (1.0, -1.0, 2.0, np.nan),
    "BI-01": (-3.0, -4.0, -2.0, 2.0),
    "BI-03": (-15.0, np.nan, np.nan, np.nan),
    "BI-04": (np.nan, np.nan, np.nan, np.nan),
}


def test_the_first_number_is_drawn_to_the_right_where_the_paper_says():
    reproduced = pd.DataFrame(MADE, columns=COLUMNS)
    found = pictures.deciding(reproduced[:0], reproduced, PAPER).set_index("id")
    assert set(found.index) == set(DRAWN)
    for id, drawn in DRAWN.items():
        row = found.loc[id, ["at", "low", "high", "paper"]].astype(float)
        assert row.tolist() == pytest.approx(drawn, nan_ok=True), id
    decided = reproduced[:1].assign(value=4.0, verdict="holds")
    found = pictures.deciding(decided, reproduced, PAPER).set_index("id")
    assert found.loc["RV-01", ["verdict", "run", "at"]].tolist() == ["holds", "decide", 3.0]
    assert found.loc["RV-02", "run"] == "reproduce"
    figure = pictures.forest(found.reset_index())
    labels = [text.get_text() for axis in figure.axes for text in axis.get_yticklabels()]
    assert any("gains on hard sets" in label for label in labels)
