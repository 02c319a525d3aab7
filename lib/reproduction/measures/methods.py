"""Many attribution methods on the same images: their maps, and both tests of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import repeat
from typing import NamedTuple

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
from relevit.attribution.methods import OURS, check_known
from relevit.base.device import at_once
from relevit.data.batch import Batch
from relevit.evaluate.intervals import estimate, mean_interval
from relevit.evaluate.looking import foreground_iou_pct
from relevit.evaluate.perturbation import (
    AS_PUBLISHED,
    Erasing,
    accuracy_curves,
    auc_table,
    image_auc_pct,
    judged,
    perturbation_rows,
)
from relevit.evaluate.predictions import predict
from relevit.evaluate.segmentation import (
    METRICS,
    image_values,
    segmentation_intervals,
    segmentation_rows,
)
from relevit.models.spec import ModelSpec
from relevit.protocols import Protocol, options
from reproduction.measures.paired import ORIGINAL
from reproduction.measures.undisturbed import undisturbed

PART = 500  # images tested at once, whatever their number: what they need fits in memory
BATCH = 20  # images explained at once (`at_once`)
Maps = dict[str, Float[Tensor, "images patches"]]

IN_WORDS = {  # the numbers of both tests
    **dict(zip(METRICS, ("pixel accuracy", "mIoU", "mAP", "mF1"), strict=True)),
    "positive": "area, most relevant first",
    "negative": "area, least relevant first",
}

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
) -> Maps:
    """The maps of each method for each image, on the CPU; what they share is computed once.

    `methods` are all of METHODS where none are given. `target` has one class an image; None
    explains the predicted one. A method that somebody has added meets copies of the model, so that
    it cannot move the others (`undisturbed`).
    Raises: as `explain_all`.
    """
    asked = check_known(METHODS if methods is None else methods)
    kept = partial(explain_all, model, methods=[n for n in asked if n in OURS], protocol=protocol)
    added = {
        name: undisturbed(model, partial(METHODS[name], protocol=protocol), set())
        for name in asked
        if name not in OURS
    }

    def rule(pixels: Tensor, wanted: Tensor | None) -> Maps:
        found = kept(pixels, wanted) | {name: of(pixels, wanted) for name, of in added.items()}
        return {name: found[name] for name in asked}

    return explained_by(model, spec, images, rule, target)


def chance_maps(images: int, patches: int) -> Float[Tensor, "images patches"]:
    """Maps that know nothing: each image has a random order of its own, the same in every run."""
    return torch.rand(images, patches, generator=torch.Generator().manual_seed(0))


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
    how = {"methods": tuple(methods), "protocol": protocol}
    sides = [
        shared_maps(model, spec, pairs.images, target=asked, **how) for asked in pairs.labels.T
    ]
    return {name: torch.stack([side[name] for side in sides], dim=1) for name in sides[0]}


def single_differences(
    model: nn.Module, pixels: Float[Tensor, "images 3 height width"], methods: Iterable[str]
) -> pd.DataFrame:
    """What each difference between a paper's text and its code alone does to a method's map.

    A map as described, but for one option as published, against the map as described: Spearman's
    correlation of the patches, mean over the images with its 95 % interval, the lowest first. At 1
    nothing changes. `told from the first` is `yes` where the interval of the difference to the
    first row, image by image, is above 0; of that itself it is empty.
    Columns: method, option, as published, same order, from, to, told from the first.
    """
    moved, orders = [], []
    for name in methods:
        rule, shared = METHODS[name], ("path",) if name in VARIANTS else ()
        described = pd.DataFrame(rule(model, pixels, protocol="described").cpu())
        for part in (name, *shared):
            for option, value in method_options(model, part, "published").items():
                made = rule(model, pixels, protocol="described", **{option: value}).cpu()
                order = described.corrwith(pd.DataFrame(made), axis=1, method="spearman")
                moved.append((name, option, str(value), order.mean(), *_ends(order)))
                orders.append(order)
    columns = ["method", "option", "as published", "same order", "from", "to"]
    found = pd.DataFrame(moved, columns=columns).sort_values("same order", kind="stable")
    apart = [_ends(orders[place] - orders[found.index[0]])[0] > 0 for place in found.index]
    found["told from the first"] = ["", *("yes" if one else "no" for one in apart[1:])]
    return found.reset_index(drop=True)


def _ends(order: pd.Series) -> tuple[float, float]:
    return mean_interval(torch.tensor(order.dropna().to_numpy()), (-1.0, 1.0))


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
            made = explained_by(model, spec, images, lambda *of, rule=rule: {"": rule(*of)}, None)
            found[name] = made[""]
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
    parts = [
        segmentation_intervals(_outlined(values, masks, grid, protocol)).assign(method=name)
        for name, values in maps.items()
    ]
    table = pd.concat(parts, ignore_index=True)
    return table[["method", "metric", "value_pct", "low_pct", "high_pct"]]


def segmentation_by_image(
    maps: Mapping[str, Tensor],
    masks: Bool[Tensor, "images 1 height width"],
    grid: tuple[int, int],
    protocol: Protocol = "published",
) -> pd.DataFrame:
    """The mIoU in percent that `segmentation_table` has the mean of: a row an image, a column a
    method."""
    found = {name: _outlined(values, masks, grid, protocol) for name, values in maps.items()}
    return pd.DataFrame({name: image_values(rows)["miou_pct"] for name, rows in found.items()})


def _outlined(
    values: Tensor, masks: Tensor, grid: tuple[int, int], protocol: Protocol
) -> pd.DataFrame:
    """The rows of `segmentation_rows` of a method's maps."""
    figures = options(protocol, "segmentation_rows")
    pairs = zip(values.float().split(PART), masks.split(PART), strict=True)
    return pd.concat(
        segmentation_rows(to_heatmap(some, masks.shape[-2:], grid), truth, **figures)
        for some, truth in pairs
    )


def perturb(
    model: nn.Module,
    spec: ModelSpec,
    batch: Batch,
    maps: Mapping[str, Tensor],
    erasing: Erasing = AS_PUBLISHED,
    *,
    explained: Int[Tensor, " images"] | None = None,
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
        )
        parts.append(rows.assign(method=name))
    return pd.concat(parts, ignore_index=True)


def perturb_by_label(
    model: nn.Module,
    spec: ModelSpec,
    batch: Batch,
    rows: pd.DataFrame,
    erasing: Erasing = AS_PUBLISHED,
    *,
    protocol: Protocol = "published",
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
    anew = perturb(model, spec, part, maps, erasing, explained=part.labels)
    anew["index"] = anew["index"].map(dict(enumerate(wrong)))
    return pd.concat([rows[~rows["index"].isin(wrong)], anew], ignore_index=True)


def area_table(rows: pd.DataFrame, protocol: Protocol = "published") -> pd.DataFrame:
    """Areas under the curves of `perturb`, by the options of `auc_weights` that `protocol` names.

    Columns: method, direction, images, auc_pct, low_pct, high_pct.
    """
    rule = options(protocol, "auc_weights")
    tables = {name: auc_table(own, **rule) for name, own in rows.groupby("method", sort=False)}
    return pd.concat(tables, names=["method"]).reset_index("method").reset_index(drop=True)


def area_by_image(rows: pd.DataFrame, protocol: Protocol = "published") -> pd.DataFrame:
    """What `area_table` has the mean of: a row an image, a column a direction and method."""
    rule = options(protocol, "auc_weights")
    areas = [image_auc_pct(own, **rule).assign(method=name) for name, own in rows.groupby("method")]
    return pd.concat(areas).pivot(index="index", columns=["direction", "method"], values="auc_pct")


def maps_of_both(
    model: nn.Module,
    spec: ModelSpec,
    outlined: Batch,
    erased: Batch,
    methods: Iterable[str],
    *,
    protocol: Protocol = "published",
) -> tuple[Maps, dict[str, Float[Tensor, "erased patches"]]]:
    """Maps of the images to outline and of those to erase, as `shared_maps`.

    Where the latter are the first of the former, each is explained once.
    """
    how = {"methods": tuple(methods), "protocol": protocol}
    found, count = shared_maps(model, spec, outlined.images, **how), len(erased)
    if torch.equal(outlined.images[:count], erased.images):
        return found, {name: maps[:count] for name, maps in found.items()}
    return found, shared_maps(model, spec, erased.images, **how)


class Tested(NamedTuple):
    """What the tests of both papers say of one model's maps."""

    maps: Float[Tensor, "images patches"]  # of the images to outline
    images: pd.DataFrame  # a row an image to outline: iou_pct, and right (as `right_answers`)
    answers: pd.DataFrame  # rows of `perturb`
    areas: pd.DataFrame  # `area_table` of them


def gae_tests(
    model: nn.Module,
    spec: ModelSpec,
    outlined: Batch,
    erased: Batch,
    erasing: Erasing = AS_PUBLISHED,
    *,
    protocol: Protocol = "published",
) -> Tested:
    """GAE's maps for the predicted class: do they outline the object, does the model need them?"""
    both = maps_of_both(model, spec, outlined, erased, ["gae"], protocol=protocol)
    maps, to_erase = (each["gae"] for each in both)
    grid = patch_grid(model, outlined.images)
    heat = to_heatmap(maps, tuple(outlined.images.shape[-2:]), grid)
    overlap = foreground_iou_pct(heat, outlined.masks).numpy()
    images = pd.DataFrame({"iou_pct": overlap, "right": right_answers(model, spec, outlined)})
    answers = perturb(model, spec, erased, {"gae": to_erase}, erasing)
    return Tested(maps, images, answers, area_table(answers, protocol))


def tables_of_runs(
    tested: Mapping[str, Tested],
    masks: Bool[Tensor, "images 1 height width"],
    grid: tuple[int, int],
    protocol: Protocol = "published",
) -> dict[str, pd.DataFrame]:
    """`gae_tests` of the original and of finetuned runs as the tables that a notebook writes.

    `finetuned_segmentation` is a `segmentation_table`, `finetuned_perturbation` an `area_table`,
    `finetuned_images` has iou_pct and right of each image, `finetuned_changes` are
    `changes_by_image`; all with model_run.
    """
    maps = {run: each.maps for run, each in tested.items()}
    outlines = segmentation_table(maps, masks, grid, protocol)
    areas = [each.areas.assign(model_run=run) for run, each in tested.items()]
    images = {run: each.images for run, each in tested.items()}
    return {
        "finetuned_segmentation": outlines.rename(columns={"method": "model_run"}),
        "finetuned_perturbation": pd.concat(areas, ignore_index=True),
        "finetuned_images": pd.concat(images, names=["model_run", "index"]).reset_index(),
        "finetuned_changes": changes_by_image(tested, masks, grid, protocol),
    }


def changes_by_image(
    tested: Mapping[str, Tested],
    masks: Bool[Tensor, "images 1 height width"],
    grid: tuple[int, int],
    protocol: Protocol = "published",
) -> pd.DataFrame:
    """What finetuning changes in each test, image by image.

    Columns: model_run, metric (of IN_WORDS), index, before_pct, change_pts.
    """
    rule, values = options(protocol, "auc_weights"), {}
    for run, each in tested.items():
        areas = image_auc_pct(each.answers, **rule)
        areas = areas.pivot(index="index", columns="direction", values="auc_pct")
        outlined = image_values(_outlined(each.maps, masks, grid, protocol))
        values[run] = outlined | {name: area.to_numpy() for name, area in areas.items()}
    original = values.pop(ORIGINAL)
    parts = [
        pd.DataFrame({"before_pct": original[name], "change_pts": each[name] - original[name]})
        .rename_axis("index")
        .reset_index()
        .assign(model_run=run, metric=name)
        for run, each in values.items()
        for name in IN_WORDS
    ]
    columns = ["model_run", "metric", "index", "before_pct", "change_pts"]
    return pd.concat(parts, ignore_index=True)[columns]


def finetuning_changes(changes: pd.DataFrame) -> pd.DataFrame:
    """`changes_by_image` in words: the original, the mean of the finetuned runs, and the change.

    With its 95 % interval over runs and images.
    """
    rows = {}
    for name, words in IN_WORDS.items():
        part = changes[changes["metric"] == name]
        before = part["before_pct"].mean()
        change = estimate(
            [part.pivot(index="model_run", columns="index", values="change_pts").to_numpy()]
        )
        told = f"{change.mean:+z.1f} ({change.low:+z.1f} to {change.high:+z.1f})"
        rows[words] = (round(before, 1), round(before + change.mean, 1), told)
    columns = ["before, %", "after, %", "change, points"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def curves_of(answers: pd.DataFrame) -> pd.DataFrame:
    """The `accuracy_curves` of each method of `perturb`, with its name."""
    rows = answers.groupby("method", sort=False)
    return pd.concat([accuracy_curves(part).assign(method=name) for name, part in rows])


def area_tables(answers: pd.DataFrame, by: list[str], protocol: Protocol) -> pd.DataFrame:
    """The `area_table` of each kind of answers, with the columns `by` that tell it."""
    parts = [
        area_table(rows, protocol).assign(**dict(zip(by, kind, strict=True)))
        for kind, rows in answers.groupby(by, sort=False)
    ]
    return pd.concat(parts, ignore_index=True)


def ablation_table(segmentation: pd.DataFrame, areas: pd.DataFrame) -> pd.DataFrame:
    """Both tests of `ablation_maps` in the form of Beyond Intuition Table 4, one row each.

    Columns: perception, feedback, the four METRICS and for each direction `*_auc_pct`, each with
    the ends of its interval over images, `*_low_pct` and `*_high_pct`.
    """
    scores = segmentation.rename(columns={"value_pct": "pct"})
    scores = scores.assign(metric=scores["metric"].str.removesuffix("_pct"))
    parts = []
    for rows, kind, value in ((scores, "metric", "pct"), (areas, "direction", "auc_pct")):
        wide = rows.pivot(index="method", columns=kind)[[value, "low_pct", "high_pct"]]
        parts.append(wide.set_axis([f"{of}_{name}" for name, of in wide.columns], axis=1))
    table = pd.concat(parts, axis=1)
    table = table.loc[[f"{perception}|{feedback}" for perception, feedback in ABLATION]]
    names = pd.DataFrame(ABLATION, columns=["perception", "feedback"], index=table.index)
    return names.join(table).reset_index(drop=True)


def explained_by(
    model: nn.Module,
    spec: ModelSpec,
    images: UInt8[Tensor, "images 3 height width"],
    rule: Callable[[Tensor, Tensor | None], dict[str, Tensor]],
    target: Int[Tensor, " images"] | None,
) -> dict[str, Tensor]:
    """What `rule` makes of normalised images and their classes, BATCH at once; on the CPU."""
    device = next(model.parameters()).device
    size, parts = at_once(BATCH, device), []
    classes = repeat(None) if target is None else target.to(device).split(size)
    for some, wanted in zip(images.split(size), classes, strict=False):
        made = rule(spec.normalise(some.to(device)), wanted)
        parts.append({name: values.cpu() for name, values in made.items()})
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
