"""How much a model leans on context: the same objects on other backgrounds, and gone.

Source: the backgrounds challenge of Xiao et al. 2020, Noise or Signal, on images of one's own with
masks. A pasted object has a seam, and its new background the fill of another object. So what is
compared has both on both sides: the *background gap* is top-1 on the backgrounds of the same class
less that on those of others. Models that do not lean have one, too (NULLS_PTS): the *lean* is what
is left without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, interpolate

from relevit.data.batch import Batch
from relevit.data.filling import GREY, fit_for_swap, without_objects
from relevit.evaluate.answering import Answers, prediction_gap
from relevit.evaluate.intervals import PERCENT, mean_interval
from relevit.evaluate.predictions import BATCH
from relevit.models.spec import ModelSpec

# What each image is shown as.
CONDITIONS = {
    "original": "as it is",
    "control": "object on its own background, filled in",
    "same": "object on the background of another image of its class",
    "other": "object on the background of another class",
    "grey": "object on grey",
    "blurred": "object on its own background, blurred",
    "filled": "object painted over",
}
BLUR = 8  # fields a side whose means are left of a blurred background
# The gap of models that do not lean, by whose masks: they trust a pasted object less and its
# background more. By how much an audit read more than the true gap, mean over models whose true one
# is 2 points or less, and half of the 95 % interval of the next model's (docs/audit.md, measured on
# drawings: docs/results/audit_known.csv). Boxes have none: theirs are larger than most leans.
NULLS_PTS = {"annotated": (4.8, 4.5), "tokencut": (9.9, 6.1)}
MATTERS_PTS = 10.0  # a model that leans by less does not lean
FINEST_PTS = 2.0  # half of the narrowest interval that more images are worth

Images = UInt8[Tensor, "images 3 height width"]
Masks = Bool[Tensor, "images 1 height width"]
Labels = Int[Tensor, " images"]
MaskSource = Literal["annotated", "boxes", "tokencut"]
Verdict = Literal["leans", "does not lean", "undecided"]


class Interval(NamedTuple):
    """A mean over images and the ends of its 95 % interval."""

    images: int
    value: float
    low: float
    high: float


@torch.inference_mode()
def lean_rows(
    model: nn.Module,
    spec: ModelSpec,
    images: Images,
    masks: Masks,
    labels: Labels,
    *,
    seed: int = 0,
) -> pd.DataFrame:
    """What the model answers to each image under each of CONDITIONS, a row each.

    Images as `spec` has them in its view, 0 to 255; masks are True on the object.
    Columns: image (its place), label, condition, answer, right, probability (of the right class, 0
    to 1) and logit: of the class answered for the original, less the mean over the classes, and
    less the same of a grey picture, so that 0 is what the model says where there is nothing.
    Answers are those of float32 (`Answers`).
    Raises: as `shown_as`; ValueError for a head with one output.
    """
    logits_of = _logits_of(model, spec)
    nothing = logits_of(torch.full_like(images[:1], round(GREY)))
    answered, parts = torch.zeros(len(images), dtype=torch.int64), []
    for condition, places, pictures in shown_as(images, masks, labels, seed=seed):
        logits = logits_of(pictures)
        right, answers = labels[places].cpu(), logits.argmax(dim=1)
        if condition == "original":
            answered[places] = answers
        values = {
            "image": places,
            "label": right,
            "answer": answers,
            "right": answers == right,
            "probability": logits.softmax(dim=1).gather(1, right[:, None])[:, 0],
            "logit": (logits - nothing).gather(1, answered[places, None])[:, 0],
        }
        part = pd.DataFrame({name: value.numpy() for name, value in values.items()})
        part.insert(2, "condition", condition)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def shown_as(
    images: Images, masks: Masks, labels: Labels, *, seed: int = 0
) -> Iterator[tuple[str, Int[Tensor, " shown"], UInt8[Tensor, "shown 3 height width"]]]:
    """The images under each of CONDITIONS, BATCH at a time: (condition, their places, pictures).

    Images without an object, or without a background to fill in from, are left out; the only one of
    its class is not shown as `same`. `seed` draws whose backgrounds are taken: `lenders`.
    Raises: as `lenders`.
    """
    batch, behind = Batch(images.cpu(), masks.cpu(), labels.cpu()), images.cpu().clone()
    of = lenders(images, masks, labels, seed=seed)
    own = (of["other"] >= 0).nonzero()[:, 0]
    for places in own.split(BATCH):
        filled = without_objects(batch.images[places], batch.masks[places])
        behind[places] = filled.round().byte()
    for condition in CONDITIONS:
        whose = of.get(condition, torch.arange(len(batch)))
        shown_here = own[whose[own] >= 0]  # none, where no class has two images
        for places in shown_here.split(BATCH) if len(shown_here) else ():
            shown = batch.select(places)
            yield condition, places, _composed(condition, shown, behind[whose[places]])


def lenders(images: Images, masks: Masks, labels: Labels, *, seed: int = 0) -> dict[str, Labels]:
    """Whose background each image gets as `same` and as `other`: their places, -1 for none.

    Raises: ValueError where fewer than two classes are left.
    """
    batch = Batch(images.cpu(), masks.cpu(), labels.cpu())
    fit = torch.cat([fit_for_swap(part) for part in batch.split(BATCH)])
    if (classes := len(batch.labels[fit].unique())) < 2:
        raise ValueError(
            f"lean: {int(fit.sum())} of {len(images)} images have an object and a background "
            f"beside it, of classes: {classes}; give such images of two classes or more"
        )
    rng = np.random.default_rng(seed)
    return {same: _others(batch.labels, fit, same == "same", rng) for same in ("same", "other")}


def _others(
    labels: Labels, fit: Bool[Tensor, " images"], same: bool, rng: np.random.Generator
) -> Int[Tensor, " images"]:
    """Another image of the same class for each, or one of any other; -1 where there is none."""
    drawn = torch.full_like(labels, -1)
    for place in fit.nonzero()[:, 0].tolist():
        there = fit & ((labels == labels[place]) == same)
        there[place] = False
        if there.any():
            drawn[place] = int(rng.choice(there.nonzero()[:, 0].numpy()))
    return drawn


def _composed(condition: str, shown: Batch, behind: Images) -> Images:
    """The images as the condition shows them; `behind` are the backgrounds, filled in."""
    if condition in ("original", "filled"):
        return shown.images if condition == "original" else behind
    ground = behind.float()
    if condition == "grey":
        ground = torch.full_like(ground, GREY)
    if condition == "blurred":
        fields, size = adaptive_avg_pool2d(ground, BLUR), ground.shape[-2:]
        ground = interpolate(fields, size, mode="bilinear", align_corners=False)
    over = shown.masks.float()
    return (over * shown.images + (1 - over) * ground).round().byte()


def _logits_of(
    model: nn.Module, spec: ModelSpec
) -> Callable[[Images], Float[Tensor, "images classes"]]:
    """What gives the logits of pictures, less their mean, which no answer depends on."""
    answers = Answers(model)

    def logits_of(pictures: Images) -> Float[Tensor, "images classes"]:
        pixels = spec.normalise(pictures, like=answers.like)
        logits = answers(pixels, prediction_gap).double()
        return logits - logits.mean(dim=1, keepdim=True)

    return logits_of


# What the rows say


def condition_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Top-1 under each condition, in percent, with its interval, and the mean probability.

    Columns: condition, images, top1_pct, low_pct, high_pct, probability_pct (of the right class).
    """
    found = []
    for condition, part in rows.groupby("condition", sort=False):
        right = 100.0 * part["right"].to_numpy(dtype=float)
        ends = mean_interval(torch.from_numpy(right), PERCENT)
        mean = 100 * part["probability"].mean()
        found.append((condition, len(part), right.mean(), *ends, mean))
    columns = ["condition", "images", "top1_pct", "low_pct", "high_pct", "probability_pct"]
    return pd.DataFrame(found, columns=columns)


def background_gap(rows: pd.DataFrame) -> Interval:
    """Top-1 on backgrounds of the same class less that on those of others, in points.

    Paired image by image. The interval has one more image of either kind of change (Bonett and
    Price 2012), so that a few images without any do not have one of no width.
    Raises: ValueError where no image has both.
    """
    right = rows.pivot(index="image", columns="condition", values="right").astype(float)
    change = 100 * (right["same"] - right["other"]).dropna().to_numpy() if "same" in right else []
    if not len(change):
        raise ValueError("lean: no class has two images; give at least two images of a class")
    ends = mean_interval(torch.from_numpy(np.append(change, [100.0, -100.0])))
    return Interval(len(change), float(np.mean(change)), *np.clip(ends, -100, 100).tolist())


def class_gaps(rows: pd.DataFrame) -> pd.DataFrame:
    """The same of each class that has two images or more, the one that leans most first.

    Columns: label, images, top1_pct (as they are), filled_pct (painted over), gap_pts, low_pts,
    high_pts.
    """
    found = []
    for label, part in rows.groupby("label"):
        if not (part["condition"] == "same").any():
            continue
        top1 = 100 * part.groupby("condition")["right"].mean()
        images, *gap = background_gap(part)
        found.append((label, images, top1["original"], top1["filled"], *gap))
    columns = ["label", "images", "top1_pct", "filled_pct", "gap_pts", "low_pts", "high_pts"]
    table = pd.DataFrame(found, columns=columns)
    order = ["gap_pts", "filled_pct"]
    return table.sort_values(order, ascending=False, kind="stable", ignore_index=True)


def background_share(rows: pd.DataFrame) -> Interval | None:
    """How much of the answer's logit the background carries, in percent, over all images.

    Source: Shapley's value of two players. The background's is the mean of what it adds to the
    object on grey and what it has alone, with the object painted over. Of the whole, which is the
    control, the object has the rest. Shares may lie outside of 0 to 100. None where the whole is no
    more than chance: there is nothing to share. The interval is that of a ratio of means (the
    linear part of its error).
    """
    logit = rows.pivot(index="image", columns="condition", values="logit")
    whole = logit["control"].to_numpy(copy=True)
    part = (logit["control"] - logit["grey"] + logit["filled"]).to_numpy() / 2
    if len(whole) < 2 or mean_interval(torch.from_numpy(whole))[0] <= 0:
        return None
    share = part.mean() / whole.mean()
    each = torch.from_numpy(100 * (share + (part - share * whole) / whole.mean()))
    return Interval(len(whole), float(100 * share), *mean_interval(each))


def lean_of(gap: Interval, masks: MaskSource) -> Interval | None:
    """The background gap less that of models that do not lean; its interval has both errors.

    None with boxes, of whose gaps nobody knows what models that do not lean have.
    """
    if masks not in NULLS_PTS:
        return None
    null, half = NULLS_PTS[masks]
    below, above = (math.hypot(half, gap.value - end) for end in gap[2:])
    value = gap.value - null
    return Interval(gap.images, value, value - below, value + above)


def lean_verdict(gap: Interval, masks: MaskSource) -> Verdict:
    """*Leans*: the lean is above 0. *Does not lean*: it is below MATTERS_PTS, an equivalence.

    The latter asks for outlines: with TokenCut's masks large leans come out too small.
    """
    lean = lean_of(gap, masks)
    if lean is None:
        return "undecided"
    if lean.low > 0:
        return "leans"
    return "does not lean" if masks == "annotated" and lean.high < MATTERS_PTS else "undecided"


def images_wanted(gap: Interval, masks: MaskSource) -> float | None:
    """Of how many images such a gap would be decided; None where more would not tell.

    More images narrow the interval over images, and not what NULLS_PTS leaves open.
    """
    if masks not in NULLS_PTS:
        return None
    value, half = gap.value - NULLS_PTS[masks][0], NULLS_PTS[masks][1]
    off = max(value, MATTERS_PTS - value if masks == "annotated" else value)  # of a verdict's line
    if off <= math.hypot(half, FINEST_PTS):
        return None
    noise = (gap.high - gap.low) / 2
    return max(gap.images * noise**2 / (off**2 - half**2), gap.images + 1)
