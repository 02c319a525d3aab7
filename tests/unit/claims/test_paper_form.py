"""Our runs in the form of RobustViT's tables, and beside the paper's numbers."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from relevit import paper
from relevit.claims import (
    basis,
    beside,
    dino_rows,
    layout,
    map_rows,
    nine_sets,
    run_rows,
    seed_rows,
    side_by_side,
    sign_table,
    split_rows,
    variant_rows,
    with_note,
)
from relevit.data.cutouts import TEST_SETS
from relevit.evaluate import robustness

from ..evaluate.test_robustness import ranks, rows
from .made.runs import ablations, accuracies, gains, sensitivity


@pytest.fixture
def predictions():
    """All sets: 2 of 10 right, then 8 and 9; on val 3, then 2 and 4, by two seeds."""
    before = {name: ranks(2) for name in TEST_SETS} | {"val": ranks(3, 2)}
    first = {name: ranks(8) for name in TEST_SETS} | {"val": ranks(2)}
    second = {name: ranks(9) for name in TEST_SETS} | {"val": ranks(4)}
    runs = {"original": before, "seed0": first, "seed1": second}
    return pd.concat([rows(run, by_set) for run, by_set in runs.items()], ignore_index=True)


def test_layout_is_the_papers():
    table = layout(paper.published_rows("main_T2"), changes=True)
    assert table.loc[("ViT-B", "ours", "annotated"), ("si_rotation", "top5")] == "67.0 (+8.7)"
    assert table.columns.get_level_values("dataset").unique().tolist() == list(TEST_SETS[-3:])
    assert len(table) == 31
    table = layout(paper.published_rows("arxiv_T8"))
    assert table.columns.tolist() == list(TEST_SETS)
    assert table.loc[("DeiT-B", "ours", "annotated"), "sketch"] == "31.2 ± 0.3"
    table = layout(paper.published_map_rows("main_T3"))
    assert table.loc[("ViT-B", "ours")]["pixel_accuracy_pct"] == "82.1"
    assert len(table) == 14


def test_our_runs_in_the_papers_form():
    rows = run_rows(accuracies())
    table = layout(rows, ["top1"])
    assert table.loc[("tiny", "original", "none"), "val"] == "50.0"
    assert table.loc[("tiny", "ours", "annotated"), "a"] == "54.0 ± 0.1"
    assert table.loc[("tiny", "gradmask, described", "annotated"), "val"] == "47.0 ± 0.1"
    assert table.loc[("dinov2-s", "dino_linear", "none"), "val"] == "40.0"


def test_signs_beside_the_papers():
    rows = run_rows(accuracies(tokencut=gains(steep=-1.0, r=0.0)))
    side = side_by_side(paper.published_rows("main_T1", "main_T2"), rows)
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
    assert basis(table) == "tiny, 10000 images a set, 3 seeds"
    assert basis(table.query("seed == 1")) == "tiny, 10000 images a set, 1 seed"
    lost = (table["variant"] == "rollout") & (table["seed"] > 0)
    assert basis(table[~lost]) == "tiny, 10000 images a set, 1 to 3 seeds"
    assert basis(table[:0]) == "no run ended"
    assert basis(sensitivity()) == "tiny, 10000 images a set, 3 seeds"
    two = "tiny, 10000 images a set, 3 seeds; dinov2-s, 10000 images a set, 1 to 3 seeds"
    assert basis(accuracies()) == two


def test_missing_runs_are_marked():
    table = accuracies()
    lost = (table["method"] == "rrr") & (table["protocol"] == "published")
    one = (table["method"] == "gradmask") & (table["seed"] == 2)
    names = [f"tiny.rrr.published.annotated.seed{s}" for s in range(3)]
    names.append("tiny.gradmask.published.annotated.seed2")
    missing = [{"run": name, "reason": "killed"} for name in names]
    rows = run_rows(table[~lost & ~one], missing)
    shown = layout(rows, ["top1"])
    assert set(shown.loc[("tiny", "rrr", "annotated")]) == {"missing"}
    counts = rows.set_index(["method", "masks", "dataset", "metric"])[["seeds", "lost"]]
    assert counts.loc[("gradmask", "annotated", "val", "top1")].tolist() == [2, 1]
    signs = sign_table(side_by_side(paper.published_rows("main_T1", "main_T2"), rows))
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
    rows = dino_rows(run_rows(accuracies()), "dinov2-s", "tiny")
    signs = sign_table(
        side_by_side(paper.published_rows("supp_T10", "supp_T11"), rows, by_model=True)
    )
    assert len(signs) == 4
    dino, supervised = "dinov2-s (for DINO-B)", "tiny (for DeiT-B)"
    assert signs.loc[(dino, "dino_linear", "none"), "val"] == "-2.8 | -10.0"
    assert signs.loc[(dino, "dino_finetuned", "none"), "val"] == "+1.8 | +5.0"
    assert signs.loc[(dino, "ours", "tokencut"), "a"] == "+2.7 | +4.0"
    assert signs.loc[(supervised, "ours", "tokencut"), "a"].endswith(" | +4.2")
    assert sorted(signs["seeds"]) == [1, 1, 3, 3]
    quick = run_rows(accuracies().query("model == 'tiny'"))
    assert set(dino_rows(quick, "dinov2-s", "tiny")["model"]) == {supervised}


def test_ablation_tables():
    rows = variant_rows(ablations())
    side = side_by_side(paper.published_rows("main_T4", "supp_T8"), rows)
    assert "predicted_target" not in set(side["method"])
    shown = sign_table(side)
    assert shown.loc[("tiny", "no_background"), "val"] == "+0.1 | +0.0"
    top5 = side_by_side(paper.published_rows("arxiv_T12", "supp_T9"), rows)
    assert sign_table(top5, "top5").loc[("tiny", "attention"), "a"] == "+7.1 | +1.0"


def test_full_method_with_labels_is_the_papers_row_with_ground_truth():
    """There the variant `confidence` is what the paper calls its method."""
    table = ablations()
    with_labels = table.assign(variant=table["variant"].replace("ground_truth", "confidence"))
    ours, there = (variant_rows(part).set_index("method") for part in (table, with_labels))
    for here, papers in (("ours", "ground_truth"), ("ground_truth", "ours")):
        pd.testing.assert_frame_equal(
            ours.loc[here].reset_index(drop=True), there.loc[papers].reset_index(drop=True)
        )
    assert "confidence" not in there.index


def test_seed_and_split_tables(predictions):
    table, classes = predictions, {"seed0": [0, 1], "seed1": [0, 1]}
    rows = seed_rows(robustness.change_table(table), "tiny")
    assert layout(rows, ["top1"]).loc[("tiny", "ours", "annotated"), "a"] == "85.0 ± 7.1"
    rows = split_rows(robustness.split_accuracies(table, classes), "tiny")
    side = side_by_side(paper.published_rows("arxiv_T10", "arxiv_T11"), rows)
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
    rows = map_rows(table, "tiny")
    assert layout(rows).loc[("tiny", "ours"), "segmentation"] == "53.0 ± 1.4"
    signs = sign_table(side_by_side(paper.published_map_rows("main_T3"), rows), None)
    assert signs.loc[("tiny", "ours"), "sign agrees"] == "1 of 1"
    table = table.assign(direction="positive", auc_pct=table["value_pct"]).drop(columns="metric")
    side = side_by_side(paper.published_map_rows("supp_T12"), map_rows(table, "tiny"))
    assert side["ours_pts"].tolist() == [3.0] and side["sign_agrees"].tolist() == [False]


def test_wrong_names():
    with pytest.raises(ValueError, match=r"run_rows: 'seed0'; need model.method.protocol.masks"):
        run_rows(accuracies(), [{"run": "seed0"}])


def test_papers_rows_and_ours_in_one_table():
    rows = run_rows(accuracies())
    table = layout(beside(paper.published_rows("main_T2"), rows), ["top1"])
    assert table.index.names == ["source", "model", "method", "masks"]
    assert table.columns.tolist() == list(TEST_SETS[-3:])
    assert table.loc[("paper", "ViT-B", "ours", "annotated"), "si_size"] == "61.0"
    assert table.loc[("ours", "tiny", "ours", "annotated"), "si_size"] == "54.0 ± 0.1"


@pytest.mark.parametrize("model", ["vit-b", "vit-b-cut"])
def test_the_same_models_cells(predictions, model):
    table = nine_sets(robustness.change_table(predictions), model)
    assert table.shape == (2 * len(TEST_SETS), 9)
    printed = (
        paper.robustness()
        .query(
            "table in ['main_T1', 'main_T2'] and model == 'ViT-B' and dataset == 'inet_a' "
            "and metric == 'top1' and masks in ['none', 'annotated']"
        )
        .set_index("method")["value"]
    )
    original, ours = printed["original"], printed["ours"]
    assert table.loc[("top1", "a")].tolist() == [
        f"{original:.1f}",
        "20.0",
        f"{20 - original:+.1f}",
        f"{ours:.1f}",
        "85.0",
        f"{85 - ours:+.1f}",
        f"{ours - original:+.1f}",
        "+65.0 ± 7.1 *",
        f"{65 - ours + original:+.1f}",
    ]
    assert table.loc[("top1", "val"), ("change", "here")] == "+0.0 ± 14.1"


def test_a_model_that_the_paper_has_not(predictions):
    table = nine_sets(robustness.change_table(predictions), "tiny")
    assert set(table["original"]["paper"]) == set(table["change"]["difference"]) == {"–"}
    assert table.loc[("top1", "a"), ("finetuned", "here")] == "85.0"
    assert "a note" in with_note(table, "a note").to_html()


def test_differences_follow_the_rows_of_both(predictions):
    changes = robustness.change_table(predictions)
    theirs = paper.published_rows("arxiv_T8")
    both = beside(theirs, seed_rows(changes, "vit-b"))
    gaps = both[both["source"] == "ours - paper"].set_index(["method", "dataset"])
    printed = theirs[theirs["model"] == "ViT-B"].set_index(["method", "dataset"])["value_pct"]
    assert len(gaps) == 2 * len(TEST_SETS)
    for key, value in {("original", "a"): 20.0, ("ours", "a"): 85.0}.items():
        assert gaps.loc[key, "value_pct"] == pytest.approx(value - printed[key])
    table = layout(both, ["top1"])
    cells = table["a"].to_dict()
    assert cells["ours - paper", "ViT-B", "ours", "annotated"].startswith("+")
    assert cells["ours", "ViT-B", "ours", "annotated"] == "85.0 ± 7.1"
    stand_in = beside(theirs, seed_rows(changes, "tiny"))
    assert set(stand_in["source"]) == {"paper", "ours"}


def test_the_papers_own_models_are_compared_with_themselves(predictions):
    changes = robustness.change_table(predictions)
    theirs = paper.published_rows("arxiv_T8")
    same, mean = (
        side_by_side(theirs, seed_rows(changes, model)).set_index("dataset")
        for model in ("vit-b", "tiny")
    )
    printed = theirs[(theirs["model"] == "ViT-B") & (theirs["method"] == "ours")]
    printed = printed.set_index("dataset").loc["a"]
    assert same.loc["a", "paper_pts"] == printed["value_pct"] - printed["reference_pct"]
    assert same.loc["a", "paper_min_pts"] == same.loc["a", "paper_max_pts"]
    assert mean.loc["a", "paper_min_pts"] < mean.loc["a", "paper_max_pts"]
    assert same.loc["a", "model"] == "vit-b"
    # Table 10 has three models, and ViT-L is none of them.
    split = paper.published_rows("arxiv_T10")
    ours = seed_rows(changes, "vit-l").assign(classes="A")
    both = side_by_side(split, ours).set_index(["dataset", "metric"]).loc["a", "top1"]
    assert both["paper_pts"] == pytest.approx(
        paper.published_split_changes()
        .set_index(["dataset", "classes"])
        .loc[("a", "A"), "change_top1_pts"]
    )
