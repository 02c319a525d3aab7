"""Original against finetuned: changes of accuracy over sets, classes and seeds.

All functions take `predictions`, one row a model run and image, with the columns
`model_run` ('original', and one name for each finetuned run, say 'seed0'), `dataset`,
`index` (number of the image in its set), `label` and `label_rank` (0: the label has the
highest logit); others are ignored. Every run must hold the same images, so that changes are
paired. Changes are in percentage points (`_pts`), accuracies in percent (`_pct`). A standard
deviation over runs is the sample one (n - 1) and NaN for a single run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from habitats.cutouts import TEST_SETS
from relevit.evaluate.intervals import shared_variance
from relevit.evaluate.predictions import accuracy_table
from reproduction.paper.published import METRICS

ORIGINAL = "original"
CHANGES = [f"change_{metric}_pts" for metric in METRICS]


def paired_changes(predictions: pd.DataFrame) -> pd.DataFrame:
    """What finetuning changed, image by image.

    Columns: model_run (finetuned runs alone), dataset, index, label, change_top1_pts and
    change_top5_pts, each 100 (corrected), 0 (as before) or -100 (ruined).
    Raises: ValueError for repeated images, or runs on other images than those of 'original'.
    """
    keys = ["dataset", "index", "label"]
    right = predictions[["model_run", *keys]].assign(
        top1=100.0 * (predictions["label_rank"] == 0), top5=100.0 * (predictions["label_rank"] < 5)
    )
    is_original = right["model_run"] == ORIGINAL
    before = right[is_original].drop(columns="model_run")
    pairs = right[~is_original].merge(before, on=keys, suffixes=("", "_before"))
    alike = {len(before), *pairs.groupby("model_run", observed=True).size()}
    repeated = right.duplicated(["model_run", "dataset", "index"]).any()
    if repeated or len(pairs) != len(right) - len(before) or len(alike) > 1:
        raise ValueError(
            f"robustness: of {len(right) - len(before)} answers, {len(pairs)} are to one "
            f"of the {len(before)} images of 'original'; all runs need the same images, each once: "
            "evaluate them with the same images_per_set and seed"
        )
    for metric in METRICS:
        pairs[f"change_{metric}_pts"] = pairs[metric] - pairs[f"{metric}_before"]
    return pairs[["model_run", *keys, *CHANGES]]


def change_table(predictions: pd.DataFrame) -> pd.DataFrame:
    """The nine sets, original against finetuned; compare RobustViT T1, T2, T8 and T9.

    Columns: dataset (order of TEST_SETS), images, seeds, and for top1 and top5 `original_*_pct`,
    `change_*_pts` (mean over the runs), `change_*_std_pts` (over the runs) and `change_*_se_pts`,
    what images add to the error of the mean over runs (`evaluate.intervals`).
    Raises: ValueError as `paired_changes`.
    """
    pairs = paired_changes(predictions)
    original = predictions[predictions["model_run"] == ORIGINAL]
    before = accuracy_table(original, ["dataset"]).set_index("dataset")
    runs = pairs.groupby(["dataset", "model_run"], observed=True)[CHANGES].mean()
    runs = runs.groupby("dataset", observed=True)
    table = pd.DataFrame({"images": before["images"], "seeds": runs.size()})
    for metric, change in zip(METRICS, CHANGES, strict=True):
        table[f"original_{metric}_pct"] = before[f"{metric}_pct"]
        table[change], table[f"change_{metric}_std_pts"] = runs[change].mean(), runs[change].std()
        table[f"change_{metric}_se_pts"] = [_error(pairs, name, change) for name in table.index]
    return table.loc[list(TEST_SETS)].rename_axis("dataset").reset_index()


def _error(pairs: pd.DataFrame, dataset: str, change: str) -> float:
    own = pairs[pairs["dataset"] == dataset]
    wide = own.pivot(index="model_run", columns="index", values=change)
    return float(shared_variance([wide.to_numpy()]) ** 0.5)


def changes_of_arms(runs: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """`change_table` of each arm, which the column `arm` names; `runs` are predictions by arm."""
    tables = {arm: change_table(predictions) for arm, predictions in runs.items()}
    return pd.concat(tables, names=["arm"]).reset_index("arm").reset_index(drop=True)


def split_accuracies(
    predictions: pd.DataFrame, finetuned_classes: dict[str, list[int]]
) -> pd.DataFrame:
    """Accuracies on the classes A of each finetuned run and on the others, B; RobustViT T10, T11.

    Each run has classes A of its own, so the original is evaluated on those of each run too.
    Columns: model_run (whose classes they are), weights ('original' or 'finetuned'), dataset,
    classes (A, B), top1_pct, top5_pct, images.
    """
    parts, runs = [], predictions["model_run"].astype(str)
    for run, labels in finetuned_classes.items():
        for name, weights in ((ORIGINAL, ORIGINAL), (run, "finetuned")):
            rows = predictions[runs == name]
            rows = rows.assign(classes=np.where(rows["label"].isin(labels), "A", "B"))
            table = accuracy_table(rows, ["dataset", "classes"])
            parts.append(table.assign(model_run=run, weights=weights))
    columns = ["model_run", "weights", "dataset", "classes", "top1_pct", "top5_pct", "images"]
    return pd.concat(parts, ignore_index=True)[columns]


def changed_images(
    predictions: pd.DataFrame, finetuned_classes: dict[str, list[int]]
) -> pd.DataFrame:
    """What each run changed, image by image, with the kind of its class.

    Columns: model_run, dataset, index, label, classes (A, B), change_top1_pts.
    Raises: ValueError as `paired_changes`.
    """
    pairs = paired_changes(predictions)
    whose = zip(pairs["model_run"], pairs["label"], strict=True)
    pairs["classes"] = ["A" if label in finetuned_classes[run] else "B" for run, label in whose]
    return pairs[["model_run", "dataset", "index", "label", "classes", "change_top1_pts"]]


def first_examples(
    predictions: pd.DataFrame, run: str, sets: Sequence[str], count: int
) -> list[tuple[str, int]]:
    """Images that one run corrected, and then as many that it ruined, as pairs of set and number.

    The first of each set in turn, at most half of `count` of each kind.
    """
    pairs = paired_changes(predictions)
    pairs = pairs[pairs["model_run"] == run].sort_values("index")
    found = []
    for sign in (1, -1):
        changed = pairs[sign * pairs["change_top1_pts"] > 0].groupby("dataset", observed=True)
        first = changed["index"].first()
        found += [(name, int(first[name])) for name in sets if name in first][: count // 2]
    return found
