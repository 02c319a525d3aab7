"""Claims on the baselines' background term, sufficient subsets, k-NN and one more method."""

from __future__ import annotations

from collections.abc import Iterable

from relevit.claims.attribution.scores import (
    NOT_HERE,
    PREDICTED,
    Lacking,
    gain_over,
    judge_gains,
    listed,
    perturbation_scores,
    supervised_model,
)
from relevit.claims.robustvit import criteria as fixed
from relevit.claims.robustvit.by_seed import Tables, clear, select, text
from relevit.claims.robustvit.comparison import BASELINES, PROTOCOL
from relevit.claims.tables import need
from relevit.claims.verdicts import EPS, LR_LIMIT_PTS, Verdict, judge
from relevit.evaluate.robustness import ORIGINAL

NEIGHBOURS = (1, 10)
DATA_SETS = 3  # of RV-37


def baselines_hard_to_fit(claim: str, tables: Tables) -> Verdict:
    """RV-21."""
    table = need(tables, "rates")
    parts, texts = {}, []
    for name in BASELINES:
        rows = select(table, method=name, protocol=PROTOCOL)
        if len(rows) < fixed.MIN_RATES:
            raise Lacking(f"{name} was run at {len(rows)} rate; {fixed.MIN_RATES} are needed")
        fall = 100 * (1 - rows["background_after"] / rows["background_before"])
        passes = (rows["drop_pts"] <= LR_LIMIT_PTS + EPS) & ~rows["rising"].astype(bool)
        parts[f"{name} fits at no rate"] = not bool((passes & (fall >= fixed.FITTED_PCT)).any())
        shown = (
            f"{lr:.1e} {value:+.1f} %{'' if ok else ' (fails the rule)'}"
            for lr, value, ok in zip(rows["lr"], fall, passes, strict=True)
        )
        texts.append(f"{name} {', '.join(shown)}")
    return judge(claim, parts, f"fall of the background term, by rate: {'; '.join(texts)}")


def subsets_exist(claim: str, tables: Tables) -> Verdict:
    """RV-26. Judges the search; see the criterion."""
    rows = select(need(tables, "sis"), model_run=ORIGINAL)
    found = rows["found"].astype(bool)
    if "confidence_pct" in rows:
        found &= rows["confidence_pct"] > fixed.SIS_PCT
    images, labels = rows["image"].nunique(), rows["target"].nunique()
    number = f"{int(found.sum())} of {len(rows)} pairs ({images} images, {labels} labels)"
    if images < fixed.SIS_IMAGES or labels < fixed.SIS_LABELS:
        wanted = f"{fixed.SIS_IMAGES} images with {fixed.SIS_LABELS} labels are needed"
        return Verdict(claim, NOT_HERE, number, f"too few pairs: {wanted}")
    return judge(claim, {"a subset for every pair": bool(found.all())}, number)


def _neighbours(tables: Tables):
    """Accuracy: rows (data, model_run), columns k."""
    table = need(tables, "knn").astype({"data": str, "model_run": str})
    wide = table.pivot(index=["data", "model_run"], columns="k", values="accuracy_pct")
    wide = wide.reindex(columns=list(NEIGHBOURS)).dropna()
    runs = wide.index.get_level_values("model_run")
    if ORIGINAL not in runs or (runs == ORIGINAL).all():
        raise Lacking("needs the original and finetuned runs with k = 1 and k = 10")
    return wide


def _knn_changes(tables: Tables):
    """Change of accuracy by data set: runs down, k across."""
    wide = _neighbours(tables)
    return {
        data: rows.droplevel("data").drop(index=ORIGINAL) - rows.droplevel("data").loc[ORIGINAL]
        for data, rows in wide.groupby(level="data", sort=False)
        if ORIGINAL in rows.index.get_level_values("model_run")
    }


def knn_gains(claim: str, tables: Tables) -> Verdict:
    """RV-36."""
    found = _knn_changes(tables)
    chosen = [fixed.INATURALIST] if fixed.INATURALIST in found else _cutouts(found)
    if not chosen:
        raise Lacking(f"neither {fixed.INATURALIST} nor a set of Cutouts was run: run one")
    parts = {
        f"{data}: k = {k} above its std": clear(found[data][k])
        for data in chosen
        for k in NEIGHBOURS
    }
    shown = (
        f"{data} {', '.join(f'k = {k} {text(found[data][k])}' for k in NEIGHBOURS)}"
        for data in chosen
    )
    return judge(claim, parts, "; ".join(shown), min(len(found[data]) for data in chosen))


def _cutouts(found: Iterable[str]) -> list[str]:
    return [data for data in found if data not in fixed.REAL_DATA]


def knn_gains_everywhere(claim: str, tables: Tables) -> Verdict:
    """RV-37. One data set can refute it, but not show it."""
    found = _knn_changes(tables)
    parts = {
        f"{data}: every seed rises for k = {k}": bool((change[k] > EPS).all())
        for data, change in found.items()
        for k in NEIGHBOURS
    }
    lowest = (
        f"{data} {', '.join(f'k = {k} {change[k].min():+.1f}' for k in NEIGHBOURS)}"
        for data, change in found.items()
    )
    number = f"lowest seed: {'; '.join(lowest)}"
    verdict = judge(claim, parts, number, min(map(len, found.values())))
    real = {name.removesuffix(fixed.COARSE) for name in found if name in fixed.REAL_DATA}
    run = len(real) + bool(_cutouts(found))
    if verdict.verdict == "holds" and run < DATA_SETS:
        return Verdict(claim, NOT_HERE, number, f"{run} of {DATA_SETS} data sets were run")
    return verdict


def ten_neighbours_better(claim: str, tables: Tables) -> Verdict:
    """RV-38."""
    wide = _neighbours(tables)
    better, seeds = wide[10] > wide[1] + EPS, wide.groupby(level="data").size().min() - 1
    number = f"{int(better.sum())} of {len(wide)} models and data sets"
    parts = {"k = 10 better in more than half": bool(better.mean() > 0.5)}
    return judge(claim, parts, number, int(seeds))


def input_gradients_unfaithful(claim: str, tables: Tables) -> Verdict:
    """RV-43."""
    table = need(tables, "methods_perturbation")
    model, scores = supervised_model(table), perturbation_scores(table, ["model", "method"])
    pairs = {
        s: gain_over(scores, (model, "gae", s), (model, "integrated_gradients", s))
        for s in PREDICTED
    }
    number = f"{model}, gain of gae over integrated_gradients: {listed(pairs)}"
    return judge_gains(claim, {f"worse than gae, {s}": g for s, g in pairs.items()}, number)
