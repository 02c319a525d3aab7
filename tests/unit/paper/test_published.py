"""The stored tables against the averages that the paper prints, and against the claims."""

from __future__ import annotations

import pytest

from relevit import paper
from relevit.data.cutouts import TEST_SETS

PRINTED = 0.0501  # points; half a printed digit, with room for float rounding
# Printed averages that disagree with the printed cells (table, classes, set, metric).
WRONG = {("train", "inet_v2", "top1"), ("other", "si_location", "top1")}


def printed(masks, classes="all"):
    table = paper.averages()
    table = table[(table["masks"] == masks) & (table["train_classes"] == classes)]
    return table[["dataset", "metric", "value"]].itertuples(index=False)


@pytest.mark.parametrize("masks", paper.MASKS)
def test_changes_are_the_printed_averages(masks):
    ours = paper.published_changes(masks).set_index("dataset")
    assert tuple(ours.index) == TEST_SETS
    assert set(ours["models"]) == {7}
    sets = {theirs: name for name, theirs in paper.PAPER_SETS.items()}
    checked = 0
    for dataset, metric, value in printed(masks):
        assert ours.loc[sets[dataset], f"change_{metric}_pts"] == pytest.approx(value, abs=PRINTED)
        checked += 1
    assert checked == 12  # the paper prints averages for T1 alone, not for T2


@pytest.mark.parametrize(("classes", "kind"), [("train", "A"), ("other", "B")])
def test_split_changes_are_the_printed_averages(classes, kind):
    ours = paper.published_split_changes()
    ours = ours[ours["classes"] == kind].set_index("dataset")
    assert tuple(ours.index) == (*TEST_SETS, paper.SHIFTED_AVERAGE)
    assert set(ours["models"]) == {3}
    sets = {theirs: name for name, theirs in paper.PAPER_SETS.items()}
    wrong = {
        (classes, dataset, metric)
        for dataset, metric, value in printed("annotated", classes)
        if abs(ours.loc[sets[dataset], f"change_{metric}_pts"] - value) > PRINTED
    }
    assert wrong == {row for row in WRONG if row[0] == classes}


def test_extremes_over_models_hold_the_claims():
    ours = paper.published_changes().set_index("dataset")
    assert (ours["change_top1_min_pts"] <= ours["change_top1_pts"]).all()
    assert (ours["change_top1_pts"] <= ours["change_top1_max_pts"]).all()
    rise = ["a", "objectnet", "si_location", "si_rotation", "si_size"]  # RV-03 and RV-06
    assert (ours.loc[rise, ["change_top1_min_pts", "change_top5_min_pts"]] > 0).all(axis=None)


def test_hyperparameters_and_claims_are_complete():
    rates = paper.hyperparameters()
    assert rates["method"].value_counts().to_dict() == {"ours": 7, "rrr": 5, "gradmask": 5}
    claims = paper.claims()
    numbers = {"RV": range(1, 44), "BI": range(1, 23), "IAV": range(1, 23)}
    assert claims["id"].tolist() == [f"{p}-{i:02}" for p, those in numbers.items() for i in those]
    assert claims["paper"].tolist() == ["robustvit"] * 43 + ["beyond_intuition"] * 22 + ["iav"] * 22
    assert (claims[["paper", "where", "claim"]] != "").all(axis=None)
    assert not claims.isna().any(axis=None)


@pytest.mark.parametrize("table", ["robustness", "averages", "hyperparameters", "claims"])
def test_callers_cannot_change_the_stored_tables(table):
    read = getattr(paper, table)
    table = read()
    table.iloc[:, 0] = "changed"
    assert "changed" not in set(read().iloc[:, 0])


def test_unknown_masks():
    with pytest.raises(ValueError, match=r"published_changes: masks 'drawn' is unknown; use one"):
        paper.published_changes("drawn")


def test_missing_file():
    with pytest.raises(FileNotFoundError, match=r"paper: nothing.csv is missing.*install"):
        paper.read_table("nothing")
