"""The stored tables on attribution methods: all there, in our names, as printed."""

from __future__ import annotations

import pytest

from relevit import paper
from relevit.attribution import METHODS
from relevit.attribution.beyond_intuition import FEEDBACKS, PERCEPTIONS
from relevit.evaluate.segmentation import METRICS

TABLES = (
    "published_segmentation",
    "published_segmentation_changes",
    "published_perturbation",
    "published_ablation",
)


def test_segmentation():
    table = paper.published_segmentation()
    assert table["table"].value_counts().to_dict() == {"T2": 96, "main_T3": 42, "T6": 9}
    theirs = table[table["paper"] == "beyond_intuition"]
    assert set(theirs["method"]) < set(METHODS)
    assert theirs.groupby(["table", "model"])["method"].nunique().to_dict() == {
        ("T2", "ViT-B"): 8,
        ("T2", "ViT-L"): 8,
        ("T2", "ViT-MAE"): 8,
        ("T6", "ViT-B-DINO"): 3,
    }
    assert set(table["metric"]) == set(METRICS)
    value = table.set_index(["table", "model", "method", "metric"])["value_pct"]
    assert value.index.is_unique
    assert value["T2", "ViT-B", "token_wise", "miou_pct"] == 66.32
    assert value["T2", "ViT-L", "partial_lrp", "mf1_pct"] == 23.99
    assert value["T2", "ViT-MAE", "ga", "pixel_accuracy_pct"] == 67.10
    assert value["T6", "ViT-B-DINO", "raw_attention", "miou_pct"] == 65.79
    assert value["main_T3", "DeiT-S", "ours", "map_pct"] == 86.4


def test_segmentation_changes():
    changes = paper.published_segmentation_changes()
    assert changes["metric"].tolist() == ["pixel_accuracy_pct", "miou_pct", "map_pct"]
    assert changes["models"].tolist() == [7, 7, 7]
    assert (changes["change_min_pts"] > 0).all()  # RV-08: all 21 pairs
    miou = changes.set_index("metric").loc["miou_pct"]
    assert miou["change_min_pts"] == pytest.approx(3.1)  # DeiT-B 61.6 -> 64.7
    assert miou["change_max_pts"] == pytest.approx(17.4)  # AR-L 43.6 -> 61.0
    gains = (7.5, 12.0, 10.0, 7.5, 17.4, 3.3, 3.1)
    assert miou["change_pts"] == pytest.approx(sum(gains) / 7)


def test_perturbation():
    table = paper.published_perturbation()
    assert table["table"].value_counts().to_dict() == {"T1": 84, "T3": 20, "supp_T12": 12}
    for name in ("T1", "T3"):
        theirs = table[table["table"] == name]
        assert set(theirs["method"]) < set(METHODS)
        label = theirs[theirs["target"] == "label"]
        assert set(theirs["method"]) - set(label["method"]) == {"raw_attention", "rollout"}
    value = table.set_index(["model", "method", "direction", "target"])["auc_pct"]
    assert value.index.is_unique
    assert value["ViT-B", "head_wise", "positive", "predicted"] == 15.97
    assert value["ViT-B", "partial_lrp", "positive", "label"] == 20.20
    assert value["ViT-MAE", "transformer_attribution", "negative", "label"] == 57.31
    assert value["CLIP", "token_wise", "negative", "label"] == 37.10
    assert value["DeiT-B", "ours", "negative", "not stated"] == 59.35
    assert set(table["target"]) == {"predicted", "label", "not stated"}


def test_ablation():
    table = paper.published_ablation()
    assert len(table) == 7
    assert not table.isna().any(axis=None)
    assert set(table["perception"]) == set(PERCEPTIONS)
    assert set(table["feedback"]) == set(FEEDBACKS)
    rows = table.set_index(["perception", "feedback"])
    assert rows.loc[("head_wise", "gradient")].tolist() == [
        75.67,
        57.75,
        84.49,
        43.01,
        17.33,
        55.27,
    ]
    assert rows.loc[("none", "integrated_gradient"), "positive_auc_pct"] == 18.56
    assert rows.loc[("token_wise", "integrated_gradient"), "negative_auc_pct"] == 57.97


def test_the_ablation_repeats_the_tables_of_both_tests():
    ablation = paper.published_ablation().set_index(["perception", "feedback"])
    segmentation = paper.published_segmentation()
    full = segmentation[(segmentation["table"] == "T2") & (segmentation["model"] == "ViT-B")]
    values = full.pivot(index="method", columns="metric", values="value_pct")
    for name in ("head_wise", "token_wise"):
        ours = ablation.loc[(name, "integrated_gradient"), list(METRICS)]
        assert ours.tolist() == values.loc[name, list(METRICS)].tolist()


@pytest.mark.parametrize("name", TABLES)
def test_callers_cannot_change_the_stored_tables(name):
    read = getattr(paper, name)
    table = read()
    table.iloc[:, 0] = "changed"
    assert "changed" not in set(read().iloc[:, 0])


@pytest.mark.parametrize(("name", "rows"), [("segmentation", 179), ("perturbation", 132)])
def test_all_stored_rows_are_in_the_package(name, rows):
    table = paper.read_table(name)
    assert len(table) == rows
    assert table["value"].between(0, 100).all()
