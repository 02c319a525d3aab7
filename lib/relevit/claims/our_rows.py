"""Our runs as rows of RobustViT's tables: the form of `relevit.claims.layout`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pandas as pd

from relevit.claims.layout import (
    ALL,
    CELL,
    FINETUNED,
    KIND,
    LINEAR,
    ORIGINAL,
    OURS,
    STANDS_FOR,
    published_name,
    with_reference,
)
from relevit.evaluate.predictions import accuracy_table
from relevit.paper import published as paper

# Columns that tell kinds of runs apart, in 03_comparison and in 08_ablations.
KINDS_OF_RUN = ("method", "protocol", "masks", "variant", "images_per_class", "classes")


def map_rows(table: pd.DataFrame, model: str) -> pd.DataFrame:
    """Our rows for T3 from `finetuned_segmentation`, or for T12 from `finetuned_perturbation`."""
    if "direction" in table:
        table = table.assign(
            metric=table["direction"].astype(str) + "_auc_pct",
            value_pct=table["auc_pct"],
            dataset="perturbation",
        )
    else:
        table = table.assign(dataset="segmentation")
    is_original = table["model_run"].astype(str) == ORIGINAL
    rows = table.assign(
        model=model,
        masks="none",
        classes=ALL,
        method=[ORIGINAL if o else OURS for o in is_original],
    )
    return with_reference(_over_runs(rows))


def run_rows(accuracies: pd.DataFrame, missing: Iterable[Mapping[str, str]] = ()) -> pd.DataFrame:
    """Our rows for T1, T2 and the DINO tables, means over seeds, from `03_comparison`.

    `accuracies` as in `claims_robustvit.SCHEMAS`; `missing` are that stage's missing runs
    (`run`: model.method.protocol.masks.seed). A kind of run that is missing altogether gets
    rows without a value. Methods: original, ours, gradmask, rrr, the baselines as described
    with their protocol, dino_linear and dino_finetuned.
    """
    lost = [LostRun.read(run["run"]) for run in missing]
    rows = _long(accuracies)
    rows["method"] = [
        row_name(*pair) for pair in zip(rows["method"], rows["protocol"], strict=True)
    ]
    rows["masks"] = rows["masks"].where(rows["masks"] != "", "none")
    rows = _over_runs(pd.concat([_originals(rows), rows]))
    for kind in dict.fromkeys(run.kind for run in lost):
        count = sum(run.kind == kind for run in lost)
        of_kind = (rows[KIND[:3]] == list(kind)).all(axis=1)
        rows.loc[of_kind, "lost"] = count
        if not of_kind.any():
            empty = rows[CELL].drop_duplicates()
            empty = empty.assign(**dict(zip(KIND, (*kind, ALL), strict=True)), seeds=0, lost=count)
            rows = pd.concat([rows, empty], ignore_index=True)
    return with_reference(rows)


def dino_rows(rows: pd.DataFrame, dino: str, supervised: str) -> pd.DataFrame:
    """Those rows of `run_rows` that the DINO tables have, compared as there.

    The models are called `ours (for theirs)`, which `side_by_side` understands, or by the
    paper's name where they are the paper's.
    """
    masks = rows["masks"].isin(["tokencut", "none"])
    chosen = rows["method"].isin([ORIGINAL, OURS, LINEAR]) & masks
    rows = rows[chosen & rows["model"].isin([dino, supervised])]
    own = (rows["model"] == dino) & (rows["method"] == ORIGINAL)
    rows = rows.assign(method=rows["method"].where(~own, FINETUNED))
    theirs = {dino: "DINO-B", supervised: "DeiT-B"}
    rows = with_reference(rows.replace({"model": theirs}))
    ours = {
        other: STANDS_FOR.format(own, other)
        for own, other in theirs.items()
        if published_name(own) != other
    }
    return rows.replace({"model": ours})


def variant_rows(ablations: pd.DataFrame) -> pd.DataFrame:
    """Our rows for T4, T12 and supplement T8, T9, means over seeds, from `08_ablations`."""
    rows = _long(ablations.assign(masks="annotated"))
    rows["method"] = rows["variant"].astype(str).replace({"full": OURS})
    return with_reference(_over_runs(pd.concat([_originals(rows), rows])))


def seed_rows(changes: pd.DataFrame, model: str) -> pd.DataFrame:
    """Our rows for T8 and T9 from `robustness.change_table`: mean and std over seeds."""
    parts = []
    for metric in paper.METRICS:
        common = {
            "model": model,
            "classes": ALL,
            "dataset": changes["dataset"],
            "metric": metric,
            "seeds": changes["seeds"],
            "lost": 0,
        }
        before, after = changes[f"original_{metric}_pct"], changes[f"ours_{metric}_pct"]
        std = changes[f"ours_{metric}_std_pct"]
        ours = {"method": OURS, "masks": "annotated", "value_pct": after, "std_pts": std}
        original = {"method": ORIGINAL, "masks": "none", "value_pct": before}
        parts += [pd.DataFrame(common | original), pd.DataFrame(common | ours)]
    return with_reference(pd.concat(parts, ignore_index=True))


def split_rows(
    predictions: pd.DataFrame, finetuned_classes: Mapping[str, list[int]], model: str
) -> pd.DataFrame:
    """Our rows for T10 and T11, means over seeds, from `03_robustness`.

    Arguments as `robustness.split_table`. Each seed has classes A of its own, so the original
    is evaluated on those of each seed too.
    """
    parts, runs = [], predictions["model_run"].astype(str)
    for seed, (run, labels) in enumerate(finetuned_classes.items()):
        for name, method in ((ORIGINAL, ORIGINAL), (run, OURS)):
            rows = predictions[runs == name]
            in_a = rows["label"].isin(labels)
            rows = rows.assign(classes=in_a.map({True: "A", False: "B"}))
            table = accuracy_table(rows, ["dataset", "classes"])
            masks = "none" if method == ORIGINAL else "annotated"
            parts.append(table.assign(model=model, method=method, masks=masks, seed=seed))
    return with_reference(_over_runs(_long(pd.concat(parts, ignore_index=True))))


def basis(table: pd.DataFrame) -> str:
    """What a table of runs rests on, by model: `tiny, 100 images a set, 1 to 2 seeds`.

    `table` is one of `claims_robustvit.SCHEMAS` with model, seed and images. Seeds are those of
    each kind of run.
    """
    kinds = [name for name in KINDS_OF_RUN if name in table]
    texts = []
    for model, rows in table.groupby("model", sort=False, observed=True):
        seeds = rows.groupby(kinds, observed=True)["seed"].nunique()
        images, seeds = _range(rows["images"]), _range(seeds)
        texts.append(f"{model}, {images} images a set, {seeds} seed{'s' * (seeds != '1')}")
    return "; ".join(texts) or "no run ended"


def _range(numbers: pd.Series) -> str:
    low, high = int(numbers.min()), int(numbers.max())
    return f"{low}" if low == high else f"{low} to {high}"


class LostRun(NamedTuple):
    """A run of the sweep without results, by the name of its folder."""

    model: str
    method: str
    protocol: str
    masks: str
    seed: str

    @classmethod
    def read(cls, name: str) -> LostRun:
        """From `model.method.protocol.masks.seedN`. Raises: ValueError for another form."""
        parts = name.split(".")
        if len(parts) != len(cls._fields):
            raise ValueError(f"LostRun: {name!r}; need model.method.protocol.masks.seedN")
        return cls(*parts)

    @property
    def kind(self) -> tuple[str, str, str]:
        return self.model, row_name(self.method, self.protocol), self.masks


def row_name(method: str, protocol: str) -> str:
    """What a run's row is called: the paper's name where it has one."""
    if method == "relevance":
        return OURS if protocol != "described" else f"{OURS}, {protocol}"
    if method == "linear_probe":
        return LINEAR
    return method if protocol == "published" else f"{method}, {protocol}"


def _long(accuracies: pd.DataFrame) -> pd.DataFrame:
    """One row a metric, with the reference where the table has the original's accuracy."""
    parts = []
    for metric in paper.METRICS:
        part = accuracies.assign(metric=metric, value_pct=accuracies[f"{metric}_pct"])
        if f"original_{metric}_pct" in accuracies:
            part["reference_pct"] = accuracies[f"original_{metric}_pct"]
        parts.append(part)
    rows = pd.concat(parts, ignore_index=True)
    rows["classes"] = rows["classes"] if "classes" in accuracies else ALL
    return rows.astype({name: str for name in ("model", "dataset", "masks") if name in rows})


def _originals(rows: pd.DataFrame) -> pd.DataFrame:
    """The original's rows, one a model and cell. They come first, as in the paper."""
    rows = rows.drop_duplicates(["model", *CELL])
    return rows.assign(method=ORIGINAL, masks="none", value_pct=rows["reference_pct"], seed=0)


def _over_runs(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean and std over runs; the std of the original's own rows is left out."""
    groups = rows.groupby([*KIND, *CELL], sort=False, observed=True)["value_pct"]
    table = pd.DataFrame(
        {"value_pct": groups.mean(), "std_pts": groups.std(), "seeds": groups.size(), "lost": 0}
    ).reset_index()
    is_original = table["method"] == ORIGINAL
    table.loc[is_original, ["std_pts", "seeds"]] = [math.nan, 1]
    return table
