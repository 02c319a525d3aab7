"""Bars: their number, height, order and colour, from small tables."""

from __future__ import annotations

import pandas as pd
from matplotlib.colors import to_hex

from relevit.plots.bars import pointing_bars, score_bars, word_bars, zero_shot_bars
from relevit.plots.style import BLUE, ORIGINAL, OURS


def test_zero_shot_has_a_bar_a_seed_and_chance_of_each_group():
    rows = [(s, g, 50.0 + s, 40.0, 60.0, c) for s in (0, 1) for g, c in (("seen", 5), ("all", 2))]
    names = ["seed", "classes", "accuracy_pct", "low_pct", "high_pct", "chance_pct"]
    (axis,) = zero_shot_bars(pd.DataFrame(rows, columns=names), "t").axes
    assert sorted(bar.get_height() for bar in axis.patches) == [50, 50, 51, 51]
    assert [line.get_ydata()[0] for line in axis.lines if line.get_linestyle() == ":"] == [5, 2]


def test_pointing_has_the_first_method_on_top():
    rows = [(g, m, v, 1.0) for g in ("seen", "unseen") for m, v in (("ga", 80.0), ("gae", 60.0))]
    names = ["classes", "method", "own_object_pct", "standard_error_pts"]
    axis = pointing_bars(pd.DataFrame(rows, columns=names), "t").axes[0]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["gae", "ga"]
    assert [bar.get_width() for bar in axis.patches] == [60, 80, 60, 80]


def test_words_are_stacked_to_the_whole_and_an_empty_map_is_marked():
    rows = [("ga", "class", 70.0), ("ga", "other", 30.0)]
    rows += [("raw", "class", 0.0), ("raw", "other", 0.0)]
    table = pd.DataFrame(rows, columns=["method", "kind", "share_pct"])
    axis = word_bars(table, "t").axes[0]
    assert [text.get_text() for text in axis.texts] == ["no map"]
    assert max(bar.get_x() + bar.get_width() for bar in axis.patches) == 100


def test_scores_have_the_variants_and_chance_apart():
    names = ["method", "score", "value_pct", "low_pct", "high_pct"]
    methods = ("ga", "head_wise", "token_wise", "random")
    rows = [(m, s, 50.0, 40.0, 60.0) for m in methods for s in ("positive", "f1")]
    higher = {"f1": True, "positive": False, "not measured": True}
    figure = score_bars(pd.DataFrame(rows, columns=names), higher, methods[1:3], "some texts")
    titles = [axis.get_title() for axis in figure.axes]
    assert titles == ["f1 (higher is better)", "positive (lower is better)"]
    for axis in figure.axes:
        colours = [to_hex(bar.get_facecolor()) for bar in axis.patches]  # from the bottom up
        assert colours == [ORIGINAL, OURS, OURS, BLUE]
