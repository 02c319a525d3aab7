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


def test_newly_wrong(predictions):
    found = class_changes.newly_wrong(predictions, "a", 0)
    assert found.to_dict("list") == {
        "model_run": ["seed0", "seed1", "seed1"],
        "index": [0, 0, 4],
        "answer": [1, 2, 2],
    }
    assert class_changes.newly_wrong(predictions, "a", 1).empty, "image 5 was wrong before"


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


def test_no_class_is_called_harmed_without_a_loss():
    same = pd.concat([rows("original"), rows("seed0")], ignore_index=True)
    table = class_changes.harmed_table(same, ("a",), 2)
    assert table.empty
    assert table.columns.tolist() == class_changes.HARMED


# Spread


def changed(ruined):
    """One run that ruins the images for which `ruined(index, label)` holds on all sets."""
    bad = {(s, i) for s in SHIFTED_SETS for i in range(IMAGES) if ruined(i, i % LABELS)}
    return pd.concat([rows("original"), rows("seed0", bad)], ignore_index=True)


def test_spread_of_one_class_that_loses_all():
    """Of the two classes in A one loses everything: the deviation of (-100, 0)."""
    table = class_changes.class_spread(
        changed(lambda i, label: label == 0), {"seed0": [0, 1]}, draws=99
    )
    in_a, in_b = table.to_dict("records")
    assert in_a["spread_pts"] == pytest.approx(100 / 2**0.5)
    assert in_a["chance_pts"] < 40
    assert in_a["p_value"] == 1 / 100
    assert in_b == {"classes": "B", "spread_pts": 0.0, "chance_pts": 0.0, "p_value": 1.0}


def test_spread_where_all_classes_were_finetuned_is_that_of_a_alone(predictions):
    everything = {run: list(range(LABELS)) for run in A}
    assert class_changes.class_spread(predictions, everything, draws=9)["classes"].tolist() == ["A"]


def test_spread_by_chance_is_not_significant():
    """Each class loses one image of three: no spread at all, the least there can be."""
    table = class_changes.class_spread(
        changed(lambda i, label: i < LABELS), {"seed0": [0, 1]}, draws=99
    )
    assert table["spread_pts"].tolist() == [0.0, 0.0]
    assert table["p_value"].tolist() == [1.0, 1.0]
    assert (table["chance_pts"] > 0).all()


def test_p_values_are_uniform_where_classes_are_equal():
    """Images ruined at random: about one in five p-values lies below 0.2."""
    random = np.random.default_rng(0)
    values = []
    for draw in range(40):
        hit = random.random((len(SHIFTED_SETS), IMAGES)) < 0.4
        bad = {(s, i) for k, s in enumerate(SHIFTED_SETS) for i in range(IMAGES) if hit[k, i]}
        made = pd.concat([rows("original"), rows("seed0", bad)], ignore_index=True)
        found = class_changes.class_spread(made, {"seed0": [0, 1]}, draws=59, seed=draw)
        values += found["p_value"].tolist()
    assert 0.08 < np.mean(np.array(values) <= 0.2) < 0.36


def test_spread_is_drawn_by_the_seed(predictions):
    first, again, other = (
        class_changes.class_spread(predictions, A, draws=20, seed=seed) for seed in (1, 1, 2)
    )
    pd.testing.assert_frame_equal(first, again)
    assert not first["chance_pts"].equals(other["chance_pts"])


# Correlations


def test_rank_correlation_of_equal_and_opposite_orders():
    size = pd.Series([1.0, 2.0, 4.0, 8.0, 16.0])
    found = class_changes.rank_correlation(size, size**3)
    assert found == {
        "count": 5,
        "spearman": pytest.approx(1),
        "low": pytest.approx(1),
        "high": pytest.approx(1),
    }
    assert class_changes.rank_correlation(size, -size)["spearman"] == pytest.approx(-1)


def test_rank_correlation_is_that_of_pandas_also_with_ties():
    random = np.random.default_rng(0)
    cause = pd.Series(random.normal(size=60))
    change = pd.Series(random.integers(-1, 2, size=60) * 100.0) - 50 * cause.round()
    found = class_changes.rank_correlation(cause, change)
    assert found["spearman"] == pytest.approx(cause.corr(change, method="spearman"))
    assert found["low"] < found["spearman"] < found["high"] < 0


def test_interval_covers_no_correlation_about_as_often_as_it_should():
    random = np.random.default_rng(0)
    covered = []
    for _ in range(60):
        cause, change = (pd.Series(random.normal(size=40)) for _ in "12")
        found = class_changes.rank_correlation(cause, change, draws=200)
        covered.append(found["low"] <= 0 <= found["high"])
    assert np.mean(covered) > 0.85


def test_rank_correlation_without_any_change_is_nan():
    found = class_changes.rank_correlation(pd.Series([1.0, 2, 3]), pd.Series([0.0, 0, 0]))
    assert np.isnan([found["spearman"], found["low"], found["high"]]).all()


def test_drawing_share():
    share = class_changes.drawing_share_pct()
    assert tuple(share.index) == CLASSES
    assert share.between(5, 90).all()


def test_context_gain(predictions):
    """Class 1 is wrong on two of three images on `a`, class 2 on one of three on `val`."""
    gain = class_changes.context_gain_pts(predictions)
    assert gain.to_dict() == pytest.approx(
        {CLASSES[0]: 0, CLASSES[1]: 200 / 3, CLASSES[2]: -100 / 3, CLASSES[3]: 0}
    )


# Errors


def test_unknown_image(predictions):
    with pytest.raises(ValueError, match="no image of label 7 in set 'a'; use a label and a set"):
        class_changes.newly_wrong(predictions, "a", 7)


def test_run_without_classes(predictions):
    with pytest.raises(ValueError, match="no finetuned classes for run 'seed1'; give the labels"):
        class_changes.class_spread(predictions, {"seed0": [0, 1]}, draws=5)


def test_other_rows():
    with pytest.raises(ValueError, match="3 and 2 rows; give at least three, with the same index"):
        class_changes.rank_correlation(pd.Series([1.0, 2, 3]), pd.Series([1.0, 2]))


def test_context_needs_both_sets(predictions):
    only = predictions[predictions["dataset"] != "a"]
    with pytest.raises(ValueError, match="the original model is needed on 'val' and 'a'"):
        class_changes.context_gain_pts(only)


def test_no_causes_are_a_table_with_the_same_columns():
    size = pd.Series([1.0, 2.0, 4.0])
    made = class_changes.cause_table({("object size", "class", "v2"): (size, -size)})
    assert made.iloc[0, :5].tolist() == ["object size", "class", "v2", 3, pytest.approx(-1)]
    none = class_changes.cause_table({})
    assert none.empty and list(none) == list(made)


def test_draws_do_not_depend_on_how_many_are_made_at_once(predictions, monkeypatch):
    whole = class_changes.class_spread(predictions, A, draws=20)
    monkeypatch.setattr(class_changes, "AT_ONCE", 1)
    pd.testing.assert_frame_equal(class_changes.class_spread(predictions, A, draws=20), whole)


def test_spread_over_one_class_is_unknown(predictions):
    table = class_changes.class_spread(predictions, {"seed0": [99], "seed1": [99]}, draws=5)
    assert table.set_index("classes").loc["A"].isna().all()
    assert table.set_index("classes").loc["B"].notna().all()
