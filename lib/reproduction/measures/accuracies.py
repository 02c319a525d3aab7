"""Accuracies of many finetuned runs on the nine sets, one row a run and set."""

from __future__ import annotations

import numpy as np
import pandas as pd

from habitats.cutouts import SHIFTED_SETS
from relevit.evaluate.predictions import accuracy_table

SCORES = ("top1_pct", "top5_pct")
COLUMNS = (
    "dataset", "images", *SCORES, *(f"original_{name}" for name in SCORES), "change_se_pts",
)  # fmt: skip


def beside_original(predictions: pd.DataFrame, original: pd.DataFrame) -> pd.DataFrame:
    """Accuracies of a run and of the original on the same images, one row a set.

    Columns: COLUMNS. `change_se_pts` is the standard error over images of the change of top-1.
    Raises: ValueError when the original has not seen all of the run's images.
    """
    keys = ["dataset", "index", "label"]
    same = original.merge(predictions[keys], on=keys)
    if len(same) != len(predictions):
        raise ValueError(
            f"beside_original: the original has answered {len(same)} of the run's "
            f"{len(predictions)} images; evaluate it on as many images a set"
        )
    ours, before = (
        accuracy_table(rows, ["dataset"]).set_index("dataset") for rows in (predictions, same)
    )
    table = ours[["images", *SCORES]].join(before[list(SCORES)].add_prefix("original_"))
    both = predictions.merge(same, on=keys, suffixes=("", "_before"))
    change = (both["label_rank"] == 0) * 100.0 - (both["label_rank_before"] == 0) * 100.0
    return table.join(change.groupby(both["dataset"]).sem().rename("change_se_pts")).reset_index()


def changes(table: pd.DataFrame, by: list[str], metric: str = "top1") -> pd.DataFrame:
    """Mean change against the original, over the runs of each group, in points; sets as columns.

    The last column averages the seven shifted sets; `*_std` is its spread over the runs (NaN
    for one run).
    Raises: ValueError when two runs of a group have the same seed: they differ in what `by` lacks.
    """
    if table.duplicated([*by, "seed", "dataset"]).any():
        raise ValueError(
            f"changes: runs that agree in {[*by, 'seed']} occur twice; add what tells them "
            "apart to `by`, or choose among them first"
        )
    rows = table.assign(change=table[f"{metric}_pct"] - table[f"original_{metric}_pct"])
    runs = rows.pivot_table(
        index=[*by, "seed"], columns="dataset", values="change", sort=False, observed=True
    )
    runs["shifted_average"] = runs[list(SHIFTED_SETS)].mean(axis=1)
    groups = runs.groupby(level=by, sort=False)
    means = groups.mean()
    return means.assign(shifted_average_std=groups["shifted_average"].std())


def agreement(table: pd.DataFrame) -> pd.DataFrame:
    """Whether top-5 changes as top-1 does, where the method is changed: one row a variant and seed.

    Change against the full method, averaged over the shifted sets, in points, both times the sign
    of the variant's mean in top-1: above 0 both agree. Columns: variant, seed, top1_pts, top5_pts,
    images (in the average). Variants without a seed of the full method have no row.
    """
    rows = table[table["dataset"].isin(SHIFTED_SETS)].groupby(["variant", "seed"], observed=True)
    values = rows.agg({**dict.fromkeys(SCORES, "mean"), "images": "sum"})
    full = values.loc[["full"]].droplevel("variant")
    gaps = values.drop("full")[list(SCORES)].sub(full[list(SCORES)], level="seed").dropna()
    sign = gaps["top1_pct"].groupby("variant").transform("mean").apply(np.sign)
    gaps = gaps.mul(sign, axis=0).rename(columns=lambda name: name.replace("_pct", "_pts"))
    return gaps.join(values["images"]).reset_index()
