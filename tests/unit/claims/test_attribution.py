"""Each criterion on attribution methods met, missed and without its rows, on made tables."""

from __future__ import annotations

import math

import pytest
import torch

from relevit.attribution import METHODS
from relevit.attribution.beyond_intuition import express
from relevit.claims.attribution import (
    CRITERIA,
    NOT_TESTABLE,
    SCHEMAS,
    SOURCES,
    attribution_verdicts,
)

from ..attribution_tables import (
    DINO,
    QUALITY,
    ablation,
    approximation,
    finetuned_perturbation,
    finetuned_segmentation,
    made,
    methods,
    perturbation,
    segmentation,
    two_objects,
)


def judged(**tables):
    return {v.id: v for v in attribution_verdicts(made() | tables)}


def test_all_hold():
    verdicts = judged()
    assert list(verdicts) == list(CRITERIA)
    untested = {*NOT_TESTABLE, "BI-13"}  # which needs a model that these tables lack
    assert {v.id for v in verdicts.values() if v.verdict != "holds"} == untested
    for claim, verdict in verdicts.items():
        assert verdict.reason
        assert verdict.number or claim in (*untested, "BI-06")


@pytest.mark.parametrize(
    ("claim", "number"),
    [
        ("BI-01", "rollout's error over token_wise's 52.5 ± 1.5"),
        ("BI-02", "rollout's error over token_wise's, by block: 1: 30 ± 0.85, "),
        ("BI-03", "std of token_wise's error against rollout's, by block: 3: 0.2 against 12, "),
        ("BI-04", "squared error: rollout 52.5 ± 1, head_wise 10 ± 0.2, token_wise 1 ± 0.02"),
        ("BI-07", "tiny, lead over the best baseline: head_wise pixel accuracy +6.0 ± 0.7, "),
        ("BI-15", "lead on tiny-mae against tiny: head_wise positive AUC (predicted) +11.0 ± 0.7 "),
        ("BI-16", "head_wise, integrated against plain gradient: pixel accuracy +2.00, mIoU +2"),
        ("BI-17", "tiny, token_wise minus head_wise: pixel accuracy +0.5 ± 0.7, "),
        ("BI-18", "dinov2-s minus tiny, which differ in size too: head_wise pixel accuracy +0.0"),
        ("BI-19", "dinov2-s minus tiny, which differ in size too: raw_attention pixel accuracy +1"),
        ("BI-20", "points at its own object, %: head_wise 80.0 ± 2.0, token_wise 85.0 ± 2.0, "),
        ("BI-22", "tiny, AUC for the label against the predicted class: raw_attention positive +0"),
        ("RV-08", "pixel accuracy +4.0 ± 1.0, mIoU +4.0 ± 1.0, mAP +4.0 ± 1.0"),
        ("RV-39", "gain over the original, mean over 3 seeds: positive AUC (predicted) +2.0 ± 0.7"),
        ("RV-40", "tiny, AUC gain of gae over: raw_attention positive +15.0 ± 0.7, rollout "),
    ],
)
def test_numbers_have_signs_and_errors(claim, number):
    assert judged()[claim].number.startswith(number)


FAILS = [
    ("BI-01", {"approximation": approximation(rollout=(20.0,) * 4)}, "at least 20 times"),
    ("BI-02", {"approximation": approximation(rollout=(9.0, 99.0, 99.0, 99.0))}, "block 1 at le"),
    ("BI-03", {"approximation": approximation(token_wise=(1.0, 1.0, 70.0, 1.0))}, "block 3 varies"),
    ("BI-04", {"approximation": approximation(head_wise=(52.0,) * 4)}, "head_wise below rollout"),
    ("BI-07", methods(ga=58.0), "head_wise mIoU against ga; "),
    ("BI-07", methods(ga=57.0), "token_wise mIoU leads by 2 points"),
    ("BI-07", methods(gradcam=60.0), "token_wise negative AUC (label) against gradcam"),
    (
        "BI-15",
        {"methods_perturbation": perturbation(**{"tiny-mae": QUALITY})},
        "head_wise positive AUC (predicted) lead larger than on tiny",
    ),
    (
        "BI-15",
        {"methods_perturbation": perturbation(**{"tiny-mae": QUALITY | {"ga": 60.0}})},
        "token_wise negative AUC (label) leads on tiny-mae",
    ),
    (
        "BI-16",
        {"ablation": ablation(gradient=56.0)},
        "not met: head_wise, integrated against plain gradient in pixel accuracy, mIoU, ",
    ),
    (
        "BI-16",
        {"ablation": ablation(avg_attention=54.5)},
        "not met: head_wise against avg_attention in positive AUC (predicted), negative AUC",
    ),
    ("BI-17", methods(token_wise=60.0), "mIoU similar"),
    (
        "BI-18",
        {"methods_segmentation": segmentation(**{"dinov2-s": DINO | {"head_wise": 65.0}})},
        "head_wise mIoU similar",
    ),
    (
        "BI-19",
        {"methods_segmentation": segmentation(**{"dinov2-s": QUALITY})},
        "raw_attention mIoU better",
    ),
    ("BI-20", {"two_objects": two_objects(head_wise=51.0)}, "not met: head_wise above 50 %"),
    ("BI-20", {"two_objects": two_objects(raw_attention=60.0)}, "raw_attention not above 50 %"),
    (
        "RV-08",
        {"finetuned_segmentation": finetuned_segmentation((5.0, -0.1))},
        "mIoU rises in every seed",
    ),
    ("RV-08", {"finetuned_segmentation": finetuned_segmentation((0.1, 6.0))}, "mAP above its std"),
    (
        "RV-39",
        {"finetuned_perturbation": finetuned_perturbation(negative=(-2.0,) * 3)},
        "not met: negative AUC (predicted) worse by at most 1.0 points",
    ),
    (
        "RV-39",
        {"finetuned_perturbation": finetuned_perturbation(positive=(0.5,) * 3)},
        "not met: better in some seed and direction",
    ),
    ("RV-40", methods(gae=52.0), "gae above transformer_attribution, positive"),
    ("RV-40", methods(gradcam=41.0), "gradcam above rollout, negative"),
]


@pytest.mark.parametrize(("claim", "tables", "reason"), FAILS)
def test_tables_that_fail_a_claim(claim, tables, reason):
    verdict = judged(**tables)[claim]
    assert verdict.verdict == "fails"
    assert verdict.reason.startswith("not met: ")
    assert reason in verdict.reason


def test_a_class_agnostic_method_whose_classes_differ():
    table = perturbation()
    rows = (table["method"] == "partial_lrp") & (table["target"] == "label")
    table.loc[rows & (table["direction"] == "positive"), "auc_pct"] += 0.02
    verdict = judged(methods_perturbation=table)["BI-22"]
    assert verdict.verdict == "fails"
    assert verdict.reason == "not met: partial_lrp positive the same"
    assert "partial_lrp positive -0.02, partial_lrp negative +0.00" in verdict.number


def test_a_lead_must_exceed_the_combined_standard_error():
    lead = 0.5 * math.sqrt(2)  # the combined standard error itself
    for claim, met in (("BI-07", lead + 2.0), ("RV-40", lead + 0.01)):
        best = QUALITY["head_wise"] if claim == "BI-07" else QUALITY["gae"]
        assert judged(**methods(transformer_attribution=best - met))[claim].verdict == "holds"
        assert judged(**methods(transformer_attribution=best - lead))[claim].verdict == "fails"


@pytest.mark.parametrize("claim", ["BI-17", "BI-18", "RV-39"])
def test_noise_does_not_show_that_nothing_differs(claim):
    noisy = {
        "methods_segmentation": segmentation(half=12.0),
        "methods_perturbation": perturbation(error=5.0),
        "finetuned_perturbation": finetuned_perturbation(error=3.0),
    }
    verdict = judged(**noisy)[claim]
    assert verdict.verdict == "not testable here"
    assert "could hide a difference: run more images" in verdict.reason
    assert verdict.number


def test_noise_does_not_show_that_nothing_is_gained():
    """RV-40: a gain of 3 with an error of 7 refutes nothing; a clear loss does."""
    noisy = {"tiny": QUALITY | {"gae": 55.0}}
    verdict = judged(methods_perturbation=perturbation(error=5.0, **noisy))["RV-40"]
    assert verdict.verdict == "not testable here"
    assert verdict.reason == (
        "a combined standard error of 7.1 points, above 3, could hide a gain: run more images"
    )
    worse = {"tiny": QUALITY | {"gae": 30.0}}
    verdict = judged(methods_perturbation=perturbation(error=5.0, **worse))["RV-40"]
    assert verdict.verdict == "fails"


def test_one_seed_decides_nothing():
    verdicts = judged(
        finetuned_segmentation=finetuned_segmentation((3.0,)),
        finetuned_perturbation=finetuned_perturbation((1.0,), (1.0,)),
    )
    for claim in ("RV-08", "RV-39"):
        assert verdicts[claim].verdict == "not testable here"
        assert verdicts[claim].reason.startswith("1 finetuned run; at least 2 seeds are needed")
    assert verdicts["RV-08"].number == "pixel accuracy +3.0, mIoU +3.0, mAP +3.0"


def without(table, **names):
    for column, name in names.items():
        table = table[table[column] != name]
    return table


LACKING = [
    ("BI-04", {"approximation": without(approximation(), method="head_wise")}, "head_wise has blo"),
    (
        "BI-07",
        {"methods_segmentation": without(segmentation(), method="rollout")},
        "no row for tiny, rollout, pixel accuracy: run it too",
    ),
    (
        "BI-15",
        {"methods_perturbation": without(perturbation(), model="tiny-mae")},
        "no row for tiny-mae, head_wise, positive AUC (predicted)",
    ),
    (
        "BI-16",
        {"ablation": without(ablation(), perception="avg_attention")},
        "no row for avg_attention, integrated_gradient, pixel accuracy",
    ),
    (
        "BI-17",
        {"methods_perturbation": perturbation().query("model == 'tiny-mae'")},
        "no rows for tiny or dinov2-s: run one of them",
    ),
    (
        "BI-18",
        {"methods_segmentation": without(segmentation(), model="dinov2-s")},
        "no row for dinov2-s, head_wise",
    ),
    ("BI-19", {"methods_segmentation": without(segmentation(), model="tiny")}, "no row for tiny, "),
    (
        "BI-20",
        {"two_objects": without(two_objects(), method="raw_attention")},
        "no row for raw_attention: run it too",
    ),
    ("BI-20", {"two_objects": two_objects().iloc[:0]}, "table two_objects is empty: this preset"),
    (
        "BI-22",
        {"methods_perturbation": without(perturbation(), target="label")},
        "was run for the label",
    ),
    (
        "BI-22",
        {"methods_perturbation": perturbation(by_label=0.0)},
        "no method differs between the two",
    ),
    (
        "RV-08",
        {"finetuned_segmentation": without(finetuned_segmentation(), metric="map_pct")},
        "not every run has pixel accuracy, mIoU, mAP",
    ),
    (
        "RV-39",
        {"finetuned_perturbation": without(finetuned_perturbation(), model_run="original")},
        "needs 'original' and finetuned ones",
    ),
    (
        "RV-40",
        {"methods_perturbation": without(perturbation(), method="gae")},
        "no row for tiny, gae, positive AUC (predicted)",
    ),
]


@pytest.mark.parametrize(("claim", "tables", "reason"), LACKING)
def test_without_its_rows_a_claim_is_not_testable(claim, tables, reason):
    verdict = judged(**tables)[claim]
    assert verdict.verdict == "not testable here"
    assert reason in verdict.reason


def test_rollout_is_token_wise_with_identity_weights(build_vit, images):
    """BI-06: with W = I every token's value is as long as the token."""
    model = build_vit(depth=4)
    with torch.no_grad():
        for block in model.blocks:
            block.attn.qkv.weight[2 * model.embed_dim :] = torch.eye(model.embed_dim)
            block.attn.proj.weight.copy_(torch.eye(model.embed_dim))
    ours = express(model, images, perception="token_wise", feedback="none", protocol="described")
    rollout = METHODS["rollout"](model, images, protocol="described")
    torch.testing.assert_close(ours, rollout)


def test_sources_name_every_table_once():
    named = [name for names in SOURCES.values() for name in names]
    assert sorted(named) == sorted(SCHEMAS)
