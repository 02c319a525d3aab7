"""Our numbers beside the published ones of the same model; the test of a change."""

from __future__ import annotations

import pandas as pd
import pytest

from relevit.claims import cells as paper_cells
from relevit.claims import our_rows as paper_rows
from relevit.claims.layout import beside, layout, published_name, published_rows, side_by_side
from relevit.data.cutouts import TEST_SETS
from relevit.evaluate import robustness
from relevit.paper import published as paper

from ..evaluate.test_robustness import ranks, rows


@pytest.fixture
def predictions():
    """All sets: 2 of 10 right, then 8 and 9; on val 3, then 2 and 4, by two seeds."""
    before = {name: ranks(2) for name in TEST_SETS} | {"val": ranks(3, 2)}
    first = {name: ranks(8) for name in TEST_SETS} | {"val": ranks(2)}
    second = {name: ranks(9) for name in TEST_SETS} | {"val": ranks(4)}
    runs = {"original": before, "seed0": first, "seed1": second}
    return pd.concat([rows(run, by_set) for run, by_set in runs.items()], ignore_index=True)


def test_mcnemar_counts_the_images_that_changed(predictions):
    found = robustness.mcnemar_table(predictions).set_index(["dataset", "metric"])
    assert found.loc[("a", "top1"), ["corrected", "ruined"]].tolist() == [13, 0]
    assert found.loc[("a", "top1"), "p_value"] == pytest.approx(2 / 2**13)
    assert found.loc[("val", "top1"), ["corrected", "ruined"]].tolist() == [1, 1]
    assert found.loc[("val", "top1"), "p_value"] == 1.0
    # Top-5: 5 of 10 before, 2 and 4 after.
    assert found.loc[("val", "top5"), ["corrected", "ruined"]].tolist() == [0, 4]
    assert found.loc[("val", "top5"), "p_value"] == pytest.approx(0.125)
    assert found["significant"].sum() == 2 * (len(TEST_SETS) - 1)


def test_nothing_changed_is_not_significant(predictions):
    same = predictions[predictions["model_run"] == "original"]
    both = pd.concat([same, same.assign(model_run="seed0")])
    found = robustness.mcnemar_table(both)
    assert set(found["p_value"]) == {1.0}
    assert not found["significant"].any()


@pytest.mark.parametrize("model", ["vit-b", "vit-b-cut"])
def test_the_same_models_cells(predictions, model):
    tests = robustness.mcnemar_table(predictions)
    table = paper_cells.nine_sets(robustness.change_table(predictions), tests, model)
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
    tests = robustness.mcnemar_table(predictions)
    table = paper_cells.nine_sets(robustness.change_table(predictions), tests, "tiny")
    assert set(table["original"]["paper"]) == set(table["change"]["difference"]) == {"–"}
    assert table.loc[("top1", "a"), ("finetuned", "here")] == "85.0"
    assert (
        robustness.SIGNIFICANCE_NOTE
        in paper_cells.with_note(table, robustness.SIGNIFICANCE_NOTE).to_html()
    )


def test_names_in_the_papers_tables():
    names = ("vit-b", "ar-l", "deit-s-cut", "dino-b", "tiny", "mae-b", "ViT-B")
    assert [published_name(name) for name in names] == [
        "ViT-B",
        "AR-L",
        "DeiT-S",
        "DINO-B",
        None,
        None,
        None,
    ]


def test_differences_follow_the_rows_of_both(predictions):
    changes = robustness.change_table(predictions)
    theirs = published_rows("arxiv_T8")
    both = beside(theirs, paper_rows.seed_rows(changes, "vit-b"))
    gaps = both[both["source"] == "ours - paper"].set_index(["method", "dataset"])
    printed = theirs[theirs["model"] == "ViT-B"].set_index(["method", "dataset"])["value_pct"]
    assert len(gaps) == 2 * len(TEST_SETS)
    for key, value in {("original", "a"): 20.0, ("ours", "a"): 85.0}.items():
        assert gaps.loc[key, "value_pct"] == pytest.approx(value - printed[key])
    table = layout(both, ["top1"])
    cells = table["a"].to_dict()
    assert cells["ours - paper", "ViT-B", "ours", "annotated"].startswith("+")
    assert cells["ours", "ViT-B", "ours", "annotated"] == "85.0 ± 7.1"
    stand_in = beside(theirs, paper_rows.seed_rows(changes, "tiny"))
    assert set(stand_in["source"]) == {"paper", "ours"}


def test_the_papers_own_models_are_compared_with_themselves(predictions):
    changes = robustness.change_table(predictions)
    theirs = published_rows("arxiv_T8")
    same, mean = (
        side_by_side(theirs, paper_rows.seed_rows(changes, model)).set_index("dataset")
        for model in ("vit-b", "tiny")
    )
    printed = theirs[(theirs["model"] == "ViT-B") & (theirs["method"] == "ours")]
    printed = printed.set_index("dataset").loc["a"]
    assert same.loc["a", "paper_pts"] == printed["value_pct"] - printed["reference_pct"]
    assert same.loc["a", "paper_min_pts"] == same.loc["a", "paper_max_pts"]
    assert mean.loc["a", "paper_min_pts"] < mean.loc["a", "paper_max_pts"]
    assert same.loc["a", "model"] == "vit-b"
    # Table 10 has three models, and ViT-L is none of them.
    split = published_rows("arxiv_T10")
    ours = paper_rows.seed_rows(changes, "vit-l").assign(classes="A")
    both = side_by_side(split, ours).set_index(["dataset", "metric"]).loc["a", "top1"]
    assert both["paper_pts"] == pytest.approx(
        paper.published_split_changes()
        .set_index(["dataset", "classes"])
        .loc[("a", "A"), "change_top1_pts"]
    )


def test_split_changes_of_one_model():
    mean, one = (paper.published_split_changes(model) for model in (None, "DeiT-B"))
    assert set(mean["models"]) == {3}
    assert set(one["models"]) == {1}
    pd.testing.assert_frame_equal(paper.published_split_changes("ViT-L"), mean)
