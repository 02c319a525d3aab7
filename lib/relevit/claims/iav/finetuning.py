"""Claims on the course of finetuning, and on masking what a model looks at."""

from __future__ import annotations

from relevit.claims.attribution.scores import NOT_HERE
from relevit.claims.iav import criteria as fixed
from relevit.claims.iav.by_model import (
    Parts,
    above,
    clear,
    decide,
    listed,
    mean_of,
    over,
    seeds_of,
    shown,
    slope,
    wide,
)
from relevit.claims.iav.criteria import BEIT, DINO, MODELS, SELF_SUPERVISED, SUPERVISED
from relevit.claims.robustvit.by_seed import Tables
from relevit.claims.tables import Lacking
from relevit.claims.verdicts import EPS, Verdict

ORDERS = ("attention", "smoothgrad", "random")


def maps_change_less(claim: str, tables: Tables) -> Verdict:
    """IAV-05."""
    parts: Parts = {}
    texts, seeds = [], []
    for name in ("smoothgrad", "attention"):
        by_epoch = wide(tables, "drift", "difference", ["epoch"], quantity=name)
        epochs = by_epoch[DINO].columns
        before = [epoch for epoch in epochs[:-1] if epoch >= 1]
        if not before:
            raise Lacking(f"drift has epochs {list(epochs)}: it needs one from 1 before the last")
        values = over(by_epoch, before)
        ratio = mean_of(values, SELF_SUPERVISED) / max(mean_of(values, SUPERVISED), EPS)
        parts |= clear(above(values, SUPERVISED, SELF_SUPERVISED), f"{name}: ")
        parts[f"{name}: nearer to a half than to one"] = ratio <= fixed.NEARER_HALF + EPS
        texts.append(f"{name} {listed(values, 3)}, ratio of the kinds {ratio:.2f}")
        seeds.append(seeds_of(values))
    return decide(claim, parts, f"difference to the last epoch: {'; '.join(texts)}", min(seeds))


def attention_as_good(claim: str, tables: Tables) -> Verdict:
    """IAV-06."""
    table = wide(tables, "masking", "top1_pct", ["order", "ratio_pct"])
    absent = [name for name in ORDERS if name not in table[DINO].columns.get_level_values(0)]
    if absent:
        raise Lacking(f"masking has no rows with order {' or '.join(absent)}: run it")
    # Without any mask the orders do not differ.
    found = {
        name: {
            m: rows[name].loc[:, rows[name].columns > 0].mean(axis=1) for m, rows in table.items()
        }
        for name in ORDERS
    }
    gaps = {m: found["attention"][m] - found["smoothgrad"][m] for m in MODELS}
    limits = {m: max(fixed.SIMILAR_PTS, gap.std()) + EPS for m, gap in gaps.items()}
    parts: Parts = {f"{DINO}: attention costs as much": bool(gaps[DINO].mean() <= limits[DINO])}
    for m in (BEIT, *SUPERVISED):
        parts[f"{m}: SmoothGrad costs more"] = bool(gaps[m].mean() > limits[m])
    largest = all(gaps[BEIT].mean() > gaps[m].mean() + EPS for m in MODELS if m != BEIT)
    parts[f"{BEIT}: the largest gap"] = largest
    harm = found["random"][DINO] - found["attention"][DINO]
    number = (
        f"top-1 masked by attention minus by SmoothGrad, points: {listed(gaps, 1, '+')}; {DINO}, "
        f"by chance minus by attention {shown(harm, 1, '+')}"
    )
    verdict = decide(claim, parts, number, seeds_of(gaps))
    if verdict.verdict == "holds" and not harm.mean() > harm.std() + EPS:
        reason = f"masking by attention costs {DINO} no more than masking by chance"
        return Verdict(claim, NOT_HERE, number, reason)
    return verdict


def entropy_trends(claim: str, tables: Tables) -> Verdict:
    """IAV-07."""
    by_epoch = wide(tables, "epochs", "entropy", ["epoch"])
    slopes = {
        model: slope(rows[[epoch for epoch in rows.columns if epoch >= 1]])
        for model, rows in by_epoch.items()
    }
    parts: Parts = {}
    for model, found in slopes.items():
        sign, word = (-1, "falls") if model in SELF_SUPERVISED else (1, "rises")
        parts[f"{model} {word}"] = bool(sign * found.mean() > found.std() + EPS)
    number = f"entropy, change over the epochs, nats: {listed(slopes, 3, '+')}"
    return decide(claim, parts, number, seeds_of(slopes), fixed.TREND_SEEDS)
