"""Many attribution methods on the same images: their maps, and both tests of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import repeat

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor, nn

from relevit.attribution import (
    BASELINES,
    METHODS,
    VARIANTS,
    explain_all,
    method_options,
    patch_grid,
    to_heatmap,
)
from relevit.attribution.beyond_intuition import express_all
from relevit.base.device import Precision
from relevit.data.batch import Batch
from relevit.evaluate.perturbation import (
    AS_PUBLISHED,
    Erasing,
    auc_table,
    judged,
    perturbation_rows,
)
from relevit.evaluate.predictions import predict
from relevit.evaluate.segmentation import METRICS, segmentation_intervals, segmentation_rows
from relevit.models.spec import ModelSpec
from relevit.protocols import Protocol, options

PART = 500  # images tested at once, whatever their number: what they need fits in memory
BATCH = 20  # images explained at once; the maps do not depend on it beyond rounding
Maps = dict[str, Float[Tensor, "images patches"]]

# The rows of Beyond Intuition Table 4: perception, feedback.
ABLATION = (
    ("none", "integrated_gradient"),
    ("head_wise", "none"),
    ("head_wise", "gradient"),
    ("head_wise", "integrated_gradient"),
    ("last_attention", "integrated_gradient"),
    ("avg_attention", "integrated_gradient"),
    ("token_wise", "integrated_gradient"),
)


def shared_maps(
    model: nn.Module,
    spec: ModelSpec,
    images: UInt8[Tensor, "images 3 height width"],
    methods: Iterable[str] | None = None,
    *,
    target: Int[Tensor, " images"] | None = None,
    protocol: Protocol = "published",
    on_part: Callable[[int], object] = lambda count: None,
) -> Maps:
    """The maps of each method for each image, on the CPU; what they share is computed once.

    `methods` are all of METHODS where none are given. `target` has one class an image; None
    explains the predicted one. `on_part` hears how many images were done.
    Raises: ValueError without images, and as `explain_all`.
    """
    asked = tuple(METHODS if methods is None else methods)
    rule = partial(explain_all, model, methods=asked, protocol=protocol)
    return explained_by(model, spec, images, rule, target, on_part)


def pair_maps(
    model: nn.Module,
    spec: ModelSpec,
    pairs: Batch,
    methods: Iterable[str],
    protocol: Protocol = "published",
) -> dict[str, Float[Tensor, "pairs 2 patches"]]:
    """The maps of each method for the first and for the second class of each image of pairs.

    Raises: as `shared_maps`.
    """
    sides = [
        shared_maps(model, spec, pairs.images, methods, target=asked, protocol=protocol)
        for asked in pairs.labels.T
    ]
    return {name: torch.stack([side[name] for side in sides], dim=1) for name in sides[0]}


def single_differences(
    model: nn.Module, pixels: Float[Tensor, "images 3 height width"], methods: Iterable[str]
) -> pd.DataFrame:
    """What each difference between a paper's text and its code alone does to a method's map.

    A map as described, but for one option as published, against the map as described: Spearman's
    correlation of the patches, mean over the images, the lowest first. At 1 nothing changes.
    Columns: method, option, as published, same order.
    """
    moved = []
    for name in methods:
        rule, shared = METHODS[name], ("path",) if name in VARIANTS else ()
        described = pd.DataFrame(rule(model, pixels, protocol="described").cpu())
        for part in (name, *shared):
            for option, value in method_options(model, part, "published").items():
                made = rule(model, pixels, protocol="described", **{option: value}).cpu()
                order = described.corrwith(pd.DataFrame(made), axis=1, method="spearman")
                moved.append((name, option, str(value), order.mean()))
    columns = ["method", "option", "as published", "same order"]
    found = pd.DataFrame(moved, columns=columns).sort_values("same order", kind="stable")
    return found.reset_index(drop=True)


def outlining_maps(
    model: nn.Module,
    spec: ModelSpec,
    images: UInt8[Tensor, "images 3 height width"],
    maps: Mapping[str, Tensor],
    protocol: Protocol = "published",
) -> Maps:
    """`maps` as the segmentation test judges them, for the predicted class.

    Where its options are others than the perturbation test's, a map is made anew: the published GA
    begins at block 1 in the former and at block 2 in the latter (differences C2).
    """
    found = dict(maps)
    for name, own in options(protocol, "outlining").items():
        usual = method_options(model, name, protocol)
        if name in maps and usual | own != usual:
            rule = partial(METHODS[name], model, protocol=protocol, **own)
            found |= explained_by(model, spec, images, partial(_named, name, rule), None)
    return found


def ablation_maps(
    model: nn.Module,
    spec: ModelSpec,
    images: UInt8[Tensor, "images 3 height width"],
    protocol: Protocol = "published",
) -> Maps:
    """Maps of the rows of ABLATION for the predicted class, under `perception|feedback`."""
    rules = {name: method_options(model, name, protocol) for name, _ in ABLATION}
    how = {"pairs": ABLATION, "rules": rules, "protocol": protocol}

    def rows(pixels: Tensor, target: None) -> Maps:
        made = express_all(model, pixels, target, **how)
        return dict(zip(map("|".join, ABLATION), made, strict=True))

    return explained_by(model, spec, images, rows, None)


def right_answers(model: nn.Module, spec: ModelSpec, batch: Batch) -> Float[np.ndarray, " images"]:
    """Whether each answer is right: 1 or 0, and NaN where the class is unknown (label -1)."""
    known = batch.labels >= 0
    right = np.full(len(batch), np.nan)
    if bool(known.any()):
        answers = predict(model, spec, batch.select(known).split(BATCH))
        right[known.numpy()] = answers["label_rank"] == 0
    return right


def segmentation_table(
    maps: Mapping[str, Tensor],
    masks: Bool[Tensor, "images 1 height width"],
    grid: tuple[int, int],
    protocol: Protocol = "published",
) -> pd.DataFrame:
    """Segmentation test of each method: method, metric, value_pct, low_pct, high_pct.

    The interval is over images. `grid` is of patches (`patch_grid`).
    """
    figures = options(protocol, "segmentation_rows")
    parts = []
    for name, values in maps.items():
        pairs = zip(values.float().split(PART), masks.split(PART), strict=True)
        rows = pd.concat(
            segmentation_rows(to_heatmap(some, masks.shape[-2:], grid), truth, **figures)
            for some, truth in pairs
        )
        parts.append(segmentation_intervals(rows).assign(method=name))
    table = pd.concat(parts, ignore_index=True)
    return table[["method", "metric", "value_pct", "low_pct", "high_pct"]]


def perturb(
    model: nn.Module,
    spec: ModelSpec,
    batch: Batch,
    maps: Mapping[str, Tensor],
    erasing: Erasing = AS_PUBLISHED,
    *,
    explained: Int[Tensor, " images"] | None = None,
    precision: Precision | None = None,
    on_method: Callable[[], object] = lambda: None,
) -> pd.DataFrame:
    """The rows of `perturbation_rows` for each method on the same images, with its name."""
    parts = []
    for name, values in maps.items():
        rows = perturbation_rows(
            model,
            spec.normalise,
            judged(batch.images, values, batch.labels, explained),
            patch_grid(model, batch.images),
            erasing,
            precision=precision,
        )
        parts.append(rows.assign(method=name))
        on_method()
    return pd.concat(parts, ignore_index=True)


def perturb_by_label(
    model: nn.Module,
    spec: ModelSpec,
    batch: Batch,
    rows: pd.DataFrame,
    erasing: Erasing = AS_PUBLISHED,
    *,
    protocol: Protocol = "published",
    precision: Precision | None = None,
) -> pd.DataFrame:
    """The rows of `perturb` had every map been for the label instead of the predicted class.

    Where the answer on the whole image is right these are the same maps, so only the images
    answered wrongly are explained and erased anew. Arguments as for `rows` themselves.
    """
    whole = rows[(rows["share_pct"] == 0) & ~rows["hit"]]
    wrong = sorted(whole["index"].unique().tolist())
    if not wrong:
        return rows
    part = batch.select(wrong)
    methods = rows["method"].unique()
    maps = shared_maps(model, spec, part.images, methods, target=part.labels, protocol=protocol)
    anew = perturb(model, spec, part, maps, erasing, explained=part.labels, precision=precision)
    anew["index"] = anew["index"].map(dict(enumerate(wrong)))
    return pd.concat([rows[~rows["index"].isin(wrong)], anew], ignore_index=True)


def area_table(rows: pd.DataFrame, protocol: Protocol = "published") -> pd.DataFrame:
    """Areas under the curves of `perturb`, by the options of `auc_weights` that `protocol` names.

    Columns: method, direction, images, auc_pct, low_pct, high_pct.
    """
    rule = options(protocol, "auc_weights")
    tables = {name: auc_table(own, **rule) for name, own in rows.groupby("method", sort=False)}
    return pd.concat(tables, names=["method"]).reset_index("method").reset_index(drop=True)


def ablation_table(segmentation: pd.DataFrame, areas: pd.DataFrame) -> pd.DataFrame:
    """Both tests of `ablation_maps` in the form of Beyond Intuition Table 4, one row each.

    Columns: perception, feedback, the four METRICS, and for each direction `*_auc_pct` and the
    ends of its interval, `*_low_pct` and `*_high_pct`.
    """
    scores = segmentation.pivot(index="method", columns="metric", values="value_pct")
    wide = areas.pivot(index="method", columns="direction")[["auc_pct", "low_pct", "high_pct"]]
    wide.columns = [f"{direction}_{name}" for name, direction in wide.columns]
    table = scores[list(METRICS)].join(wide)
    table = table.loc[[f"{perception}|{feedback}" for perception, feedback in ABLATION]]
    names = pd.DataFrame(ABLATION, columns=["perception", "feedback"], index=table.index)
    return names.join(table).reset_index(drop=True)


def _named(name: str, method: Callable[..., Tensor], pixels: Tensor, target: Tensor | None) -> Maps:
    return {name: method(pixels, target)}


def explained_by(
    model: nn.Module,
    spec: ModelSpec,
    images: UInt8[Tensor, "images 3 height width"],
    rule: Callable[[Tensor, Tensor | None], dict[str, Tensor]],
    target: Int[Tensor, " images"] | None,
    on_part: Callable[[int], object] = lambda count: None,
) -> dict[str, Tensor]:
    """What `rule` makes of normalised images and their classes, BATCH at once; on the CPU.

    Raises: ValueError without images.
    """
    if not len(images):
        raise ValueError("maps: no images to explain; give at least one")
    device = next(model.parameters()).device
    classes = repeat(None) if target is None else target.to(device).split(BATCH)
    parts = []
    for some, wanted in zip(images.split(BATCH), classes, strict=False):
        made = rule(spec.normalise(some.to(device)), wanted)
        parts.append({name: values.cpu() for name, values in made.items()})
        on_part(len(some))
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def leads(areas: pd.DataFrame) -> pd.DataFrame:
    """By how much Beyond Intuition's variants lead the best baseline in each area, in points.

    `areas` has model, method, target, direction, auc_pct, low_pct and high_pct. Above 0 is better
    in both directions. Half of the interval is the root of both squared halves. A variant of which
    no baseline was run has no row. Columns: model, method, target, direction, best, lead_pts,
    low_pts, high_pts.
    """
    keys = ["model", "target", "direction"]
    sign = areas["direction"].map({"positive": -1.0, "negative": 1.0})
    half = (areas["high_pct"] - areas["low_pct"]) / 2
    signed = areas.assign(score=areas["auc_pct"] * sign, half=half)
    others = signed[signed["method"].isin(BASELINES)].reset_index(drop=True)
    best = others.loc[others.groupby(keys)["score"].idxmax()].rename(columns={"method": "best"})
    both = signed[signed["method"].isin(VARIANTS)].merge(best, on=keys, suffixes=("", "_best"))
    lead, half = both["score"] - both["score_best"], np.hypot(both["half"], both["half_best"])
    both = both.assign(lead_pts=lead, low_pts=lead - half, high_pts=lead + half)
    columns = ["model", "method", "target", "direction", "best", "lead_pts", "low_pts", "high_pts"]
    return both[columns].reset_index(drop=True)
