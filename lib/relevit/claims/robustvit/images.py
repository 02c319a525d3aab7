"""Claims on single images: classes, object sizes, and where the model looks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from relevit.claims.attribution.scores import NOT_HERE
from relevit.claims.robustvit import criteria as fixed
from relevit.claims.robustvit.by_seed import Tables
from relevit.claims.tables import Lacking, need
from relevit.claims.verdicts import EPS, MIN_SEEDS, Verdict, judge, signed
from relevit.data.benchmark import Benchmark
from relevit.data.cutouts import SHIFTED_SETS
from relevit.evaluate.robustness import ORIGINAL, paired_changes

CAUSES = ("object size", "context")
MOST = 2  # classes named in RV-24


def changed_images(
    predictions: pd.DataFrame, finetuned_classes: Mapping[str, list[int]]
) -> pd.DataFrame:
    """The table `changed_images`: what each run changed, image by image.

    `predictions` as in `relevit.evaluate.robustness`; `finetuned_classes` gives the labels A of
    each run.
    Columns: model_run, dataset, index, label, classes (A, B), change_top1_pts.
    Raises: ValueError as `robustness.paired_changes`.
    """
    pairs = paired_changes(predictions)
    in_a = np.zeros(len(pairs), dtype=bool)
    for run, labels in finetuned_classes.items():
        in_a |= ((pairs["model_run"] == run) & pairs["label"].isin(labels)).to_numpy()
    pairs = pairs.assign(classes=np.where(in_a, "A", "B"))
    return pairs[["model_run", "dataset", "index", "label", "classes", "change_top1_pts"]]


def classes_vary(claim: str, tables: Tables) -> Verdict:
    """RV-22."""
    rows = need(tables, "changed_images").astype({"model_run": str, "dataset": str})
    rows = rows[rows["dataset"].isin(SHIFTED_SETS)]
    large, beyond_luck, texts = {}, {}, []
    for kind in "AB":
        groups = rows[rows["classes"] == kind].groupby(["model_run", "label"])["change_top1_pts"]
        if not len(groups):
            raise Lacking(f"no images of classes {kind}: evaluate them")
        means = groups.mean().groupby("model_run").agg(["std", "mean"])
        luck = (groups.sem() ** 2).groupby("model_run").mean() ** 0.5
        large[f"classes {kind}: spread above the mean's size"] = bool(
            (means["std"] > means["mean"].abs() + EPS).all()
        )
        beyond_luck[f"classes {kind}: beyond the luck of the images"] = bool(
            (means["std"] ** 2 > fixed.LUCK * luck**2).all()
        )
        texts.append(
            f"{kind}: std over classes {means['std'].mean():.1f}, mean "
            f"{signed(means['mean'].mean())}, of luck alone {luck.mean():.1f}"
        )
    number, seeds = "; ".join(texts), rows["model_run"].nunique()
    if all(large.values()) and not all(beyond_luck.values()):
        reason = (
            f"the variance between classes is not more than {fixed.LUCK:g} times what so few "
            "images explain: evaluate more of them"
        )
        return Verdict(claim, NOT_HERE, number, reason)
    return judge(claim, large | beyond_luck, number, seeds)


def small_objects_gain(claim: str, tables: Tables) -> Verdict:
    """RV-23. The table is an average over runs: their number comes from `changed_images`."""
    table = need(tables, "object_size").astype({"cause": str, "level": str})
    seeds = need(tables, "changed_images")["model_run"].astype(str).nunique()
    parts, unsure, texts = {}, [], []
    for cause in CAUSES:
        rows = table[(table["cause"] == cause) & (table["level"] == "class")]
        if rows[["spearman", "low", "high"]].dropna().empty:
            raise Lacking(f"no correlation of {cause} over classes: the changes do not differ")
        row = rows.iloc[0]
        parts[f"{cause}: the interval is not at or above 0"] = bool(row["low"] < -EPS)
        unsure += [cause] if row["low"] < -EPS <= row["high"] else []
        interval = f"95 % interval {row['low']:+.2f} to {row['high']:+.2f}"
        texts.append(f"{cause} {row['spearman']:+.2f}, {interval}")
    number = f"rank correlation with the change: {'; '.join(texts)}"
    if seeds >= MIN_SEEDS and unsure and all(parts.values()):
        reason = "the interval contains 0: more classes or seeds are needed"
        return Verdict(claim, NOT_HERE, number, f"{' and '.join(unsure)}: {reason}")
    return judge(claim, parts, number, seeds)


def harmed_as_published(claim: str, tables: Tables, images: Benchmark) -> Verdict:
    """RV-24, where the classes that it names are there."""
    rows = need(tables, "changed_images")
    found, parts = _harmed(rows, images), {}
    for name, pair in fixed.HARMED.items():
        if not found[name]:
            raise Lacking(f"no images of {name}: evaluate them")
        for wanted in pair:
            lost = any(wanted in text and change < -EPS for text, change in found[name].items())
            parts[f"{wanted} on {name}"] = lost
    return judge(claim, parts, most_harmed(tables, images), rows["model_run"].nunique())


def most_harmed(tables: Tables, images: Benchmark) -> str:
    """The classes hurt most on a and v2, mean over runs; on Cutouts a counterpart of RV-24."""
    if "changed_images" not in tables:
        return ""
    return "; ".join(
        f"{name}: {', '.join(f'{text} {signed(change)}' for text, change in worst.items())}"
        for name, worst in _harmed(tables["changed_images"], images).items()
    )


def _harmed(rows: pd.DataFrame, images: Benchmark) -> dict[str, dict[str, float]]:
    """The changes of the classes hurt most: set, class, points."""
    found = {}
    for name in fixed.HARMED:
        of_set = rows[(rows["dataset"].astype(str) == name) & (rows["label"] >= 0)]
        change = of_set.groupby("label")["change_top1_pts"].mean().nsmallest(MOST)
        found[name] = dict(zip(images.names(list(change.index)), change, strict=True))
    return found


def looks_away(claim: str, tables: Tables) -> Verdict:
    """RV-27."""
    rows = _training_kind(tables)
    rows = rows[rows["confidence_pct"] > fixed.SURE_PCT]
    which = f"answered with more than {fixed.SURE_PCT:g} % confidence"
    _need_images(len(rows), which, fixed.SURE_IMAGES)
    issues = _issues(rows)
    parts = {
        name: bool(issue.sum() >= fixed.ISSUE_IMAGES and 100 * issue.mean() >= fixed.OCCURS_PCT)
        for name, issue in issues.items()
    }
    shown = ", ".join(f"{name} {100 * issue.mean():.1f} %" for name, issue in issues.items())
    return judge(claim, parts, f"of {len(rows)} sure answers: {shown}")


def background_more_common(claim: str, tables: Tables) -> Verdict:
    """RV-41."""
    rows = _training_kind(tables)
    kinds = rows["dataset"].astype(str).unique() if len(rows) else fixed.KINDS
    _need_images(len(rows), f"of {' and '.join(kinds)}")
    issues = pd.DataFrame(_issues(rows))
    off, part = (100.0 * issues[name] for name in issues)
    difference, more = off - part, int(issues.iloc[:, 0].sum() - issues.iloc[:, 1].sum())
    clear = more >= fixed.ISSUE_IMAGES and difference.mean() > difference.sem() + EPS
    gap = signed(difference.mean(), difference.sem())
    number = f"off the object {off.mean():.1f} %, part of it {part.mean():.1f} %, difference {gap}"
    either = int(issues.any(axis=1).sum())
    if either < fixed.ISSUE_IMAGES:
        reason = f"{either} of {len(rows)} images have either issue: too few to compare"
        return Verdict(claim, NOT_HERE, number, reason)
    return judge(claim, {"the background is the more common issue": bool(clear)}, number)


def maps_improve_with_answers(claim: str, tables: Tables) -> Verdict:
    """RV-28."""
    maps = need(tables, "finetuned_images").astype({"model_run": str}).dropna(subset="iou_pct")
    is_original = maps["model_run"] == ORIGINAL
    before = maps[is_original].drop(columns="model_run")
    pairs = maps[~is_original].merge(before, on="index", suffixes=("", "_before"))
    pairs = _not_turned_wrong(pairs, tables)
    groups = (pairs["iou_pct"] - pairs["iou_pct_before"]).groupby(pairs["model_run"])
    _need_images(int(groups.size().min()) if len(groups) else 0, "not turned wrong, in each run")
    means, errors = groups.mean(), groups.sem()
    parts = {f"{run} improves": bool(means[run] > errors[run] + EPS) for run in means.index}
    shown = ", ".join(f"{run} {signed(means[run], errors[run])}" for run in means.index)
    return judge(claim, parts, f"change of IoU: {shown}", len(means))


def _not_turned_wrong(pairs: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """The answers are those to val, or, for other images, beside their maps (`right`)."""
    if "right" in pairs:
        return pairs[pairs["right"] >= pairs["right_before"]]  # False for an unknown class
    answers = need(tables, "changed_images").astype({"model_run": str, "dataset": str})
    answers = answers[(answers["dataset"] == "val") & (answers["change_top1_pts"] >= 0)]
    return pairs.merge(answers[["model_run", "index"]], on=["model_run", "index"])


def _training_kind(tables: Tables) -> pd.DataFrame:
    rows = need(tables, "looks")
    rows = rows[rows["dataset"].astype(str).isin(fixed.OUTLINED)]
    return rows.dropna(subset=["on_object_pct", "covered_pct"])


def _issues(rows: pd.DataFrame) -> dict[str, pd.Series]:
    """The two salient issues of RobustViT Fig. 1, for each image whether it has them."""
    return {
        "most relevance off the object": rows["on_object_pct"] < fixed.HALF_PCT,
        "less than half of the object relevant": rows["covered_pct"] < fixed.HALF_PCT,
    }


def _need_images(count: int, which: str, least: int = fixed.MIN_IMAGES) -> None:
    if count < least:
        raise Lacking(f"{count} images {which}; at least {least} are needed")
