"""Curves: their points, lines and labels, from small tables."""

from __future__ import annotations

import pandas as pd
import pytest

from relevit.plots.curves import joining_curves, rationale_curves_figure, token_curves_figure


def test_loss_has_a_line_a_seed_and_the_guess():
    history = pd.DataFrame({"epoch": [1, 2], "loss": [3.0, 1.0], "scale": [14.0, 15.0]})
    loss, scale = joining_curves({0: history, 4: history}, 4.2).axes
    assert [line.get_label() for line in loss.lines] == ["seed 0", "seed 4", "guess"]
    assert len(scale.lines) == 2


def test_token_curves_show_the_guess():
    curves = pd.DataFrame(
        [
            ("ga", direction, share, 95.0 - share / 2)
            for direction in ("positive", "negative")
            for share in (0, 50, 100)
        ],
        columns=["method", "direction", "share_pct", "accuracy_pct"],
    )
    figure = token_curves_figure(curves, "texts", 45.0)
    for axis in figure.axes:
        line, guess = axis.get_lines()
        assert line.get_ydata().tolist() == [95, 70, 45] and set(guess.get_ydata()) == {45.0}
        assert axis.get_xlabel() == "erased tokens (%)"
    assert [len(axis.get_lines()) for axis in token_curves_figure(curves, "texts").axes] == [1, 1]


@pytest.mark.parametrize(("by", "label"), [("k", "(k)"), ("share_pct", "(%)")])
def test_rationale_curves(by, label):
    table = pd.DataFrame(
        {
            "method": ["a", "a", "b", "b"],
            by: [10, 20, 10, 20],
            "f1_pct": [1.0, 2, 3, 4],
            "standard_error_pts": 0.5,
        }
    )
    axis = rationale_curves_figure(table, "planted").axes[0]
    lines = [container.lines[0].get_ydata().tolist() for container in axis.containers]
    assert lines == [[1, 2], [3, 4]] and axis.get_xlabel().endswith(label)
