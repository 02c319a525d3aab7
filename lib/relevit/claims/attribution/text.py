"""Claims on texts (BI-08 to BI-11) and on images with text (BI-12).

Errors are those of documents or images; where a number is an average over several of the same
documents, or over several methods on them, its error is the average of theirs, which is on the
safe side.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pandas as pd

from relevit.attribution import BASELINES, VARIANTS
from relevit.claims.attribution import criteria as fixed
from relevit.claims.attribution.scores import (
    INTERVAL_ERRORS,
    LABEL,
    NOT_HERE,
    PREDICTED,
    SIGNS,
    Gain,
    Lacking,
    Scores,
    as_scores,
    gain_over,
    gains_over_baselines,
    hidden_gain,
    listed,
    perturbation_scores,
)
from relevit.claims.verdicts import EPS, Verdict, judge

POSITIVE, NEGATIVE = AREAS = tuple(f"{direction} AUC" for direction in SIGNS)
FIRST_HALF = "first half of the positive curve"
F1 = "F1"
TA = "transformer_attribution"
LEAD = "lead over the best baseline"


class SignificantGain(Gain):
    """A gain that is clear only where it is several combined standard errors."""

    @property
    def clear(self) -> bool:
        return self.pts > fixed.SIGNIFICANT_ERRORS * self.error + EPS


def reasoning(
    claim: str, perturbation: pd.DataFrame, rationales: pd.DataFrame, accuracy: pd.DataFrame
) -> Verdict:
    """BI-08."""
    corpus = _movies(perturbation, rationales, accuracy)
    _need_classifier(corpus, accuracy, perturbation)
    gains = _leads(_rationale_scores(rationales), corpus, [F1])
    return _of_corpus(_beating(claim, gains, f"{corpus}, {LEAD}: {_best(gains)}"), corpus)


def movies(
    claim: str, perturbation: pd.DataFrame, rationales: pd.DataFrame, accuracy: pd.DataFrame
) -> Verdict:
    """BI-09."""
    corpus = _movies(perturbation, rationales, accuracy)
    _need_classifier(corpus, accuracy, perturbation)
    scores = _area_scores(perturbation) | _rationale_scores(rationales)
    leads = {
        name: {other: SignificantGain(*gain) for other, gain in gains.items()}
        for name, gains in _leads(scores, corpus, [NEGATIVE, F1], ["token_wise"]).items()
    }
    behind = {v: gain_over(scores, (corpus, TA, POSITIVE), (corpus, v, POSITIVE)) for v in VARIANTS}
    sooner = {
        v: gain_over(scores, (corpus, v, FIRST_HALF), (corpus, TA, FIRST_HALF)) for v in VARIANTS
    }
    least, most, chance = _ends(perturbation, corpus)
    guess = 100 - chance - fixed.GUESS_PTS <= least and most <= chance + fixed.GUESS_PTS
    gains = leads | {f"{TA} {POSITIVE}": behind}
    gains |= {f"{v} {FIRST_HALF}": {TA: gain} for v, gain in sooner.items()}
    number = (
        f"{corpus}, {LEAD}: {_best(leads)}; {TA}, {POSITIVE} gain over: {listed(behind)}; "
        f"{FIRST_HALF}, gain over {TA}: {listed(sooner)}; with every word erased {least:.1f} to "
        f"{most:.1f} % right, naming one class {chance:.1f} %"
    )
    verdict = _beating(claim, gains, number, {"the accuracy ends at a guess": guess})
    return _of_corpus(verdict, corpus)


def no_advantage(
    claim: str, perturbation: pd.DataFrame, rationales: pd.DataFrame, accuracy: pd.DataFrame
) -> Verdict:
    """BI-10."""
    corpus = _movies(perturbation, rationales, accuracy)
    cases = [(corpus, score) for score in (*AREAS, F1)]
    second = (perturbation["corpus"] == fixed.NEWSGROUPS).any()
    if second:
        cases += [(fixed.NEWSGROUPS, score) for score in AREAS]
    for name in dict.fromkeys(name for name, _ in cases):
        _need_classifier(name, accuracy, perturbation)
    scores = _area_scores(perturbation) | _rationale_scores(rationales)
    gains, ranks = {}, {}
    for method in fixed.WITHOUT_ADVANTAGE:
        for name, score in cases:
            case = f"{method} {score} on {name}"
            gains[case], ranks[case] = _over_others(scores, name, method, score)
    shown = (f"{case} {gain} (rank {ranks[case]})" for case, gain in gains.items())
    number = f"gain over the average of the other four baselines: {', '.join(shown)}"
    hiding = [g.error for g in gains.values() if g.pts + g.error > fixed.MAX_ERROR_PTS + EPS]
    if hiding and not any(gain.clear for gain in gains.values()):
        reason = (
            f"an advantage of more than {fixed.MAX_ERROR_PTS:g} points could hide within a "
            f"combined standard error of {max(hiding):.1f}: explain more texts"
        )
        return _of_corpus(Verdict(claim, NOT_HERE, number, reason), corpus)
    parts = {f"{case} no better": not gain.clear for case, gain in gains.items()}
    verdict = _of_corpus(judge(claim, parts, number), corpus)
    missed = "" if second else "; 20 Newsgroups was not run"
    return replace(verdict, reason=verdict.reason + missed)


def newsgroups(claim: str, perturbation: pd.DataFrame, accuracy: pd.DataFrame) -> Verdict:
    """BI-11."""
    corpus = fixed.NEWSGROUPS
    if not all((table["corpus"] == corpus).any() for table in (perturbation, accuracy)):
        raise Lacking(
            f"no rows for {corpus}: the claim is on 20 Newsgroups alone, which the paper preset "
            "reads from a folder (corpora in 11_text)"
        )
    _need_classifier(corpus, accuracy, perturbation)
    right, low, high = _accuracy(accuracy, corpus)
    needed = fixed.NEWSGROUPS_PCT - fixed.PRINTED_PCT
    reaches = {f"accuracy reaches {fixed.NEWSGROUPS_PCT:g} %": high >= needed - EPS}
    gains = _leads(_area_scores(perturbation), corpus, AREAS)
    number = (
        f"{corpus}, {LEAD}: {_best(gains)}; accuracy {right:.1f} % (95 % interval {low:.1f} to "
        f"{high:.1f}), the paper's {fixed.NEWSGROUPS_PCT:g} %"
    )
    return _beating(claim, gains, number, reaches)


def dual_encoder(claim: str, perturbation: pd.DataFrame, zero_shot: pd.DataFrame) -> Verdict:
    """BI-12."""
    found = [
        model
        for model in fixed.DUALS
        if all((table["model"] == model).any() for table in (perturbation, zero_shot))
    ]
    if not found:
        raise Lacking(f"no rows for {' or '.join(fixed.DUALS)}: run one of them")
    kind, accuracy = _need_zero_shot(found[0], zero_shot)
    erased = sorted(set(perturbation.loc[perturbation["model"] == found[0], "classes"].astype(str)))
    if erased != [kind]:
        raise Lacking(
            f"{found[0]}: the erased images are of {' and '.join(erased)} classes, while zero-shot "
            f"is a question to {kind} ones ({accuracy})"
        )
    target = perturbation["target"].astype(str).replace({"target": "label"})
    scores = perturbation_scores(perturbation.assign(target=target), ["model", "method"])
    gains = _leads(scores, found[0], (*PREDICTED, *LABEL), VARIANTS, fixed.CLIP_BASELINES)
    number = f"{found[0]} ({accuracy}), {LEAD}: {_best(gains)}"
    return _beating(claim, gains, number, inputs="images")


def _area_scores(table: pd.DataFrame) -> Scores:
    """Both AUCs and the area under the first half of the positive curve; above is better."""
    direction, names = table["direction"].astype(str), ["corpus", "method"]
    signs = direction.map(SIGNS)
    auc, half = table["auc_pct"] * signs, table["first_half_auc_pct"] * signs
    scores = as_scores(table, names, direction + " AUC", auc, table["standard_error_pts"])
    first = direction.map({"positive": FIRST_HALF, "negative": "first half of the negative curve"})
    return scores | as_scores(table, names, first, half, table["first_half_error_pts"])


def _rationale_scores(table: pd.DataFrame) -> Scores:
    """F1 averaged over the numbers of tokens, which are the same for each method of a corpus."""
    scores: Scores = {}
    for corpus, rows in table.groupby(table["corpus"].astype(str)):
        taken = set(rows["k"])
        for method, found in rows.groupby(rows["method"].astype(str)):
            if set(found["k"]) != taken:
                raise Lacking(
                    f"{method} on {corpus} has F1 for k {sorted(found['k'])}, of {sorted(taken)}: "
                    "run the others too"
                )
            mean = found[["f1_pct", "standard_error_pts"]].mean()
            scores[corpus, method, F1] = (mean.iloc[0], mean.iloc[1])
    return scores


def _movies(*tables: pd.DataFrame) -> str:
    """The corpus that stands for Movie Reviews, in all tables. Raises: Lacking without one."""
    for corpus in fixed.MOVIES:
        if all((table["corpus"] == corpus).any() for table in tables):
            return corpus
    raise Lacking(f"no rows for {' or '.join(fixed.MOVIES)} in every table: run one of them")


def _of_corpus(verdict: Verdict, corpus: str) -> Verdict:
    """The verdict, whose reason says so where corpus or rationales are not the paper's."""
    own = fixed.MOVIES[corpus]
    return replace(verdict, reason=f"{verdict.reason}; {own}") if own else verdict


def _accuracy(table: pd.DataFrame, corpus: str) -> tuple[float, float, float]:
    row = table[table["corpus"] == corpus].iloc[0]
    return tuple(float(row[name]) for name in ("accuracy_pct", "low_pct", "high_pct"))


def _need_classifier(corpus: str, accuracy: pd.DataFrame, perturbation: pd.DataFrame) -> None:
    """Raises: Lacking where a text model may be guessing, so that there is nothing to explain."""
    if not (accuracy["corpus"] == corpus).any():
        raise Lacking(f"no accuracy for {corpus}: run it too")
    right, low, high = _accuracy(accuracy, corpus)
    chance = _ends(perturbation, corpus)[2]
    if low <= chance + EPS:
        raise Lacking(
            f"the classifier of {corpus} is right on {right:.1f} % of texts (95 % interval "
            f"{low:.1f} to {high:.1f}), naming one class on {chance:.1f} %: train it longer"
        )


def _need_zero_shot(model: str, table: pd.DataFrame) -> tuple[str, str]:
    """The classes asked of, and the accuracy over seeds as text. Raises: Lacking if by chance."""
    rows = table[table["model"] == model]
    kinds = rows["classes"].astype(str)
    kind = next((kind for kind in ("unseen", "all") if (kinds == kind).any()), "seen")
    rows = rows[kinds == kind]
    if rows.empty:
        raise Lacking(f"no zero-shot accuracy of {model} on any classes: run it too")
    right, chance = float(rows["accuracy_pct"].mean()), float(rows["chance_pct"].mean())
    # Seeds answer the same images. The interval is over classes where one drawing stands for each.
    error = float((rows["high_pct"] - rows["low_pct"]).mean()) / INTERVAL_ERRORS
    text = f"zero-shot {right:.1f} ± {error:.1f} % on {kind} classes, chance {chance:.1f} %"
    if not Gain(right - chance, error).clear:
        raise Lacking(f"{model}: {text}; erasing parts of images means nothing there")
    return kind, text


def _ends(perturbation: pd.DataFrame, corpus: str) -> tuple[float, float, float]:
    """Least and most accuracy with every word erased, and that of naming one class."""
    rows = perturbation[perturbation["corpus"] == corpus]
    end = rows["final_accuracy_pct"]
    return float(end.min()), float(end.max()), float(rows["chance_pct"].max())


def _leads(
    scores: Scores,
    of: str,
    names: Iterable[str],
    variants: Iterable[str] = VARIANTS,
    baselines: Iterable[str] = BASELINES,
) -> dict[str, dict[str, Gain]]:
    """By variant and score: by how much it is better than each baseline."""
    return {
        f"{variant} {score}": gains_over_baselines(scores, of, variant, score, baselines)
        for variant in variants
        for score in names
    }


def _best(gains: Mapping[str, Mapping[str, Gain]]) -> str:
    """The smallest gain of each, which is the one over the best baseline."""
    return listed({name: min(found.values()) for name, found in gains.items()})


def _over_others(scores: Scores, corpus: str, method: str, score: str) -> tuple[Gain, str]:
    """Gain over the average of the baselines without WITHOUT_ADVANTAGE, and the rank among all."""
    gains = {
        name: gain_over(scores, (corpus, method, score), (corpus, name, score))
        for name in BASELINES
        if name != method
    }
    others = [(corpus, b, score) for b in BASELINES if b not in fixed.WITHOUT_ADVANTAGE]
    value, error = np.mean([scores[key] for key in others], axis=0).tolist()
    own, own_error = scores[corpus, method, score]
    rank = 1 + sum(gain.pts < -EPS for gain in gains.values())
    return Gain(own - value, math.hypot(own_error, error)), f"{rank} of {len(BASELINES)}"


def _beating(
    claim: str,
    gains: Mapping[str, Mapping[str, Gain]],
    number: str,
    more: Mapping[str, bool] = MappingProxyType({}),
    inputs: str = "texts",
) -> Verdict:
    """Holds where every gain is clear, and `more` too; a gain may be hidden by the errors.

    `gains` are by what is judged, and in that by what it is better than.
    """
    hidden = hidden_gain(gain for found in gains.values() for gain in found.values())
    if hidden and all(more.values()):
        return Verdict(claim, NOT_HERE, number, f"{hidden}: explain more {inputs}")
    unbeaten = {
        name: [other for other, gain in found.items() if not gain.clear]
        for name, found in gains.items()
    }
    parts = {f"{name} against {', '.join(found)}": not found for name, found in unbeaten.items()}
    return judge(claim, {**parts, **more}, number)
