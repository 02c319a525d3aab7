"""Published tables and claims as data, and the summaries that ours are compared with.

Source: the tables of RobustViT (main text, appendix and supplement) and of Beyond Intuition, one
number a row, as printed, in our names of methods, metrics and sets; models keep the papers' names.
The AR-B rows of RobustViT T10 are printed in two orders; here, column by column, is the one that
agrees with the printed averages (differences B22).

A *row* is one number of RobustViT, with the columns ROW; our runs are put into the same form by
`reproduction.claims.compared`. A row's effect is its value minus its reference, which is the
original model unless `published_rows` says otherwise. The same table has up to three
names: its number in the arXiv text, which we use, its number in the supplement, and an identifier
in the stored tables (see CAPTIONS).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from functools import cache
from importlib.resources import files

import pandas as pd

from habitats.cutouts import SHIFTED_SETS, TEST_SETS
from relevit.models.registry import CUT, PAPER_MODELS, ROBUSTVIT

SHIFTED_AVERAGE = "shifted_average"  # row that averages the seven shifted sets
METRICS = ("top1", "top5")
# The variants (05_ablations), `ours` for the full method.
VARIANTS = (
    "ours",
    "no_background",
    "no_foreground",
    "no_classification",
    "ground_truth",
    "attention",
    "rollout",
)
ABLATION_TABLES = ("main_T4", "supp_T8", "arxiv_T12", "supp_T9")
KIND = ["model", "method", "masks", "classes"]
CELL = ["dataset", "metric"]
# value_pct, std_pts and reference_pct are in percent (points); seeds and lost count runs that
# are there and that are missing.
ROW = [*KIND, *CELL, "value_pct", "std_pts", "reference_pct", "seeds", "lost"]
ORIGINAL, OURS = "original", "ours"
ALL = "all"  # classes

CAPTIONS = {
    "main_T1": "Table 1: real data sets",
    "main_T2": "Table 2: SI-Score",
    "main_T3": "Table 3: segmentation test of the relevance maps",
    "main_T4": "Table 4: ablation, top-1",
    "arxiv_T8": "Table 8 (supplement Table 4): three seeds, top-1",
    "arxiv_T9": "Table 9 (supplement Table 5): three seeds, top-5",
    "arxiv_T10": "Table 10 (supplement Table 6): classes finetuned and others",
    "arxiv_T11": "Table 11 (supplement Table 7): classes finetuned and others, SI-Score",
    "arxiv_T12": "Table 12 (upper part of supplement Table 9): ablation, top-5",
    "supp_T8": "Supplement Table 8: attention or rollout instead of GAE, top-1",
    "supp_T9": "Supplement Table 9 (lower part; the upper one is Table 12): ablation, top-5",
    "supp_T10": "Supplement Table 10: DINO, top-1",
    "supp_T11": "Supplement Table 11: DINO, top-5",
    "supp_T12": "Supplement Table 12: perturbation test of GAE's maps",
}
LINEAR, FINETUNED = "dino_linear", "dino_finetuned"
# The DINO tables have no `original` of DINO-B: what each row is compared with.
_DINO_REFERENCES = {
    LINEAR: ("DeiT-B", ORIGINAL),
    FINETUNED: ("DeiT-B", ORIGINAL),
    OURS: ("DINO-B", FINETUNED),
}


def published_map_changes() -> pd.Series:
    """What RobustViT's finetuning changed in both tests of its maps, in points, by test.

    The mean over its models: Table 3, and the areas of supplement Table 12.
    """
    outlined = published_rows("main_T3").query("method == @OURS")
    change = outlined["value_pct"] - outlined["reference_pct"]
    areas = published_perturbation().query("table == 'supp_T12'")
    areas = areas.groupby(["direction", "method"])["auc_pct"].mean().unstack()
    return pd.concat([change.groupby(outlined["metric"]).mean(), areas[OURS] - areas[ORIGINAL]])


def claims() -> pd.DataFrame:
    """Claims of the papers: id, paper, where, claim, condition, table_check.

    `table_check` says whether the claim agrees with the paper's own tables; it is empty
    where they have no such numbers.
    """
    return read_table("claims").fillna("")


def published_name(model: str) -> str | None:
    """What RobustViT's tables call one of its models; None for another.

    A model cut for a rehearsal has the name of the whole one.
    """
    found = PAPER_MODELS.get(model.removesuffix(CUT))
    return found.papers.get(ROBUSTVIT) if found else None


def published_rows(*tables: str) -> pd.DataFrame:
    """The rows of one or more of RobustViT's tables in CAPTIONS, as printed.

    T3 (dataset `segmentation`, metrics as in `relevit.evaluate.segmentation`) and supplement T12
    (dataset `perturbation`, metrics positive_auc_pct, where low is good, and negative_auc_pct) are
    of GAE's maps. A DINO row's reference is DeiT-B; that of ours on DINO-B is the finetuned DINO-B.
    """
    areas = published_perturbation().rename(columns={"auc_pct": "value_pct"})
    areas = areas.assign(metric=areas["direction"] + "_auc_pct", dataset="perturbation")
    of_maps = pd.concat([published_segmentation().assign(dataset="segmentation"), areas])
    of_maps = of_maps.assign(masks="none", classes=ALL)
    rows = pd.concat([read_table("robustness"), of_maps])
    rows = rows[rows["table"].isin(tables)].assign(seeds=1, lost=0)
    return _with_reference(_with_originals(rows))


def published_changes(masks: str = "annotated") -> pd.DataFrame:
    """Change of accuracy by the method, mean over the seven models, on each of the nine sets.

    Source: RobustViT T1 and T2, method minus original, in percentage points.
    Columns: dataset (order of TEST_SETS), change_top1_pts, change_top5_pts.
    """
    rows = _effects("main_T1", "main_T2")
    rows = rows[(rows["method"] == OURS) & (rows["masks"] == masks)]
    changes = rows.pivot(index=["model", "dataset"], columns="metric", values="change")
    means = changes.groupby("dataset").mean().loc[list(TEST_SETS)]
    return means.add_prefix("change_").add_suffix("_pts").rename_axis(columns=None).reset_index()


def paper_variants(run: Collection[str]) -> dict[str, str]:
    """Our variants that the paper calls otherwise, where `run` names those that were run.

    Its full method has the confidence term. Where ours has labels, the variant `confidence` is what
    the paper calls full, and our full method its row with ground truth.
    """
    return {"confidence": "full", "full": "ground_truth"} if "confidence" in run else {}


def published_ablations() -> pd.DataFrame:
    """Change of top-1 by each variant of the method, mean over ViT-B and DeiT-B.

    Source: RobustViT T4 and supplement T8, minus the original, in percentage points. Index:
    variant. Columns: the nine sets, then shifted_average.
    """
    rows = _effects(*ABLATION_TABLES)
    rows = rows[(rows["metric"] == "top1") & (rows["method"] != ORIGINAL)]
    rows = rows.drop_duplicates(["method", "model", "dataset"])
    mean = rows.groupby(["method", "dataset"])["change"].mean().unstack("dataset")[list(TEST_SETS)]
    mean[SHIFTED_AVERAGE] = mean[list(SHIFTED_SETS)].mean(axis=1)
    mean = mean.loc[[name for name in VARIANTS if name in mean.index]]
    return mean.rename(index={OURS: "full"}).rename_axis(index="variant", columns=None)


def published_segmentation() -> pd.DataFrame:
    """Segmentation test on ImageNet-Segmentation, one number a row.

    Source: Beyond Intuition T2 (ViT-B, ViT-L, ViT-MAE) and T6 (ViT-B-DINO), predicted class;
    RobustViT T3 (`main_T3`: seven models, GAE maps, methods `original` and `ours`).
    Columns: paper, table, model, method (keys of METHODS), metric (pixel_accuracy_pct, miou_pct,
    map_pct, mf1_pct; no mF1 in T3 and T6), value_pct (percent).
    """
    table = read_table("segmentation")
    table = table[table["perception"].isna() & table["feedback"].isna()]
    return table[["paper", "table", "model", "method", "metric", "value_pct"]].reset_index(
        drop=True
    )


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
    table = table[table["perception"].isna() & table["feedback"].isna()]
    return table.drop(columns=["perception", "feedback"]).reset_index(drop=True)


def published_ablation() -> pd.DataFrame:
    """Perception times feedback on ViT-B: seven combinations.

    Source: Beyond Intuition T4, both parts; head_wise with integrated_gradient, which stands in
    both, is kept once. The AUCs are for the predicted class.
    Columns: perception (none, last_attention, avg_attention, head_wise, token_wise), feedback
    (none, gradient, integrated_gradient), pixel_accuracy_pct, miou_pct, map_pct, mf1_pct,
    positive_auc_pct (low is good), negative_auc_pct (high is good); all in percent.
    """
    outlines, areas = read_table("segmentation"), read_table("perturbation")
    metric = areas["direction"] + "_auc_pct"
    table = pd.concat([outlines, areas.assign(metric=metric, value_pct=areas["auc_pct"])])
    keys = ["perception", "feedback"]
    table = table.dropna(subset=keys, how="all").fillna(dict.fromkeys(keys, "none"))
    table = table.drop_duplicates([*keys, "metric", "value_pct"])
    wide = table.pivot(index=keys, columns="metric", values="value_pct")
    columns = table["metric"].unique()
    order = table[keys].drop_duplicates().itertuples(index=False, name=None)
    return wide.loc[list(order), columns].rename_axis(columns=None).reset_index()


def _with_reference(rows: pd.DataFrame) -> pd.DataFrame:
    """Add reference_pct: the original's value, or what the DINO tables compare with."""
    keys = ["model", "method", "classes", *CELL]
    values = rows.drop_duplicates(keys).set_index(keys)["value_pct"].to_dict()
    reference = []
    for row in rows[keys].itertuples(index=False, name=None):
        model, method, *rest = row
        has_dino = model == "DINO-B" or method == LINEAR
        wanted = _DINO_REFERENCES.get(method) if has_dino else (model, ORIGINAL)
        empty = method == ORIGINAL or wanted is None
        reference.append(math.nan if empty else values.get((*wanted, *rest), math.nan))
    rows = rows.assign(reference_pct=reference)
    return rows.reindex(columns=ROW).reset_index(drop=True)


def _with_originals(rows: pd.DataFrame) -> pd.DataFrame:
    """Tables that print no originals of their own (supplement T9) take those of T12."""
    known = set(rows.loc[rows["method"] == ORIGINAL, "model"]) | {"DINO-B"}
    absent = [model for model in rows["model"].unique() if model not in known]
    if not absent:
        return rows
    source = published_rows("arxiv_T12")
    return pd.concat([source[(source["method"] == ORIGINAL) & source["model"].isin(absent)], rows])


def _effects(*tables: str) -> pd.DataFrame:
    """The rows of tables, each with its `change` against the original in points."""
    rows = published_rows(*tables)
    return rows.assign(change=rows["value_pct"] - rows["reference_pct"])


def read_table(name: str) -> pd.DataFrame:
    """A table of the package, `assets/paper/<name>.csv`, to do with as one likes."""
    return _stored(name).copy()


@cache
def _stored(name: str) -> pd.DataFrame:
    with (files("reproduction") / "assets" / "paper" / f"{name}.csv").open("rb") as file:
        return pd.read_csv(file)
