"""Bars: their number, height, order and colour, from small tables."""

from __future__ import annotations

import math

import networkx as nx
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from relevit.plots.bars import (
    average_bars,
    change_bars,
    change_heatmap,
    flow_chart,
    pointing_bars,
    quality_plot,
    word_bars,
    zero_shot_bars,
)
from relevit.plots.style import GAIN, LOSS


def test_dots_of_two_pictures_lie_in_the_same_places_beside_each_other():
    rows = [("own", 0, stage, v, True, True) for stage in ("coarse", "refined") for v in range(9)]
    names = ["images", "seed", "stage", "iou_pct", "located", "kept"]
    one, other = (
        [
            dots.get_offsets()
            for dots in quality_plot(pd.DataFrame(rows, columns=names)).axes[0].collections
        ]
        for _ in range(2)
    )
    assert len(one) == 2
    for first, second in zip(one, other, strict=True):
        assert (first == second).all()
        assert len(set(first[:, 0])) == 9 and first[:, 0].max() - first[:, 0].min() < 0.25


def test_stages_are_drawn_alike_in_whatever_order_they_come():
    edges = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("a", "d")]
    one, other = (
        [
            (text.get_text(), text.xy, text.xyann)
            for text in flow_chart(nx.DiGraph(order), "t").axes[0].texts
            if hasattr(text, "xy")
        ]
        for order in (edges, edges[::-1])
    )
    assert one == other and len(one) == 6


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


def test_a_bar_far_beyond_all_others_is_cut_and_its_number_written():
    spread = pd.Series([1.0, 0.5, math.nan])
    (axis,) = average_bars(pd.Series({"a": 6.0, "b": 3.0, "c": -25.0}), spread, "t", "x").axes
    assert axis.get_xlim()[0] == pytest.approx(-1.15 * 7)
    assert [text.get_text().strip() for text in axis.texts] == ["◂ -25.0"]
    (axis,) = average_bars(pd.Series({"a": 6.0, "b": -13.0}), spread[:2], "t", "x").axes
    assert not axis.texts and axis.get_xlim()[0] < -13


@pytest.mark.parametrize(("far", "limit"), [(-37.0, 14.0), (-20.0, 20.0)])
def test_a_row_far_beyond_all_others_does_not_set_the_colours(far, limit):
    table = pd.DataFrame({"val": [1.0, far], "a": [14.0, -3.0]}, index=["ours", "probe"])
    (axis,) = change_heatmap(table, "t").axes
    assert axis.collections[0].get_clim() == (-limit, limit)
    assert [text.get_text() for text in axis.texts] == ["+1.0", "+14.0", f"{far:+.1f}", "-3.0"]
    assert axis.get_xlabel() == ("colours end at ±14.0" if far < -30 else "")


def test_an_arrow_that_passes_a_column_meets_no_box_there():
    stages = nx.DiGraph([("a", "b"), ("b", "c"), ("a", "c")])
    (axis,) = flow_chart(stages, "t").axes
    named = {text.get_text(): text.get_position() for text in axis.texts if text.get_text()}
    assert {name: x for name, (x, _) in named.items()} == {"a": 0, "b": 1, "c": 2}
    heights = {arrow.xy[1] for arrow in axis.texts if not arrow.get_text() and arrow.xy[0] == 1}
    assert named["b"][1] in heights and len(heights) == 2


def test_errors_end_at_the_whole():
    rows = [("seen", "ga", 100.0, 10.0), ("seen", "gae", 5.0, 10.0)]
    names = ["classes", "method", "own_object_pct", "standard_error_pts"]
    axis = pointing_bars(pd.DataFrame(rows, columns=names), "t").axes[0]
    (bars,) = axis.containers[1:]  # the first is its errors
    ends = [segment[:, 0].tolist() for segment in bars.errorbar.lines[2][0].get_segments()]
    assert ends == [[0, 15], [90, 100]]
