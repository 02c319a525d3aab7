"""Original against finetuned: changes of accuracy over sets, classes and seeds.

All functions take `predictions`, one row a model run and image, with the columns
`model_run` ('original', and one name for each finetuned run, say 'seed0'), `dataset`,
`index` (number of the image in its set), `label` and `label_rank` (0: the label has the
highest logit); others are ignored. Every run must hold the same images, so that changes are
paired. Changes are in percentage points (`_pts`), accuracies in percent (`_pct`). A standard
deviation over runs is the sample one (n - 1) and NaN for a single run; `low` and `high` are the
ends of the interval over images and runs (`relevit.evaluate.intervals`).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from relevit.data.cutouts import SHIFTED_SETS, TEST_SETS
from relevit.evaluate.intervals import Estimate, estimate
from relevit.evaluate.predictions import accuracy_table
from relevit.paper.published import METRICS, SHIFTED_AVERAGE

ORIGINAL = "original"
COLUMNS = ("model_run", "dataset", "index", "label", "label_rank")
CHANGES = [f"change_{metric}_pts" for metric in METRICS]


def paired_changes(predictions: pd.DataFrame) -> pd.DataFrame:
    """What finetuning changed, image by image.

    Columns: model_run (finetuned runs alone), dataset, index, label, change_top1_pts and
    change_top5_pts, each 100 (corrected), 0 (as before) or -100 (ruined).
    Raises: ValueError for missing columns or runs, repeated images, or runs on other images.
    """
    absent = [name for name in COLUMNS if name not in predictions.columns]
    if absent:
        raise ValueError(f"robustness: predictions lack {absent}; they need {list(COLUMNS)}")
    runs = predictions["model_run"].unique().tolist()
    if ORIGINAL not in runs or len(runs) < 2:
        raise ValueError(
            f"robustness: model runs are {runs}; 'original' and at least one finetuned run "
            "are needed: evaluate both"
        )
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
            f"robustness: of {len(right) - len(before)} answers of {runs}, {len(pairs)} are to one "
            f"of the {len(before)} images of 'original'; all runs need the same images, each once: "
            "evaluate them with the same images_per_set and seed"
        )
    for metric in METRICS:
        pairs[f"change_{metric}_pts"] = pairs[metric] - pairs[f"{metric}_before"]
    return pairs[["model_run", *keys, *CHANGES]]


def change_table(predictions: pd.DataFrame) -> pd.DataFrame:
    """The nine sets, original against finetuned; compare RobustViT T1, T2, T8 and T9.

    Columns: dataset (order of TEST_SETS), images, seeds, and for top1 and top5
    `original_*_pct`, over the runs `ours_*_pct` (mean), `ours_*_std_pct`, `change_*_pts`
    (mean), `change_*_std_pts`, `change_*_min_pts`, `change_*_max_pts`, `change_*_low_pts` and
    `change_*_high_pts`, and `change_*_se_pts`, the standard error over images of the mean over
    runs. With one original, the spread of ours and of the change are equal.
    Raises: ValueError when a set is missing or unknown, or as `paired_changes`.
    """
    pairs = paired_changes(predictions)
    need_sets(pairs["dataset"], TEST_SETS, "change_table")
    accuracy = accuracy_table(predictions, ["model_run", "dataset"])
    is_original = accuracy["model_run"] == ORIGINAL
    original = accuracy[is_original].set_index("dataset")
    ours = accuracy[~is_original].groupby("dataset", observed=True)
    changes = run_means(pairs, ["model_run", "dataset"]).groupby("dataset", observed=True)
    of_images = run_means(pairs, ["dataset", "index"]).groupby("dataset", observed=True)
    table = pd.DataFrame({"images": original["images"], "seeds": ours.size()})
    for metric, change in zip(METRICS, CHANGES, strict=True):
        table[f"original_{metric}_pct"] = original[f"{metric}_pct"]
        table[f"ours_{metric}_pct"] = ours[f"{metric}_pct"].mean()
        table[f"ours_{metric}_std_pct"] = ours[f"{metric}_pct"].std()
        table[change] = changes[change].mean()
        for name in ("std", "min", "max"):
            table[f"change_{metric}_{name}_pts"] = getattr(changes[change], name)()
        table[f"change_{metric}_se_pts"] = of_images[change].sem()
        found = {name: _estimate(part, change) for name, part in pairs.groupby("dataset")}
        for name in ("low", "high"):
            ends = {key: getattr(of_set, name) for key, of_set in found.items()}
            table[f"change_{metric}_{name}_pts"] = pd.Series(ends)
    return table.loc[list(TEST_SETS)].rename_axis("dataset").reset_index()


def shifted_average(predictions: pd.DataFrame) -> pd.DataFrame:
    """Average change over the seven shifted sets, each set with the same weight.

    One row a metric (top1, top5). Columns: metric, mean_pts and std_pts over the finetuned
    runs, low_pts and high_pts, then the average of each run under the run's name.
    Raises: ValueError when a shifted set is missing, or as `paired_changes`.
    """
    pairs = paired_changes(predictions)
    need_sets(pairs["dataset"], SHIFTED_SETS, "shifted_average")
    pairs = pairs[pairs["dataset"].isin(SHIFTED_SETS)]
    runs = run_means(run_means(pairs, ["model_run", "dataset"]), ["model_run"]).set_index(
        "model_run"
    )
    rows = []
    for metric, change in zip(METRICS, CHANGES, strict=True):
        found = _estimate(pairs, change)
        row = {"metric": metric, "mean_pts": runs[change].mean(), "std_pts": runs[change].std()}
        rows.append(row | {"low_pts": found.low, "high_pts": found.high} | runs[change].to_dict())
    return pd.DataFrame(rows)


def split_table(
    predictions: pd.DataFrame, finetuned_classes: dict[str, list[int]], *, everywhere: bool = True
) -> pd.DataFrame:
    """Change for the classes used in finetuning (A) and for the others (B).

    Source: RobustViT T10, T11. `finetuned_classes` gives the labels A of each finetuned run,
    as they may differ between seeds. The last two rows average the seven shifted sets. With
    `everywhere=False` a set may lack A or B in some runs, as real ones of few classes do: it is
    left out there, and NaN where no run has any. Where all classes were finetuned there is no B,
    and no row of it.
    Columns: dataset, classes (A, B), seeds, then for top1 and top5 `change_*_pts`,
    `change_*_std_pts`.
    Raises: ValueError when a run has no list, a set has no image of A or of B, a set is
    missing or unknown, or as `paired_changes`.
    """
    pairs = paired_changes(predictions)
    need_sets(pairs["dataset"], TEST_SETS, "split_table")
    runs = pairs["model_run"].unique().tolist()
    pairs = pairs.assign(classes=_classes(pairs, finetuned_classes))
    seeds = run_means(pairs, ["model_run", "dataset", "classes"])
    kinds = "AB" if (seeds["classes"] == "B").any() else "A"
    if everywhere and len(seeds) != len(kinds) * len(runs) * len(TEST_SETS):
        raise ValueError(
            "split_table: a set has no images of classes A or none of B; both are needed: "
            "check finetuned_classes against the labels"
        )
    shifted = run_means(seeds[seeds["dataset"].isin(SHIFTED_SETS)], ["model_run", "classes"])
    seeds = pd.concat([seeds, shifted.assign(dataset=SHIFTED_AVERAGE)])
    order = [(name, kind) for name in (*TEST_SETS, SHIFTED_AVERAGE) for kind in kinds]
    table = over_seeds(seeds, ["dataset", "classes"]).reindex(order).reset_index()
    table.insert(2, "seeds", len(runs))
    return table


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
    Raises: ValueError when a run has no classes, or as `paired_changes`.
    """
    pairs = paired_changes(predictions)
    pairs = pairs.assign(classes=_classes(pairs, finetuned_classes))
    return pairs[["model_run", "dataset", "index", "label", "classes", "change_top1_pts"]]


def changed_examples(
    predictions: pd.DataFrame, run: str, dataset: str
) -> tuple[list[int], list[int]]:
    """Images that one run corrected and ruined (top-1), as numbers in their set."""
    pairs = paired_changes(predictions)
    pairs = pairs[(pairs["model_run"] == run) & (pairs["dataset"] == dataset)]
    change = pairs.set_index("index")["change_top1_pts"].sort_index()
    return change.index[change > 0].tolist(), change.index[change < 0].tolist()


def need_sets(found: Iterable[str], needed: Iterable[str], where: str) -> None:
    """Raise ValueError when a needed set is missing or a name is no test set."""
    found = set(found)
    missing = [name for name in needed if name not in found]
    unknown = sorted(found - {*TEST_SETS, SHIFTED_AVERAGE})
    if missing or unknown:
        raise ValueError(
            f"{where}: sets missing: {missing}, unknown: {unknown}; needed are "
            f"{list(needed)}: evaluate every run on them"
        )


def _classes(pairs: pd.DataFrame, finetuned_classes: dict[str, list[int]]) -> np.ndarray:
    """'A' or 'B' for each row, by the classes of its run."""
    missing = [run for run in pairs["model_run"].unique() if run not in finetuned_classes]
    if missing:
        raise ValueError(
            f"robustness: no finetuned classes for {missing}; give the labels A of every run"
        )
    in_a = np.zeros(len(pairs), dtype=bool)
    for run, labels in finetuned_classes.items():
        in_a |= ((pairs["model_run"] == run) & pairs["label"].isin(labels)).to_numpy()
    return np.where(in_a, "A", "B")


def run_means(rows: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Mean changes of the images of each group."""
    return rows.groupby(by, sort=False, observed=True)[CHANGES].mean().reset_index()


def over_seeds(seeds: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Mean (`change_*_pts`) and deviation (`change_*_std_pts`) over the runs."""
    groups = seeds.groupby(by, sort=False, observed=True)
    table = {}
    for metric, change in zip(METRICS, CHANGES, strict=True):
        table |= {change: groups[change].mean(), f"change_{metric}_std_pts": groups[change].std()}
    return pd.DataFrame(table)


def _estimate(pairs: pd.DataFrame, change: str) -> Estimate:
    """Mean over the sets of a change, with its interval over images and runs."""
    return estimate(
        of_set.pivot(index="model_run", columns="index", values=change).to_numpy()
        for _, of_set in pairs.groupby("dataset", observed=True)
    )
