"""Correlations with their interval, and how far classes differ beyond luck."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from reproduction.measures import class_changes


def test_rank_correlation_is_that_of_pandas_also_with_ties():
    random = np.random.default_rng(0)
    cause = pd.Series(random.normal(size=60))
    change = pd.Series(random.integers(-1, 2, size=60) * 100.0) - 50 * cause.round()
    found = class_changes.rank_correlation(cause, change)
    assert found["spearman"] == pytest.approx(cause.corr(change, method="spearman"))
    assert found["low"] < found["spearman"] < found["high"] < 0


@pytest.mark.parametrize(
    ("of_classes", "std", "mean", "luck"),
    [
        ([[100.0, 0.0], [-100.0, 0.0]], 100 / 2**0.5, 0.0, 50.0),
        ([[-100.0, -100.0], [0.0, 0.0]], 100 / 2**0.5, -50.0, 0.0),
        ([[100.0, 0.0], [0.0, 100.0]], 0.0, 50.0, 50.0),  # they do not differ at all
    ],
)
def test_the_spread_of_classes_and_that_of_luck(of_classes, std, mean, luck):
    rows = [("seed0", "a", y, "A", x) for y, changes in enumerate(of_classes) for x in changes]
    columns = ["model_run", "dataset", "label", "classes", "change_top1_pts"]
    (row,) = class_changes.class_variation(pd.DataFrame(rows, columns=columns)).itertuples()
    assert (row.labels, row.mean_pts) == (2, mean)
    assert (row.std_pts, row.luck_pts) == pytest.approx((std, luck))
