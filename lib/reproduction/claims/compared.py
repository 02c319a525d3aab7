"""Our runs beside the paper's tables: change of each number in the paper, ours, and the difference.

Ours are rows of one number each, as those of `reproduction.paper.published`: model, method, masks,
classes, dataset, metric, and the change in points.
"""

from __future__ import annotations

import re

import pandas as pd

from reproduction.measures import IN_WORDS
from reproduction.paper.published import (
    ALL,
    CELL,
    FINETUNED,
    KIND,
    LINEAR,
    METRICS,
    ORIGINAL,
    OURS,
    SHIFTED_AVERAGE,
    paper_variants,
    published_ablation,
    published_ablations,
    published_name,
)
from reproduction.runs.effects import METHOD_TITLES, VARIANTS

TOLD = {  # methods and numbers of the paper's tables
    **VARIANTS,
    **{name: METHOD_TITLES[name] for name in ("gradmask", "rrr")},
    OURS: "RobustViT",
    LINEAR: "DINO, a new head alone",
    FINETUNED: "DINO, finetuned",
    "tokencut": "TokenCut",
    **{f"{name}_auc_pct" if name in ("positive", "negative") else name: told
       for name, told in IN_WORDS.items()},
}  # fmt: skip
PARTS = {  # perception and feedback
    "head_wise": "head-wise",
    "token_wise": "token-wise",
    "last_attention": "attention of the last block",
    "avg_attention": "mean attention",
    "integrated_gradient": "integrated gradient",
}
SCORES = {
    "miou_pct": "mIoU, higher is better",
    "positive_auc_pct": "positive, lower is better",
    "negative_auc_pct": "negative, higher is better",
}


def run_changes(accuracies: pd.DataFrame) -> pd.DataFrame:
    """Of all kinds of runs, for T1 and T2; methods have the paper's names where it has one."""
    names = zip(accuracies["method"], accuracies["protocol"], strict=True)
    rows = accuracies.assign(method=[row_name(*pair) for pair in names], classes=ALL)
    return _changes(rows.assign(masks=rows["masks"].replace("", "none")))


def variant_changes(ablations: pd.DataFrame) -> pd.DataFrame:
    """Of the variants of the method, for T4, T12 and supplement T8, T9."""
    names = paper_variants(set(ablations["variant"].astype(str)))
    method = ablations["variant"].astype(str).replace(names).replace({"full": OURS})
    return _changes(ablations.assign(method=method, masks="annotated", classes=ALL))


def split_changes(accuracies: pd.DataFrame, model: str) -> pd.DataFrame:
    """Of classes that were finetuned and others, for T10 and T11, from `split_accuracies`."""
    keys = ["model_run", "dataset", "classes"]
    by_weights = dict(iter(accuracies.groupby("weights")))
    before = by_weights["original"].set_index(keys)[["top1_pct", "top5_pct"]]
    rows = by_weights["finetuned"].join(before.add_prefix("original_"), on=keys)
    return _changes(
        rows.assign(model=model, method=OURS, masks="annotated", seed=rows["model_run"])
    )


def seed_changes(changes: pd.DataFrame, model: str) -> pd.DataFrame:
    """Of the finetuned model over its seeds, for T8 and T9, from `robustness.change_table`."""
    parts = [
        changes.assign(metric=metric, ours=changes[f"change_{metric}_pts"]) for metric in METRICS
    ]
    rows = pd.concat(parts).assign(model=model, method=OURS, masks="annotated", classes=ALL)
    return rows[[*KIND, *CELL, "ours", "seeds"]].reset_index(drop=True)


def replaced(rows: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """The rows, but those of which there are others: one number for one cell of a table."""
    keys = [*KIND, *CELL]
    return pd.concat([others, rows], ignore_index=True).drop_duplicates(keys, ignore_index=True)


def map_changes(table: pd.DataFrame, model: str) -> pd.DataFrame:
    """Of maps: for T3 from `finetuned_segmentation`, for T12 from `finetuned_perturbation`."""
    if "direction" in table:
        table = table.assign(metric=table["direction"] + "_auc_pct", value_pct=table["auc_pct"])
    dataset = "perturbation" if "direction" in table else "segmentation"
    is_original = table["model_run"] == ORIGINAL
    before = table[is_original].set_index("metric")["value_pct"]
    rows = table[~is_original]
    rows = rows.assign(ours=rows["value_pct"] - rows["metric"].map(before), dataset=dataset)
    return _mean(rows.assign(model=model, method=OURS, masks="none", classes=ALL))


def dino_changes(accuracies: pd.DataFrame, dino: str, supervised: str) -> pd.DataFrame:
    """Of a self-supervised backbone, as supplement T10 and T11 compare.

    The probe and the finetuned one are held against the supervised original, ours against the model
    that it starts from. Models have the paper's names.
    """
    rows = run_changes(accuracies)
    ours = rows[(rows["method"] == OURS) & rows["masks"].isin(["tokencut", "none"])]
    parts = [ours[ours["model"].isin([dino, supervised])]]
    own = accuracies[accuracies["model"] == dino]
    of_other = accuracies[accuracies["model"] == supervised]
    for method, table, before in (
        (LINEAR, own[own["method"] == "linear_probe"], ""),
        (FINETUNED, own, "original_"),
    ):
        for metric in METRICS:
            value = table.groupby("dataset")[f"{before}{metric}_pct"].mean()
            other = of_other.groupby("dataset")[f"original_{metric}_pct"].mean()
            found = (value - other).dropna().rename("ours").reset_index()
            kind = {"model": dino, "method": method, "masks": "none", "classes": ALL}
            parts.append(found.assign(**kind, metric=metric, seeds=table["seed"].nunique()))
    return pd.concat(parts, ignore_index=True).replace({dino: "DINO-B", supervised: "DeiT-B"})


def compared(published: pd.DataFrame, ours: pd.DataFrame, metric: str = "") -> pd.DataFrame:
    """Paper, ours and the difference of each change that both have, in points.

    One of the paper's own models is compared with itself, any other with the mean over the paper's
    models. Index: model (ours), method, masks, classes, metric and dataset, those that tell rows
    apart, in words; columns: paper, ours, difference, seeds.
    """
    theirs = published.assign(paper=published["value_pct"] - published["reference_pct"])
    theirs = theirs.dropna(subset="paper")
    known = set(theirs["model"])
    keys = [*KIND[1:], *CELL]
    mean = theirs.groupby(keys)["paper"].mean().reset_index().assign(place="")
    alone = theirs.rename(columns={"model": "place"})[[*keys, "place", "paper"]].drop_duplicates(
        [*keys, "place"]
    )
    names = ours["model"].map(lambda name: published_name(name) or name)
    mine = ours.assign(place=names.where(names.isin(known), ""))
    both = mine.merge(pd.concat([mean, alone]), on=[*keys, "place"])
    both = both[both["metric"] == metric] if metric else both
    both = both.assign(difference=both["ours"] - both["paper"])
    told = [name for name in (*KIND, "metric") if both[name].nunique() > 1 or name == "model"]
    both = both.set_index([*told, "dataset"])[["paper", "ours", "difference", "seeds"]]
    return both.rename(index=TOLD)


def variants_beside(changes: pd.DataFrame) -> pd.DataFrame:
    """RobustViT T4 and supplement T8, mean over ViT-B and DeiT-B, beside ours: change of top-1.

    `changes` is of `accuracies.changes` by variant, with the ends of the average's interval. Index:
    variants that both have, in words; columns: paper and ours on `val` and on the average of the
    shifted sets, there with the interval (from, to), in points.
    """
    sets = {"val": "val", SHIFTED_AVERAGE: "shifted sets"}
    ours = changes.rename(paper_variants(changes.index))
    sides = {"paper": published_ablations(), "ours": ours}
    sides = {name: table[list(sets)].rename(columns=sets) for name, table in sides.items()}
    for name, end in {"from": "low_pts", "to": "high_pts"}.items():
        sides[name] = ours[[end]].set_axis(["shifted sets"], axis=1)
    both = pd.concat(sides, axis=1, join="inner").swaplevel(axis=1)
    return both[list(sets.values())].rename(index=VARIANTS).rename_axis("variant")


def halves_beside(ablation: pd.DataFrame) -> pd.DataFrame:
    """Beyond Intuition T4, of ViT-B on ImageNet, beside ours.

    `ablation` is of `measures.ablation_table`. Index: perception and feedback; columns: paper, ours
    and its interval (from, to) of each of three scores in percent.
    """
    keys = ["perception", "feedback"]
    sides = {"paper": published_ablation(), "ours": ablation}
    for name, end in {"from": "low", "to": "high"}.items():
        ends = {re.sub("(_auc)?_pct$", f"_{end}_pct", score): score for score in SCORES}
        sides[name] = ablation[[*keys, *ends]].rename(columns=ends)
    told = {name: table.set_index(keys)[list(SCORES)] for name, table in sides.items()}
    both = pd.concat(told, axis=1).swaplevel(axis=1)[list(SCORES)]
    return both.rename(columns=SCORES, level=0).rename(index=PARTS)


def row_name(method: str, protocol: str) -> str:
    """What a run's row is called: the paper's name where it has one."""
    if method == "relevance":
        return OURS if protocol != "described" else f"{OURS}, {protocol}"
    if method == "linear_probe":
        return LINEAR
    return method if protocol == "published" else f"{method}, {protocol}"


def _changes(accuracies: pd.DataFrame) -> pd.DataFrame:
    """One row a metric: mean change over runs."""
    parts = [
        accuracies.assign(
            metric=metric, ours=accuracies[f"{metric}_pct"] - accuracies[f"original_{metric}_pct"]
        )
        for metric in METRICS
    ]
    return _mean(pd.concat(parts))


def _mean(rows: pd.DataFrame) -> pd.DataFrame:
    groups = rows.groupby([*KIND, *CELL], sort=False, observed=True)["ours"]
    return groups.agg(ours="mean", seeds="size").reset_index()
