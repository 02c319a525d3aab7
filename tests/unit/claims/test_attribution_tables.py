"""Verdicts on attribution: tables missing or wrong, and the papers' own tables judged."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from relevit.claims import verdicts as claims
from relevit.claims.attribution import CRITERIA, SCHEMAS, attribution_verdicts
from relevit.paper import attribution as paper_attribution
from relevit.paper import published as paper

from ..attribution_tables import QUALITY, made, perturbation, segmentation, two_objects


def judged(**tables):
    return {v.id: v for v in attribution_verdicts(made() | tables)}


def test_made_tables_have_the_documented_columns():
    for name, table in made().items():
        assert set(table.columns) == {*SCHEMAS[name][0], *SCHEMAS[name][1]}


# No claim is about pointing with phrases; the report shows it.
@pytest.mark.parametrize("name", [name for name in SCHEMAS if name != "clip_pointing"])
def test_without_a_table_its_claims_are_not_testable(name):
    tables = made()
    del tables[name]
    before = {v.id: v.verdict for v in attribution_verdicts(made())}
    changed = [v for v in attribution_verdicts(tables) if v.verdict != before[v.id]]
    assert changed
    for verdict in changed:
        assert verdict.verdict == "not testable here"
        assert verdict.reason == f"no table {name}: run the notebook that writes it"


def test_without_any_table():
    verdicts = {v.id: v for v in attribution_verdicts({})}
    assert {v.verdict for v in verdicts.values()} == {"not testable here", "holds"}
    assert [v.id for v in verdicts.values() if v.verdict == "holds"] == ["BI-06"]
    reason = "no table methods_segmentation and no methods_perturbation: run the notebook"
    assert verdicts["BI-07"].reason.startswith(reason)


def test_dinov2_stands_in_where_tiny_was_not_run():
    both = {"dinov2-s": QUALITY}
    tables = {
        "methods_segmentation": segmentation(**both).query("model == 'dinov2-s'"),
        "methods_perturbation": perturbation(**both).query("model == 'dinov2-s'"),
    }
    verdicts = judged(**tables)
    for claim in ("BI-07", "BI-17", "BI-22", "RV-40"):
        assert verdicts[claim].verdict == "holds"
        assert verdicts[claim].number.startswith("dinov2-s, ")


def test_the_label_is_judged_only_where_it_was_run():
    table = perturbation().query("target == 'predicted'")
    verdicts = judged(methods_perturbation=table)
    for claim in ("BI-07", "BI-15", "BI-17"):
        assert verdicts[claim].verdict == "holds"
        assert "(label)" not in verdicts[claim].number
    table = perturbation()
    agnostic = table["method"].isin(["raw_attention", "rollout"])
    table = table[~agnostic | (table["target"] == "predicted")]
    verdict = judged(methods_perturbation=table)["BI-07"]
    assert verdict.verdict == "holds"
    assert "(label)" in verdict.number


def test_categories_are_taken_as_text():
    tables = {
        name: table.astype({key: "category" for key in SCHEMAS[name][0] if key != "block"})
        for name, table in made().items()
    }
    assert attribution_verdicts(tables) == attribution_verdicts(made())


def test_wrong_tables():
    where = "attribution_verdicts: "
    with pytest.raises(ValueError, match=rf"{where}tables \['methods'\] are unknown; use some of"):
        attribution_verdicts({"methods": segmentation()})
    table = pd.concat([two_objects(), two_objects().tail(1)])
    with pytest.raises(
        ValueError, match=r"two_objects has \{'method': 'token_wise'\} twice; one ro"
    ):
        attribution_verdicts({"two_objects": table})
    with pytest.raises(
        ValueError, match=r"not finite at \{'method': 'raw_attention'\}; standard er"
    ):
        attribution_verdicts({"two_objects": two_objects(error=math.nan)})


def test_verdict_table_takes_the_criteria_of_both_modules():
    verdicts = attribution_verdicts(made())
    table = claims.verdict_table(verdicts, claims.CRITERIA | CRITERIA)
    assert table["id"].tolist() == list(CRITERIA)
    assert not set(CRITERIA) & set(claims.CRITERIA)
    with pytest.raises(ValueError, match=r"no claim or criterion for \['BI-01', .*pass their crit"):
        claims.verdict_table(verdicts)


def test_every_claim_of_beyond_intuition_has_a_criterion():
    table = paper.claims()
    theirs = table.loc[table["paper"] == "beyond_intuition", "id"].tolist()
    assert [claim for claim in CRITERIA if claim.startswith("BI")] == theirs


def papers(model="ViT-B", ga="ga"):
    """The paper's own tables of both tests, as if from our models, without errors."""
    names = {model: "tiny", "ViT-MAE": "tiny-mae", "ViT-B-DINO": "dinov2-s"}
    parts = paper_attribution.published_segmentation(), paper_attribution.published_perturbation()
    seg, per = (
        t[(t["paper"] == "beyond_intuition") & t["model"].isin(names)].replace(
            {"model": names, "method": {"ga": ga}}
        )
        for t in parts
    )
    areas = ablation_areas(paper_attribution.published_ablation())
    return {
        "methods_segmentation": seg.assign(low_pct=seg["value_pct"], high_pct=seg["value_pct"]),
        "methods_perturbation": per.assign(images=5000, standard_error_pts=0.0),
        "ablation": areas,
    }


def ablation_areas(table):
    return table.assign(positive_standard_error_pts=0.0, negative_standard_error_pts=0.0)


def test_the_papers_own_tables_of_attribution():
    """As in table_check of the stored claims: T1 holds, T2 not for head-wise."""
    verdicts = {v.id: v for v in attribution_verdicts(papers())}
    assert verdicts["BI-07"].verdict == "fails"
    assert verdicts["BI-07"].reason == (
        "not met: head_wise pixel accuracy against transformer_attribution; "
        "head_wise mIoU against transformer_attribution"
    )
    assert [verdicts[claim].verdict for claim in ("BI-15", "BI-16", "BI-19")] == ["holds"] * 3
    assert verdicts["BI-17"].reason.startswith("not met: pixel accuracy similar; mIoU similar; ")
    assert "AUC" not in verdicts["BI-17"].reason
    assert verdicts["BI-18"].verdict == "fails"
    assert "token_wise" not in verdicts["BI-18"].reason
    assert (
        verdicts["BI-22"].reason == "not met: partial_lrp positive the same; "
        "partial_lrp negative the same"
    )
    large = {v.id: v for v in attribution_verdicts(papers(model="ViT-L"))}
    assert "head_wise mF1 against rollout" in large["BI-07"].reason


def test_the_papers_own_tables_do_not_put_gae_first():
    verdict = next(v for v in attribution_verdicts(papers(ga="gae")) if v.id == "RV-40")
    assert verdict.verdict == "fails"
    assert "gae above transformer_attribution, positive" in verdict.reason


def test_the_papers_own_tables_of_finetuning():
    """Its models instead of seeds: better maps on all seven, a kept AUC on all three."""
    seg = paper_attribution.published_segmentation().query("table == 'main_T3'")
    per = paper_attribution.published_perturbation().query("table == 'supp_T12'")
    for model in per["model"].unique():
        runs = per[per["model"] == model].assign(model_run=per["method"], standard_error_pts=0.0)
        twice = pd.concat([runs, runs[runs["method"] == "ours"].assign(model_run="again")])
        verdicts = {v.id: v for v in attribution_verdicts({"finetuned_perturbation": twice})}
        assert verdicts["RV-39"].verdict == "holds"
    original = seg[seg["method"] == "original"].groupby("metric")["value_pct"].mean()
    wide = seg.pivot(index=["model", "metric"], columns="method", values="value_pct")
    change = (wide["ours"] - wide["original"]).unstack("metric") + original
    table = pd.concat([original.rename("original").to_frame().T, change])
    table = (
        table.rename_axis("model_run")
        .melt(ignore_index=False, value_name="value_pct", var_name="metric")
        .reset_index()
    )
    verdict = next(
        v for v in attribution_verdicts({"finetuned_segmentation": table}) if v.id == "RV-08"
    )
    assert verdict.verdict == "holds"
    assert verdict.number.startswith("pixel accuracy +6.3 ± ")
