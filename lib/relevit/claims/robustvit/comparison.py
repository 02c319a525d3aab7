"""Claims on the baselines, the automatic masks and the DINO models."""

from __future__ import annotations

import math

import pandas as pd

from relevit.claims.attribution.scores import NOT_HERE
from relevit.claims.robustvit import criteria as fixed
from relevit.claims.robustvit.by_seed import (
    Tables,
    accuracies,
    by_set,
    changes,
    clear,
    gains,
    noisy,
    original_accuracy,
    paired,
    seed_count,
    select,
    shifted,
    small_loss,
    standard_error,
    text,
)
from relevit.claims.tables import Lacking, need
from relevit.claims.verdicts import EPS, MIN_SEEDS, SI_SETS, SLIGHT_PTS, Verdict, judge, signed
from relevit.data.cutouts import SHIFTED_SETS, TEST_SETS

BASELINES = ("gradmask", "rrr")
PROTOCOL = "published"
OURS = {"method": "relevance", "protocol": PROTOCOL, "masks": "annotated"}
AUTOMATIC = OURS | {"masks": "tokencut"}


def baselines_behind(accuracies: pd.DataFrame) -> dict[str, bool]:
    """Whether each baseline falls clearly behind ours on each SI-Score set: a part of RV-06.

    `accuracies` as in SCHEMAS. Empty where a baseline was not run, or too few seeds.
    """
    parts: dict[str, bool] = {}
    try:
        for model in _baseline_models(accuracies):
            for name, difference in _leads(accuracies, model).items():
                if len(difference) < MIN_SEEDS:
                    return {}
                parts |= {f"{model}: {name} behind on {s}": clear(difference[s]) for s in SI_SETS}
    except Lacking:
        return {}
    return parts


def baselines_fall_behind(claim: str, tables: Tables) -> Verdict:
    """RV-05."""
    table = need(tables, "accuracies")
    parts, texts, seeds = {}, [], []
    for model in _baseline_models(table):
        leads = _leads(table, model)
        for name in BASELINES:
            theirs = changes(table, model=model, method=name, protocol=PROTOCOL)
            for kept in fixed.KINDS:
                met = theirs[kept].mean() >= -SLIGHT_PTS - EPS
                parts[f"{model}: {name} keeps {kept}"] = bool(met)
            for behind in fixed.BEHIND_SETS:
                parts[f"{model}: {name} behind on {behind}"] = clear(leads[name][behind])
            seeds.append(len(leads[name]))
            texts.append(
                f"{model}, {name} ({seed_count(leads[name])}): {by_set(theirs, fixed.KINDS)}, ours "
                f"above it by {by_set(leads[name], fixed.BEHIND_SETS)}"
            )
    return judge(claim, parts, "; ".join(texts), min(seeds))


def automatic_masks(claim: str, tables: Tables) -> Verdict:
    """RV-07. A model on which annotated masks gain nothing is shown but does not count."""
    table = need(tables, "accuracies")
    models = [m for m in _models(table) if _has(table, m, OURS) and _has(table, m, AUTOMATIC)]
    if not models:
        raise Lacking("no model with both annotated and automatic masks: run them")
    parts, texts, averages, counted = {}, [], [], []
    for model in models:
        theirs, ours = (changes(table, model=model, **kind) for kind in (AUTOMATIC, OURS))
        difference = paired(theirs, ours)
        average, better = shifted(difference), int((difference.mean() > EPS).sum())
        if gains(ours):
            parts[f"{model}: just as well"] = small_loss(average)
            parts[f"{model}: better on five of nine sets"] = better > len(TEST_SETS) / 2
            counted.append(average)
        averages.append(average)
        pair = f"{text(shifted(theirs))} against {text(shifted(ours))}"
        texts.append(
            f"{model}, {seed_count(average)}: {pair} on the shifted sets, "
            f"difference {text(average)}, better on {better} of 9 sets"
        )
    number = "; ".join(texts) + _quality(tables)
    seeds = min(map(len, counted or averages))
    if seeds >= MIN_SEEDS and not counted:
        reason = "annotated masks do not gain on the shifted sets, so there is nothing to match"
        return Verdict(claim, NOT_HERE, number, reason)
    if seeds >= MIN_SEEDS and all(parts.values()) and noisy(*counted):
        return Verdict(claim, NOT_HERE, number, "the std over seeds could hide a loss: run more")
    return judge(claim, parts, number, seeds)


def dino_probe_worst(claim: str, tables: Tables) -> Verdict:
    """RV-31."""
    table = need(tables, "accuracies")
    probe, dino = _probe(table), _applied(table)
    supervised = {"model": fixed.SUPERVISED} | AUTOMATIC
    seeds = min(len(changes(table, **kind)) for kind in (dino, supervised))
    others = {
        f"{fixed.DINO} finetuned": original_accuracy(table, fixed.DINO),
        f"{fixed.DINO} with ours": accuracies(table, **dino),
        fixed.SUPERVISED: original_accuracy(table, fixed.SUPERVISED),
        f"{fixed.SUPERVISED} with ours": accuracies(table, **supervised),
    }
    parts = {
        f"below {name} on {s}": bool(probe[s] < other[s] - EPS)
        for name, other in others.items()
        for s in TEST_SETS
    }
    gap = probe - others[fixed.SUPERVISED]
    number = f"linear probe minus {fixed.SUPERVISED}: {_listed(gap, TEST_SETS)}"
    return judge(claim, parts, number, seeds)


def dino_above_supervised(claim: str, tables: Tables) -> Verdict:
    """RV-32."""
    table = need(tables, "accuracies")
    dino, other = (original_accuracy(table, m) for m in (fixed.DINO, fixed.SUPERVISED))
    error = _combined(table, dino, other)
    gain = dino - other
    parts = {f"above on {s}": bool(gain[s] > error[s] + EPS) for s in TEST_SETS}
    return judge(claim, parts, f"difference: {_listed(gain, TEST_SETS, error)}")


def ours_beats_dino(claim: str, tables: Tables) -> Verdict:
    """RV-33."""
    table = need(tables, "accuracies")
    ours = changes(table, model=fixed.SUPERVISED, **AUTOMATIC)
    gain = ours + original_accuracy(table, fixed.SUPERVISED) - original_accuracy(table, fixed.DINO)
    mean = gain.mean()
    parts = {f"above on {s}": bool(mean[s] > EPS) for s in fixed.BEATEN_BY_OURS}
    parts |= {f"not above on {s}": bool(mean[s] <= EPS) for s in fixed.NOT_BEATEN}
    number = f"difference: {by_set(gain, (*fixed.BEATEN_BY_OURS, *fixed.NOT_BEATEN))}"
    return judge(claim, parts, number, len(gain))


def ours_on_dino(claim: str, tables: Tables) -> Verdict:
    """RV-34."""
    table = need(tables, "accuracies")
    where = _applied(table)
    change = changes(table, **where)
    parts = {f"{s} rises": bool(change[s].mean() > EPS) for s in SHIFTED_SETS}
    number = f"{where['masks']} masks, {seed_count(change)}: {by_set(change, SHIFTED_SETS)}"
    return judge(claim, parts, number, len(change))


def finetuning_hurts_dino(claim: str, tables: Tables) -> Verdict:
    """RV-35."""
    table = need(tables, "accuracies")
    probe, dino = _probe(table), original_accuracy(table, fixed.DINO)
    error = _combined(table, probe, dino)[list(SHIFTED_SETS)]
    error = float((error**2).sum() ** 0.5 / len(SHIFTED_SETS))
    loss = float((dino - probe)[list(SHIFTED_SETS)].mean())
    change = shifted(changes(table, **_applied(table)))
    parts = {
        "finetuning lowers the shifted average": loss < -error - EPS,
        "ours raises it": bool(change.mean() > EPS),
    }
    number = f"finetuned minus linear probe {signed(loss, error)}, with ours {text(change)}"
    return judge(claim, parts, number, len(change))


def _models(table: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(table["model"].astype(str)))


def _has(table: pd.DataFrame, model: str, kind: dict[str, str]) -> bool:
    try:
        return not select(table, model=model, **kind).empty
    except Lacking:
        return False


def _baseline_models(table: pd.DataFrame) -> list[str]:
    """Models with a baseline; the methods of each are asked for later, so that a gap is named."""
    kinds = [{"method": name, "protocol": PROTOCOL} for name in BASELINES]
    models = [m for m in _models(table) if any(_has(table, m, kind) for kind in kinds)]
    if not models:
        raise Lacking(f"no run of {' or '.join(BASELINES)} ({PROTOCOL}): run them")
    return models


def _leads(table: pd.DataFrame, model: str) -> dict[str, pd.DataFrame]:
    """By how much ours is above each baseline, by seed and set."""
    ours = changes(table, model=model, **OURS)
    return {
        name: paired(ours, changes(table, model=model, method=name, protocol=PROTOCOL))
        for name in BASELINES
    }


def _quality(tables: Tables) -> str:
    """How good the automatic masks are, where it was measured."""
    if "quality" not in tables:
        return ""
    rows = tables["quality"].astype({"stage": str, "images": str})
    rows = rows[(rows["stage"] == "refined") & (rows["images"] == "finetune")]
    mean = rows["iou_pct"].mean()
    return "" if math.isnan(mean) else f"; masks' IoU {mean:.1f} %"


def _probe(table: pd.DataFrame) -> pd.Series:
    return accuracies(table, model=fixed.DINO, method="linear_probe")


def _applied(table: pd.DataFrame) -> dict[str, str]:
    """Our method on the self-supervised model: automatic masks where they were run."""
    kind = AUTOMATIC if _has(table, fixed.DINO, AUTOMATIC) else OURS
    return {"model": fixed.DINO} | kind


def _combined(table: pd.DataFrame, first: pd.Series, second: pd.Series) -> pd.Series:
    images = float(table["images"].min())
    return (standard_error(first, images) ** 2 + standard_error(second, images) ** 2) ** 0.5


def _listed(values: pd.Series, sets: tuple[str, ...], errors: pd.Series | None = None) -> str:
    return ", ".join(
        f"{s} {signed(values[s]) if errors is None else signed(values[s], errors[s])}" for s in sets
    )
