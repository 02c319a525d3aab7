"""Claims on how good the methods are, on the images of both tests."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import pandas as pd

from relevit.attribution import VARIANTS
from relevit.claims.attribution import criteria as fixed
from relevit.claims.attribution.scores import (
    LABEL,
    PREDICTED,
    SEGMENTATION,
    THREE,
    Gain,
    Lacking,
    areas,
    both_scores,
    gain_over,
    judge_gains,
    lead_over_best,
    listed,
    perturbation_scores,
    segmentation_scores,
    supervised_model,
    unless_noisy,
)
from relevit.claims.verdicts import EPS, Verdict, judge


def outperform(claim: str, segmentation: pd.DataFrame, perturbation: pd.DataFrame) -> Verdict:
    """BI-07."""
    model = supervised_model(segmentation, perturbation)
    parts, leads, text = _over_best(model, segmentation, perturbation)
    for score in SEGMENTATION.values():
        great = leads["token_wise", score].pts >= fixed.GREAT_MARGIN_PTS - EPS
        parts[f"token_wise {score} leads by {fixed.GREAT_MARGIN_PTS:g} points"] = great
    return judge(claim, parts, text)


def outperform_on_large(
    claim: str, segmentation: pd.DataFrame, perturbation: pd.DataFrame
) -> Verdict:
    """BI-13."""
    if not all((table["model"] == fixed.LARGE).any() for table in (segmentation, perturbation)):
        raise Lacking(
            f"no rows for {fixed.LARGE}, a ViT-Large on ImageNet: name it in method_models of the "
            "paper preset, in 04_segmentation"
        )
    parts, _, text = _over_best(fixed.LARGE, segmentation, perturbation)
    return judge(claim, parts, text)


def _over_best(
    model: str, segmentation: pd.DataFrame, perturbation: pd.DataFrame
) -> tuple[dict[str, bool], dict[tuple[str, str], Gain], str]:
    """Whether each variant beats all baselines in each score, its leads over the best, and text."""
    scores = both_scores(segmentation, perturbation)
    names = (*SEGMENTATION.values(), *areas(scores, model))
    parts, leads, texts = {}, {}, []
    for variant in VARIANTS:
        for score in names:
            leads[variant, score], unbeaten = lead_over_best(scores, model, variant, score)
            parts[f"{variant} {score} against {', '.join(unbeaten)}"] = not unbeaten
        texts.append(f"{variant} {listed({score: leads[variant, score] for score in names})}")
    return parts, leads, f"{model}, lead over the best baseline: {'; '.join(texts)}"


def larger_lead(claim: str, perturbation: pd.DataFrame) -> Verdict:
    """BI-15."""
    scores = perturbation_scores(perturbation, ["model", "method"])
    models = (fixed.MAE, fixed.MAE_AGAINST)
    parts, texts = {}, []
    for variant in VARIANTS:
        for score in areas(scores, *models):
            mae, other = (lead_over_best(scores, model, variant, score)[0] for model in models)
            larger = Gain(mae.pts - other.pts, math.hypot(mae.error, other.error))
            parts[f"{variant} {score} leads on {models[0]}"] = mae.clear
            parts[f"{variant} {score} lead larger than on {models[1]}"] = larger.clear
            texts.append(f"{variant} {score} {mae} against {other}")
    return judge(claim, parts, f"lead on {models[0]} against {models[1]}: {', '.join(texts)}")


def _similar(claim: str, gains: Mapping[str, Gain], number: str) -> Verdict:
    """Neither clearly better: BI-17 and BI-18."""
    close = {
        f"{name} similar": abs(gain.pts) <= max(fixed.SIMILAR_PTS, gain.error) + EPS
        for name, gain in gains.items()
    }
    return unless_noisy(claim, close, gains.values(), number)


def variants_similar(claim: str, segmentation: pd.DataFrame, perturbation: pd.DataFrame) -> Verdict:
    """BI-17."""
    model = supervised_model(segmentation, perturbation)
    scores = both_scores(segmentation, perturbation)
    names = (*SEGMENTATION.values(), *areas(scores, model))
    token, head = VARIANTS[::-1]
    gains = {s: gain_over(scores, (model, token, s), (model, head, s)) for s in names}
    return _similar(claim, gains, f"{model}, token_wise minus head_wise: {listed(gains)}")


def _dino_gains(segmentation: pd.DataFrame, methods: Iterable[str]) -> dict[str, Gain]:
    scores, (dino, other) = segmentation_scores(segmentation), (fixed.DINO, fixed.DINO_AGAINST)
    return {
        f"{method} {score}": gain_over(scores, (dino, method, score), (other, method, score))
        for method in methods
        for score in THREE
    }


_DINO_MINUS = f"{fixed.DINO} minus {fixed.DINO_AGAINST}, which differ in size too"


def dino_similar(claim: str, segmentation: pd.DataFrame) -> Verdict:
    """BI-18."""
    gains = _dino_gains(segmentation, VARIANTS)
    return _similar(claim, gains, f"{_DINO_MINUS}: {listed(gains)}")


def dino_promising(claim: str, segmentation: pd.DataFrame) -> Verdict:
    """BI-19."""
    gains = _dino_gains(segmentation, ["raw_attention"])
    parts = {f"{name} better": gain.clear for name, gain in gains.items()}
    return judge(claim, parts, f"{_DINO_MINUS}: {listed(gains)}")


def same_for_every_class(claim: str, perturbation: pd.DataFrame) -> Verdict:
    """BI-22. With no image answered wrongly any two maps would agree: that tests nothing."""
    model = supervised_model(perturbation)
    scores = perturbation_scores(perturbation, ["model", "method"])
    apart, others = {}, []
    for run, method, own in scores:
        if run == model and own in LABEL:
            other = PREDICTED[LABEL.index(own)]
            pts = gain_over(scores, (model, method, own), (model, method, other)).pts
            if method in fixed.CLASS_AGNOSTIC:
                apart[f"{method} {own.split()[0]}"] = pts
            else:
                others.append(pts)
    if not apart:
        raise Lacking(f"none of {', '.join(fixed.CLASS_AGNOSTIC)} was run for the label: run one")
    if not any(abs(pts) > fixed.SAME_AUC_PTS for pts in others):
        raise Lacking("no method differs between the two: run one for images answered wrongly")
    parts = {f"{name} the same": abs(pts) <= fixed.SAME_AUC_PTS for name, pts in apart.items()}
    text = ", ".join(f"{name} {round(pts, 2) + 0.0:+.2f}" for name, pts in apart.items())
    return judge(claim, parts, f"{model}, AUC for the label against the predicted class: {text}")


def gae_most_faithful(claim: str, perturbation: pd.DataFrame) -> Verdict:
    """RV-40."""
    model = supervised_model(perturbation)
    scores = perturbation_scores(perturbation, ["model", "method"])
    parts, gains = {}, {}  # all that are judged, those that are shown
    pairs = [("gae", name) for name in (*fixed.UNFAITHFUL, *fixed.OTHERS_RV40)]
    pairs += [(better, worse) for worse in fixed.UNFAITHFUL for better in fixed.OTHERS_RV40]
    for score in PREDICTED:
        direction = score.split()[0]
        for better, worse in pairs:
            gain = gain_over(scores, (model, better, score), (model, worse, score))
            parts[f"{better} above {worse}, {direction}"] = gain
            if better == "gae":
                gains[f"{worse} {direction}"] = gain
    return judge_gains(claim, parts, f"{model}, AUC gain of gae over: {listed(gains)}")
