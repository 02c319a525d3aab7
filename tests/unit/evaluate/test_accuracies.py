"""Accuracies of many runs beside the original's."""

from __future__ import annotations

import pandas as pd
import pytest

from reproduction.measures.accuracies import beside_original


def answers(ranks, dataset="val"):
    return pd.DataFrame(
        {"dataset": dataset, "index": range(len(ranks)), "label": 3, "label_rank": ranks}
    )


def test_accuracies_are_compared_on_the_same_images():
    ours = answers([0, 0, 4, 7])
    original = answers([0, 1, 1, 9, 0, 0])  # has seen two more, which must not count
    (row,) = beside_original(ours, original).to_dict("records")
    assert row == {
        "dataset": "val",
        "images": 4,
        "top1_pct": 50.0,
        "top5_pct": 75.0,
        "original_top1_pct": 25.0,
        "original_top5_pct": 75.0,
    }


def test_original_that_has_seen_fewer_images_is_refused():
    with pytest.raises(ValueError, match="answered 2 of the run's 3 images"):
        beside_original(answers([0, 0, 0]), answers([0, 0]))
