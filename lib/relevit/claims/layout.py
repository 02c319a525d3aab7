"""RobustViT's tables in the paper's own form, for the paper's numbers and for ours.

All functions speak of *rows*: one number each, with the columns ROW; ours are made by
`relevit.claims.our_rows`. A row's effect is its value minus its reference, which is the original
model unless `published_rows` says otherwise. The same table has up to three names: its number
in the arXiv text, which we use, its number in the supplement, and an identifier in the stored
tables (see CAPTIONS).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

import pandas as pd

from relevit.claims.verdicts import signed
from relevit.data.cutouts import TEST_SETS
from relevit.models.registry import CUT, PAPER_MODELS, ROBUSTVIT
from relevit.paper import published as paper
from relevit.paper.attribution import published_perturbation, published_segmentation

KIND = ["model", "method", "masks", "classes"]
CELL = ["dataset", "metric"]
# value_pct, std_pts and reference_pct are in percent (points); seeds and lost count runs that
# are there and that are missing.
ROW = [*KIND, *CELL, "value_pct", "std_pts", "reference_pct", "seeds", "lost"]
ORIGINAL, OURS = "original", "ours"
ALL = "all"  # classes
MISSING, NOT_RUN = "missing", "–"
PRINTED_PTS = 0.05  # half of the last digit that the paper prints: a smaller change has no sign

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
# Stored method -> the name of its row here. Ablations: as in 08_ablations.
_METHODS = {theirs: ours for ours, theirs in paper.VARIANT_METHODS.items() if ours != "full"}
# The DINO tables have no `original` of DINO-B: what each row is compared with.
_DINO_REFERENCES = {
    "dino_linear": ("DeiT-B", ORIGINAL),
    "dino_finetuned": ("DeiT-B", ORIGINAL),
    OURS: ("DINO-B", "dino_finetuned"),
}
LINEAR, FINETUNED = "dino_linear", "dino_finetuned"
STANDS_FOR = "{} (for {})"  # our model that takes the place of one of the paper's
DIFFERENCE = "ours - paper"  # of the same model


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
    rows = paper.read_table("robustness")
    rows = rows[rows["table"].isin(tables)]
    if "arxiv_T10" in tables:
        resolved = paper.read_table("robustness_T10_ARB_resolved").drop(columns="order_taken_from")
        swapped = (rows["table"] == "arxiv_T10") & (rows["model"] == "AR-B")
        rows = pd.concat([rows[~swapped], resolved])
    names = {theirs: ours for ours, theirs in paper.PAPER_SETS.items()}
    rows = rows.replace({"dataset": names, "method": _METHODS})
    rows = rows.assign(
        classes=rows["train_classes"].replace(paper.SPLIT_NAMES),
        value_pct=rows["value"],
        std_pts=rows["std"],
        seeds=1,
        lost=0,
    )
    return with_reference(_with_originals(rows))


MAP_TABLES = ("main_T3", "supp_T12")


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


def layout(rows: pd.DataFrame, metrics: Iterable[str] = (), changes: bool = False) -> pd.DataFrame:
    """Rows in the paper's form: models and methods down, sets and metrics across; text.

    A cell is a percentage, ± std where there is one, `missing` where a run is missing, and a
    dash where none was meant to be. `changes` adds the effect in brackets, as T2 does. Rows of
    `beside` say whose they are.
    """
    rows = rows if not metrics else rows[rows["metric"].isin(list(metrics))]
    rows = rows.assign(cell=[_cell(row, changes) for row in rows.to_dict("records")])
    kinds = [name for name in KIND if rows[name].nunique() > 1 or name in KIND[:2]]
    kinds = ["source", *kinds] if "source" in rows else kinds
    wide = rows.pivot(index=kinds, columns=CELL, values="cell")
    order = rows[kinds].drop_duplicates().itertuples(index=False, name=None)
    columns = sorted(rows[CELL].drop_duplicates().itertuples(index=False, name=None), key=_place)
    wide = wide.reindex(index=pd.MultiIndex.from_tuples(list(order), names=kinds), columns=columns)
    if wide.columns.get_level_values("metric").nunique() == 1:
        wide.columns = wide.columns.get_level_values("dataset")
    elif wide.columns.get_level_values("dataset").nunique() == 1:
        wide.columns = wide.columns.get_level_values("metric")
    return wide.fillna(NOT_RUN)


def beside(published: pd.DataFrame, ours: pd.DataFrame) -> pd.DataFrame:
    """The paper's rows and then ours, for one `layout`; a column `source` tells them apart.

    Of ours only the columns (sets and metrics) that the paper has. Of the paper's own models
    follows the difference, ours minus paper, of each cell that both have.
    """
    printed = published[CELL].drop_duplicates()
    ours = ours.assign(model=[published_name(model) or model for model in ours["model"]])
    parts = [published.assign(source="paper"), ours.merge(printed, on=CELL).assign(source="ours")]
    both = ours.merge(
        published[[*KIND, *CELL, "value_pct"]], on=[*KIND, *CELL], suffixes=("", "_printed")
    )
    value = both["value_pct"] - both.pop("value_pct_printed")
    both = both.assign(value_pct=value, std_pts=math.nan, source=DIFFERENCE)
    return pd.concat([*parts, both] if len(both) else parts, ignore_index=True)


def side_by_side(
    published: pd.DataFrame, ours: pd.DataFrame, by_model: bool = False
) -> pd.DataFrame:
    """The effect of each kind of row in the paper and in our runs, and whether signs agree.

    One of the paper's own models is compared with itself, where its rows are there; any other
    with the mean over the paper's models. `by_model` compares each with the one it stands for
    alone (its name is in brackets, see STANDS_FOR), as the DINO tables need.
    Columns: model (ours), method, masks, classes, dataset, metric, paper_pts (mean over the
    paper's models), paper_min_pts, paper_max_pts, ours_pts, ours_std_pts, seeds, lost,
    sign_agrees (NaN where ours is missing or a change rounds to 0.0).
    """
    keys = [*KIND[1:], *CELL, "place"]
    places = {model: _place_of(model) for model in ours["model"].unique()}
    if not by_model:
        known = set(published["model"])
        places = {model: place if place in known else "" for model, place in places.items()}
    theirs = published.assign(pts=published["value_pct"] - published["reference_pct"])
    theirs = pd.concat([theirs.assign(place=theirs["model"]), theirs.assign(place="")])
    theirs = theirs.dropna(subset="pts").groupby(keys)["pts"].agg(["mean", "min", "max"])
    theirs.columns = ["paper_pts", "paper_min_pts", "paper_max_pts"]
    mine = ours.assign(ours_pts=ours["value_pct"] - ours["reference_pct"])
    mine = mine.assign(place=mine["model"].map(places)).rename(columns={"std_pts": "ours_std_pts"})
    both = mine.merge(theirs.reset_index(), on=keys)
    agrees = [_same_sign(*pair) for pair in zip(both["paper_pts"], both["ours_pts"], strict=True)]
    both["sign_agrees"] = pd.Series(agrees, dtype="object")
    columns = [*theirs.columns, "ours_pts", "ours_std_pts", "seeds", "lost", "sign_agrees"]
    return both[[*KIND, *CELL, *columns]]


def sign_table(side: pd.DataFrame, metric: str | None = "top1") -> pd.DataFrame:
    """`side_by_side` for a report: `paper | ours` in each cell.

    The last columns: how many signs agree, and our seeds (of the set with the fewest).
    """
    rows = side if metric is None else side[side["metric"] == metric]
    rows = rows.assign(cell=[_pair(row) for row in rows.to_dict("records")])
    kinds = [name for name in KIND if rows[name].nunique() > 1 or name in KIND[:2]]
    column = "dataset" if rows["dataset"].nunique() > 1 else "metric"
    wide = rows.pivot(index=kinds, columns=column, values="cell").fillna(NOT_RUN)
    order = sorted(wide.columns, key=lambda name: _place((name, "")))
    known = rows.dropna(subset="sign_agrees").groupby(kinds)["sign_agrees"]
    counts = pd.DataFrame({"yes": known.sum(), "of": known.size()}).reindex(wide.index).fillna(0)
    wide = wide[order]
    wide["sign agrees"] = [f"{int(yes)} of {int(of)}" for yes, of in counts.itertuples(index=False)]
    wide["seeds"] = rows.groupby(kinds)["seeds"].min()
    order = rows[kinds].drop_duplicates().itertuples(index=False, name=None)
    return wide.loc[list(order)].rename_axis(columns=None)


def _with_originals(rows: pd.DataFrame) -> pd.DataFrame:
    """Tables that print no originals of their own (supplement T9) take those of T12."""
    known = set(rows.loc[rows["method"] == ORIGINAL, "model"]) | {"DINO-B"}
    absent = [model for model in rows["model"].unique() if model not in known]
    if not absent:
        return rows
    source = published_rows("arxiv_T12")
    return pd.concat([source[(source["method"] == ORIGINAL) & source["model"].isin(absent)], rows])


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


def _place_of(model: str) -> str:
    """The paper's model that a row is compared with."""
    return published_name(model) or re.sub(r".*\(for (.*)\)$", r"\1", model)


def _place(cell: tuple[str, str]) -> tuple[int, int]:
    """Where a column stands: sets as in the paper, then metrics."""
    sets, metrics = list(TEST_SETS), [*paper.METRICS, "pixel_accuracy_pct", "miou_pct", "map_pct"]
    places = [
        order.index(name) if name in order else len(order)
        for order, name in zip((sets, metrics), cell, strict=True)
    ]
    return places[0], places[1]


def _cell(row: Mapping[str, float], changes: bool) -> str:
    if math.isnan(row["value_pct"]):
        return MISSING if row["lost"] else NOT_RUN
    if row.get("source") == DIFFERENCE:
        return signed(row["value_pct"])
    text = f"{row['value_pct']:.1f}"
    if not math.isnan(row["std_pts"]):
        text += f" ± {row['std_pts']:.1f}"
    change = row["value_pct"] - row["reference_pct"]
    return f"{text} ({signed(change)})" if changes and not math.isnan(change) else text


def _pair(row: Mapping[str, float]) -> str:
    ours = signed(row["ours_pts"]) if not math.isnan(row["ours_pts"]) else NOT_RUN
    ours = MISSING if ours == NOT_RUN and row["lost"] else ours
    return f"{signed(row['paper_pts'])} | {ours}"


def _same_sign(theirs: float, ours: float) -> bool | float:
    if math.isnan(ours) or min(abs(theirs), abs(ours)) < PRINTED_PTS:
        return math.nan
    return (theirs > 0) == (ours > 0)
