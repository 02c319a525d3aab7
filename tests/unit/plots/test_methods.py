"""Attribution methods: each in its colour, families apart, from small tables."""

from __future__ import annotations

import pandas as pd
import pytest
from matplotlib.colors import to_hex

from relevit.plots.methods import (
    rationale_curves_figure,
    score_bars,
    seconds_bars,
    token_curves_figure,
)
from relevit.plots.style import FAINT, METHODS


def curves(*methods: str) -> pd.DataFrame:
    rows = [
        (method, direction, share, 95.0 - share / 2)
        for method in methods
        for direction in ("positive", "negative")
        for share in (0, 50, 100)
    ]
    return pd.DataFrame(rows, columns=["method", "direction", "share_pct", "accuracy_pct"])


def colours(lines) -> list[str]:
    return [to_hex(line.get_color()) for line in lines]


def test_token_curves_show_the_guess():
    for axis in token_curves_figure(curves("ga"), "texts", 45.0).axes:
        line, guess = axis.get_lines()
        assert line.get_ydata().tolist() == [95, 70, 45] and set(guess.get_ydata()) == {45.0}
    assert axis.get_xlabel() == "erased tokens (%)"
    without = token_curves_figure(curves("ga"), "texts")
    assert [len(axis.get_lines()) for axis in without.axes] == [1, 1]


def test_each_family_has_its_panels_and_the_others_are_faint():
    figure = token_curves_figure(curves("ga", "rollout", "gae", "random", "new"), "texts")
    top = figure.axes[:3]
    titles = [axis.get_legend().get_title().get_text() for axis in top]
    assert titles == ["attention", "attention x gradient", "others"]
    faint, own = [FAINT] * 3, METHODS["rollout"]
    assert colours(top[0].lines) == [*faint, own, "#000000"]
    assert colours(top[1].lines)[2:4] == [METHODS["gae"], METHODS["ga"]]
    named = [[text.get_text() for text in axis.get_legend().get_texts()] for axis in top]
    assert named == [["rollout"], ["gae", "ga"], ["new"]]


@pytest.mark.parametrize(("by", "label"), [("k", "(k)"), ("share_pct", "(%)")])
def test_rationale_curves(by, label):
    table = pd.DataFrame(
        {
            "method": ["ga", "ga", "gae", "gae"],
            by: [10, 20, 10, 20],
            "f1_pct": [1.0, 2, 3, 4],
            "standard_error_pts": 0.5,
        }
    )
    (axis,) = rationale_curves_figure(table, "generated").axes
    assert [line.get_ydata().tolist() for line in axis.lines] == [[3, 4], [1, 2]], "gae is first"
    heights = axis.collections[0].get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == (2.5, 4.5) and axis.get_xlabel().endswith(label)


def test_scores_have_the_colours_of_their_methods():
    names = ["method", "score", "value_pct", "low_pct", "high_pct"]
    methods = ["gae", "head_wise", "random"]
    rows = [(m, s, 50.0, 40.0, 60.0) for m in methods for s in ("positive", "f1")]
    higher = {"f1": True, "positive": False, "not measured": True}
    figure = score_bars(pd.DataFrame(rows, columns=names), higher, "some texts")
    titles = [axis.get_title() for axis in figure.axes]
    assert titles == ["f1 (%)\nhigher is better", "positive (%)\nlower is better"]
    for axis in figure.axes:
        shown = [to_hex(bar.get_facecolor()) for bar in axis.patches]  # from the bottom up
        assert shown == [FAINT, METHODS["head_wise"], METHODS["gae"]]


def test_costs_are_milliseconds_from_the_top():
    (axis,) = seconds_bars({"gae": 0.002, "lrp": 0.5}, "t").axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["lrp", "gae"]
    assert [text.get_text() for text in axis.texts] == ["500.0", "2.0"]
