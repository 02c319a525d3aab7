"""Where a model looks: relevance on and off the object.

Source: RobustViT Fig. 1 and Sec. 3, the two salient issues: relevance off the object, or on a part
of it alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from relevit.attribution import gae, patch_grid, to_heatmap
from relevit.data.batch import Batch
from relevit.evaluate.intervals import PERCENT, mean_interval
from relevit.evaluate.predictions import BATCH
from relevit.maps import evaluating, observe
from relevit.models.answers import need_classes
from relevit.models.spec import ModelSpec

RIGHT, WRONG = "#1f5fa8", "#b85c00"  # blue and orange: told apart by the colour-blind too
TENSORS = ("heatmaps", "predictions", "confidence_pct", "iou_pct", "on_object_pct")  # of a Look


@dataclass(frozen=True)
class Look:
    """Relevance maps of a batch for the predicted classes, and what they say."""

    heatmaps: Float[Tensor, "batch 1 height width"]
    predictions: Int[Tensor, " batch"]
    confidence_pct: Float[Tensor, " batch"]
    iou_pct: Float[Tensor, " batch"]
    on_object_pct: Float[Tensor, " batch"]  # share of all relevance that lies on the mask
    titles: list[str]
    colours: list[str]

    @property
    def right(self) -> Bool[Tensor, " batch"]:
        """Which answers are right."""
        return torch.tensor([colour == RIGHT for colour in self.colours])

    def select(self, indices: Sequence[int]) -> Look:
        """The same of these images alone, in their order."""
        return Look(
            *(getattr(self, name)[list(indices)] for name in TENSORS),
            titles=[self.titles[i] for i in indices],
            colours=[self.colours[i] for i in indices],
        )


def look(model: nn.Module, spec: ModelSpec, batch: Batch, classes: Sequence[str]) -> Look:
    """Explain each image's predicted class, BATCH images at a time; results on the CPU.

    `classes` are the names for the titles. As in `predict`, the answer is one of the batch's
    candidates, and right where the label accepts it. Without any mask, shares on it are NaN.
    """
    device = next(model.parameters()).device
    heatmaps, logits = [], []
    for part in batch.split(BATCH):
        pixels = spec.normalise(part.images.to(device), like=next(model.parameters()))
        target = None
        with evaluating(model):
            if batch.candidates:
                with torch.inference_mode():
                    target = _among(model(pixels), batch.candidates).argmax(dim=1)
            seen = observe(model, pixels, target, gradients="all")
        need_classes(seen.logits)
        size = tuple(pixels.shape[-2:])
        heatmaps.append(to_heatmap(gae.of_seen(seen), size, patch_grid(model, pixels)).cpu())
        logits.append(_among(seen.logits, batch.candidates).cpu())
    heat = torch.cat(heatmaps)
    confidence, predictions = torch.cat(logits).softmax(dim=1).max(dim=1)
    known = 1.0 if batch.masks.any() else math.nan
    answers = list(zip(predictions.tolist(), batch.labels.tolist(), strict=True))
    right = [answer in batch.accepted.get(label, (label,)) for answer, label in answers]
    shares = [f"{100 * share:.0f} %" for share in confidence]
    return Look(
        heatmaps=heat,
        predictions=predictions,
        confidence_pct=100 * confidence,
        iou_pct=known * foreground_iou_pct(heat, batch.masks),
        on_object_pct=known * object_share_pct(heat, batch.masks),
        titles=[
            f"{classes[answer]} {share}" for (answer, _), share in zip(answers, shares, strict=True)
        ],
        colours=[RIGHT if one else WRONG for one in right],
    )


def _among(logits: Tensor, candidates: Sequence[int]) -> Float[Tensor, "batch classes"]:
    """The logits in float32; minus infinity for what is no candidate, where there are such."""
    found = logits.float()
    if not candidates:
        return found
    among = torch.full_like(found, -torch.inf)
    among[:, list(candidates)] = found[:, list(candidates)]
    return among


def look_at_parts(
    model: nn.Module, spec: ModelSpec, parts: Sequence[Batch], classes: Sequence[str]
) -> Look:
    """As `look`, for images of several sets, which may differ in what counts as right."""
    looks = [look(model, spec, part, classes) for part in parts]
    return Look(
        *(torch.cat([getattr(one, name) for one in looks]) for name in TENSORS),
        titles=[title for one in looks for title in one.titles],
        colours=[colour for one in looks for colour in one.colours],
    )


def most_moved(before: Look, after: Look, opacity: Float[Tensor, " batch"] | None) -> int:
    """The image whose share of relevance on the object has grown most, among those that are clear.

    That is the half whose objects are drawn with the highest `opacity`; without it, all.
    """
    moved = after.on_object_pct - before.on_object_pct
    if opacity is not None:
        moved = moved.where(opacity >= opacity.quantile(0.5), -torch.inf)
    return int(moved.argmax())


def look_rows(seen: Look, batch: Batch, dataset: str) -> pd.DataFrame:
    """One row an image of what `look` found on the images of one set.

    Source: RobustViT Fig. 1 and Sec. 3, which show the two issues and give no numbers.
    Columns: dataset, index (order in the batch), label, prediction, confidence_pct, iou_pct,
    on_object_pct (share of all relevance that lies on the object) and covered_pct (share of
    the object where the heatmap is above its own mean; 0 without an object).
    """
    relevant = seen.heatmaps > seen.heatmaps.mean(dim=(1, 2, 3), keepdim=True)
    covered = (relevant & batch.masks.bool()).sum(dim=(1, 2, 3)).double()
    area = batch.masks.bool().sum(dim=(1, 2, 3)).clamp_min(1)
    return pd.DataFrame(
        {
            "dataset": dataset,
            "index": range(len(batch)),
            "label": batch.labels.numpy(),
            "prediction": seen.predictions.numpy(),
            "confidence_pct": seen.confidence_pct.double().numpy(),
            "iou_pct": seen.iou_pct.double().numpy(),
            "on_object_pct": seen.on_object_pct.double().numpy(),
            "covered_pct": (100 * covered / area).numpy(),
        }
    )


def object_share_pct(
    heatmaps: Float[Tensor, "batch 1 height width"], masks: Bool[Tensor, "batch 1 height width"]
) -> Float[Tensor, " batch"]:
    """Share of all relevance, nowhere negative, that lies on the object, in percent."""
    total = heatmaps.sum(dim=(1, 2, 3)).clamp_min(1e-12)
    return 100 * (heatmaps * masks).sum(dim=(1, 2, 3)) / total


def foreground_iou_pct(
    heatmaps: Float[Tensor, "batch 1 height width"], masks: Bool[Tensor, "batch 1 height width"]
) -> Float[Tensor, " batch"]:
    """Overlap of each heatmap, cut at its own mean, with its object mask, in percent.

    The cut is the one of the papers' segmentation test (differences E1).
    """
    found = heatmaps > heatmaps.mean(dim=(1, 2, 3), keepdim=True)
    both = (found & masks).sum(dim=(1, 2, 3))
    either = (found | masks).sum(dim=(1, 2, 3))
    return 100 * both / either.clamp(min=1)


# The pointing game: does a map point at its object, the one of an image, or of two its class's?


def pointing_table(
    pairs: Batch, maps: Mapping[str, Float[Tensor, "pairs 2 patches"]], grid: tuple[int, int]
) -> pd.DataFrame:
    """The pointing game between the two objects, for each method.

    `maps` has one for each class of an image, of a `grid` of patches. Each map points where it is
    highest; what counts is whether that is nearer to its own class's object than to the other's.
    Chance is 50 %.
    Columns: method, images (explanations, two a pair), own_object_pct, low_pct, high_pct.
    """
    rows = []
    for name, both in maps.items():
        own = points_at_own(pairs, both, grid)
        rows.append([name, own.numel(), *own_share_pct(own)])
    columns = ["method", "images", "own_object_pct", "low_pct", "high_pct"]
    return pd.DataFrame(rows, columns=columns)


def own_share_pct(own: Bool[Tensor, "pairs 2"]) -> tuple[float, float, float]:
    """Of the maps those that point at their own object, in percent.

    And the ends of the 95 % interval over images, as the two maps of one image are not independent:
    a map that is the same for both points right once an image, whatever the images. Where all maps
    are right, or all wrong, the spread says nothing; then it is Wilson's interval.
    Raises: ValueError for fewer than two pairs.
    """
    each = 100 * own.double().mean(dim=1)
    return each.mean().item(), *mean_interval(each, PERCENT)


def points_at_object(
    heatmaps: Float[Tensor, "batch 1 height width"], masks: Bool[Tensor, "batch 1 height width"]
) -> Bool[Tensor, " batch"]:
    """Whether each map is highest on its object.

    Source: the pointing game of Zhang et al. 2016, to the pixel.
    """
    peaks = heatmaps.flatten(1).argmax(dim=1, keepdim=True)
    return masks.flatten(1).gather(1, peaks)[:, 0]


def points_at_own(
    pairs: Batch, maps: Float[Tensor, "pairs 2 patches"], grid: tuple[int, int]
) -> Bool[Tensor, "pairs 2"]:
    """Whether each map is highest nearer to its own object than to the other."""
    return torch.stack([_points_at(pairs, maps[:, i], i, grid) for i in (0, 1)], dim=1)


def _points_at(
    pairs: Batch, maps: Tensor, which: int, grid: tuple[int, int]
) -> Bool[Tensor, " pairs"]:
    height, width = pairs.images.shape[-2:]
    heat = to_heatmap(maps.float(), (height, width), grid, normalise=False)
    peaks = heat.flatten(1).argmax(dim=1)[:, None, None]
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    far = ((y - peaks // width).square() + (x - peaks % width).square()).float()
    nearest = torch.where(pairs.masks, far[:, None], torch.inf).amin(dim=(2, 3))
    return nearest[:, which] < nearest[:, 1 - which]
