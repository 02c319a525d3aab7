"""Claims on accuracy, on blurred and cut images, and on what does and does not tell the kinds."""

from __future__ import annotations

from itertools import combinations

import pandas as pd

from relevit.claims.iav.by_model import (
    Parts,
    above,
    clear,
    decide,
    difference,
    listed,
    over,
    overlap,
    seeds_of,
    similar,
    wide,
)
from relevit.claims.iav.criteria import (
    BEIT,
    CORRUPTIONS,
    DEIT,
    DINO,
    IN21K,
    MODELS,
    SELF_SUPERVISED,
    SUPERVISED,
)
from relevit.claims.robustvit.by_seed import Tables
from relevit.claims.tables import Lacking
from relevit.claims.verdicts import Verdict

VALIDATION = "validation"


def validation(tables: Tables) -> dict[str, pd.Series]:
    """Validation top-1 after the last epoch, in percent, of each model and seed."""
    by_epoch = wide(tables, "models", "validation_top1_pct", ["epoch"])
    return {model: rows.iloc[:, -1] for model, rows in by_epoch.items()}


def corrupted(tables: Tables) -> dict[str, dict[str, pd.Series]]:
    """Top-1 in percent averaged over levels: `none` and each corruption, model, seed.

    Raises: Lacking without one of them.
    """
    by_level = wide(tables, "shift", "top1_pct", ["corruption", "level"])
    run = set(by_level[DINO].columns.get_level_values("corruption"))
    absent = [name for name in ("none", *CORRUPTIONS) if name not in run]
    if absent:
        raise Lacking(f"shift has no rows with corruption {' or '.join(absent)}: run it")
    return {name: over(by_level, name) for name in ("none", *CORRUPTIONS)}


def average(parts: dict[str, dict[str, pd.Series]]) -> dict[str, pd.Series]:
    """Mean over the three corruptions."""
    return {
        model: sum(parts[name][model] for name in CORRUPTIONS) / len(CORRUPTIONS)
        for model in MODELS
    }


def dino_most_accurate(claim: str, tables: Tables) -> Verdict:
    """IAV-01."""
    values = validation(tables)
    parts: Parts = clear(above(values, [DINO], MODELS))
    others = [model for model in MODELS if model != DINO]
    parts |= {
        f"{a} like {b}": similar(difference(values[a], values[b]))
        for a, b in combinations(others, 2)
    }
    return decide(claim, parts, f"validation top-1, %: {listed(values, 1)}", seeds_of(values))


def deit_weaker(claim: str, tables: Tables) -> Verdict:
    """IAV-02."""
    found = corrupted(tables)
    parts, texts = {}, []
    for name in CORRUPTIONS:
        values = found[name]
        losses = {model: found["none"][model] - values[model] for model in MODELS}
        parts |= clear(above(values, MODELS, [DEIT]), f"{name}: ")
        parts |= clear(above(losses, [DEIT], MODELS), f"loss by {name}: ")
        texts.append(f"{name} {listed(losses, 1)}")
    number = f"top-1 lost, points: {'; '.join(texts)}"
    return decide(claim, parts, number, seeds_of(found["none"]))


def accuracy_does_not_tell(claim: str, tables: Tables) -> Verdict:
    """IAV-03."""
    values = _four(tables)
    parts: Parts = {f"{name}: kinds not apart": overlap(of) for name, of in values.items()}
    for name in CORRUPTIONS:
        below = above(values[name], SELF_SUPERVISED, [IN21K])
        parts[f"{name}: {IN21K} robust too"] = not all(pair.clear for pair in below.values())
    return decide(claim, parts, _text(values), seeds_of(*values.values()))


def dino_best(claim: str, tables: Tables) -> Verdict:
    """IAV-04."""
    values = _four(tables)
    parts: Parts = {}
    for name, of_it in values.items():
        parts |= clear(above(of_it, [DINO], MODELS), f"{name}: ")
    robust = {VALIDATION: values[VALIDATION], "corrupted": average(values)}
    for name, of_it in robust.items():
        better = all(pair.clear for pair in above(of_it, [BEIT], SUPERVISED).values())
        parts[f"{name}: {BEIT} not above the supervised"] = not better
    return decide(claim, parts, _text(values), seeds_of(*values.values()))


def _four(tables: Tables) -> dict[str, dict[str, pd.Series]]:
    found = corrupted(tables)
    return {VALIDATION: validation(tables)} | {name: found[name] for name in CORRUPTIONS}


def _text(values: dict[str, dict[str, pd.Series]]) -> str:
    return "top-1, %: " + "; ".join(f"{name} {listed(of, 1)}" for name, of in values.items())
