"""Accuracies of many runs beside the original's."""

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
    found = beside_original(ours, original).iloc[0].tolist()
    # Of four changes one is a right answer more, 100 points: the root of 50 squared / 4.
    assert found == ["val", 4, 50, 75, 25, 75, pytest.approx(25)]
    with pytest.raises(ValueError, match="answered 2 of the run's 3 images"):
        beside_original(answers([0, 0, 0]), answers([0, 0]))
