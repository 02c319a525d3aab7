"""What the report shows of verdicts, and our numbers beside the paper's."""

import html
from dataclasses import replace

import pandas as pd
import pytest

from reproduction import claims
from reproduction.claims import decided
from reproduction.paper.published import published_ablations, published_rows
from reproduction.runs import effects

from . import papers

CHANGES = papers.changes(*papers.SEVEN)[papers.CHANGES]
VERDICTS = claims.judge({papers.CHANGES: CHANGES}, only=["RV-0"])


def test_the_page_has_sentence_criterion_number_and_source_of_each_claim():
    found = claims.verdict_table(VERDICTS)
    row = found.set_index("id").loc["RV-01"]
    assert row["verdict"] == "holds" and row["evidence"] == "03_robustness"
    assert "objectnet +5.0, above 0" in row["number"]
    page = html.unescape(claims.verdict_page(found))
    assert "Would decide it: decided" not in page
    for text in (row["claim"], row["criterion"], row["source"], "criterion", "not testable"):
        assert text in page
    told = replace(VERDICTS[0], stand_ins=["mini-dino for dino-b"])
    assert "mini-dino for dino-b" in claims.verdict_page(claims.verdict_table([told]))
    counts = claims.verdict_counts(found)
    assert counts.loc["RobustViT", "all"] == len(VERDICTS) == counts.loc["all"].drop("all").sum()


def test_each_number_says_by_itself_what_the_claim_says_by_all():
    """A claim that holds has no other number; one that is contradicted has such a one."""
    mixed = CHANGES.assign(change_top1_pts=CHANGES["change_top1_pts"] * ([1, 1, -1] * 3))
    found = decided.verdicts(
        {papers.CHANGES: mixed},
        pd.DataFrame({"id": ["RV-12"], "planned": "", "predicted": "holds", "why": ""}),
    )
    table, numbers = found["decide"].set_index("id"), found["decide_numbers"]
    assert table.at["RV-12", "verdict"] == "not made yet" and {"RV-01", "RV-02"} < {*table.index}
    for claim, part in numbers.groupby("id"):
        verdict = table.at[claim, "verdict"]
        assert (set(part["says"]) == {"holds"}) == (verdict == "holds"), claim
        assert ("contradicted" in set(part["says"])) == (verdict == "contradicted"), claim
    reproduced = pd.DataFrame({"paper": "p", "id": ["RV-01", "RV-12"], "verdict": "undecided"})
    stands = decided.standing(found["decide"], reproduced).set_index("id")
    assert stands["run"].tolist() == ["decide", "reproduce"]
    assert stands["verdict"].tolist() == [table.at["RV-01", "verdict"], "undecided"]


@pytest.mark.parametrize(("low", "told"), [(2.0, "more than chance"), (0.04, "may be chance")])
def test_findings_say_whether_the_gain_may_be_chance(low, told):
    row = {"world": "own", "arm": "ours", "classes": "all", "with_pts": 5.0, "without_pts": -1.0}
    added = pd.DataFrame([row | {"adds_pts": 6.0, "adds_low_pts": low, "adds_high_pts": 9.0}])
    found = claims.added_told(added.assign(seeds=3))
    assert told in found and "**+6.0 points**" in found
    assert "run 03_robustness" in claims.added_told(None)


@pytest.mark.parametrize(("sign", "answer"), [(1, "Yes, here"), (-1, "Undecided")])
def test_five_questions_are_answered_by_their_verdicts(sign, answer):
    turned = CHANGES.assign(change_top1_pts=sign * CHANGES["change_top1_pts"])
    found = claims.findings(claims.judge({papers.CHANGES: turned})).splitlines()
    assert answer in found[0] and f"objectnet {sign * 5.0:+.1f}" in found[0]
    assert len(found) == 5 and all("Not testable here" in line for line in found[1:])


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


def test_perception_times_feedback_has_all_rows_and_our_intervals():
    ours = papers.combinations()["06a_attribution/ablation"].iloc[::-1]
    found = claims.halves_beside(ours)
    assert len(found) == 7 and ("token-wise", "integrated gradient") in found.index
    for score in ("mIoU, higher is better", "positive, lower is better"):
        assert list(found[score]) == ["paper", "ours", "from", "to"]
        assert all(found[score]["paper"].equals(found[score][name]) for name in found[score])


def test_our_variants_stand_in_the_rows_of_the_papers_that_have_the_same_class_term():
    theirs = published_ablations()
    named = {"full": "confidence", "ground_truth": "full"}
    ours = theirs.rename(index=named)[::-1]
    ours.loc["exact_gradient"] = 1.0  # which the paper has not
    ours["low_pts"], ours["high_pts"] = ours["shifted_average"] - 2, ours["shifted_average"] + 2
    found = claims.variants_beside(ours)
    assert list(found.index) == [effects.VARIANTS[name] for name in theirs.index]
    assert found["val"]["paper"].equals(found["val"]["ours"])
    assert found["shifted sets"]["ours"].tolist() == theirs["shifted_average"].tolist()
    width = found["shifted sets"]["to"] - found["shifted sets"]["from"]
    assert width.round(9).eq(4).all()


def test_the_papers_own_numbers_beside_themselves_differ_by_what_is_added():
    """As the runs of one model, which stands beside the mean over the paper's."""
    runs, split = papers.runs(*papers.SEVEN)[papers.RUNS], papers.split()[papers.SPLIT]
    variants = papers.ablations(*papers.TWO)[papers.ABLATIONS]
    dino = papers.backbones()[papers.RUNS]
    dino = dino.assign(top5_pct=0.0, original_top5_pct=0.0)
    cases = {
        ("main_T1", "top5"): claims.run_changes(runs),
        ("main_T2", "top1"): claims.run_changes(runs),
        ("main_T4", "top1"): claims.variant_changes(variants),
        ("supp_T9", "top5"): claims.variant_changes(variants),
        ("arxiv_T10", "top1"): claims.split_changes(split.assign(top5_pct=0.0), "mean"),
        ("main_T1", "top1"): claims.seed_changes(CHANGES, "mean"),
        ("supp_T10", "top1"): claims.dino_changes(dino, "dino-b", "deit-b"),
    }
    outlined, erased = papers.means_of_finetuned("ViT-B")
    cases |= {("main_T3", ""): claims.map_changes(outlined, "vit-b")}
    cases |= {("supp_T12", ""): claims.map_changes(erased, "vit-b")}
    for (name, metric), ours in cases.items():
        higher = ours.assign(ours=ours["ours"] + 2)
        found = claims.compared(published_rows(name), higher, metric)
        assert len(found) and (found["difference"] - 2).abs().max() < 1e-9, name
        assert "_" not in str(found.index.droplevel("dataset").tolist()), name
