"""Published tables and claims as data, and the summaries that ours are compared with.

Source: the tables of RobustViT (main text, appendix and supplement), one number a row. The
AR-B rows of T10 are printed in two orders; `robustness_T10_ARB_resolved.csv` holds, column by
column, the order that agrees with the printed averages (differences B22).

A *row* is one number, with the columns ROW, in our names of sets and methods; our runs are put
into the same form by `relevit.claims.compared`. A row's effect is its value minus its reference,
which is the original model unless `published_rows` says otherwise. The same table has up to three
names: its number in the arXiv text, which we use, its number in the supplement, and an identifier
in the stored tables (see CAPTIONS). Tables on relevance maps are in `relevit.paper.attribution`.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from functools import cache
from importlib.resources import files

import pandas as pd

from relevit.data.cutouts import SHIFTED_SETS, TEST_SETS
from relevit.models.registry import CUT, PAPER_MODELS, ROBUSTVIT

# Our name of a set -> its name in the stored tables.
PAPER_SETS = {
    "val": "inet_val",
    "a": "inet_a",
    "r": "inet_r",
    "sketch": "inet_sketch",
    "v2": "inet_v2",
    "objectnet": "objectnet",
    "si_location": "si_location",
    "si_rotation": "si_rotation",
    "si_size": "si_size",
}
SPLIT_NAMES = {"train": "A", "other": "B"}  # classes used for finetuning and the others
SHIFTED_AVERAGE = "shifted_average"  # row that averages the seven shifted sets
METRICS = ("top1", "top5")
MASKS = ("annotated", "tokencut")
# Our name of a variant (05_ablations) -> its method in the stored tables. The paper prints the
# last two for top-5 alone.
VARIANT_METHODS = {
    "full": "ours",
    "no_background": "ours_wo_bg",
    "no_foreground": "ours_wo_fg",
    "no_classification": "ours_wo_classification",
    "ground_truth": "ours_ground_truth",
    "attention": "attention_instead_of_gae",
    "rollout": "rollout_instead_of_gae",
    "only_background": "only_bg",
    "only_foreground": "only_fg",
}
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
# Stored method -> the name of its row here. Ablations: as in 05_ablations.
_METHODS = {theirs: ours for ours, theirs in VARIANT_METHODS.items() if ours != "full"}
# The DINO tables have no `original` of DINO-B: what each row is compared with.
_DINO_REFERENCES = {
    "dino_linear": ("DeiT-B", ORIGINAL),
    "dino_finetuned": ("DeiT-B", ORIGINAL),
    OURS: ("DINO-B", "dino_finetuned"),
}
LINEAR, FINETUNED = "dino_linear", "dino_finetuned"
MAP_TABLES = ("main_T3", "supp_T12")


def robustness() -> pd.DataFrame:
    """Every published accuracy, in percent, one a row.

    Columns: paper, table, model, method, masks, train_classes (all, train, other), dataset,
    metric (top1, top5), value, std (in T8 and T9 alone, over three seeds).
    """
    return read_table("robustness").copy()


def averages() -> pd.DataFrame:
    """Averages over models as printed, in percentage points.

    Two disagree with the printed cells: T10 v2 top-1 of A, T11 location top-1 of B.
    """
    return read_table("averages").copy()


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
    """The rows of one or more stored tables, as printed.

    Source: RobustViT, all tables in CAPTIONS but T3 and supplement T12 (see
    `attribution.published_map_rows`). The AR-B rows of T10 are put in the order that the printed
    averages confirm (differences B22). A DINO row's reference is DeiT-B; that of ours on DINO-B is
    the finetuned DINO-B.
    Raises: ValueError for an unknown table.
    """
    known = [name for name in CAPTIONS if name not in MAP_TABLES]
    unknown = [name for name in tables if name not in known]
    if unknown:
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


def published_changes(masks: str = "annotated") -> pd.DataFrame:
    """Change of accuracy by the method, over the seven models, on each of the nine sets.

    Source: RobustViT T1 and T2, method minus original, in percentage points.
    Columns: dataset (our names, order of TEST_SETS), models, and for top1 and top5
    `change_*_pts` (mean), `change_*_min_pts`, `change_*_max_pts`.
    Raises: ValueError for masks other than annotated or tokencut.
    """
    if masks not in MASKS:
        raise ValueError(f"published_changes: masks {masks!r} is unknown; use one of {MASKS}")
    rows = _effects("main_T1", "main_T2")
    rows = rows[(rows["method"] == OURS) & (rows["masks"] == masks)]
    return _over_models(rows, ["dataset"]).loc[list(TEST_SETS)].reset_index()


def paper_variants(run: Collection[str]) -> dict[str, str]:
    """Our variants that the paper calls otherwise, where `run` names those that were run.

    Its full method has the confidence term. Where ours has labels, the variant `confidence` is what
    the paper calls full, and our full method its row with ground truth.
    """
    return {"confidence": "full", "full": "ground_truth"} if "confidence" in run else {}


def published_ablations(metric: str = "top1") -> pd.DataFrame:
    """Change of accuracy by each variant of the method, mean over ViT-B and DeiT-B.

    Source: RobustViT T4 and supplement T8 (top-1); T12 and supplement T9 (top-5); minus the
    original, in percentage points. Index: variant (our names); only_background and
    only_foreground are printed for top-5 alone. Columns: the nine sets, then shifted_average.
    Raises: ValueError for an unknown metric.
    """
    if metric not in METRICS:
        raise ValueError(f"published_ablations: metric {metric!r} is unknown; use one of {METRICS}")
    rows = _effects(*ABLATION_TABLES)
    rows = rows[(rows["metric"] == metric) & (rows["method"] != ORIGINAL)]
    rows = rows.drop_duplicates(["method", "model", "dataset"])
    mean = rows.groupby(["method", "dataset"])["change"].mean().unstack("dataset")[list(TEST_SETS)]
    mean[SHIFTED_AVERAGE] = mean[list(SHIFTED_SETS)].mean(axis=1)
    mean = mean.rename(index={OURS: "full"}).rename_axis(index="variant", columns=None)
    return mean.loc[[name for name in VARIANT_METHODS if name in mean.index]]


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


def _effects(*tables: str) -> pd.DataFrame:
    """The rows of tables, each with its `change` against the original in points."""
    rows = published_rows(*tables)
    return rows.assign(change=rows["value_pct"] - rows["reference_pct"])


def _over_models(rows: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    changes = rows.pivot(index=["model", *by], columns="metric", values="change")
    groups = changes.groupby(by)
    columns = {"models": groups.size()}
    for metric in METRICS:
        columns[f"change_{metric}_pts"] = groups[metric].mean()
        columns[f"change_{metric}_min_pts"] = groups[metric].min()
        columns[f"change_{metric}_max_pts"] = groups[metric].max()
    return pd.DataFrame(columns)


@cache
def read_table(name: str) -> pd.DataFrame:
    """A stored table as it is in the package; shared, so copy it before a change.

    Raises: FileNotFoundError for a name without a file.
    """
    path = files("relevit") / "assets" / "paper" / f"{name}.csv"
    if not path.is_file():
        raise FileNotFoundError(
            f"paper: {name}.csv is missing in the package; it holds published numbers: "
            "install relevit again"
        )
    with path.open("rb") as file:
        return pd.read_csv(file)
