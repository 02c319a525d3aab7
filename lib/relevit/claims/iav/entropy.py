"""Claims on the entropy of attention after finetuning, and on the size of the object."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from relevit.claims.iav import criteria as fixed
from relevit.claims.iav.by_model import (
    Parts,
    Wide,
    above,
    clear,
    decide,
    kinds_differ,
    listed,
    over,
    overlap,
    pick,
    seeds_of,
    share_of_depth,
    wide,
)
from relevit.claims.iav.criteria import BEIT, DEIT, DINO, IN21K, MODELS, SELF_SUPERVISED, SUPERVISED
from relevit.claims.robustvit.by_seed import Tables
from relevit.claims.tables import Lacking
from relevit.claims.verdicts import EPS, Verdict
from relevit.evaluate.class_changes import rank_correlation

QUARTILES = (0.25, 0.75)


def all_but_last(tables: Tables) -> dict[str, pd.Series]:
    """Mean entropy over images, heads and all layers but the last, of each model and seed."""
    by_head = wide(tables, "entropy", "entropy", ["layer", "head"])
    return over(by_head, _layers(by_head)[:-1])


def does_not_tell(claim: str, tables: Tables) -> Verdict:
    """IAV-08."""
    by_head = wide(tables, "entropy", "entropy", ["layer", "head"])
    layers = _layers(by_head)[:-1]
    values = over(by_head, layers)
    heads = {m: by_head[m].mean().unstack("head").loc[layers] for m in (DINO, IN21K)}
    gap = float((heads[DINO].mean(axis=1) - heads[IN21K].mean(axis=1)).abs().mean())
    spread = float(np.mean([rows.std(axis=1).mean() for rows in heads.values()]))
    parts: Parts = {
        f"{DINO} and {IN21K} within the spread of the heads": gap <= spread + EPS,
        "kinds not apart": overlap(values),
    }
    number = (
        f"entropy of L1 to L{layers[-1]}, nats: {listed(values)}; {DINO} and {IN21K} differ by "
        f"{gap:.2f}, heads of a layer by {spread:.2f}"
    )
    return decide(claim, parts, number, seeds_of(values))


def early_and_late(claim: str, tables: Tables) -> Verdict:
    """IAV-09."""
    by_layer = wide(tables, "entropy", "entropy", ["layer"])
    layers = by_layer[DINO].columns
    early, late = (
        over(by_layer, share_of_depth(layers, *part)) for part in ((0, 1 / 3), (2 / 3, 1))
    )
    parts: Parts = {
        "late layers: self-supervised higher": kinds_differ(
            late, SELF_SUPERVISED, SUPERVISED
        ).clear,
        "early layers: supervised higher": kinds_differ(early, SUPERVISED, SELF_SUPERVISED).clear,
    }
    number = f"entropy, nats: early {listed(early)}; late {listed(late)}"
    return decide(claim, parts, number, seeds_of(early))


def last_layer(claim: str, tables: Tables) -> Verdict:
    """IAV-10."""
    last = int(pick(tables, "entropy", model=DINO)["layer"].max())
    by_head = wide(tables, "entropy", "entropy", ["head"], "median", layer=last)
    low, high = (
        wide(tables, "entropy", "entropy", ["head"], _quartile(q), layer=last) for q in QUARTILES
    )
    medians = {m: by_head[m].mean(axis=1) for m in MODELS}
    ranges = {m: (high[m] - low[m]).mean(axis=1) for m in MODELS}
    heads = {m: by_head[m].mean() for m in (DINO, IN21K)}
    like = heads[IN21K].between(heads[DINO].min(), heads[DINO].max())
    parts = clear(above(medians, SELF_SUPERVISED, [DEIT]), "median: ")
    parts |= clear(above(ranges, [IN21K], (DINO, BEIT, DEIT)), "range: ")
    parts[f"some heads of {IN21K} like {DINO}'s"] = bool(like.any())
    number = (
        f"entropy of L{last}, nats: median {listed(medians)}; interquartile range "
        f"{listed(ranges)}; {int(like.sum())} of {len(like)} heads of {IN21K} like {DINO}'s"
    )
    return decide(claim, parts, number, seeds_of(medians))


def small_objects(claim: str, tables: Tables) -> Verdict:
    """IAV-20."""
    parts: Parts = {}
    texts, seeds = [], []
    for model in MODELS:
        rows = pick(tables, "entropy", model=model)
        by_image = rows.groupby("image")[["entropy", "object_share_pct"]].mean()
        scores = pick(tables, "scores", model=model, map=fixed.SMOOTHGRAD)
        by_image = by_image.dropna()
        if by_image.empty:
            raise Lacking(f"no masks, so that the size of no object of {model} is known")
        both = by_image.join(scores.groupby("image")["score"].mean(), how="inner")
        if len(both) < fixed.MIN_IMAGES:
            raise Lacking(
                f"{len(both)} images of {model} in both tables; {fixed.MIN_IMAGES} are needed"
            )
        size = both["object_share_pct"]
        entropy, score = (rank_correlation(size, both[name]) for name in ("entropy", "score"))
        if not np.isfinite([entropy["low"], score["low"]]).all():
            raise Lacking(f"{model}: no correlation, because all objects or values are alike")
        parts[f"{model}: entropy grows with size"] = sign_of(entropy)
        parts[f"{model}: the score does not"] = score["low"] <= EPS
        parts[f"{model}: entropy more than the score"] = entropy["low"] > score["high"] or None
        texts.append(f"{model} entropy {interval(entropy)}, score {interval(score)}")
        seeds += [rows["seed"].nunique(), scores["seed"].nunique()]
    number = f"rank correlation with the object's share: {'; '.join(texts)}"
    return decide(claim, parts, number, min(seeds))


def sign_of(found: dict[str, float]) -> bool | None:
    """Whether a correlation is above 0; None where its interval contains 0."""
    if found["low"] > EPS:
        return True
    return False if found["high"] <= EPS else None


def interval(found: dict[str, float]) -> str:
    return f"{found['spearman']:+.2f} ({found['low']:+.2f} to {found['high']:+.2f})"


def _layers(by_head: Wide) -> list[int]:
    return sorted(by_head[DINO].columns.get_level_values("layer").unique())


def _quartile(share: float) -> Callable[[pd.Series], float]:
    return lambda values: values.quantile(share)
