"""Scores of methods and their gains, from the tables of the tests; above is always better."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import pandas as pd

from relevit.attribution import BASELINES, VARIANTS
from relevit.claims.registry import Finding, Lacking, decide, no_room
from relevit.claims.statistics import MAX_SPREAD_PTS, Difference

INTERVAL_ERRORS = 2 * 1.96  # standard errors in a 95 % interval
SEGMENTATION = {
    "pixel_accuracy_pct": "pixel accuracy",
    "miou_pct": "mIoU",
    "map_pct": "mAP",
    "mf1_pct": "mF1",
}
THREE = tuple(SEGMENTATION.values())[:3]  # mF1 is not in RobustViT T3, Beyond Intuition T6
SIGNS = {"positive": -1, "negative": 1}  # low is good when the relevant goes first
PREDICTED = tuple(f"{direction} AUC (predicted)" for direction in SIGNS)
LABEL = tuple(f"{direction} AUC (label)" for direction in SIGNS)
# The same for every class, so that Beyond Intuition's tables leave their cells for the label
# empty; it calls partial LRP class-agnostic too, yet prints both.
NO_LABEL_ROW = ("raw_attention", "rollout")

# Parts of criteria.
BEATS = "by more than the combined standard error"
UNSURE = (
    "no room where each gain that is not clear has a combined standard error above "
    f"{MAX_SPREAD_PTS:g} points and none is clearly the other way"
)

# By names and score: a value, of which more is better, and its standard error; in points.
Scores = dict[tuple[str, ...], tuple[float, float]]


def segmentation_scores(table: pd.DataFrame) -> Scores:
    """`methods_segmentation` as value and error, by model, method and score."""
    error = (table["high_pct"] - table["low_pct"]) / INTERVAL_ERRORS
    score = table["metric"].astype(str).map(SEGMENTATION)
    return as_scores(table, ["model", "method"], score, table["value_pct"], error)


def perturbation_scores(table: pd.DataFrame, names: Iterable[str]) -> Scores:
    """AUCs as value (above is better) and error, by `names` and score.

    A table without targets is for the predicted class.
    """
    target = table.get("target", pd.Series("predicted", index=table.index)).astype(str)
    score = table["direction"].astype(str) + " AUC (" + target + ")"
    value = table["auc_pct"] * table["direction"].astype(str).map(SIGNS)
    return as_scores(table, names, score, value, table["standard_error_pts"])


def as_scores(
    table: pd.DataFrame, names: Iterable[str], score: pd.Series, value: pd.Series, error: pd.Series
) -> Scores:
    """Values and errors of the rows of a table, by `names` and score."""
    keys = zip(*(table[name].astype(str) for name in names), score, strict=True)
    values = zip(value.astype(float), error.astype(float), strict=True)
    return dict(zip(keys, values, strict=True))


def both_scores(segmentation: pd.DataFrame, perturbation: pd.DataFrame) -> Scores:
    """The scores of both tests, by model, method and score."""
    areas = perturbation_scores(perturbation, ["model", "method"])
    return segmentation_scores(segmentation) | areas


def gain_over(scores: Scores, ours: tuple, other: tuple) -> Difference:
    """By how much one row is above another. Raises: Lacking without them."""
    for key in (ours, other):
        if key not in scores:
            raise Lacking(f"no row for {', '.join(key)}: run it too")
    (a, error_a), (b, error_b) = scores[ours], scores[other]
    return Difference(a - b, math.hypot(error_a, error_b))


def areas(scores: Scores, *models: str) -> tuple[str, ...]:
    """The AUCs to judge: for the label only where a variant has them on each model."""
    run = all(any((m, v, s) in scores for v in VARIANTS for s in LABEL) for m in models)
    return (*PREDICTED, *LABEL) if run else PREDICTED


def gains_over_baselines(
    scores: Scores, model: str, variant: str, score: str, baselines: Iterable[str] = BASELINES
) -> dict[str, Difference]:
    """By how much a variant is better than each baseline; those of NO_LABEL_ROW may lack one."""
    left_out = [
        name for name in NO_LABEL_ROW if score in LABEL and (model, name, score) not in scores
    ]
    return {
        name: gain_over(scores, (model, variant, score), (model, name, score))
        for name in baselines
        if name not in left_out
    }


def lead_over_best(scores: Scores, model: str, variant: str, score: str) -> Difference:
    """Gain over the best baseline."""
    return min(gains_over_baselines(scores, model, variant, score).values())


def listed(gains: Mapping[str, Difference]) -> str:
    """`name +1.2 ± 0.3, ...`."""
    return ", ".join(f"{name} {gain}" for name, gain in gains.items())


def judge_gains(gains: Mapping[str, Difference], number: str) -> Finding:
    """`decide` of parts that hold where their gain is clear, if the errors let one see it.

    No room where each unclear gain has an error above MAX_SPREAD_PTS and none is clearly
    the other way.
    """
    hidden = hidden_gain(gains.values())
    if hidden:
        return no_room(f"{hidden}: run more images", number)
    return decide({name: gain.clear for name, gain in gains.items()}, number)


def hidden_gain(gains: Iterable[Difference]) -> str:
    """Why the errors do not let one see whether all gains are clear; empty where they do."""
    unclear = [gain for gain in gains if not gain.clear]
    against = any(Difference(-gain.value, gain.spread).clear for gain in unclear)
    if not unclear or against or min(g.spread for g in unclear) <= MAX_SPREAD_PTS:
        return ""
    return (
        f"a combined standard error of {max(g.spread for g in unclear):.1f} points, above "
        f"{MAX_SPREAD_PTS:g}, could hide a gain"
    )
