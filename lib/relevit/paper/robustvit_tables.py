"""RobustViT's printed tables row by row, in our names of sets and methods.

A *row* is one number, with the columns ROW; our runs are put into the same form by
`relevit.claims.paper_form`. A row's effect is its value minus its reference, which is the original
model unless `published_rows` says otherwise. The same table has up to three names: its number
in the arXiv text, which we use, its number in the supplement, and an identifier in the stored
tables (see CAPTIONS).
"""

from __future__ import annotations

import math

import pandas as pd

from relevit.models.registry import CUT, PAPER_MODELS, ROBUSTVIT
from relevit.paper.attribution import published_perturbation, published_segmentation
from relevit.paper.published import PAPER_SETS, SPLIT_NAMES, VARIANT_METHODS, read_table

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
MAP_TABLES = ("main_T3", "supp_T12")
# Stored method -> the name of its row here. Ablations: as in 08_ablations.
_METHODS = {theirs: ours for ours, theirs in VARIANT_METHODS.items() if ours != "full"}
# The DINO tables have no `original` of DINO-B: what each row is compared with.
_DINO_REFERENCES = {
    "dino_linear": ("DeiT-B", ORIGINAL),
    "dino_finetuned": ("DeiT-B", ORIGINAL),
    OURS: ("DINO-B", "dino_finetuned"),
}
LINEAR, FINETUNED = "dino_linear", "dino_finetuned"


def published_name(model: str) -> str | None:
    """What RobustViT's tables call one of its models; None for another.

    A model cut for a rehearsal has the name of the whole one.
    """
    found = PAPER_MODELS.get(model.removesuffix(CUT))
    return found.papers.get(ROBUSTVIT) if found else None


def published_rows(*tables: str) -> pd.DataFrame:
    """The rows of one or more stored tables, as printed.

    Source: RobustViT, all tables in CAPTIONS but T3 and supplement T12 (see
    `published_map_rows`). The AR-B rows of T10 are put in the order that the printed averages
    confirm (differences B22). A DINO row's reference is DeiT-B; that of ours on DINO-B is the
    finetuned DINO-B.
    Raises: ValueError for an unknown table.
    """
    unknown = [name for name in tables if name not in CAPTIONS or name in MAP_TABLES]
    if unknown:
        known = [name for name in CAPTIONS if name not in MAP_TABLES]
        raise ValueError(f"published_rows: {unknown} are unknown; use some of {known}")
    rows = read_table("robustness")
    rows = rows[rows["table"].isin(tables)]
    if "arxiv_T10" in tables:
        resolved = read_table("robustness_T10_ARB_resolved").drop(columns="order_taken_from")
        swapped = (rows["table"] == "arxiv_T10") & (rows["model"] == "AR-B")
        rows = pd.concat([rows[~swapped], resolved])
    names = {theirs: ours for ours, theirs in PAPER_SETS.items()}
    rows = rows.replace({"dataset": names, "method": _METHODS})
    rows = rows.assign(
        classes=rows["train_classes"].replace(SPLIT_NAMES),
        value_pct=rows["value"],
        std_pts=rows["std"],
        seeds=1,
        lost=0,
    )
    return with_reference(_with_originals(rows))


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


def with_reference(rows: pd.DataFrame) -> pd.DataFrame:
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
