"""Bars and points: their number, height, interval, order and colour, from small tables."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from matplotlib.colors import to_hex

from relevit.evaluate.paired import GROUPS, ORIGINAL
from relevit.plots import intervals as pictures
from relevit.plots.style import CONTROL, FAINT, GAIN, LOSS, METHODS, OURS, alternative_text


def heights(axis):
    return [bar.get_height() for bar in axis.patches]


def ends(container):
    return [segment.tolist() for segment in container.errorbar.lines[2][0].get_segments()]


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
    (axis,) = figure.axes
    held = axis.containers[0 if points else -1]
    bars = held.lines if points else held.errorbar.lines
    where = 0 if across else 1
    first, second = bars[2][0].get_segments()
    assert first[:, where].tolist() == [4, 7] and second.size == 0, "no length, no cap"
    if points:
        assert bars[0].get_data()[where].tolist() == [5, 8]
    else:
        assert [b.get_width() if across else b.get_height() for b in axis.patches] == [5, 8]
    names = axis.get_yticklabels() if across else axis.get_xticklabels()
    assert [text.get_text() for text in names] == ["x", "y"]
    assert "pct" in alternative_text(figure) and "t" in alternative_text(figure)


def test_a_group_without_a_set_leaves_its_place_empty():
    rows = [("x", "annotated masks", 1.0, 0.4), ("y", "tokencut masks", 2.0, math.nan)]
    shown = table("dataset group change std", *rows)
    (axis,) = pictures.intervals(shown, "dataset", "change", group="group", error="std").axes
    middles = [bar.get_x() + bar.get_width() / 2 for bar in axis.patches]
    assert middles == pytest.approx([-0.2, 1.2]) and heights(axis) == [1, 2]
    assert ends(axis.containers[1])[0][0][1] == pytest.approx(0.6)


def test_bars_of_each_arm_are_the_changes_with_and_without():
    axes = pictures.added_bars(added(), "title").axes
    assert [axis.get_title() for axis in axes] == ["ours", "labels"]
    assert heights(axes[0]) == [1, 2, 3, -1, -2, -3]
    colours = [to_hex(bar.get_facecolor()) for bar in axes[0].patches]
    assert colours == [OURS] * 3 + [CONTROL] * 3
    assert [end[1] for end in ends(axes[0].containers[1])[0]] == [-1, 4]
    sets = added(arms=("ours",)).assign(dataset=["val", "a", "r"])
    (axis,) = pictures.added_bars(sets, "title", "dataset").axes
    assert [text.get_text() for text in axis.get_xticklabels()] == ["val", "a", "r"]


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
    assert [label.get_text() for label in axis.get_yticklabels()] == [ORIGINAL, "ours, with"]
    rows = [("ga", "class", 70.0), ("ga", "other", 30.0), ("raw", "class", 0.0)]
    words = table("method kind share_pct", *rows, ("raw", "other", 0.0))
    texts = pictures.word_bars(words, "t").axes[0].texts
    assert [text.get_text() for text in texts if text.get_text()] == ["70", "30", "no map"]


def test_zero_shot_has_a_bar_a_seed_and_chance_of_each_group():
    rows = [(s, g, 50.0 + s, 40.0, 60.0, c) for s in (0, 1) for g, c in (("seen", 5), ("all", 2))]
    shown = table("seed classes accuracy_pct low_pct high_pct chance_pct", *rows)
    axis = pictures.zero_shot_bars(shown, "t").axes[0]
    assert heights(axis) == [50, 50, 51, 51]
    assert [line.get_ydata()[0] for line in axis.lines if line.get_linestyle() == ":"] == [5, 2]


def test_pointing_has_its_first_method_on_top():
    rows = [("seen", "ga", 100.0, 80.4, 100.0), ("seen", "gae", 5.0, 0.0, 24.6)]
    shown = table("classes method own_object_pct low_pct high_pct", *rows)
    axis = pictures.pointing_bars(shown, "t").axes[0]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["ga", "gae"]
    assert axis.get_ylim()[0] > axis.get_ylim()[1]
    reach = [[x for x, _ in segment] for segment in ends(axis.containers[1])]
    assert reach == [[pytest.approx(80.4), 100], [0, pytest.approx(24.6)]]


def test_scores_have_the_colours_of_their_methods():
    methods = ["gae", "head_wise", "random"]
    rows = [(m, s, 50.0, 40.0, 60.0) for m in methods for s in ("positive", "f1")]
    shown = table("method score value_pct low_pct high_pct", *rows)
    higher = {"f1": True, "positive": False, "not measured": True}
    figure = pictures.score_bars(shown, higher, "some texts")
    titles = [axis.get_title() for axis in figure.axes]
    assert titles == ["f1 (%)\nhigher is better", "positive (%)\nlower is better"]
    for axis in figure.axes:
        colours = [to_hex(bar.get_facecolor()) for bar in axis.patches]
        assert colours == [METHODS["gae"], METHODS["head_wise"], FAINT]


def test_accuracies_have_the_interval_of_their_images():
    (axis,) = pictures.accuracy_bars(table("dataset top1_pct images", ("val", 50, 100)), "t").axes
    assert [y for _, y in ends(axis.containers[1])[0]] == pytest.approx([40.2, 59.8])
    rows = [("cars", "original", 50, 100), ("cars", "with relevance", 60, 100)]
    axis = pictures.accuracy_dots(table("place model accuracy_pct images", *rows), "t").axes[0]
    assert [held.lines[0].get_ydata()[0] for held in axis.containers] == [50, 60]


def test_classes_are_sorted_and_coloured_by_what_was_finetuned():
    rows = [("val", i, f"c{i}", change) for i, change in enumerate((3.0, -2.0, 0.0))]
    shown = table("dataset label name change_top1_pts", *rows)
    figure = pictures.class_grid(shown, [0], "t")
    assert heights(figure.axes[0]) == [-2, 0, 3]
    assert figure.axes[0].get_xlabel() == "c1 … c0"


def test_worths_have_the_same_places_in_both_sets_also_where_a_method_is_missing():
    columns = "method score scenes value low high model_run dataset"
    rows = [
        (method, "rank_correlation", 9, value, value - 0.1, value + 0.1, "with", dataset)
        for method, value, dataset in (("gae", 0.1, "val"), ("lrp", 0.2, "val"), ("gae", 0.3, "a"))
    ]
    figure = pictures.causal_dots(table(columns, *rows), {"val": "home", "a": "away"})
    home, away = figure.axes[:2]
    assert [label.get_text() for label in home.get_yticklabels()] == ["gae", "lrp"]
    xs, ys = away.containers[0].lines[0].get_data()
    assert xs[0] == 0.3 and math.isnan(xs[1]) and ys.tolist() == [0, 1]
