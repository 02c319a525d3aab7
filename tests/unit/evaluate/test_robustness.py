"""Changes of accuracy on small made-up predictions whose results can be counted by hand."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from relevit.data.cutouts import TEST_SETS
from relevit.evaluate import robustness
from relevit.paper.published import SHIFTED_AVERAGE

IMAGES = 10  # in each set; labels 0..4 twice
A = [0, 1]  # 4 of the 10 images


def rows(run, ranks, sets=TEST_SETS):
    """Predictions of one run; `ranks` maps a set to the label ranks of its ten images."""
    return pd.DataFrame(
        [
            {
                "model_run": run,
                "dataset": name,
                "index": i,
                "label": i % 5,
                "prediction": 0,
                "confidence_pct": 50.0,
                "label_rank": ranks.get(name, [9] * 10)[i],
            }
            for name in sets
            for i in range(IMAGES)
        ]
    )


def ranks(right, close=0):
    """The first `right` images have rank 0, the next `close` rank 4, the others rank 5."""
    return [0] * right + [4] * close + [5] * (IMAGES - right - close)


@pytest.fixture
def predictions():
    """On every set 3 of 10 are right; seed0 gets 4, seed1 6; on val 2 and 3."""
    return pd.concat(
        [
            rows("original", {name: ranks(3) for name in TEST_SETS}),
            rows("seed0", {name: ranks(4, 1) for name in TEST_SETS} | {"val": ranks(2)}),
            rows("seed1", {name: ranks(6) for name in TEST_SETS} | {"val": ranks(3)}),
        ],
        ignore_index=True,
    )


def test_change_table(predictions):
    table = robustness.change_table(predictions.sample(frac=1, random_state=0))
    assert tuple(table["dataset"]) == TEST_SETS
    assert set(table["images"]) == {IMAGES}
    assert set(table["seeds"]) == {2}
    row = table.set_index("dataset").loc["a"]
    assert row["original_top1_pct"] == 30
    assert row["ours_top1_pct"] == 50
    assert row["change_top1_pts"] == 20
    assert row["change_top1_min_pts"] == 10
    assert row["change_top1_max_pts"] == 30
    # Two values d apart have the sample standard deviation d / sqrt(2).
    assert row["change_top1_std_pts"] == pytest.approx(20 / math.sqrt(2))
    assert row["ours_top1_std_pct"] == pytest.approx(20 / math.sqrt(2))
    assert row["ours_top5_pct"] == 55
    assert row["change_top5_pts"] == 25
    assert table.set_index("dataset").loc["val", "change_top1_pts"] == -5


def test_split_table(predictions):
    classes = {"seed0": A, "seed1": [3, 4]}
    table = robustness.split_table(predictions, classes).set_index(["dataset", "classes"])
    assert len(table) == 2 * (len(TEST_SETS) + 1)
    # seed0 corrects image 3 (label 3: B); seed1 images 3, 4, 5 (labels 3, 4 in A, 0 in B).
    gains = {"A": [0, 100 * 2 / 4], "B": [100 * 1 / 6, 100 * 1 / 6]}
    for name in ("a", SHIFTED_AVERAGE):
        for kind, values in gains.items():
            row = table.loc[(name, kind)]
            assert row["change_top1_pts"] == pytest.approx(sum(values) / 2)
            spread = abs(values[0] - values[1]) / math.sqrt(2)
            assert row["change_top1_std_pts"] == pytest.approx(spread, abs=1e-9)


def test_split_of_sets_without_classes_a(predictions):
    """Real sets have few classes: what is not there is unknown, and the others are as before."""
    none = {"seed0": [], "seed1": []}
    table = robustness.split_table(predictions, none, everywhere=False)
    table = table.set_index(["classes", "dataset"])["change_top1_pts"]
    assert table["A"].isna().all() and table["B"].notna().all()
    whole = robustness.change_table(predictions).set_index("dataset")["change_top1_pts"]
    assert table["B"][whole.index].tolist() == pytest.approx(whole.tolist())


def test_accuracies_of_a_and_b_are_those_that_the_changes_come_from(predictions):
    classes = {"seed0": A, "seed1": [3, 4]}
    table = robustness.split_accuracies(predictions, classes)
    assert table["images"].sum() == 2 * 2 * IMAGES * len(TEST_SETS)
    keys = ["model_run", "dataset", "classes"]
    top1 = table.set_index([*keys, "weights"])["top1_pct"].unstack()
    changes = (top1["finetuned"] - top1["original"]).groupby(["dataset", "classes"]).mean()
    split = robustness.split_table(predictions, classes).set_index(["dataset", "classes"])
    for key, change in changes.items():
        assert change == pytest.approx(split.loc[key, "change_top1_pts"]), key


def test_intervals_are_of_the_paired_changes(predictions):
    """On each shifted set two runs correct one and three of ten images; on val one is ruined."""
    table = robustness.change_table(predictions).set_index("dataset")
    assert (table["change_top1_low_pts"] < table["change_top1_pts"]).all()
    assert (table["change_top1_pts"] < table["change_top1_high_pts"]).all()
    whole = robustness.shifted_average(predictions).set_index("metric").loc["top1"]
    width = table["change_top1_high_pts"] - table["change_top1_low_pts"]
    assert whole["low_pts"] < 20 < whole["high_pts"]
    assert whole["high_pts"] - whole["low_pts"] < width["a"], "seven sets have more images"


@pytest.mark.parametrize("wrong", ["fewer", "twice", "other label"])
def test_runs_on_other_images_are_refused(predictions, wrong):
    made = {
        "fewer": predictions.iloc[:-1],
        "twice": pd.concat([predictions, predictions.head(1)]),
        "other label": pd.concat([predictions.iloc[:-1], predictions.tail(1).assign(label=0)]),
    }[wrong]
    with pytest.raises(ValueError, match="all runs need the same images, each once"):
        robustness.paired_changes(made)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda t: t.drop(columns="label_rank"), r"predictions lack \['label_rank'\]"),
        (lambda t: t[t["model_run"] == "original"], r"model runs are \['original'\].*evaluate"),
        (lambda t: t.replace({"dataset": {"v2": "v3"}}), r"missing: \['v2'\], unknown: \['v3'\]"),
    ],
)
def test_tables_without_a_run_a_column_or_a_set_are_refused(predictions, change, text):
    with pytest.raises(ValueError, match=text):
        robustness.change_table(change(predictions))


def test_every_run_needs_its_classes(predictions):
    with pytest.raises(ValueError, match=r"no finetuned classes for \['seed1'\]; give the labels"):
        robustness.split_table(predictions, {"seed0": A})
