"""Changes by class on made-up predictions whose results can be counted by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from relevit.data.cutouts import SHIFTED_SETS, TEST_SETS
from relevit.data.drawings import CLASSES
from relevit.evaluate import class_changes
from relevit.evaluate.robustness import changed_images

LABELS = 4
IMAGES = 12  # in each set, three of each class


def rows(run, wrong=(), sets=TEST_SETS, answer=3):
    """All right, but for the images of `wrong`: pairs of set and index, taken for `answer`."""
    return pd.DataFrame(
        [
            {
                "model_run": run,
                "dataset": name,
                "index": i,
                "label": i % LABELS,
                "prediction": answer if (name, i) in wrong else i % LABELS,
                "label_rank": 2 if (name, i) in wrong else 0,
            }
            for name in sets
            for i in range(IMAGES)
        ]
    )


@pytest.fixture
def predictions():
    """On `a` both runs ruin image 0 (class 0), seed1 image 4 as well, and correct image 1."""
    return pd.concat(
        [
            rows("original", {("a", 1), ("a", 5), ("val", 2)}),
            rows("seed0", {("a", 0), ("a", 5)}, answer=1),
            rows("seed1", {("a", 0), ("a", 4), ("a", 5)}, answer=2),
        ],
        ignore_index=True,
    )


def test_class_table(predictions):
    table = class_changes.class_table(predictions)
    assert len(table) == len(TEST_SETS) * LABELS
    on_a = table[table["dataset"] == "a"].set_index("name")
    assert on_a.index.tolist() == list(CLASSES[:LABELS])
    assert set(on_a["images"]) == {3}
    assert on_a["change_top1_pts"].tolist() == pytest.approx([-50, 100 / 3, 0, 0])


def test_harmed_table(predictions):
    (row,) = class_changes.harmed_table(predictions, ("a", "v2"), 2).to_dict("records")
    assert row == {
        "dataset": "a",
        "label": 0,
        "name": CLASSES[0],
        "images": 3,
        "change_top1_pts": pytest.approx(-50),
        "newly_wrong": 1.5,
        "taken_for": f"{CLASSES[2]}, {CLASSES[1]}",
    }


# Correlations


def test_rank_correlation_is_that_of_pandas_also_with_ties():
    random = np.random.default_rng(0)
    cause = pd.Series(random.normal(size=60))
    change = pd.Series(random.integers(-1, 2, size=60) * 100.0) - 50 * cause.round()
    found = class_changes.rank_correlation(cause, change)
    assert found["spearman"] == pytest.approx(cause.corr(change, method="spearman"))
    assert found["low"] < found["spearman"] < found["high"] < 0


def test_context_gain(predictions):
    """Class 1 is wrong on two of three images on `a`, class 2 on one of three on `val`."""
    gain = class_changes.context_gain_pts(predictions)
    assert gain.to_dict() == pytest.approx(
        {CLASSES[0]: 0, CLASSES[1]: 200 / 3, CLASSES[2]: -100 / 3, CLASSES[3]: 0}
    )


def variation(wrong, classes):
    """Of one run that ruins the images with these numbers on all sets, by kind of class."""
    bad = {(name, i) for name in TEST_SETS for i in wrong}
    made = pd.concat([rows("original"), rows("seed0", bad)], ignore_index=True)
    return class_changes.class_variation(changed_images(made, {"seed0": classes})).set_index(
        "classes"
    )


def test_variation_of_one_class_that_loses_all_its_images_is_no_luck():
    found = variation(range(0, IMAGES, LABELS), [0, 1])
    assert found.loc["A", ["labels", "std_pts", "mean_pts", "luck_pts"]].tolist() == [
        2, pytest.approx(100 / 2**0.5), -50, 0
    ]  # fmt: skip
    assert found.loc["B", ["std_pts", "luck_pts"]].tolist() == [0, 0]


def test_luck_is_the_error_of_a_class():
    """Both classes of A lose one in three images everywhere: they do not differ at all."""
    found = variation([0, 1], [0, 1]).loc["A"]
    images = 3 * len(SHIFTED_SETS)
    assert found["std_pts"] == pytest.approx(0)
    assert found["luck_pts"] == pytest.approx(100 * (2 / 9 / (images - 1)) ** 0.5)
