"""Bars and points: their number, height, interval, order and colour, from small tables."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from reproduction.measures.paired import GROUPS, ORIGINAL
from reproduction.plots import intervals as pictures
from reproduction.plots.style import CONTROL, FAINT, GAIN, LOSS, METHODS, OURS, alternative_text


def heights(axis):
    return [bar.get_height() for bar in axis.patches]


def drawn(axis) -> tuple[list, list, list]:
    """Middles, ends and names of the last group."""
    across = axis.get_ylim()[0] > axis.get_ylim()[1]
    held, where = axis.containers[-1], 0 if across else 1
    bars = hasattr(held, "errorbar")
    points, _, (ends,) = (held.errorbar if bars else held).lines
    middles = [bar.get_width() if across else bar.get_height() for bar in axis.patches]
    labels = axis.get_yticklabels() if across else axis.get_xticklabels()
    return (
        middles if bars else points.get_data()[where].tolist(),
        [segment[:, where].tolist() for segment in ends.get_segments() if segment.size],
        [text.get_text() for text in labels],
    )


def table(columns: str, *rows) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=columns.split())


def added(worlds=("own",), arms=("ours", "labels")) -> pd.DataFrame:
    """What relevance adds: 10 for each world, 1 for each group."""
    rows = [
        {"world": world, "arm": arm, "classes": group}
        | {
            f"{kind}{part}": sign * (10 * w + g + 1) + reach
            for kind, sign in (("with", 1), ("without", -1), ("adds", 2))
            for part, reach in (("_pts", 0), ("_low_pts", -2), ("_high_pts", 3))
        }
        for w, world in enumerate(worlds)
        for arm in arms
        for g, group in enumerate(GROUPS)
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("points", [False, True])
def test_values_and_ends_are_those_of_the_table(across, points):
    shown = table("set pct low_pct high_pct", ("x", 5, 4, 7), ("y", 8, 8, 8))
    style = {"across": across, "points": points, "title": "t", "label": "pct"}
    figure = pictures.intervals(shown, "set", "pct", **style)
    found = drawn(figure.axes[0])
    assert found == ([5, 8], [[4, 7]], ["x", "y"]), "an interval without length has no cap"
    assert "pct" in alternative_text(figure) and "t" in alternative_text(figure)


def test_bars_of_each_arm_are_the_changes_with_and_without():
    axes = pictures.added_bars(added(), "title").axes
    assert [axis.get_title() for axis in axes] == ["ours", "labels"]
    assert heights(axes[0]) == [1, 2, 3, -1, -2, -3]
    colours = [to_hex(bar.get_facecolor()) for bar in axes[0].patches]
    assert colours == [OURS] * 3 + [CONTROL] * 3
    assert drawn(axes[0])[1][0] == [-3, 2]
    sets = added(arms=("ours",)).assign(dataset=["val", "a", "r"])
    (axis,) = pictures.added_bars(sets, "title", "dataset").axes
    assert [text.get_text() for text in axis.get_xticklabels()] == ["val", "a", "r"]


def test_neighbours_have_a_point_a_model_and_probes_none():
    rows = [("with", "val", "k = 1", 80.0, 100), ("with", "val", "linear probe", 90.0, math.nan)]
    shown = table("model data test accuracy_pct images", *rows)
    (axis,) = pictures.neighbour_dots(shown, "title").axes
    assert drawn(axis)[0] == [80] and drawn(axis)[2] == ["val\nk = 1"]


def test_points_lie_at_the_gap_of_their_world_and_near_names_below_each_other():
    gaps = pd.Series({"own": 30.0, "home 1": 60.0, "home 0.8": 6.0, "home 0.5": 5.0})
    worlds = ("home 0.5", "own", "home 1", "home 0.8")
    (axis,) = pictures.dose_response(added(worlds, ["ours"]), gaps, "title").axes
    line = axis.containers[0].lines[0]
    assert line.get_xdata() == pytest.approx([4.6, 5.6, 29.6, 59.6])
    assert line.get_ydata() == pytest.approx([4, 64, 24, 44])
    assert {text.get_text() for text in axis.texts} == {"home 0.5\nhome 0.8", "own", "home 1"}


def test_no_change_is_drawn_as_none():
    row = ("$a", "with relevance - original", 0.0, 0.0, 0.0)
    shown = table("dataset change change_pts low_pts high_pts", row)
    axis = pictures.paired_changes(shown, "t").axes[0]
    assert axis.get_ylim()[0] <= -1 and axis.get_ylim()[1] >= 1
    assert not axis.get_xticklabels()[0].get_parse_math()


def test_a_bar_far_beyond_all_others_is_cut_and_its_number_written():
    rows = [("a", 6.0, 5.0, 7.0), ("b", 3.0, 2.5, 3.5), ("c", -25.0, -26.0, -24.0)]
    shown = table("run change_pts low_pts high_pts", *rows)
    (axis,) = pictures.average_bars(shown, "run", "t").axes
    assert axis.get_xlim()[0] == pytest.approx(-1.15 * 7)
    assert [text.get_text().strip() for text in axis.texts] == ["◂ -25.0"]
    assert [to_hex(bar.get_facecolor()) for bar in axis.patches] == [GAIN, GAIN, LOSS]


def test_shares_are_stacked_to_the_whole_and_an_empty_map_is_marked():
    rows = [(ORIGINAL, False, 50.0, 10.0, 40.0), ("ours", True, 70.0, 0.0, 30.0)]
    shown = table("arm relevance on_object_pct on_props_pct on_texture_pct", *rows)
    axis = pictures.share_bars(shown, "title").axes[0]
    assert [bar.get_width() for bar in axis.patches] == [50, 70, 10, 0, 40, 30]
    assert [label.get_text() for label in axis.get_yticklabels()] == [ORIGINAL, "with"]
    more = pd.concat([shown, shown.iloc[1:].assign(relevance=False)])
    more = pd.concat([more, more.iloc[1:].assign(arm="published")])
    labels = pictures.share_bars(more, "title").axes[0].get_yticklabels()
    twins = [f"{arm}, {kind}" for arm in ("ours", "published") for kind in ("without", "with")]
    assert [label.get_text() for label in labels] == [ORIGINAL, *twins]
    rows = [("ga", "class", 70.0), ("ga", "other", 30.0), ("raw", "class", 0.0)]
    words = table("method kind share_pct", *rows, ("raw", "other", 0.0))
    texts = pictures.word_bars(words, "t").axes[0].texts
    assert [text.get_text() for text in texts if text.get_text()] == ["70", "30", "no map"]


SEEN = ("seen", 50.0, 40.0, 60.0)
SCORES = ("gae", 50.0, 40.0, 60.0, "f1"), ("random", 5.0, 5.0, 5.0, "f1")
WORTHS = ("gae", 0.1, 0.0, 0.3, "with", "val"), ("lrp", 0.2, 0.1, 0.3, "with", "a")
WIDE = ([50], [[40, 60]])
PICTURES = [
    (
        table("dataset top1_pct images", ("val", 50, 100)),
        lambda rows: pictures.accuracy_bars(rows, "t"),
        ([50], [[40.2, 59.8]], ["val"]),
    ),
    (
        table("place accuracy_pct images model", ("cars", 50, 100, "ours")),
        lambda rows: pictures.accuracy_bars(rows, "t", "place", "accuracy_pct", "model"),
        ([50], [[40.2, 59.8]], ["cars"]),
    ),
    (
        table("method value_pct low_pct high_pct score", *SCORES),
        lambda rows: pictures.score_bars(rows, "t", {"f1": True, "not measured": True}),
        ([50, 5], [[40, 60]], ["gae", "random"]),
    ),
    (
        table("method auc_pct low_pct high_pct direction", (*SCORES[0][:4], "negative")),
        lambda rows: pictures.score_bars(rows, "t"),
        (*WIDE, ["gae"]),
    ),
    (
        table("classes accuracy_pct low_pct high_pct seed chance_pct", (*SEEN, 0, 5)),
        lambda rows: pictures.zero_shot_bars(rows, "t"),
        (*WIDE, ["seen classes"]),
    ),
    (
        table("classes own_object_pct low_pct high_pct method", (*SEEN, "gae")),
        lambda rows: pictures.pointing_bars(rows, "t"),
        (*WIDE, ["gae"]),
    ),
    (
        table("own_object_pct low_pct high_pct method", (50, 40, 60, "gae")),
        lambda rows: pictures.pointing_bars(rows, "t"),
        (*WIDE, ["gae"]),
    ),
    (  # the panels share their places, also where a set lacks a method
        table("method value low high model_run dataset", *WORTHS).assign(score="rank_correlation"),
        lambda rows: pictures.causal_dots(rows, {"val": "home", "a": "away"}),
        ([0.1, math.nan], [[0.0, 0.3]], ["gae", "lrp"]),
    ),
]


@pytest.mark.parametrize(("rows", "draw", "expected"), PICTURES, ids=range(len(PICTURES)))
def test_each_picture_reads_its_table(rows, draw, expected):
    middles, reach, names = drawn(draw(rows).axes[0])
    assert middles == pytest.approx(expected[0], nan_ok=True)
    assert np.array(reach[0]) == pytest.approx(expected[1][0]) and names == expected[2]


def test_three_tests_have_a_panel_each_and_marks_are_grey():
    rows = [
        (name, score, 0.5, 0.4, 0.6)
        for name in ("gae", "(random)")
        for score in ("rank_correlation", "miou_pct", "erasing_pts", "truth_pct")
    ]
    figure = pictures.score_bars(table("method score value low high", *rows), "t")
    assert len(figure.axes) == 3 and drawn(figure.axes[0])[2] == ["gae", "(random)"]
    colours = [to_hex(bar.get_facecolor()) for bar in figure.axes[1].patches]
    assert colours == [METHODS["gae"], FAINT]


def test_two_tests_make_a_dot_a_method():
    outlines = table(
        "method metric value_pct",
        *((n, "miou_pct", v) for n, v in zip("abc", (1, 2, 3), strict=True)),
    )
    areas = [(n, d, v * (d == "negative")) for n, v in zip("cab", (9, 4, 5), strict=True)
             for d in ("negative", "positive")]  # fmt: skip
    axis = pictures.two_tests(outlines, table("method direction auc_pct", *areas)).axes[0]
    assert axis.collections[0].get_offsets().tolist() == [[1, 4], [2, 5], [3, 9]]
    assert axis.get_title().endswith("1.00") and [text.get_text() for text in axis.texts] == [
        *"abc"
    ]


def test_scores_stand_in_the_order_of_what_is_better():
    shown = table("method value_pct low_pct high_pct score", *SCORES, (*SCORES[0][:4], "positive"))
    figure = pictures.score_bars(shown, "t", {"f1": True, "positive": False, "negative": True})
    titles = [axis.get_title() for axis in figure.axes]
    assert titles == ["f1 (%)\nhigher is better", "positive (%)\nlower is better"]


def test_classes_are_sorted():
    rows = [("val", i, f"c{i}", change) for i, change in enumerate((3.0, -2.0, 0.0))]
    axis = pictures.class_grid(table("dataset label name change_top1_pts", *rows), [0], "t").axes[0]
    assert heights(axis) == [-2, 0, 3] and axis.get_xlabel() == "c1 … c0"


def test_arms_stand_in_the_order_of_the_table_and_ours_stands_out():
    arms = table("change_pts low_pts high_pts", (9, 8, 10), (7, 5, 8)).set_axis(
        ["swap_5e-6", "relevance"]
    )
    (axis,) = pictures.arm_changes(arms, "title", ours=["relevance"]).axes
    assert drawn(axis) == (
        [9, 7], [[8, 10], [5, 8]], ["swap, at the rate of relevance", "relevance"]
    )  # fmt: skip
    assert [to_hex(bar.get_facecolor()) for bar in axis.patches] == [FAINT, OURS]
