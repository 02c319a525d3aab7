"""Numbers that claims are judged by and that a mean over rows cannot express."""

from __future__ import annotations

import pandas as pd
import pytest

from relevit.data.cutouts import SHIFTED_SETS
from relevit.evaluate import accuracies, class_changes, iou_changes, leads


def test_a_lead_is_over_the_best_baseline_in_both_directions():
    rows = [
        ("gae", "negative", 99.0),  # no baseline of the paper
        ("ga", "negative", 50.0),
        ("rollout", "negative", 40.0),
        ("head_wise", "negative", 53.0),
        ("ga", "positive", 20.0),
        ("rollout", "positive", 15.0),
        ("head_wise", "positive", 16.0),
    ]
    areas = pd.DataFrame(rows, columns=["method", "direction", "auc_pct"])
    areas = areas.assign(model="m", target="predicted")
    areas = areas.assign(low_pct=areas["auc_pct"] - 3, high_pct=areas["auc_pct"] + 3)
    found = leads(areas).set_index("direction")
    assert found["best"].to_dict() == {"negative": "ga", "positive": "rollout"}
    assert found["lead_pts"].to_dict() == {"negative": 3.0, "positive": -1.0}
    half = (found["high_pts"] - found["low_pts"]) / 2
    assert half.to_list() == pytest.approx([18**0.5] * 2)


def test_images_that_turn_wrong_are_left_out_of_iou_changes():
    maps = pd.DataFrame(
        {
            "model_run": ["original"] * 4 + ["seed0"] * 4,
            "index": [0, 1, 2, 3] * 2,
            "iou_pct": [10.0, 20.0, 30.0, None, 15.0, 90.0, 31.0, 9.0],
            "right": [True, True, False, True, True, False, True, True],
        }
    )
    found = iou_changes(maps)
    assert found["index"].to_list() == [0, 2] and found["change_pts"].to_list() == [5.0, 1.0]


def test_top5_agrees_where_it_changes_as_top1_does():
    rows = [
        (variant, seed, name, 50.0 + top1, 80.0 + top5, 10)
        for variant, top1, top5 in (("full", 0, 0), ("worse", -2, -1), ("mixed", -2, 1))
        for seed in (0, 1)
        for name in SHIFTED_SETS
    ]
    columns = ["variant", "seed", "dataset", "top1_pct", "top5_pct", "images"]
    found = accuracies.agreement(pd.DataFrame(rows, columns=columns)).groupby("variant").mean()
    assert found.loc["worse", ["top1_pts", "top5_pts"]].to_list() == [2.0, 1.0]
    assert found.loc["mixed", "top5_pts"] == -1.0 and found.loc["mixed", "images"] == 70


def test_the_spread_of_classes_and_that_of_luck():
    rows = [
        ("seed0", "a", label, "A", change)
        for label, changes in enumerate(([100.0, 0.0], [-100.0, 0.0]))
        for change in changes
    ]
    columns = ["model_run", "dataset", "label", "classes", "change_top1_pts"]
    (row,) = class_changes.class_variation(pd.DataFrame(rows, columns=columns)).itertuples()
    assert (row.labels, row.mean_pts, row.luck_pts) == (2, 0.0, 50.0)
    assert row.std_pts == pytest.approx(100 / 2**0.5)
