"""RobustViT's tables in the paper's form, with our runs beside them."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from relevit.claims import layout as paper_tables
from relevit.claims import our_rows as paper_rows
from relevit.claims.layout import (
    layout,
    published_map_rows,
    published_rows,
    side_by_side,
    sign_table,
)
from relevit.data.cutouts import SHIFTED_SETS, TEST_SETS
from relevit.evaluate import robustness
from relevit.paper import published as paper

from ..robustvit_tables import ablations, accuracies, gains, sensitivity

TABLES = [name for name in paper_tables.CAPTIONS if name not in paper_tables.MAP_TABLES]


@pytest.mark.parametrize("name", TABLES)
def test_every_printed_number_is_kept(name):
    rows = published_rows(name)
    printed = paper.robustness().query("table == @name")
    own = rows if name != "supp_T9" else rows[rows["method"] != "original"]
    assert len(own) == len(printed)
    assert own["value_pct"].sum() == pytest.approx(printed["value"].sum())
    assert rows["reference_pct"].notna().sum() == len(rows) - (rows["method"] == "original").sum()


def test_effects_of_the_paper():
    rows = published_rows("main_T1", "main_T2")
    ours = rows[(rows["method"] == "ours") & (rows["masks"] == "annotated")]
    change = (
        (ours["value_pct"] - ours["reference_pct"])
        .groupby([ours["dataset"], ours["metric"]])
        .mean()
    )
    published = paper.published_changes().set_index("dataset")
    for name in TEST_SETS:
        assert change[name, "top1"] == pytest.approx(published.loc[name, "change_top1_pts"])


def test_swapped_rows_are_resolved():
    split = paper.published_split_changes().set_index(["dataset", "classes"])
    rows = published_rows("arxiv_T10", "arxiv_T11").query("method == 'ours' and metric == 'top1'")
    change = (
        (rows["value_pct"] - rows["reference_pct"])
        .groupby([rows["dataset"], rows["classes"]])
        .mean()
    )
    for key, value in change.items():
        assert value == pytest.approx(split.loc[key, "change_top1_pts"])


def test_what_the_dino_rows_are_compared_with():
    rows = published_rows("supp_T10").set_index(["model", "method", "dataset"])
    pair = rows.loc[("DINO-B", "ours", "a"), ["value_pct", "reference_pct"]]
    assert pair.tolist() == [19.1, 16.4]
    assert rows.loc[("DINO-B", "dino_linear", "a"), "reference_pct"] == 12.9
    assert rows.loc[("DINO-B", "dino_finetuned", "a"), "reference_pct"] == 12.9


def test_layout_is_the_papers():
    table = layout(published_rows("main_T2"), changes=True)
    assert table.loc[("ViT-B", "ours", "annotated"), ("si_rotation", "top5")] == "67.0 (+8.7)"
    assert table.columns.get_level_values("dataset").unique().tolist() == list(TEST_SETS[-3:])
    assert len(table) == 31
    table = layout(published_rows("arxiv_T8"))
    assert table.columns.tolist() == list(TEST_SETS)
    assert table.loc[("DeiT-B", "ours", "annotated"), "sketch"] == "31.2 ± 0.3"
    table = layout(published_map_rows("main_T3"))
    assert table.loc[("ViT-B", "ours")]["pixel_accuracy_pct"] == "82.1"
    assert len(table) == 14


def test_our_runs_in_the_papers_form():
    rows = paper_rows.run_rows(accuracies())
    table = layout(rows, ["top1"])
    assert table.loc[("tiny", "original", "none"), "val"] == "50.0"
    assert table.loc[("tiny", "ours", "annotated"), "a"] == "54.0 ± 0.1"
    assert table.loc[("tiny", "gradmask, described", "annotated"), "val"] == "47.0 ± 0.1"
    assert table.loc[("dinov2-s", "dino_linear", "none"), "val"] == "40.0"


def test_signs_beside_the_papers():
    rows = paper_rows.run_rows(accuracies(tokencut=gains(steep=-1.0, r=0.0)))
    side = side_by_side(published_rows("main_T1", "main_T2"), rows)
    assert set(side["method"]) == {"ours", "gradmask", "rrr"}
    keyed = side.set_index(["model", "method", "masks", "dataset", "metric"])["sign_agrees"]
    assert keyed["tiny", "ours", "annotated", "a", "top1"] is True
    assert keyed["tiny", "ours", "tokencut", "a", "top1"] is False
    assert math.isnan(keyed["tiny", "ours", "tokencut", "r", "top1"])
    table = sign_table(side)
    row = table.loc[("tiny", "ours", "tokencut")]
    assert row["a"].endswith(" | -1.0") and row["r"].endswith(" | +0.0")
    assert row["sign agrees"] == "3 of 8"
    assert table.loc[("tiny", "ours", "annotated"), "sign agrees"] == "9 of 9"
    assert table.columns.tolist() == [*TEST_SETS, "sign agrees", "seeds"]
    assert table.loc[("tiny", "ours", "annotated"), "seeds"] == 3


def test_what_a_table_rests_on():
    table = ablations()
    assert paper_rows.basis(table) == "tiny, 10000 images a set, 3 seeds"
    assert paper_rows.basis(table.query("seed == 1")) == "tiny, 10000 images a set, 1 seed"
    lost = (table["variant"] == "rollout") & (table["seed"] > 0)
    assert paper_rows.basis(table[~lost]) == "tiny, 10000 images a set, 1 to 3 seeds"
    assert paper_rows.basis(table[:0]) == "no run ended"
    assert paper_rows.basis(sensitivity()) == "tiny, 10000 images a set, 3 seeds"
    two = "tiny, 10000 images a set, 3 seeds; dinov2-s, 10000 images a set, 1 to 3 seeds"
    assert paper_rows.basis(accuracies()) == two


def test_missing_runs_are_marked():
    table = accuracies()
    lost = (table["method"] == "rrr") & (table["protocol"] == "published")
    one = (table["method"] == "gradmask") & (table["seed"] == 2)
    names = [f"tiny.rrr.published.annotated.seed{s}" for s in range(3)]
    names.append("tiny.gradmask.published.annotated.seed2")
    missing = [{"run": name, "reason": "killed"} for name in names]
    rows = paper_rows.run_rows(table[~lost & ~one], missing)
    shown = layout(rows, ["top1"])
    assert set(shown.loc[("tiny", "rrr", "annotated")]) == {"missing"}
    counts = rows.set_index(["method", "masks", "dataset", "metric"])[["seeds", "lost"]]
    assert counts.loc[("gradmask", "annotated", "val", "top1")].tolist() == [2, 1]
    signs = sign_table(side_by_side(published_rows("main_T1", "main_T2"), rows))
    assert signs.loc[("tiny", "rrr", "annotated"), "val"].endswith(" | missing")
    assert signs.loc[("tiny", "rrr", "annotated"), "sign agrees"] == "0 of 0"
    assert signs["seeds"].to_dict() == {
        ("tiny", "ours", "annotated"): 3,
        ("tiny", "ours", "tokencut"): 3,
        ("tiny", "gradmask", "annotated"): 2,
        ("tiny", "rrr", "annotated"): 0,
        ("dinov2-s", "ours", "tokencut"): 3,
    }


def test_dino_tables():
    rows = paper_rows.dino_rows(paper_rows.run_rows(accuracies()), "dinov2-s", "tiny")
    signs = sign_table(side_by_side(published_rows("supp_T10", "supp_T11"), rows, by_model=True))
    assert len(signs) == 4
    dino, supervised = "dinov2-s (for DINO-B)", "tiny (for DeiT-B)"
    assert signs.loc[(dino, "dino_linear", "none"), "val"] == "-2.8 | -10.0"
    assert signs.loc[(dino, "dino_finetuned", "none"), "val"] == "+1.8 | +5.0"
    assert signs.loc[(dino, "ours", "tokencut"), "a"] == "+2.7 | +4.0"
    assert signs.loc[(supervised, "ours", "tokencut"), "a"].endswith(" | +4.2")
    assert sorted(signs["seeds"]) == [1, 1, 3, 3]
    quick = paper_rows.run_rows(accuracies().query("model == 'tiny'"))
    assert set(paper_rows.dino_rows(quick, "dinov2-s", "tiny")["model"]) == {supervised}


def test_ablation_tables():
    rows = paper_rows.variant_rows(ablations())
    side = side_by_side(published_rows("main_T4", "supp_T8"), rows)
    assert "predicted_target" not in set(side["method"])
    shown = sign_table(side)
    assert shown.loc[("tiny", "no_background"), "val"] == "+0.1 | +0.0"
    top5 = side_by_side(published_rows("arxiv_T12", "supp_T9"), rows)
    assert sign_table(top5, "top5").loc[("tiny", "attention"), "a"] == "+7.1 | +1.0"


def predictions():
    right = {"original": 4, "seed0": 6, "seed1": 7}
    rows = [
        {"model_run": run, "dataset": name, "index": i, "label": i % 4, "label_rank": 5 * (i >= n)}
        for run, n in right.items()
        for name in TEST_SETS
        for i in range(10)
    ]
    return pd.DataFrame(rows)


def test_seed_and_split_tables():
    table, classes = predictions(), {"seed0": [0, 1], "seed1": [0, 1]}
    rows = paper_rows.seed_rows(robustness.change_table(table), "tiny")
    assert layout(rows, ["top1"]).loc[("tiny", "ours", "annotated"), "a"] == "65.0 ± 7.1"
    rows = paper_rows.split_rows(table, classes, "tiny")
    side = side_by_side(published_rows("arxiv_T10", "arxiv_T11"), rows)
    split = robustness.split_table(table, classes).set_index(["dataset", "classes"])
    for row in side.query("metric == 'top1'").to_dict("records"):
        expected = split.loc[(row["dataset"], row["classes"]), "change_top1_pts"]
        assert row["ours_pts"] == pytest.approx(expected)
    assert sign_table(side).index.names == ["model", "method", "classes"]


def test_map_tables():
    columns = ["model_run", "metric", "value_pct"]
    table = pd.DataFrame(
        [["original", "miou_pct", 50.0], ["seed0", "miou_pct", 52.0], ["seed1", "miou_pct", 54.0]],
        columns=columns,
    )
    rows = paper_rows.map_rows(table, "tiny")
    assert layout(rows).loc[("tiny", "ours"), "segmentation"] == "53.0 ± 1.4"
    signs = sign_table(side_by_side(published_map_rows("main_T3"), rows), None)
    assert signs.loc[("tiny", "ours"), "sign agrees"] == "1 of 1"
    table = table.assign(direction="positive", auc_pct=table["value_pct"]).drop(columns="metric")
    side = side_by_side(published_map_rows("supp_T12"), paper_rows.map_rows(table, "tiny"))
    assert side["ours_pts"].tolist() == [3.0] and side["sign_agrees"].tolist() == [False]


def test_published_ablations():
    top1, top5 = paper.published_ablations(), paper.published_ablations("top5")
    assert list(top5.index) == list(paper.VARIANT_METHODS)
    assert list(top1.index) == list(paper.VARIANT_METHODS)[:-2]
    assert top1.loc["no_background", "val"] == pytest.approx(0.1)
    mean = top1[list(SHIFTED_SETS)].mean(axis=1)
    pd.testing.assert_series_equal(top1["shifted_average"], mean, check_names=False)


def test_wrong_names():
    with pytest.raises(ValueError, match=r"published_rows: \['main_T3'\] are unknown; use some of"):
        published_rows("main_T3")
    with pytest.raises(ValueError, match=r"published_map_rows: 'T9' is unknown; use one of"):
        published_map_rows("T9")
    with pytest.raises(ValueError, match=r"published_ablations: metric 'top2' is unknown; use one"):
        paper.published_ablations("top2")
    with pytest.raises(ValueError, match=r"LostRun: 'seed0'; need model.method.protocol.masks"):
        paper_rows.LostRun.read("seed0")


def test_papers_rows_and_ours_in_one_table():
    rows = paper_rows.run_rows(accuracies())
    table = layout(paper_tables.beside(published_rows("main_T2"), rows), ["top1"])
    assert table.index.names == ["source", "model", "method", "masks"]
    assert table.columns.tolist() == list(TEST_SETS[-3:])
    assert table.loc[("paper", "ViT-B", "ours", "annotated"), "si_size"] == "61.0"
    assert table.loc[("ours", "tiny", "ours", "annotated"), "si_size"] == "54.0 ± 0.1"
