"""Published tables on attribution methods, in our names of methods and metrics.

Source: Beyond Intuition Tables 1 to 4 and 6; RobustViT Table 3 and supplement Table 12. All
numbers are as printed, in percent; the papers print no spread with them. Models keep the
papers' names.
"""

from __future__ import annotations

import math

import pandas as pd

from relevit.paper.published import ALL, MAP_TABLES, read_table, with_reference

# The stored name of a method -> ours. RobustViT's `original` and `ours` are models: the maps
# of both are GAE's.
METHOD_NAMES = {
    "ram": "raw_attention",
    "plrp": "partial_lrp",
    "ta": "transformer_attribution",
    "ours_h": "head_wise",
    "ours_t": "token_wise",
}
METRIC_NAMES = {
    "pixel_accuracy": "pixel_accuracy_pct",
    "miou": "miou_pct",
    "map": "map_pct",
    "mf1": "mf1_pct",
}
TARGET_NAMES = {"target": "label"}
FEEDBACK_NAMES = {"grad": "gradient", "integrated_grad": "integrated_gradient"}
SEGMENTATION_TABLES = ("main_T3", "T2", "T6")
PERTURBATION_TABLES = ("T1", "T3", "supp_T12")
ABLATION_TABLES = ("T4_part1", "T4_part2")
NOT_STATED = "not stated"


def published_segmentation() -> pd.DataFrame:
    """Segmentation test on ImageNet-Segmentation, one number a row.

    Source: Beyond Intuition T2 (ViT-B, ViT-L, ViT-MAE) and T6 (ViT-B-DINO), predicted class;
    RobustViT T3 (`main_T3`: seven models, GAE maps, methods `original` and `ours`).
    Columns: paper, table, model, method (keys of METHODS), metric (pixel_accuracy_pct, miou_pct,
    map_pct, mf1_pct; no mF1 in T3 and T6), value_pct (percent).
    """
    table = read_table("segmentation")
    table = table[table["table"].isin(SEGMENTATION_TABLES)]
    table = table.replace({"method": METHOD_NAMES, "metric": METRIC_NAMES})
    columns = ["paper", "table", "model", "method", "metric", "value"]
    return table[columns].rename(columns={"value": "value_pct"}).reset_index(drop=True)


def published_segmentation_changes() -> pd.DataFrame:
    """What finetuning changed in the segmentation test, over the seven models.

    Source: RobustViT T3, ours minus original, GAE maps.
    Columns: metric (pixel_accuracy_pct, miou_pct, map_pct), models, change_pts (mean over
    models), change_min_pts, change_max_pts; percentage points.
    """
    table = published_segmentation()
    table = table[table["table"] == "main_T3"]
    values = table.pivot(index=["metric", "model"], columns="method", values="value_pct")
    changes = (values["ours"] - values["original"]).groupby("metric")
    columns = {
        "models": changes.size(),
        "change_pts": changes.mean(),
        "change_min_pts": changes.min(),
        "change_max_pts": changes.max(),
    }
    order = [metric for metric in METRIC_NAMES.values() if metric in changes.groups]
    return pd.DataFrame(columns).loc[order].reset_index()


def published_perturbation() -> pd.DataFrame:
    """Perturbation test on ImageNet val, area under the accuracy curve, one number a row.

    Source: Beyond Intuition T1 (ViT-B, ViT-L, ViT-MAE) and T3 (CLIP, zero-shot); RobustViT
    supplement T12 (ViT-B, DeiT-B, AR-B; GAE maps, methods `original` and `ours`). Positive: low
    is good, negative: high is good. For ViT-B and the same method, generic attribution, the two
    papers' numbers differ: other images, maybe another rule for the area.
    Columns: paper, table, model, method, direction (positive, negative), target (the class the
    map explains: predicted, or label, which the paper calls target; 'not stated' in T12),
    auc_pct (percent). Raw attention and rollout, the same for every class, have no `label` row.
    """
    table = read_table("perturbation")
    table = table[table["table"].isin(PERTURBATION_TABLES)]
    table = table.replace({"method": METHOD_NAMES, "target": TARGET_NAMES})
    table = table.fillna({"target": NOT_STATED}).rename(columns={"value": "auc_pct"})
    columns = ["paper", "table", "model", "method", "direction", "target", "auc_pct"]
    return table[columns].reset_index(drop=True)


def published_ablation() -> pd.DataFrame:
    """Perception times feedback on ViT-B: seven combinations.

    Source: Beyond Intuition T4, both parts; head_wise with integrated_gradient, which stands in
    both, is kept once. The AUCs are for the predicted class.
    Columns: perception (none, last_attention, avg_attention, head_wise, token_wise), feedback
    (none, gradient, integrated_gradient), pixel_accuracy_pct, miou_pct, map_pct, mf1_pct,
    positive_auc_pct (low is good), negative_auc_pct (high is good); all in percent.
    """
    parts = [read_table("segmentation"), read_table("perturbation")]
    parts[1] = parts[1].assign(metric=parts[1]["direction"] + "_auc_pct")
    table = pd.concat(parts)
    table = table[table["table"].isin(ABLATION_TABLES)].fillna({"feedback": "none"})
    table = table.replace({"metric": METRIC_NAMES, "feedback": FEEDBACK_NAMES})
    table["perception"] = table["perception"].fillna("none")
    keys = ["perception", "feedback"]
    table = table.drop_duplicates([*keys, "metric", "value"])
    wide = table.pivot(index=keys, columns="metric", values="value")
    columns = [*METRIC_NAMES.values(), "positive_auc_pct", "negative_auc_pct"]
    order = table[keys].drop_duplicates().itertuples(index=False, name=None)
    return wide.loc[list(order), columns].rename_axis(columns=None).reset_index()


def published_map_rows(table: str) -> pd.DataFrame:
    """The rows of T3 or of supplement T12, before and after finetuning; GAE's maps.

    T3: dataset `segmentation`, metrics as in `relevit.evaluate.segmentation`. T12: dataset
    `perturbation`, metrics positive_auc_pct (low is good) and negative_auc_pct.
    Raises: ValueError for another table.
    """
    if table not in MAP_TABLES:
        raise ValueError(f"published_map_rows: {table!r} is unknown; use one of {MAP_TABLES}")
    if table == "main_T3":
        rows = published_segmentation()
        rows = rows[rows["table"] == table].assign(dataset="segmentation")
    else:
        rows = published_perturbation()
        rows = rows[rows["table"] == table].rename(columns={"auc_pct": "value_pct"})
        metric = rows["direction"] + "_auc_pct"
        rows = rows.assign(metric=metric, dataset="perturbation")
    rows = rows.assign(masks="none", classes=ALL, std_pts=math.nan, seeds=1, lost=0)
    return with_reference(rows)
