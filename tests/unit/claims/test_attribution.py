"""Each criterion on attribution methods met, missed and without its rows, on made tables."""

from __future__ import annotations

import math

import pandas as pd
import pytest
import torch

from relevit.attribution import METHODS
from relevit.claims import CLAIMS, judge
from relevit.paper import published_ablation, published_perturbation, published_segmentation

from .made import check, missed, other, table, verdict, without
from .made.maps import (
    DINO,
    OF_IMAGES,
    finetuned_perturbation,
    finetuned_segmentation,
    methods,
    methods_perturbation,
    methods_segmentation,
)

CASES = [
    ("BI-01", "shows", {}, "rollout's error over token_wise's 52.5 ± 1.5"),
    ("BI-01", "no room", other("approximation", rollout=(20.0,) * 4), "at least 20 times"),
    ("BI-02", "shows", {}, "rollout's error over token_wise's, by block: 1: 30 ± 0.85, "),
    (
        "BI-02",
        "contradicted",
        other("approximation", rollout=(9.0, 99.0, 99.0, 99.0)),
        "block 1 at le",
    ),
    (
        "BI-03",
        "shows",
        {},
        "std of token_wise's error against rollout's, by block: 3: 0.2 against 12, ",
    ),
    (
        "BI-03",
        "no room",
        other("approximation", token_wise=(1.0, 1.0, 70.0, 1.0)),
        "block 3 varies",
    ),
    (
        "BI-04",
        "shows",
        {},
        "squared error: rollout 52.5 ± 1, head_wise 10 ± 0.2, token_wise 1 ± 0.02",
    ),
    ("BI-04", "no room", other("approximation", head_wise=(52.0,) * 4), "head_wise below rollout"),
    ("BI-04", "not testable", without("approximation", method="head_wise"), "head_wise has blo"),
    (
        "BI-07",
        "shows",
        {},
        "tiny, lead over the best baseline: head_wise pixel accuracy +6.0 ± 0.7, ",
    ),
    ("BI-07", "no room", methods(ga=58.0), "head_wise mIoU against ga; "),
    ("BI-07", "no room", methods(ga=57.0), "token_wise mIoU leads by 2 points"),
    (
        "BI-07",
        "contradicted",
        methods(gradcam=60.0),
        "token_wise negative AUC (label) against gradcam",
    ),
    (
        "BI-07",
        "not testable",
        without("methods_segmentation", method="rollout"),
        "no row for tiny, rollout, pixel accuracy: run it too",
    ),
    (
        "BI-15",
        "shows",
        {},
        "lead on tiny-mae against tiny: head_wise positive AUC (predicted) +11.0 ± 0.7 ",
    ),
    (
        "BI-15",
        "no room",
        other("methods_perturbation", **{"tiny-mae": OF_IMAGES}),
        "head_wise positive AUC (predicted) lead larger than on tiny",
    ),
    (
        "BI-15",
        "contradicted",
        other("methods_perturbation", **{"tiny-mae": OF_IMAGES | {"ga": 60.0}}),
        "token_wise negative AUC (label) leads on tiny-mae",
    ),
    (
        "BI-15",
        "not testable",
        without("methods_perturbation", model="tiny-mae"),
        "no row for tiny-mae, head_wise, positive AUC (predicted)",
    ),
    (
        "BI-16",
        "shows",
        {},
        "head_wise, integrated against plain gradient: pixel accuracy +2.00, mIoU +2",
    ),
    (
        "BI-16",
        "no room",
        other("ablation", gradient=56.0),
        "not met: head_wise, integrated against plain gradient in pixel accuracy, mIoU, ",
    ),
    (
        "BI-16",
        "no room",
        other("ablation", avg_attention=54.5),
        "not met: head_wise against avg_attention in positive AUC (predicted), negative AUC",
    ),
    (
        "BI-16",
        "not testable",
        without("ablation", perception="avg_attention"),
        "no row for avg_attention, integrated_gradient, pixel accuracy",
    ),
    ("BI-17", "shows", {}, "tiny, token_wise minus head_wise: pixel accuracy +0.5 ± 0.7, "),
    ("BI-17", "no room", methods(token_wise=60.0), "mIoU similar"),
    (
        "BI-17",
        "not testable",
        {"methods_perturbation": methods_perturbation().query("model == 'tiny-mae'")},
        "no rows for tiny or dinov2-s: run one of them",
    ),
    (
        "BI-18",
        "shows",
        {},
        "dinov2-s minus tiny, which differ in size too: head_wise pixel accuracy +0.0",
    ),
    (
        "BI-18",
        "contradicted",
        other("methods_segmentation", **{"dinov2-s": DINO | {"head_wise": 65.0}}),
        "head_wise mIoU similar",
    ),
    (
        "BI-18",
        "not testable",
        without("methods_segmentation", model="dinov2-s"),
        "no row for dinov2-s, head_wise",
    ),
    (
        "BI-19",
        "shows",
        {},
        "dinov2-s minus tiny, which differ in size too: raw_attention pixel accuracy +1",
    ),
    (
        "BI-19",
        "no room",
        other("methods_segmentation", **{"dinov2-s": OF_IMAGES}),
        "raw_attention mIoU better",
    ),
    ("BI-19", "not testable", without("methods_segmentation", model="tiny"), "no row for tiny, "),
    (
        "BI-20",
        "shows",
        {},
        "points at its own object, %: head_wise 80.0 ± 2.0, token_wise 85.0 ± 2.0, ",
    ),
    ("BI-20", "no room", other("two_objects", head_wise=51.0), "not met: head_wise above 50 %"),
    (
        "BI-20",
        "contradicted",
        other("two_objects", raw_attention=60.0),
        "raw_attention not above 50 %",
    ),
    (
        "BI-20",
        "not testable",
        without("two_objects", method="raw_attention"),
        "no row for raw_attention: run it too",
    ),
    (
        "BI-20",
        "not testable",
        {"two_objects": table("two_objects").iloc[:0]},
        "table two_objects is empty: this preset",
    ),
    (
        "BI-22",
        "shows",
        {},
        "tiny, AUC for the label against the predicted class: raw_attention positive +0",
    ),
    (
        "BI-22",
        "not testable",
        without("methods_perturbation", target="label"),
        "was run for the label",
    ),
    (
        "BI-22",
        "no room",
        other("methods_perturbation", by_label=0.0),
        "no method differs between the two",
    ),
    ("RV-08", "shows", {}, "pixel accuracy +4.0 ± 1.0, mIoU +4.0 ± 1.0, mAP +4.0 ± 1.0"),
    ("RV-08", "no room", other("finetuned_segmentation", (5.0, -0.1)), "mIoU rises in every seed"),
    ("RV-08", "no room", other("finetuned_segmentation", (0.1, 6.0)), "mAP above its std"),
    (
        "RV-08",
        "not testable",
        without("finetuned_segmentation", metric="map_pct"),
        "not every run has pixel accuracy, mIoU, mAP",
    ),
    (
        "RV-39",
        "shows",
        {},
        "gain over the original, mean over 3 seeds: positive AUC (predicted) +2.0 ± 0.7",
    ),
    (
        "RV-39",
        "no room",
        other("finetuned_perturbation", negative=(-2.0,) * 3),
        "not met: negative AUC (predicted) worse by at most 1.0 points",
    ),
    (
        "RV-39",
        "no room",
        other("finetuned_perturbation", positive=(0.5,) * 3),
        "not met: better in some seed and direction",
    ),
    (
        "RV-39",
        "not testable",
        without("finetuned_perturbation", model_run="original"),
        "needs 'original' and finetuned ones",
    ),
    (
        "RV-40",
        "shows",
        {},
        "tiny, AUC gain of gae over: raw_attention positive +15.0 ± 0.7, rollout ",
    ),
    ("RV-40", "no room", methods(gae=52.0), "gae above transformer_attribution, positive"),
    ("RV-40", "no room", methods(gradcam=41.0), "gradcam above rollout, negative"),
    (
        "RV-40",
        "not testable",
        without("methods_perturbation", method="gae"),
        "no row for tiny, gae, positive AUC (predicted)",
    ),
    (
        "RV-43",
        "no room",
        other("methods_perturbation", tiny=OF_IMAGES | {"integrated_gradients": 54.5}),
        "worse than gae, positive",
    ),
    (
        "RV-43",
        "no room",
        other("methods_perturbation", error=5.0, tiny=OF_IMAGES | {"integrated_gradients": 70.0}),
        "worse than gae, n",
    ),
    (
        "RV-43",
        "no room",
        other("methods_perturbation", error=5.0, tiny=OF_IMAGES | {"integrated_gradients": 54.5}),
        "a combined standard error of 7.1 points, above 3, could hide a gain: run more images",
    ),
    (
        "RV-43",
        "not testable",
        without("methods_perturbation", method="gae"),
        "no row for tiny, gae",
    ),
    (
        "RV-43",
        "shows",
        {},
        "tiny, gain of gae over integrated_gradients: positive AUC (predicted) +15.0 ± 0.7",
    ),
]


@pytest.mark.parametrize("case", CASES)
def test_changed_tables_change_the_verdict(case):
    check(case)


def test_maps_of_few_images_do_not_improve_beyond_chance():
    """RV-08: however well the seeds agree, the images could have been others."""
    table = finetuned_segmentation((-3.0, -3.0, -3.1))
    assert verdict("RV-08", {"finetuned_segmentation": table}).verdict == "contradicted"
    wide = table.assign(low_pct=table["value_pct"] - 9.8, high_pct=table["value_pct"] + 9.8)
    found = verdict("RV-08", {"finetuned_segmentation": wide})
    assert (found.verdict, "(2.7 errors)" in found.reason) == ("no room", True)


def test_the_best_of_seed_and_direction_is_best_in_errors():
    """RV-39: what has no error is the best only where nothing else is known."""
    worse = finetuned_perturbation((-0.1, -0.1), (-9.0, -9.0))
    worse.loc[worse["direction"] == "positive", "standard_error_pts"] = 0.0
    found = verdict("RV-39", {"finetuned_perturbation": worse})
    assert "better in some seed and direction, by " in found.reason


def test_a_class_agnostic_method_whose_classes_differ():
    table = methods_perturbation()
    rows = (table["method"] == "partial_lrp") & (table["target"] == "label")
    table.loc[rows & (table["direction"] == "positive"), "auc_pct"] += 0.02
    found = verdict("BI-22", {"methods_perturbation": table})
    assert found.verdict == "contradicted"  # on the same images, to rounding: no chance in it
    assert missed(found) == "partial_lrp positive the same"
    assert "partial_lrp positive -0.02, partial_lrp negative +0.00" in found.number


def test_a_lead_must_exceed_the_combined_standard_error():
    lead = 0.5 * math.sqrt(2)  # the combined standard error itself
    for claim, met in (("BI-07", lead + 2.0), ("RV-40", lead + 0.01)):
        best = OF_IMAGES["head_wise"] if claim == "BI-07" else OF_IMAGES["gae"]
        for margin, outcome in ((met, "holds"), (lead, "no room")):
            tables = methods(transformer_attribution=best - margin)
            assert verdict(claim, tables).verdict == outcome


@pytest.mark.parametrize("claim", ["BI-17", "BI-18", "RV-39"])
def test_noise_does_not_show_that_nothing_differs(claim):
    noisy = {
        "methods_segmentation": methods_segmentation(half=12.0),
        "methods_perturbation": methods_perturbation(error=5.0),
        "finetuned_perturbation": finetuned_perturbation(error=3.0),
    }
    found = verdict(claim, noisy)
    assert found.verdict == "no room"
    assert found.number and found.reason.startswith(
        "not met: better in" if claim == "RV-39" else "cannot be told from chance: "
    )


def test_noise_does_not_show_that_nothing_is_gained():
    """RV-40: a gain of 3 with an error of 7 refutes nothing; a clear loss does."""
    for gae, outcome in ((55.0, "no room"), (30.0, "contradicted")):
        noisy = methods_perturbation(error=5.0, tiny=OF_IMAGES | {"gae": gae})
        found = verdict("RV-40", {"methods_perturbation": noisy})
        assert found.verdict == outcome
        if gae == 55.0:
            assert found.reason == (
                "a combined standard error of 7.1 points, above 3, could hide a gain: "
                "run more images"
            )


def test_one_seed_decides_nothing():
    tables = {
        "finetuned_segmentation": finetuned_segmentation((3.0,)),
        "finetuned_perturbation": finetuned_perturbation((1.0,), (1.0,)),
    }
    found = judge(tables, only=["RV-08", "RV-39"])
    for one in found:
        assert one.verdict == "not testable"
        assert one.reason.startswith("1 finetuned run; at least 2 seeds are needed")
    assert found[0].number == "pixel accuracy +3.0, mIoU +3.0, mAP +3.0"


def test_dinov2_stands_in_where_tiny_was_not_run():
    both = {"dinov2-s": OF_IMAGES}
    tables = {
        "methods_segmentation": methods_segmentation(**both).query("model == 'dinov2-s'"),
        "methods_perturbation": methods_perturbation(**both).query("model == 'dinov2-s'"),
    }
    for found in judge(tables, only=["BI-07", "BI-17", "BI-22", "RV-40"]):
        assert found.verdict == "holds"
        assert found.number.startswith("dinov2-s, ")


def test_the_label_is_judged_only_where_it_was_run():
    table = methods_perturbation().query("target == 'predicted'")
    for claim in ("BI-07", "BI-15", "BI-17"):
        found = verdict(claim, {"methods_perturbation": table})
        assert found.verdict == "holds"
        assert "(label)" not in found.number
    table = methods_perturbation()
    agnostic = table["method"].isin(["raw_attention", "rollout"])
    table = table[~agnostic | (table["target"] == "predicted")]
    found = verdict("BI-07", {"methods_perturbation": table})
    assert found.verdict == "holds"
    assert "(label)" in found.number


def large(**quality):
    models = {"vit-b": OF_IMAGES, "vit-l": OF_IMAGES | quality}
    return {
        "methods_segmentation": methods_segmentation(**models).query("model in @models"),
        "methods_perturbation": methods_perturbation(**models).query("model in @models"),
    }


def test_vit_large():
    found = verdict("BI-13", large())
    assert found.verdict == "holds"
    assert found.number.startswith("vit-l, lead over the best baseline: head_wise pixel accuracy")
    found = verdict("BI-13", large(rollout=57.5))
    assert found.verdict == "no room"
    assert found.reason.startswith("not met: head_wise pixel accuracy against rollout; ")
    found = verdict("BI-13")
    assert found.verdict == "not testable"
    assert found.reason.startswith("no rows for vit-l, a ViT-Large on ImageNet: name it in ")


def test_rollout_is_token_wise_with_identity_weights(build_vit, images):
    """BI-06: with W = I every token's value is as long as the token."""
    model = build_vit(depth=4)
    with torch.no_grad():
        for block in model.blocks:
            block.attn.qkv.weight[2 * model.embed_dim :] = torch.eye(model.embed_dim)
            block.attn.proj.weight.copy_(torch.eye(model.embed_dim))
    ours = METHODS["token_wise"](model, images, feedback="none", protocol="described")
    rollout = METHODS["rollout"](model, images, protocol="described")
    torch.testing.assert_close(ours, rollout)
    assert CLAIMS["BI-06"].rule(None).verdict == "holds"


# The papers' own tables: what comes out must be what `table_check` of the stored claims says.


def papers(model="ViT-B", ga="ga"):
    """The paper's own tables of both tests, as if from our models, without errors."""
    names = {model: "tiny", "ViT-MAE": "tiny-mae", "ViT-B-DINO": "dinov2-s"}
    seg, per = (
        t[(t["paper"] == "beyond_intuition") & t["model"].isin(names)].replace(
            {"model": names, "method": {"ga": ga}}
        )
        for t in (published_segmentation(), published_perturbation())
    )
    errors = {f"{way}_standard_error_pts": 0.0 for way in ("positive", "negative")}
    return {
        "methods_segmentation": seg.assign(low_pct=seg["value_pct"], high_pct=seg["value_pct"]),
        "methods_perturbation": per.assign(images=5000, standard_error_pts=0.0),
        "ablation": published_ablation().assign(**errors),
    }


def test_the_papers_own_tables_of_attribution():
    """As in table_check of the stored claims: T1 holds, T2 not for head-wise.

    They print no errors, so that none of them can contradict.
    """
    verdicts = {v.id: v for v in judge(papers(), only=["BI"])}
    assert verdicts["BI-07"].verdict == "no room"
    assert verdicts["BI-07"].reason.endswith("No error is known, so this may be chance")
    assert missed(verdicts["BI-07"]) == (
        "head_wise pixel accuracy against transformer_attribution; "
        "head_wise mIoU against transformer_attribution"
    )
    assert [verdicts[claim].verdict for claim in ("BI-15", "BI-16", "BI-19")] == ["holds"] * 3
    assert verdicts["BI-17"].reason.startswith("not met: pixel accuracy similar; mIoU similar; ")
    assert "AUC" not in verdicts["BI-17"].reason
    assert verdicts["BI-18"].verdict == "no room"
    assert "token_wise" not in verdicts["BI-18"].reason
    assert missed(verdicts["BI-22"]) == (
        "partial_lrp positive the same; partial_lrp negative the same"
    )
    large = {v.id: v for v in judge(papers(model="ViT-L"), only=["BI"])}
    assert "head_wise mF1 against rollout" in large["BI-07"].reason


def test_the_papers_own_tables_do_not_put_gae_first():
    found = verdict("RV-40", papers(ga="gae"))
    assert found.verdict == "no room"
    assert "gae above transformer_attribution, positive" in found.reason


def test_the_papers_own_tables_of_finetuning():
    """Its models instead of seeds: better maps on all seven, a kept AUC on all three."""
    seg = published_segmentation().query("table == 'main_T3'")
    per = published_perturbation().query("table == 'supp_T12'")
    for model in per["model"].unique():
        runs = per[per["model"] == model].assign(model_run=per["method"], standard_error_pts=0.0)
        twice = pd.concat([runs, runs[runs["method"] == "ours"].assign(model_run="again")])
        assert verdict("RV-39", {"finetuned_perturbation": twice}).verdict == "holds"
    original = seg[seg["method"] == "original"].groupby("metric")["value_pct"].mean()
    wide = seg.pivot(index=["model", "metric"], columns="method", values="value_pct")
    change = (wide["ours"] - wide["original"]).unstack("metric") + original
    table = pd.concat([original.rename("original").to_frame().T, change])
    table = (
        table.rename_axis("model_run")
        .melt(ignore_index=False, value_name="value_pct", var_name="metric")
        .reset_index()
    )
    found = verdict("RV-08", {"finetuned_segmentation": table})
    assert found.verdict == "holds"
    assert found.number.startswith("pixel accuracy +6.3 ± ")


def test_the_papers_own_vit_large():
    found = {name: t.replace({"model": {"tiny": "vit-l"}}) for name, t in papers("ViT-L").items()}
    assert missed(verdict("BI-13", found)) == "head_wise mF1 against rollout"
