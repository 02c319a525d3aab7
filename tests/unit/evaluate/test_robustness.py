"""Changes of accuracy on small made-up predictions whose results can be counted by hand."""

import math

import numpy as np
import pandas as pd
import pytest

from habitats.cutouts import TEST_SETS
from reproduction.measures import robustness

IMAGES = 10  # in each set; labels 0..4 twice
A = [0, 1]  # 4 of the 10 images


def rows(run, others, val):
    """Predictions of one run by the label ranks of ten images, of `val` and of each other set."""
    found = [(run, name, i, i % 5, 0, 50.0, rank) for name in TEST_SETS
             for i, rank in enumerate(val if name == "val" else others)]  # fmt: skip
    columns = "model_run dataset index label prediction confidence_pct label_rank"
    return pd.DataFrame(found, columns=columns.split())


def ranks(right, close=0):
    """The first `right` images have rank 0, the next `close` rank 4, the others rank 5."""
    return [0] * right + [4] * close + [5] * (IMAGES - right - close)


@pytest.fixture
def predictions():
    """On every set 3 of 10 are right; seed0 gets 4, seed1 6; on val 2 and 3."""
    runs = [rows("original", ranks(3), ranks(3)), rows("seed0", ranks(4, 1), ranks(2)),
            rows("seed1", ranks(6), ranks(3))]  # fmt: skip
    return pd.concat(runs, ignore_index=True)


def test_change_table(predictions):
    table = robustness.change_table(predictions.sample(frac=1, random_state=0))
    assert tuple(table["dataset"]) == TEST_SETS
    assert set(table["images"]) == {IMAGES}
    assert set(table["seeds"]) == {2}
    row = table.set_index("dataset").loc["a"]
    assert row["original_top1_pct"] == 30
    assert row["change_top1_pts"] == 20
    # Two values d apart have the sample standard deviation d / sqrt(2).
    assert row["change_top1_std_pts"] == pytest.approx(20 / math.sqrt(2))
    # One image is corrected by both runs, two by one of them, seven by none: what both share.
    one, other = [100.0] * 3 + [0.0] * 7, [100.0] + [0.0] * 9
    assert row["change_top1_se_pts"] == pytest.approx((np.cov(one, other)[0, 1] / 10) ** 0.5)
    assert row["change_top5_pts"] == 25
    assert table.set_index("dataset").loc["val", "change_top1_pts"] == -5


def test_accuracies_of_a_and_b(predictions):
    table = robustness.split_accuracies(predictions, {"seed0": A, "seed1": [3, 4]})
    assert table["images"].sum() == 2 * 2 * IMAGES * len(TEST_SETS)
    top1 = table[table["dataset"] == "a"].set_index(["model_run", "weights", "classes"])["top1_pct"]
    # seed0 corrects image 3 (label 3: B); seed1 images 3, 4, 5 (labels 3, 4 in A, 0 in B).
    change = top1.xs("finetuned", level="weights") - top1.xs("original", level="weights")
    expected = {("seed0", "A"): 0, ("seed0", "B"): 100 / 6}
    expected |= {("seed1", "A"): 50, ("seed1", "B"): 100 / 6}
    assert change.to_dict() == pytest.approx(expected)


@pytest.mark.parametrize("wrong", ["fewer", "twice", "other label"])
def test_runs_on_other_images_are_refused(predictions, wrong):
    made = {
        "fewer": predictions.iloc[:-1],
        "twice": pd.concat([predictions, predictions.head(1)]),
        "other label": pd.concat([predictions.iloc[:-1], predictions.tail(1).assign(label=0)]),
    }[wrong]
    with pytest.raises(ValueError, match="all runs need the same images, each once"):
        robustness.paired_changes(made)


def test_first_examples_are_of_each_set_in_turn_and_as_many_ruined_as_corrected(predictions):
    sets = ("a", "r", "val", "v2")
    found = robustness.first_examples(predictions, "seed0", sets, 4)
    assert found == [("a", 3), ("r", 3), ("val", 2)], "val alone has one that was ruined"
    assert robustness.first_examples(predictions, "seed0", sets, 2) == [("a", 3), ("val", 2)]
    assert robustness.first_examples(predictions, "seed0", (), 4) == []
