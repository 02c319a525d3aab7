"""Changes by class on made-up predictions whose results can be counted by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from relevit.data.cutouts import SHIFTED_SETS, TEST_SETS
from relevit.data.drawings import CLASSES
from relevit.evaluate import class_changes

LABELS = 4
IMAGES = 12  # in each set, three of each class
A = {"seed0": [0, 1], "seed1": [1, 2]}


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
    table = class_changes.class_table(predictions, A)
    assert len(table) == len(TEST_SETS) * LABELS
    on_a = table[table["dataset"] == "a"].set_index("name")
    assert on_a.index.tolist() == list(CLASSES[:LABELS])
    assert on_a["finetuned_runs"].tolist() == [1, 2, 1, 0]
    assert set(on_a["images"]) == {3}
    assert on_a["change_top1_pts"].tolist() == pytest.approx([-50, 100 / 3, 0, 0])
    # Two runs, a third and two thirds of the images lost: mean 50, sample deviation by hand.
    assert on_a.loc[CLASSES[0], "change_top1_std_pts"] == pytest.approx(100 / 3 / 2**0.5)


def test_harmed_table(predictions):
    (row,) = class_changes.harmed_table(predictions, ("a", "v2"), 2).to_dict("records")
    assert row == {
        "dataset": "a",
        "label": 0,
        "name": CLASSES[0],
        "images": 3,
        "change_top1_pts": pytest.approx(-50),
        "newly_wrong": 1.5,
        "change_top1_std_pts": pytest.approx(100 / 3 / 2**0.5),
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


def test_spread_and_what_few_images_explain_of_it():
    """Of the two classes in A one loses all its images, so that no luck is in it."""
    bad = {(name, i) for name in TEST_SETS for i in range(0, IMAGES, LABELS)}
    made = pd.concat([rows("original"), rows("seed0", bad)], ignore_index=True)
    in_a, in_b = class_changes.class_spread(made, {"seed0": [0, 1]}).to_dict("records")
    assert in_a["spread_pts"] == pytest.approx(100 / 2**0.5) and in_a["mean_pts"] == -50
    assert in_a["chance_pts"] == in_b["spread_pts"] == in_b["chance_pts"] == 0


def test_chance_is_the_error_of_a_class():
    """Both classes of A lose one in three images everywhere: they differ by nothing but luck."""
    bad = {(name, i) for name in TEST_SETS for i in (0, 1)}
    made = pd.concat([rows("original"), rows("seed0", bad)], ignore_index=True)
    found = class_changes.class_spread(made, {"seed0": [0, 1]}).set_index("classes").loc["A"]
    assert found["spread_pts"] == pytest.approx(0)
    images = 3 * len(SHIFTED_SETS)
    assert found["chance_pts"] == pytest.approx(100 * (2 / 9 / (images - 1)) ** 0.5)
