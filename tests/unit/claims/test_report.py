"""What the report shows of verdicts, and our numbers beside the paper's."""

from __future__ import annotations

import pandas as pd
import pytest

from relevit import claims
from relevit.data.cutouts import TEST_SETS
from relevit.paper import published_rows

from .made import table

VERDICTS = claims.judge({"03_robustness/changes": table("03_robustness/changes")}, only=["RV-0"])


def test_the_page_has_sentence_criterion_number_and_source_of_each_claim():
    found = claims.verdict_table(VERDICTS)
    row = found.set_index("id").loc["RV-01"]
    assert row["verdict"] == "holds" and row["evidence"] == "03_robustness"
    assert "objectnet +5.00 (+4.75 to +5.25), above 0" in row["number"]
    page = claims.verdict_page(found)
    assert "Would decide it: decided" not in page
    for text in (row["claim"], row["criterion"], row["source"], "criterion", "not testable"):
        assert text in page
    counts = claims.verdict_counts(found)
    assert counts.loc["RobustViT", "all"] == len(VERDICTS) == counts.loc["all"].drop("all").sum()


@pytest.mark.parametrize(("low", "told"), [(2.0, "more than chance"), (-2.0, "may be chance")])
def test_findings_say_whether_the_gain_may_be_chance(low, told):
    row = {"world": "own", "arm": "ours", "classes": "all", "with_pts": 5.0, "without_pts": -1.0}
    added = pd.DataFrame([row | {"adds_pts": 6.0, "adds_low_pts": low, "adds_high_pts": 9.0}])
    runs = {"on_object_pct": (40.0, 60.0), "iou_pct": (30.0, 50.0)}
    found = claims.findings(table("03_robustness/changes"), added.assign(seeds=3), runs, VERDICTS)
    assert told in found and "**+6.0 points**" in found and "**60 %**" in found
    assert "run 03_robustness" in claims.findings(
        table("03_robustness/changes"), None, runs, VERDICTS
    )


def test_tables_are_read_by_stage_or_stem(tmp_path):
    for name in ("a/same", "b/same", "b/own"):
        path = tmp_path / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        pd.DataFrame({"x": [name]}).to_parquet(path)
    tables = claims.ResultTables({name: tmp_path / name for name in ("a", "b", "none")})
    assert tables["own"]["x"][0] == "b/own" and tables["a/same"]["x"][0] == "a/same"
    assert len(tables) == 3 and "b/other" not in tables
    with pytest.raises(KeyError, match="same is 2 tables"):
        tables["same"]


def test_our_runs_beside_the_papers():
    ours = claims.run_changes(table("04_cures/accuracies"))
    found = claims.compared(published_rows("main_T1"), ours, "top1")
    row = found.loc[("tiny", "ours", "annotated", "a")]
    assert row["ours"] == pytest.approx(4.0) and row["paper"] == pytest.approx(5.8, abs=0.1)
    assert row["difference"] == pytest.approx(row["ours"] - row["paper"]) and row["seeds"] == 3
    # One of the paper's own models stands beside itself.
    own = ours.replace({"tiny": "deit-b"})
    theirs = published_rows("main_T1").query("model == 'DeiT-B' and masks == 'annotated'")
    theirs = theirs.query("dataset == 'a' and metric == 'top1' and method == 'ours'").iloc[0]
    alone = claims.compared(published_rows("main_T1"), own, "top1")
    assert alone.loc[("deit-b", "ours", "annotated", "a"), "paper"] == pytest.approx(
        theirs["value_pct"] - theirs["reference_pct"]
    )


def test_every_table_of_the_paper_has_a_merge():
    runs, model = table("04_cures/accuracies"), "tiny"
    variants = claims.variant_changes(table("05_ablations/ablations"))
    split = claims.split_changes(table("03_robustness/split_accuracies"), model)
    seeds = claims.seed_changes(table("03_robustness/changes"), model)
    dino = claims.dino_changes(runs, "dinov2-s", "tiny")
    maps = claims.map_changes(table("07_segmentation/finetuned_segmentation"), model)
    areas = claims.map_changes(table("07_segmentation/finetuned_perturbation"), model)
    cases = {"main_T4": variants, "arxiv_T12": variants, "supp_T8": variants, "supp_T9": variants}
    cases |= {"arxiv_T8": seeds, "arxiv_T9": seeds, "arxiv_T10": split, "arxiv_T11": split}
    cases |= {"main_T2": claims.run_changes(runs), "supp_T10": dino, "supp_T11": dino}
    for name, ours in cases.items():
        found = claims.compared(published_rows(name), ours)
        assert len(found) and found.notna().all(axis=None), name
    for name, ours in (("main_T3", maps), ("supp_T12", areas)):
        found = claims.compared(published_rows(name), ours)
        assert len(found) in (2, 3) and found.notna().all(axis=None)
    by_set = claims.compared(published_rows("supp_T10"), dino, "top1")
    probe = by_set.xs("dino_linear", level="method").droplevel(["model", "masks"])
    probe = probe.loc[list(TEST_SETS), "ours"]
    assert probe.to_list() == pytest.approx([-10.0] * 9)  # 40 % minus the supervised one's 50
