"""Pictures of twins show the numbers that they are given, a bar or point each."""

from __future__ import annotations

import pandas as pd
import pytest

from relevit.evaluate.paired import GROUPS, ORIGINAL
from relevit.plots import added_bars, dose_response, share_bars


def table(worlds=("own",), arms=("ours", "labels")) -> pd.DataFrame:
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


def test_bars_of_each_arm_are_the_changes_with_and_without():
    axes = added_bars(table(), "title").axes
    assert [axis.get_title() for axis in axes] == ["ours", "labels"]
    assert [bar.get_height() for bar in axes[0].patches] == [1, 2, 3, -1, -2, -3]


def test_shares_of_a_model_are_stacked_to_the_whole():
    rows = [(ORIGINAL, False, 50.0, 10.0, 40.0), ("ours", True, 70.0, 0.0, 30.0)]
    columns = ["arm", "relevance", "on_object_pct", "on_props_pct", "on_texture_pct"]
    (axis,) = share_bars(pd.DataFrame(rows, columns=columns), "title").axes
    assert [bar.get_width() for bar in axis.patches] == [50, 70, 10, 0, 40, 30]
    assert [label.get_text() for label in axis.get_yticklabels()] == [ORIGINAL, "ours, with"]


def test_points_lie_at_the_gap_of_their_world():
    worlds = ("home 0.5", "own", "home 1")
    gaps = pd.Series({"own": 30.0, "home 1": 60.0, "home 0.5": 5.0})
    (axis,) = dose_response(table(worlds, ["ours"]), gaps, "title").axes
    lines = {line.get_label(): line for line in axis.containers}
    for group, shift, first in (("A", -0.4, 4), ("B", 0.4, 6)):
        line = lines[f"classes {group}"].lines[0]
        assert line.get_xdata() == pytest.approx([5 + shift, 30 + shift, 60 + shift])
        assert line.get_ydata() == pytest.approx([first, first + 20, first + 40])
    assert {text.get_text() for text in axis.texts} == set(worlds)


def test_worlds_with_the_same_gap_are_named_one_below_the_other():
    gaps = pd.Series({"home 0.8": 2.5, "own": 16.0, "home 0.5": 0.0})
    (axis,) = dose_response(table(tuple(gaps.index), ["ours"]), gaps, "title").axes
    assert [text.get_text() for text in axis.texts] == ["home 0.5\nhome 0.8", "own"]
