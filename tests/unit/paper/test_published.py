"""The stored tables against the averages that the paper prints, and against the claims."""

from __future__ import annotations

import pandas as pd
import pytest

from relevit import paper
from relevit.data.cutouts import SHIFTED_SETS, TEST_SETS
from relevit.finetune.hyperparameters import hyperparameters
from relevit.paper.published import MAP_TABLES

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
    rows = paper.published_rows("arxiv_T10", "arxiv_T11").query("method == 'ours'")
    rows = rows[rows["classes"] == kind]
    ours = (rows["value_pct"] - rows["reference_pct"]).groupby([rows["dataset"], rows["metric"]])
    ours, sets = ours.mean(), {theirs: name for name, theirs in paper.PAPER_SETS.items()}
    wrong = {
        (classes, dataset, metric)
        for dataset, metric, value in printed("annotated", classes)
        if abs(ours[sets[dataset], metric] - value) > PRINTED
    }
    assert wrong == {row for row in WRONG if row[0] == classes}


def test_hyperparameters_and_claims_are_complete():
    rates = hyperparameters()
    assert rates["method"].value_counts().to_dict() == {"ours": 7, "rrr": 5, "gradmask": 5}
    claims = paper.claims()
    numbers = {"RV": range(1, 44), "BI": range(1, 23), "IAV": range(1, 23)}
    assert claims["id"].tolist() == [f"{p}-{i:02}" for p, those in numbers.items() for i in those]
    assert claims["paper"].tolist() == ["robustvit"] * 43 + ["beyond_intuition"] * 22 + ["iav"] * 22
    assert (claims[["paper", "where", "claim"]] != "").all(axis=None)
    assert not claims.isna().any(axis=None)


@pytest.mark.parametrize("table", ["robustness", "averages", "claims"])
def test_callers_cannot_change_the_stored_tables(table):
    read = getattr(paper, table)
    table = read()
    table.iloc[:, 0] = "changed"
    assert "changed" not in set(read().iloc[:, 0])


# Row by row.

TABLES = [name for name in paper.CAPTIONS if name not in MAP_TABLES]


@pytest.mark.parametrize("name", TABLES)
def test_every_printed_number_is_kept(name):
    rows = paper.published_rows(name)
    printed = paper.robustness().query("table == @name")
    own = rows if name != "supp_T9" else rows[rows["method"] != "original"]
    assert len(own) == len(printed)
    assert own["value_pct"].sum() == pytest.approx(printed["value"].sum())
    assert rows["reference_pct"].notna().sum() == len(rows) - (rows["method"] == "original").sum()


def test_what_the_dino_rows_are_compared_with():
    rows = paper.published_rows("supp_T10").set_index(["model", "method", "dataset"])
    pair = rows.loc[("DINO-B", "ours", "a"), ["value_pct", "reference_pct"]]
    assert pair.tolist() == [19.1, 16.4]
    assert rows.loc[("DINO-B", "dino_linear", "a"), "reference_pct"] == 12.9
    assert rows.loc[("DINO-B", "dino_finetuned", "a"), "reference_pct"] == 12.9


def test_published_ablations():
    top1, top5 = paper.published_ablations(), paper.published_ablations("top5")
    assert list(top5.index) == list(paper.VARIANT_METHODS)
    assert list(top1.index) == list(paper.VARIANT_METHODS)[:-2]
    assert top1.loc["no_background", "val"] == pytest.approx(0.1)
    mean = top1[list(SHIFTED_SETS)].mean(axis=1)
    pd.testing.assert_series_equal(top1["shifted_average"], mean, check_names=False)


def test_names_in_the_papers_tables():
    names = ("vit-b", "ar-l", "deit-s-cut", "dino-b", "tiny", "mae-b", "ViT-B")
    assert [paper.published_name(name) for name in names] == [
        "ViT-B",
        "AR-L",
        "DeiT-S",
        "DINO-B",
        None,
        None,
        None,
    ]


def test_wrong_names():
    with pytest.raises(ValueError, match=r"published_rows: \['main_T3'\] are unknown; use some of"):
        paper.published_rows("main_T3")
    with pytest.raises(ValueError, match=r"published_map_rows: 'T9' is unknown; use one of"):
        paper.published_map_rows("T9")
    with pytest.raises(ValueError, match=r"published_ablations: metric 'top2' is unknown; use one"):
        paper.published_ablations("top2")
