"""Claims on single heads: how their scores spread, and which are High-IA and Low-IA."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from relevit.claims.attribution.scores import NOT_HERE
from relevit.claims.iav import criteria as fixed
from relevit.claims.iav.by_model import (
    Parts,
    above,
    clear,
    decide,
    listed,
    pick,
    seeds_of,
    share_of_depth,
    shown,
    wide,
)
from relevit.claims.iav.criteria import (
    BEIT,
    DEIT,
    DINO,
    IN21K,
    MASK,
    MODELS,
    NOT_TESTABLE,
    SMOOTHGRAD,
    SUPERVISED,
)
from relevit.claims.iav.entropy import interval, sign_of
from relevit.claims.robustvit.by_seed import Tables
from relevit.claims.tables import Lacking
from relevit.claims.verdicts import EPS, Verdict
from relevit.evaluate.class_changes import rank_correlation


def head_decides(claim: str, tables: Tables) -> Verdict:
    """IAV-13."""
    shares = {model: identity_share(tables, model) for model in MODELS}
    parts: Parts = {
        f"{model}: head explains more than half": bool(
            share.mean() - fixed.DECIDES > share.std() + EPS
        )
        for model, share in shares.items()
    }
    texts = [f"share of the variance between heads: {listed(shares)}"]
    for model, rows in _medians(tables, SUPERVISED).items():
        groups = rows.T.groupby(level="layer")
        ranges = (groups.max() - groups.min()).T
        thirds = {
            name: ranges[share_of_depth(ranges.columns, start / 3, (start + 1) / 3)].mean(axis=1)
            for start, name in enumerate(("first", "middle", "last"))
        }
        parts |= clear(above(thirds, ["middle"], ["first", "last"]), f"{model}, range of heads: ")
        texts.append(f"{model}, range of a layer's medians by third: {listed(thirds)}")
    return decide(claim, parts, "; ".join(texts), seeds_of(shares))


def one_or_two_low(claim: str, tables: Tables) -> Verdict:
    """IAV-14."""
    (rows,) = _medians(tables, [BEIT]).values()
    heads = rows.T.groupby(level="layer").size().min()
    if heads < fixed.MIN_HEADS:
        raise Lacking(f"{heads} heads a layer; at least {fixed.MIN_HEADS} are needed")
    most = max(1, round(fixed.ONE_OR_TWO * heads))
    counts = rows.T.groupby(level="layer").agg(lambda medians: _stand_apart(medians, most)).T
    share = (counts > 0).mean(axis=1)
    parts: Parts = {"in more than half of the layers": bool(share.mean() > 0.5 + EPS)}
    number = (
        f"{BEIT}: layers with 1{f' to {most}' if most > 1 else ''} of {heads} heads apart from "
        f"the others, %: {shown(100 * share, 0)}"
    )
    return decide(claim, parts, number, len(rows))


def all_high(claim: str, tables: Tables) -> Verdict:
    """IAV-15."""
    high = _high(tables, DINO)
    parts: Parts = {
        f"only High-IA heads in L{layer}": bool(high[layer].all(axis=None))
        for layer in _three(high)
    }
    return decide(claim, parts, _types(DINO, high), len(high))


def mostly_high(claim: str, tables: Tables) -> Verdict:
    """IAV-16."""
    high = _high(tables, BEIT)
    share = high[_three(high)].mean(axis=1)
    parts: Parts = {
        "more than half High-IA in every seed": bool((share > fixed.DOMINANT + EPS).all()),
        "some Low-IA in every seed": bool((share < 1).all()),
    }
    return decide(claim, parts, _types(BEIT, high), len(high))


def high_to_low(claim: str, tables: Tables) -> Verdict:
    """IAV-17."""
    parts: Parts = {}
    texts, spreads = [], {}
    for model in SUPERVISED:
        high = _high(tables, model)
        layers = _three(high)
        first, middle, last = (high[layer] for layer in layers)
        few = 1 - middle.mean(axis=1)
        parts[f"{model}: only High-IA in L{layers[0]}"] = bool(first.all(axis=None))
        parts[f"{model}: a few Low-IA in L{layers[1]}"] = bool(
            few.between(EPS, fixed.FEW - EPS).all()
        )
        parts[f"{model}: only Low-IA in L{layers[2]}"] = not last.any(axis=None)
        stds = wide(tables, "scores", "score", ["layer", "head"], "std", [model], map=SMOOTHGRAD)
        low = stds[model][layers].where(~high[layers])
        spreads[model] = low.mean(axis=1).fillna(0.0)  # no Low-IA head, no variance
        texts.append(_types(model, high))
    parts |= clear(above(spreads, [IN21K], [DEIT]), "variance of Low-IA heads: ")
    number = f"{'; '.join(texts)}; std of Low-IA heads over images: {listed(spreads, 3)}"
    return decide(claim, parts, number, seeds_of(spreads))


def same_part(claim: str, tables: Tables) -> Verdict:
    """IAV-21: not testable; shows where Low-IA heads look, self-supervised and supervised."""
    texts = []
    for model in (BEIT, *SUPERVISED):
        try:
            lack = _low_minus_others(tables, model, 0)
        except Lacking:
            continue
        texts.append(f"{model} {shown(lack, sign='+')}")
    number = f"score against the mask, Low-IA minus other heads: {', '.join(texts)}"
    return Verdict(claim, NOT_HERE, number if texts else "", NOT_TESTABLE[claim])


def look_elsewhere(claim: str, tables: Tables) -> Verdict:
    """IAV-22."""
    parts: Parts = {}
    texts, seeds = [], []
    for model in SUPERVISED:
        own, mask = (_medians(tables, [model], name)[model].mean() for name in (SMOOTHGRAD, MASK))
        late = own.index.get_level_values("layer").isin(_late(own.index, 0.5))
        found = rank_correlation(own[late], mask.reindex(own.index)[late])
        lack = _low_minus_others(tables, model, 0.5)
        parts[f"{model}: scores go with the mask's"] = sign_of(found)
        parts[f"{model}: Low-IA heads off the object"] = bool(-lack.mean() > lack.std() + EPS)
        texts.append(
            f"{model} rank correlation {interval(found)}, score against the mask of Low-IA minus "
            f"other heads {shown(lack, sign='+')}"
        )
        seeds.append(len(lack))
    return decide(claim, parts, f"deeper half: {'; '.join(texts)}", min(seeds))


def _medians(
    tables: Tables, models: Sequence[str], name: str = SMOOTHGRAD
) -> dict[str, pd.DataFrame]:
    """Median score over images: seeds down, layers and heads across."""
    return wide(tables, "scores", "score", ["layer", "head"], "median", models, map=name)


def _high(tables: Tables, model: str) -> pd.DataFrame:
    """Whether each head is High-IA."""
    return _medians(tables, [model])[model] > fixed.HIGH_IA


def _three(high: pd.DataFrame) -> list[int]:
    """The layers that stand for L1, L6 and L12."""
    layers = sorted(high.columns.get_level_values("layer").unique())
    return [layers[0], layers[len(layers) // 2 - 1], layers[-1]]


def _types(model: str, high: pd.DataFrame) -> str:
    shares = (f"L{layer} {100 * high[layer].mean(axis=None):.0f}" for layer in _three(high))
    return f"{model}, High-IA heads, %: {', '.join(shares)}"


def _late(columns: pd.MultiIndex, start: float) -> list[int]:
    return share_of_depth(columns.get_level_values("layer").unique(), start, 1)


def identity_share(tables: Tables, model: str) -> pd.Series:
    """As `relevit.iav.identity_share`, mean over layers, of each seed."""
    rows = pick(tables, "scores", model=model, map=SMOOTHGRAD)
    means = rows.groupby(["seed", "layer", "head"])["score"].mean()
    between = means.groupby(["seed", "layer"]).var(ddof=0)
    total = rows.groupby(["seed", "layer"])["score"].var(ddof=0)
    return (between / total).groupby("seed").mean()


def _stand_apart(medians: pd.Series, most: int) -> int:
    """How many of a layer's lowest heads, at most so many, are far below all others; or 0."""
    ranked = medians.sort_values().to_numpy()
    for count in range(1, most + 1):
        low, others = ranked[count - 1], ranked[count:]
        if low < others.mean() - fixed.LOW_STDS * others.std(ddof=1) - EPS:
            return count
    return 0


def _low_minus_others(tables: Tables, model: str, start: float) -> pd.Series:
    """Score against the mask of the Low-IA heads after `start`, minus all others'; by seed.

    Raises: Lacking when a seed has no such head, or no other.
    """
    high = _high(tables, model)
    mask = _medians(tables, [model], MASK)[model].reindex(index=high.index, columns=high.columns)
    late = high.columns.get_level_values("layer").isin(_late(high.columns, start))
    low = ~high & late
    if not (low.any(axis=1) & (~low).any(axis=1)).all():
        raise Lacking(f"{model}: a seed without Low-IA heads there, or with no others")
    return (mask.where(low).mean(axis=1) - mask.where(~low).mean(axis=1)).dropna()
