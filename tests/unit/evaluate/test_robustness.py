"""Changes of accuracy on small made-up predictions whose results can be counted by hand."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from relevit.data.cutouts import SHIFTED_SETS, TEST_SETS
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


def test_one_seed_has_no_spread(predictions):
    one = predictions[predictions["model_run"] != "seed1"]
    table = robustness.change_table(one)
    assert set(table["seeds"]) == {1}
    assert table["change_top1_std_pts"].isna().all()
    assert table.set_index("dataset").loc["a", "change_top1_pts"] == 10
    assert robustness.shifted_average(one)["std_pts"].isna().all()


def test_shifted_average_leaves_val_and_v2_out(predictions):
    predictions.loc[predictions["dataset"].isin(["val", "v2"]), "label_rank"] = 9
    table = robustness.shifted_average(predictions).set_index("metric")
    assert table.loc["top1", ["seed0", "seed1"]].tolist() == [10, 30]
    assert table.loc["top1", "mean_pts"] == 20
    assert table.loc["top1", "std_pts"] == pytest.approx(20 / math.sqrt(2))
    assert table.loc["top5", "mean_pts"] == 25


def test_shifted_average_weighs_sets_alike(predictions):
    seed0 = predictions["model_run"].isin(["original", "seed0"])
    fewer = (predictions["dataset"] == "a") & (predictions["index"] >= 5)
    table = robustness.shifted_average(predictions[seed0 & ~fewer]).set_index("metric")
    # On the first five of `a` 3 are right, then 4: 20 points; 10 points on the other six.
    assert table.loc["top1", "mean_pts"] == pytest.approx((20 + 6 * 10) / 7)


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


def test_split_table_errors(predictions):
    with pytest.raises(ValueError, match=r"split_table: no finetuned classes for \['seed1'\]"):
        robustness.split_table(predictions, {"seed0": A})
    with pytest.raises(ValueError, match=r"no images of classes A or none of B"):
        robustness.split_table(predictions, {"seed0": A, "seed1": []})


def test_where_all_classes_were_finetuned_there_is_no_b(predictions):
    table = robustness.split_table(predictions, {"seed0": [*range(9)], "seed1": [*range(9)]})
    whole = robustness.change_table(predictions).set_index("dataset")["change_top1_pts"]
    assert set(table["classes"]) == {"A"} and len(table) == len(TEST_SETS) + 1
    of_sets = table.set_index("dataset")["change_top1_pts"]
    assert of_sets[whole.index].tolist() == pytest.approx(whole.tolist())


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


def test_changed_images_know_the_kind_of_their_class(predictions):
    table = robustness.changed_images(predictions, {"seed0": A, "seed1": [3, 4]})
    assert len(table) == 2 * IMAGES * len(TEST_SETS)
    assert (table["classes"] == "A").sum() == 2 * 4 * len(TEST_SETS)
    changed = table[(table["dataset"] == "a") & (table["change_top1_pts"] > 0)]
    assert list(zip(changed["model_run"], changed["index"], changed["classes"], strict=True)) == [
        ("seed0", 3, "B"),
        ("seed1", 3, "A"),
        ("seed1", 4, "A"),
        ("seed1", 5, "B"),
    ]
    with pytest.raises(ValueError, match=r"changed_images: no finetuned classes for \['seed1'\]"):
        robustness.changed_images(predictions, {"seed0": A})


def test_changed_examples(predictions):
    assert robustness.changed_examples(predictions, "seed1", "a") == ([3, 4, 5], [])
    assert robustness.changed_examples(predictions, "seed0", "val") == ([], [2])
    with pytest.raises(ValueError, match=r"changed_examples: no images for run 'seed7'"):
        robustness.changed_examples(predictions, "seed7", "a")


def test_per_class_changes(predictions):
    table = robustness.per_class_changes(predictions).set_index(["dataset", "label"])
    assert len(table) == 5 * len(TEST_SETS)
    assert set(table["images"]) == {2}
    assert table.loc[("a", 3), "change_top1_pts"] == 50  # image 3 in both seeds, of 2 images
    assert table.loc[("a", 0), "change_top1_pts"] == 25  # image 5 in seed1 alone
    assert table.loc[("a", 2), "change_top1_pts"] == 0


def test_error_over_images_is_that_of_the_mean_over_runs(predictions):
    one = predictions[predictions["model_run"].isin(["original", "seed1"])]
    errors = robustness.change_table(one).set_index("dataset")["change_top1_se_pts"]
    # Paired differences: 3 of 10 are 100, the others 0.
    variance = (3 * 70**2 + 7 * 30**2) / 9
    assert errors["a"] == pytest.approx(math.sqrt(variance / 10))
    assert errors["val"] == 0
    both = robustness.change_table(predictions).set_index("dataset")["change_top1_se_pts"]
    per_image = robustness.paired_changes(predictions).query("dataset == 'a'")
    means = per_image.groupby("index")["change_top1_pts"].mean()
    assert both["a"] == pytest.approx(means.std() / math.sqrt(len(means)))


@pytest.mark.parametrize(
    ("function", "gone"), [("change_table", "v2"), ("shifted_average", "si_size")]
)
def test_missing_set(predictions, function, gone):
    rest = predictions[predictions["dataset"] != gone]
    with pytest.raises(ValueError, match=rf"{function}: sets missing: \['{gone}'\].*evaluate"):
        getattr(robustness, function)(rest)


def test_unknown_set(predictions):
    predictions["dataset"] = predictions["dataset"].replace({"v2": "v3"})
    with pytest.raises(ValueError, match=r"missing: \['v2'\], unknown: \['v3'\]"):
        robustness.change_table(predictions)


def test_runs_must_hold_the_same_images(predictions):
    gone = (predictions["model_run"] == "seed1") & (predictions["index"] == 9)
    with pytest.raises(ValueError, match=r"run 'seed1' shares 81 of its 81 images with the 90"):
        robustness.change_table(predictions[~gone])
    changed = predictions.copy()
    changed.loc[changed.index[-1], "label"] = 0
    with pytest.raises(ValueError, match=r"run 'seed1' shares 89 of its 90 images with the 90"):
        robustness.change_table(changed)


def test_bad_predictions(predictions):
    with pytest.raises(ValueError, match=r"predictions lack \['label_rank'\]"):
        robustness.change_table(predictions.drop(columns="label_rank"))
    with pytest.raises(ValueError, match=r"model runs are \['original'\].*evaluate both"):
        robustness.change_table(predictions[predictions["model_run"] == "original"])
    with pytest.raises(ValueError, match=r"image 0 of val occurs twice in run 'original'"):
        robustness.change_table(pd.concat([predictions, predictions.head(1)]))


def test_the_predictions_are_left_alone(predictions):
    before = predictions.copy()
    robustness.change_table(predictions)
    robustness.split_table(predictions, {"seed0": A, "seed1": A})
    pd.testing.assert_frame_equal(predictions, before)
    assert set(SHIFTED_SETS) < set(TEST_SETS)


# The test of a change: which images were corrected and which ruined.


@pytest.fixture
def changed_answers():
    """All sets: 2 of 10 right, then 8 and 9; on val 3, then 2 and 4, by two seeds."""
    before = {name: ranks(2) for name in TEST_SETS} | {"val": ranks(3, 2)}
    first = {name: ranks(8) for name in TEST_SETS} | {"val": ranks(2)}
    second = {name: ranks(9) for name in TEST_SETS} | {"val": ranks(4)}
    runs = {"original": before, "seed0": first, "seed1": second}
    return pd.concat([rows(run, by_set) for run, by_set in runs.items()], ignore_index=True)


def test_mcnemar_counts_the_images_that_changed(changed_answers):
    found = robustness.mcnemar_table(changed_answers).set_index(["dataset", "metric"])
    assert found.loc[("a", "top1"), ["corrected", "ruined"]].tolist() == [13, 0]
    assert found.loc[("a", "top1"), "p_value"] == pytest.approx(2 / 2**13)
    assert found.loc[("val", "top1"), ["corrected", "ruined"]].tolist() == [1, 1]
    assert found.loc[("val", "top1"), "p_value"] == 1.0
    # Top-5: 5 of 10 before, 2 and 4 after.
    assert found.loc[("val", "top5"), ["corrected", "ruined"]].tolist() == [0, 4]
    assert found.loc[("val", "top5"), "p_value"] == pytest.approx(0.125)
    assert found["significant"].sum() == 2 * (len(TEST_SETS) - 1)


def test_nothing_changed_is_not_significant(changed_answers):
    same = changed_answers[changed_answers["model_run"] == "original"]
    both = pd.concat([same, same.assign(model_run="seed0")])
    found = robustness.mcnemar_table(both)
    assert set(found["p_value"]) == {1.0}
    assert not found["significant"].any()
