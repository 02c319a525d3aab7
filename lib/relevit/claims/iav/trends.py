"""Claims on how the scores go with depth, and on what that tells of the pretraining."""

from __future__ import annotations

import pandas as pd

from relevit.claims.iav import criteria as fixed
from relevit.claims.iav.accuracy import average, corrupted, validation
from relevit.claims.iav.by_model import (
    Parts,
    above,
    clear,
    decide,
    difference,
    listed,
    over,
    overlap,
    pick,
    seeds_of,
    share_of_depth,
    shown,
    slope,
    wide,
)
from relevit.claims.iav.criteria import (
    BEIT,
    DEIT,
    DINO,
    IN21K,
    MODELS,
    SELF_SUPERVISED,
    SMOOTHGRAD,
    SUPERVISED,
)
from relevit.claims.iav.entropy import all_but_last
from relevit.claims.robustvit.by_seed import Tables
from relevit.claims.verdicts import EPS, Verdict


def scores_over_depth(claim: str, tables: Tables) -> Verdict:
    """IAV-11."""
    runs = {model: _slopes(tables, model, SMOOTHGRAD) for model in MODELS}
    slopes = {model: rows["slope"] for model, rows in runs.items()}
    by_layer = wide(tables, "scores", "score", ["layer"], map=SMOOTHGRAD)
    late = over(by_layer, share_of_depth(by_layer[DINO].columns, 0.5, 1))
    parts: Parts = {}
    for model, rows in runs.items():
        falls = rows["high"] < -EPS
        met = not falls.any() if model in SELF_SUPERVISED else falls.all()
        word = "falls in no seed" if model in SELF_SUPERVISED else "falls in every seed"
        parts[f"{model} {word}"] = bool(met)
    parts |= clear(above(slopes, SELF_SUPERVISED, SUPERVISED), "slope: ")
    parts |= clear(above(late, SELF_SUPERVISED, SUPERVISED), "deeper half: ")
    table = pick(tables, "slopes", map=SMOOTHGRAD)
    others = sorted(set(table["model"].astype(str)) - set(MODELS))
    runs |= {f"{model} (not judged)": _slopes(tables, model, SMOOTHGRAD) for model in others}
    texts = ", ".join(f"{model} {_with_interval(rows)}" for model, rows in runs.items())
    number = f"slope over depth: {texts}; score in the deeper half: {listed(late)}"
    return decide(claim, parts, number, seeds_of(slopes, late), fixed.TREND_SEEDS)


def map_of_dino(claim: str, tables: Tables) -> Verdict:
    """IAV-12."""
    names = (BEIT, *SUPERVISED)
    own, other = (
        {model: _slopes(tables, model, name)["slope"] for model in names}
        for name in (SMOOTHGRAD, fixed.DINO_MAP)
    )
    # Seeds that one of the two maps lacks are left out.
    changes = {model: (other[model] - own[model]).dropna() for model in names}
    sizes = {model: values.abs() for model, values in changes.items()}
    parts: Parts = {}
    for model in SUPERVISED:
        fall = -other[model].mean()
        parts[f"{model} falls"] = bool(fall > other[model].std() + EPS)
        parts[f"{model} falls more"] = bool(-changes[model].mean() > changes[model].std() + EPS)
        parts[f"{model} falls much more"] = bool(fall >= -fixed.MUCH * own[model].mean() - EPS)
        parts[f"{BEIT} changes less than {model}"] = difference(sizes[model], sizes[BEIT]).clear
    number = (
        f"slope over depth: own map {listed(own, sign='+')}; {DINO}'s map "
        f"{listed(other, sign='+')}; difference {listed(changes, sign='+')}"
    )
    return decide(claim, parts, number, seeds_of(changes), fixed.TREND_SEEDS)


def only_the_trend_tells(claim: str, tables: Tables) -> Verdict:
    """IAV-19."""
    slopes = {model: _slopes(tables, model, SMOOTHGRAD)["slope"] for model in MODELS}
    others = {
        "validation top-1": validation(tables),
        "corrupted top-1": average(corrupted(tables)),
        "entropy": all_but_last(tables),
    }
    parts = clear(above(slopes, SELF_SUPERVISED, SUPERVISED), "slope: ")
    parts |= {f"{name}: kinds not apart": overlap(values) for name, values in others.items()}
    texts = [f"slope {listed(slopes, sign='+')}"]
    texts += [f"{name} {listed(values)}" for name, values in others.items()]
    seeds = seeds_of(slopes, *others.values())
    return decide(claim, parts, "; ".join(texts), seeds, fixed.TREND_SEEDS)


def classes_group(claim: str, tables: Tables) -> Verdict:
    """IAV-18."""
    by_layer, chance = (
        wide(tables, "space", column, ["layer"]) for column in ("knn_pct", "chance_pct")
    )
    layers = list(by_layer[DINO].columns)
    last = layers[-fixed.CLEAREST :]
    slopes = {model: slope(rows) for model, rows in by_layer.items()}
    late, luck = over(by_layer, last), over(chance, last)
    best = {model: by_layer[model].mean().idxmax() for model in SUPERVISED}
    parts: Parts = {}
    for model in MODELS:
        found = slopes[model]
        parts[f"{model} rises"] = bool(found.mean() > found.std() + EPS)
        parts[f"{model} above chance"] = difference(late[model], luck[model]).clear
    parts |= clear(above(late, SUPERVISED, SELF_SUPERVISED), "last layers: ")
    parts |= clear(above(late, [IN21K], [DEIT]) | above(late, [BEIT], [DINO]), "last layers: ")
    parts |= {
        f"{model} clearest in the last layers": layer in last for model, layer in best.items()
    }
    number = (
        f"k-NN accuracy, change over depth in points: {listed(slopes, 1, '+')}; L{last[0]} to "
        f"L{last[-1]}, %: {listed(late, 1)}, by chance {shown(luck[DINO].iloc[:1], 1)}; best "
        f"layer of {', '.join(f'{model} L{layer}' for model, layer in best.items())}"
    )
    return decide(claim, parts, number, seeds_of(late), fixed.TREND_SEEDS)


def _slopes(tables: Tables, model: str, name: str) -> pd.DataFrame:
    """Slope and interval of each seed."""
    rows = pick(tables, "slopes", model=model, map=name)
    return rows.set_index("seed")[["slope", "low", "high"]]


def _with_interval(rows: pd.DataFrame) -> str:
    """Mean ± std over seeds, and the lowest and highest end of their intervals."""
    ends = f"{rows['low'].min():+.2f} to {rows['high'].max():+.2f}"
    return f"{shown(rows['slope'], sign='+')} ({ends})"
