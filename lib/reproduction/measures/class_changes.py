"""Which classes finetuning helps and which it hurts, and what these have in common.

Source: RobustViT App. J, Figs. 8-15, which shows the change of every class, the two classes
hurt most, and explains them by the size of the object, by context and by the number of test
images. `predictions` are as in `reproduction.measures.robustness`, with `prediction` where it says
so. Changes are in percentage points (`_pts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from habitats.cutouts import SHIFTED_SETS
from habitats.drawings import CLASSES, Drawings
from relevit.evaluate.intervals import interval
from reproduction.measures.paired import AVERAGE, runs_of
from reproduction.measures.robustness import (
    ORIGINAL,
    changed_images,
    paired_changes,
    split_accuracies,
)

CAUSES = ["cause", "level", "dataset", "count", "spearman", "low", "high"]
# Square of a deviation's relative error, times the count: changes of classes have long tails, a
# kurtosis of 7 and not 3. RV-22 is judged by it.
TAILS = 1.5
EPS = 1e-12  # from a correlation of 1, which has no interval
WORDS = {  # for people; the first two of a table name its rows
    "model_run": "run",
    "classes": "kind",
    "cause": "change against",
    "dataset": "set",
    "name": "class",
    "images": "images",
    "labels": "classes",
    "count": "classes",
    "change_top1_pts": "change, points",
    "mean_pts": "mean change, points",
    "std_pts": "spread over the classes",
    "std_low_pts": "spread, from",
    "std_high_pts": "spread, to",
    "luck_pts": "spread by luck alone",
    "newly_wrong": "newly wrong in a run",
    "taken_for": "taken for",
    "spearman": "rank correlation",
    "low": "from",
    "high": "to",
}


def class_table(predictions: pd.DataFrame, names: Sequence[str] = CLASSES) -> pd.DataFrame:
    """Mean change of every class on every set; `names` are those of the labels.

    Columns: dataset, label, name, images, change_top1_pts (mean over the runs).
    Raises: ValueError as `paired_changes`.
    """
    classes = paired_changes(predictions).groupby(["dataset", "label"], sort=False, observed=True)
    table = classes.agg(images=("index", "nunique"), change_top1_pts=("change_top1_pts", "mean"))
    table = table.reset_index().astype({"label": int})
    table.insert(2, "name", [names[label] for label in table["label"]])
    return table


def rank_correlation(cause: pd.Series, change: pd.Series) -> dict[str, float]:
    """Spearman's rank correlation with its 95 % interval over the rows, at least three.

    The interval is Fisher's, with the error of Bonett and Wright 2000. Both have the same index.
    Returns count, spearman, low, high; NaN where one is constant.
    """
    count = len(cause)
    with np.errstate(invalid="ignore", divide="ignore"):  # one is constant
        found = float(cause.rank().corr(change.rank()))
        error = np.sqrt(np.float64(1 + found**2 / 2) / (count - 3))  # of three rows: no end
    middle = np.arctanh(np.clip(found, -1 + EPS, 1 - EPS))
    low, high = np.tanh(interval(middle, images=error**2))
    return {"count": count, "spearman": found, "low": float(low), "high": float(high)}


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
    """
    original = predictions[predictions["model_run"] == ORIGINAL]
    right = (100.0 * (original["label_rank"] == 0)).groupby(
        [original["dataset"].astype(str), original["label"].astype(int)]
    )
    top1 = right.mean().unstack(0)
    gain = top1["val"] - top1["a"]
    return gain.set_axis([names[label] for label in gain.index])


def newly_wrong(predictions: pd.DataFrame, dataset: str, label: int) -> pd.DataFrame:
    """Images of one class that the original names rightly and a finetuned run does not.

    Columns: model_run, index, answer (the finetuned model's label), ordered by image. Needs
    the column `prediction`.
    """
    rows = predictions[(predictions["dataset"] == dataset) & (predictions["label"] == label)]
    is_original = rows["model_run"] == ORIGINAL
    right = rows[is_original & (rows["label_rank"] == 0)]["index"]
    wrong = rows[~is_original & rows["index"].isin(right) & (rows["label_rank"] > 0)]
    found = wrong.sort_values(["index", "model_run"], kind="stable", ignore_index=True)
    return found[["model_run", "index", "prediction"]].rename(columns={"prediction": "answer"})


def harmed_table(
    predictions: pd.DataFrame, datasets: tuple[str, ...], count: int, names: Sequence[str] = CLASSES
) -> pd.DataFrame:
    """Up to `count` classes that lose most top-1 on each set, and what they are taken for.

    Columns: dataset, label, name, images, change_top1_pts (mean over runs), newly_wrong (images a
    run, mean) and taken_for (the new wrong answers of all runs, most frequent first). Ties go by
    label; a class that does not lose is not listed. Needs the column `prediction`.
    """
    classes = class_table(predictions, names)
    losses = classes[classes["change_top1_pts"] < 0].sort_values(["change_top1_pts", "label"])
    worst = [losses[losses["dataset"] == dataset].head(count) for dataset in datasets]
    table = pd.concat(worst, ignore_index=True)
    wrong = [newly_wrong(predictions, *row) for row in table[["dataset", "label"]].to_numpy()]
    often = [part["answer"].value_counts(sort=False) for part in wrong]
    often = [counts.sort_values(ascending=False, kind="stable") for counts in often]
    return table.assign(
        newly_wrong=[len(part) / (predictions["model_run"].nunique() - 1) for part in wrong],
        taken_for=[", ".join(names[int(i)] for i in counts.index) for counts in often],
    )


def turned_wrong(
    predictions: pd.DataFrame, run: str, harmed: pd.DataFrame, count: int
) -> list[tuple[str, int]]:
    """Of each class of `harmed_table` the first images that a run gets newly wrong, `count` each.

    As pairs of a set and a number. Needs the column `prediction`.
    """
    seen = predictions[predictions["model_run"].isin([ORIGINAL, run])]
    return [
        (hurt.dataset, number)
        for hurt in harmed.itertuples()
        for number in newly_wrong(seen, hurt.dataset, hurt.label)["index"].head(count)
    ]


def of_arms(
    answers: pd.DataFrame,
    finetuned: Mapping[str, dict[str, list[int]]],
    names: Sequence[str],
    drawings: Drawings | None,
) -> dict[str, pd.DataFrame]:
    """Of each arm, which the column `arm` names, all tables by which its classes are judged.

    `answers` as from `runs.effects.study`; `finetuned` has the labels that each run was finetuned
    on (`runs.effects.classes_a`), by arm; `drawings` is None where images have no masks.
    """
    found = []
    for arm, labels in finetuned.items():
        predictions = runs_of(answers, arm)
        changed = changed_images(predictions, labels)
        related = related_to(predictions, drawings, names) if drawings else {}
        tables = {
            "classes": class_table(predictions, names),
            "class_variation": class_variation(changed),
            "object_size": cause_table(related),
            "split_accuracies": split_accuracies(predictions, labels),
            "changed_images": changed,
        }
        found.append({name: table.assign(arm=arm) for name, table in tables.items()})
    return {name: pd.concat([one[name] for one in found], ignore_index=True) for name in found[0]}


def in_words(table: pd.DataFrame) -> pd.DataFrame:
    """A table of this file as people read it: the columns of WORDS, by what they are called."""
    said = table[[name for name in WORDS if name in table]]
    said = said.replace({"dataset": {AVERAGE: "the shifted sets"}}).rename(columns=WORDS)
    return said.set_index([*said.columns[:2]])


def related_to(
    predictions: pd.DataFrame, drawings: Drawings, names: Sequence[str] = CLASSES
) -> dict[tuple[str, str, str], tuple[pd.Series, pd.Series]]:
    """What `cause_table` relates: with each class's change the size of its drawing, and context.

    The paper's claims: small objects gain (on the shifted sets), classes that profit from context
    lose (on `v2`).
    """
    classes = class_table(predictions, names)
    on_shifted = classes[classes["dataset"].isin(SHIFTED_SETS)]
    of_class = on_shifted.groupby("name")["change_top1_pts"].mean()
    on_v2 = classes[classes["dataset"] == "v2"].set_index("name")["change_top1_pts"]
    # All drawings (style 3d) are pasted at the same sizes: the share of its square that one covers
    # is what makes an object small or large.
    covered = 100.0 * (drawings.load("3d")[0][:, 3] > 0.5).double().mean(dim=(1, 2))
    share = pd.Series(covered.numpy(), drawings.classes).reindex(of_class.index)
    context = context_gain_pts(predictions, names)
    return {
        ("object size", "class", AVERAGE): (share, of_class),
        ("context", "class", "v2"): (context, on_v2.reindex(context.index)),
    }


def class_variation(changed: pd.DataFrame) -> pd.DataFrame:
    """How far the classes' changes on the shifted sets lie apart in each run, one row a kind.

    `changed` is `robustness.changed_images`. Columns: model_run, classes, labels (how many),
    std_pts (with a 95 % interval, std_low_pts to std_high_pts, wide enough for the long tails of
    such changes) and mean_pts over the labels' mean changes, luck_pts (their deviation if all
    labels were alike and only so few images differed).
    """
    rows = changed[changed["dataset"].isin(SHIFTED_SETS)]
    keys = ["model_run", "classes"]
    groups = rows.groupby([*keys, "label"], observed=True)["change_top1_pts"]
    by_label, luck = groups.mean().groupby(keys), (groups.sem() ** 2).groupby(keys)
    table = by_label.agg(labels="size", std_pts="std", mean_pts="mean")
    error = table["std_pts"] * (TAILS / table["labels"]) ** 0.5
    low, high = interval(table["std_pts"].to_numpy(), images=error.to_numpy() ** 2)
    table = table.assign(std_low_pts=low.clip(0), std_high_pts=high, luck_pts=luck.mean() ** 0.5)
    return table.reset_index()
