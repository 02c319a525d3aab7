"""Bars: their number, height, order and colour, from small tables."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from matplotlib.colors import to_hex

from relevit.plots.bars import average_bars, change_bars, pointing_bars, word_bars, zero_shot_bars
from relevit.plots.style import GAIN, LOSS


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
    assert [text.get_text() for text in axis.texts if text.get_text()] == ["70", "30", "no map"]
    assert max(bar.get_x() + bar.get_width() for bar in axis.patches) == 100


def test_a_group_without_a_set_leaves_its_place_empty():
    """Bars stand at their own set, and one without a spread has no cap."""
    rows = [("x", "annotated masks", 1.0, 0.4), ("y", "tokencut masks", 2.0, math.nan)]
    table = pd.DataFrame(rows, columns=["dataset", "group", "change", "std"])
    (axis,) = change_bars(table, "t").axes
    middles = [bar.get_x() + bar.get_width() / 2 for bar in axis.patches]
    assert middles == pytest.approx([-0.2, 1.2])
    spreads = [bars.errorbar.lines[2][0].get_segments()[0] for bars in axis.containers[1::2]]
    assert spreads[0][:, 1] == pytest.approx([0.6, 1.4]) and len(spreads[1]) == 0


def test_gains_and_losses_differ():
    (axis,) = average_bars(pd.Series({"a": 1.0, "b": -1.0}), pd.Series([0.1, 0.1]), "t", "x").axes
    assert [to_hex(bar.get_facecolor()) for bar in axis.patches] == [GAIN, LOSS]
