"""The test of a change: which images were corrected and which ruined."""

from __future__ import annotations

import pandas as pd
import pytest

from relevit.data.cutouts import TEST_SETS
from relevit.evaluate import significance

from .test_robustness import ranks, rows


@pytest.fixture
def predictions():
    """All sets: 2 of 10 right, then 8 and 9; on val 3, then 2 and 4, by two seeds."""
    before = {name: ranks(2) for name in TEST_SETS} | {"val": ranks(3, 2)}
    first = {name: ranks(8) for name in TEST_SETS} | {"val": ranks(2)}
    second = {name: ranks(9) for name in TEST_SETS} | {"val": ranks(4)}
    runs = {"original": before, "seed0": first, "seed1": second}
    return pd.concat([rows(run, by_set) for run, by_set in runs.items()], ignore_index=True)


def test_mcnemar_counts_the_images_that_changed(predictions):
    found = significance.mcnemar_table(predictions).set_index(["dataset", "metric"])
    assert found.loc[("a", "top1"), ["corrected", "ruined"]].tolist() == [13, 0]
    assert found.loc[("a", "top1"), "p_value"] == pytest.approx(2 / 2**13)
    assert found.loc[("val", "top1"), ["corrected", "ruined"]].tolist() == [1, 1]
    assert found.loc[("val", "top1"), "p_value"] == 1.0
    # Top-5: 5 of 10 before, 2 and 4 after.
    assert found.loc[("val", "top5"), ["corrected", "ruined"]].tolist() == [0, 4]
    assert found.loc[("val", "top5"), "p_value"] == pytest.approx(0.125)
    assert found["significant"].sum() == 2 * (len(TEST_SETS) - 1)


def test_nothing_changed_is_not_significant(predictions):
    same = predictions[predictions["model_run"] == "original"]
    both = pd.concat([same, same.assign(model_run="seed0")])
    found = significance.mcnemar_table(both)
    assert set(found["p_value"]) == {1.0}
    assert not found["significant"].any()
