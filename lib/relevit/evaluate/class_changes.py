"""Which classes finetuning helps and which it hurts, and what these have in common.

Source: RobustViT App. J, Figs. 8-15, which shows the change of every class, the two classes
hurt most, and explains them by the size of the object, by context and by the number of test
images. `predictions` are as in `relevit.evaluate.robustness`, with `prediction` where it says so.
Changes are in percentage points (`_pts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from relevit.data.cutouts import SHIFTED_SETS
from relevit.data.drawings import ANIMALS, CLASSES
from relevit.evaluate.robustness import ORIGINAL, paired_changes, per_class_changes

DRAWS = 1000  # of a bootstrap or a permutation
AT_ONCE = 2_000_000  # permuted values held in memory; the draws do not depend on it
HARMED = [
    "dataset",
    "label",
    "name",
    "images",
    "change_top1_pts",
    "change_top1_std_pts",
    "newly_wrong",
    "taken_for",
]
CAUSES = ["cause", "level", "dataset", "count", "spearman", "low", "high"]


def class_table(
    predictions: pd.DataFrame,
    finetuned_classes: dict[str, list[int]],
    names: Sequence[str] = CLASSES,
) -> pd.DataFrame:
    """`per_class_changes` with names, and how often each class was finetuned.

    `finetuned_classes` gives the labels A of each finetuned run, `names` that of each label.
    Columns: dataset, label, name, finetuned_runs (in how many of the runs the class was in A),
    images, then as there.
    Raises: ValueError as `per_class_changes`.
    """
    table = per_class_changes(predictions)
    runs = [label for labels in finetuned_classes.values() for label in labels]
    labels = table["label"].astype(int)
    table.insert(2, "name", [names[label] for label in labels])
    table.insert(3, "finetuned_runs", [runs.count(label) for label in labels])
    return table


def class_spread(
    predictions: pd.DataFrame,
    finetuned_classes: dict[str, list[int]],
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> pd.DataFrame:
    """How far the classes' changes lie apart, and how far they would by chance alone.

    A class has few test images, so even equal classes seem to differ. Chance is seen by
    handing out the images of each set to the classes at random, `draws` times (permutation
    test). The change of a class is the mean over its images of the shifted sets; the spread
    is the standard deviation over classes, within A and within B, averaged over the runs.
    Columns: classes (A, B), spread_pts, chance_pts (mean over the draws), p_value (share of
    draws, itself included, with at least this spread); NaN where a run has fewer than two classes.
    Raises: ValueError as `paired_changes`, and for a run without classes.
    """
    pairs = paired_changes(predictions)
    pairs = pairs[pairs["dataset"].isin(SHIFTED_SETS)]
    random = np.random.default_rng(seed)
    spreads: dict[str, list[np.ndarray]] = {"A": [], "B": []}
    for run, rows in pairs.groupby("model_run", sort=False, observed=True):
        if run not in finetuned_classes:
            raise ValueError(
                f"class_spread: no finetuned classes for run {run!r}; give the labels A of "
                "every run"
            )
        in_a = rows["label"].isin(finetuned_classes[run])
        for classes, part in (("A", rows[in_a]), ("B", rows[~in_a])):
            if classes == "A" or len(part):  # none is in B where all were finetuned
                spreads[classes].append(_spread_and_chance(part, draws, random))
    table = []
    for classes, parts in spreads.items():
        if not parts:
            continue
        spread, *chance = np.mean(parts, axis=0)
        reached = 1 + int((np.array(chance) >= spread - 1e-9).sum())
        p_value = reached / (1 + draws) if np.isfinite(spread) else np.nan
        table.append([classes, spread, np.mean(chance), p_value])
    return pd.DataFrame(table, columns=["classes", "spread_pts", "chance_pts", "p_value"])


def drawing_share_pct() -> pd.Series:
    """How much of its square each class's drawing (3d style) covers, by name.

    All classes are pasted at the same sizes, so this is what makes an object small or large.
    """
    alpha = ANIMALS.load("3d")[0][:, 3]
    return pd.Series((100.0 * (alpha > 0.5).double().mean(dim=(1, 2))).numpy(), CLASSES)


def rank_correlation(
    cause: pd.Series, change: pd.Series, *, draws: int = DRAWS, seed: int = 0
) -> dict[str, float]:
    """Spearman's rank correlation with its 95 % bootstrap interval over the rows.

    Both have the same index. Returns count, spearman, low, high; NaN where one is constant.
    Raises: ValueError when the indices differ or fewer than three rows are given.
    """
    if len(cause) < 3 or not cause.index.equals(change.index):
        raise ValueError(
            f"rank_correlation: {len(cause)} and {len(change)} rows; give at least three, with "
            "the same index in both"
        )
    pairs = np.stack([cause.to_numpy(float), change.to_numpy(float)])
    rows = np.random.default_rng(seed).integers(len(cause), size=(draws, len(cause)))
    drawn = _spearman(pairs[:, rows])
    drawn = drawn[np.isfinite(drawn)]
    low, high = np.percentile(drawn, [2.5, 97.5]) if len(drawn) else (np.nan, np.nan)
    found = float(_spearman(pairs[:, None])[0])
    return {"count": len(cause), "spearman": found, "low": float(low), "high": float(high)}


def cause_table(
    related: Mapping[tuple[str, str, str], tuple[pd.Series, pd.Series]],
) -> pd.DataFrame:
    """`rank_correlation` of each (cause, level, dataset) with the change; columns CAUSES.

    Without any, as on data that have no masks, an empty table.
    """
    rows = [(*names, *rank_correlation(*pair).values()) for names, pair in related.items()]
    return pd.DataFrame(rows, columns=CAUSES)


def context_gain_pts(predictions: pd.DataFrame, names: Sequence[str] = CLASSES) -> pd.Series:
    """By how much each class is better on its home background, for the original model.

    Top-1 on `val` minus top-1 on `a`, where every object stands on another class's texture;
    by name. A class that profits from context has a large one.
    Raises: ValueError when a set is missing.
    """
    original = predictions[predictions["model_run"] == ORIGINAL]
    right = (100.0 * (original["label_rank"] == 0)).groupby(
        [original["dataset"].astype(str), original["label"].astype(int)]
    )
    top1 = right.mean().unstack(0)
    if not {"val", "a"} <= set(top1):
        raise ValueError(
            f"context_gain_pts: sets are {sorted(top1)}; the original model is needed on "
            "'val' and 'a'"
        )
    gain = top1["val"] - top1["a"]
    return gain.set_axis([names[label] for label in gain.index])


def newly_wrong(predictions: pd.DataFrame, dataset: str, label: int) -> pd.DataFrame:
    """Images of one class that the original names rightly and a finetuned run does not.

    Columns: model_run, index, answer (the finetuned model's label), ordered by image. Needs
    the column `prediction`.
    Raises: ValueError when there is no image of that class in that set.
    """
    here = (predictions["dataset"] == dataset) & (predictions["label"] == label)
    rows = predictions[here]
    if rows.empty:
        raise ValueError(
            f"newly_wrong: no image of label {label} in set {dataset!r}; use a label and a set "
            "of the predictions"
        )
    is_original = rows["model_run"] == ORIGINAL
    right = rows[is_original & (rows["label_rank"] == 0)]["index"]
    wrong = rows[~is_original & rows["index"].isin(right) & (rows["label_rank"] > 0)]
    found = wrong.sort_values(["index", "model_run"], kind="stable", ignore_index=True)
    return found[["model_run", "index", "prediction"]].rename(columns={"prediction": "answer"})


def harmed_table(
    predictions: pd.DataFrame, datasets: tuple[str, ...], count: int, names: Sequence[str] = CLASSES
) -> pd.DataFrame:
    """Up to `count` classes that lose most top-1 on each set, and what they are taken for.

    Columns: HARMED, where change_top1_pts is the mean over runs, newly_wrong the images a run
    (mean) and taken_for the new wrong answers of all runs, most frequent first. Ties go by
    label; a class that does not lose is not listed. Needs the column `prediction`.
    """
    classes = per_class_changes(predictions)
    runs = predictions["model_run"].nunique() - 1
    rows = []
    for dataset in datasets:
        losses = classes[(classes["dataset"] == dataset) & (classes["change_top1_pts"] < 0)]
        losses = losses.sort_values(["change_top1_pts", "label"]).head(count)
        for row in losses.itertuples():
            wrong = newly_wrong(predictions, dataset, row.label)
            often = wrong["answer"].value_counts(sort=False)
            often = often.sort_values(ascending=False, kind="stable")
            answers = [names[int(i)] for i in often.index]
            rows.append(
                (
                    dataset,
                    int(row.label),
                    names[int(row.label)],
                    row.images,
                    row.change_top1_pts,
                    row.change_top1_std_pts,
                    len(wrong) / runs,
                    ", ".join(answers),
                )
            )
    return pd.DataFrame(rows, columns=HARMED)


def _spread_and_chance(rows: pd.DataFrame, draws: int, random: np.random.Generator) -> np.ndarray:
    """Spread over classes as it is, then of `draws` permutations within each set."""
    labels, images = np.unique(rows["label"].to_numpy(), return_counts=True)
    if len(labels) < 2:
        return np.full(1 + draws, np.nan)
    sums = np.zeros((1 + draws, len(labels)))
    for _, part in rows.groupby("dataset", sort=False, observed=True):
        changes, codes = part["change_top1_pts"].to_numpy(), part["label"].to_numpy()
        order = np.argsort(codes, kind="stable")
        here, starts = np.unique(codes[order], return_index=True)
        places = np.searchsorted(labels, here)
        sums[0, places] += np.add.reduceat(changes[order], starts)
        step = max(1, AT_ONCE // len(part))
        for start in range(0, draws, step):
            own = np.broadcast_to(changes, (min(step, draws - start), len(part)))
            mixed = random.permuted(own, axis=1)[:, order]
            block = slice(1 + start, 1 + start + len(own))
            sums[block, places] += np.add.reduceat(mixed, starts, axis=1)
    return (sums / images).std(axis=1, ddof=1)


def _spearman(pairs: np.ndarray) -> np.ndarray:
    """Correlation of the ranks along the last axis of [2, draws, rows]."""
    ranks = rankdata(pairs, axis=2)
    ranks -= ranks.mean(axis=2, keepdims=True)
    square = (ranks**2).sum(axis=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (ranks[0] * ranks[1]).sum(axis=1) / np.sqrt(square[0] * square[1])


def class_variation(changed: pd.DataFrame) -> pd.DataFrame:
    """How far the classes' changes on the shifted sets lie apart in each run, one row a kind.

    `changed` is `robustness.changed_images`. Columns: model_run, classes, labels (how many),
    std_pts and mean_pts over the labels' mean changes, luck_pts (their standard deviation if all
    labels were alike and only so few images differed).
    """
    rows = changed[changed["dataset"].isin(SHIFTED_SETS)]
    keys = ["model_run", "classes"]
    groups = rows.groupby([*keys, "label"], observed=True)["change_top1_pts"]
    by_label, luck = groups.mean().groupby(keys), (groups.sem() ** 2).groupby(keys)
    table = by_label.agg(labels="size", std_pts="std", mean_pts="mean")
    return table.assign(luck_pts=luck.mean() ** 0.5).reset_index()
