"""Checks of the exercises on the segmentation test (07_segmentation)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from checks.feedback import choice, compare, guess, passed, result
from relevit import evaluate
from relevit.evaluate.segmentation import average_precision

IMAGES, SIDE, PIXELS = 3, 6, 30


def maps_example() -> tuple[Tensor, Tensor]:
    """Maps of unlike brightness and masks of unlike size, batch x 1 x side x side."""
    draw = torch.Generator().manual_seed(2)
    masks = torch.zeros(IMAGES, 1, SIDE, SIDE, dtype=torch.bool)
    for number in range(IMAGES):
        masks[number, :, 1 : 2 + number, 1 : 3 + number] = True
    heat = torch.rand(masks.shape, generator=draw, dtype=torch.float64) + 0.3 * masks
    bright = torch.tensor([0.3, 0.5, 0.76], dtype=torch.float64)
    return heat * bright[:, None, None, None], masks


def pixels_example() -> tuple[Tensor, Tensor]:
    """Values of pixels, no two equal, and which of them belong to the object."""
    draw = torch.Generator().manual_seed(5)
    truth = torch.rand(PIXELS, generator=draw) < 0.3
    values = 0.7 * torch.rand(PIXELS, generator=draw, dtype=torch.float64) + 0.25 * truth
    return values, truth


def empty_map(prediction: float | None, right_pct: float) -> None:
    """A guess of the empty map's pixel accuracy; `right_pct` is the measured one."""
    guess(
        prediction,
        right_pct,
        within=5,
        unit="%",
        low="It is right on every pixel of the background, and that is most of the image.",
        high="It is wrong on every pixel of the object, and these are not so few.",
    )


def scores(answer: Callable) -> None:
    """Pixel accuracy and mIoU in percent: heat and masks, batch x 1 x height x width."""
    heat, masks = maps_example()
    rows = evaluate.segmentation_scores(evaluate.segmentation_rows(heat, masks))
    right = torch.tensor([rows["pixel_accuracy_pct"], rows["miou_pct"]], dtype=torch.float64)
    found = heat > heat.mean(dim=(1, 2, 3), keepdim=True)
    accuracy, on, off = right[0], _iou(found, masks), _iou(~found, ~masks)
    each = (_iou(found, masks, dim=(1, 2, 3)) + _iou(~found, ~masks, dim=(1, 2, 3))) / 2
    compare(result(answer, heat, masks, shape=(2,), unpacked=True), right, {
        "You cut all maps at one mean: each has its own, or a dark map would lose its object.":
            _both(heat > heat.mean(), masks),
        "You took the IoU of each image and then the mean; the published code counts over all "
        "images first, and divides once.": [accuracy, each.mean()],
        "Your second number is the IoU of the object alone: take the mean with the background's.":
            [accuracy, on],
        "Your second number is the IoU of the background alone: take the mean with the object's.":
            [accuracy, off],
        "You found the background: the object is where the map lies above its mean.":
            _both(~found, masks),
        "Your union counts the pixels that are in both twice: use |, at least one.":
            [accuracy, (_dice(found, masks) + _dice(~found, ~masks)) / 2],
        "You add the two IoUs: mIoU is their mean.": [accuracy, on + off],
        "Both are shares: times 100 they are percent.": right / 100,
        "They are in the other order: first pixel accuracy, then mIoU.": right.flip(0),
    })  # fmt: skip
    passed("In mIoU the object counts as much as the background, however small it is.")


def precision(answer: Callable) -> None:
    """Average precision of one list of pixels, 0 to 1: values and truth."""
    values, truth = pixels_example()
    places = torch.arange(1, PIXELS + 1)
    right = average_precision(values[None], truth[None])[0]

    def at_each(order: Tensor) -> Tensor:
        return truth[order].cumsum(0) / places

    down, up = values.argsort(descending=True), values.argsort()
    found = truth[down]
    compare(result(answer, values, truth, shape=()), right, {
        "You go up the list: the highest relevance comes first.": at_each(up)[truth[up]].mean(),
        "You did not sort: the list begins with the most relevant pixel.":
            at_each(torch.arange(PIXELS))[truth].mean(),
        "You took the mean over all places: note the precision at pixels of the object alone.":
            at_each(down).mean(),
        "You divided by the number of all pixels: it is a mean over those of the object.":
            at_each(down)[found].sum() / PIXELS,
        "You count a pixel's place from 0: the first has place 1.":
            (found.cumsum(0) / (places - 1).clamp(min=1))[found].mean(),
        "That is the recall, the share of the object that is found so far. Precision divides by "
        "the number of pixels so far.": (found.cumsum(0) / truth.sum())[found].mean(),
        "That is a percentage: leave out the factor 100.": 100 * right,
    })  # fmt: skip
    passed("A random map has about the object's share of the image, not one half.")


def good_marks(answer: str | None) -> None:
    """Why the published average precision flatters a map that found nothing."""
    choice(answer, "b", {
        "a": "Then the AP of the object alone would rise as well, and it is that of chance.",
        "b": "Right: in the second list such a map says background with great confidence, and is "
             "right as often as the empty map was. So compare numbers of one reading only.",
        "c": "No AP cuts the map: that is what it is for. Think of what stands in the second list.",
    })  # fmt: skip


def _iou(a: Tensor, b: Tensor, dim: tuple[int, ...] = (0, 1, 2, 3)) -> Tensor:
    return 100 * (a & b).sum(dim) / (a | b).sum(dim).double()


def _dice(a: Tensor, b: Tensor) -> Tensor:
    return 100 * (a & b).sum() / (a.sum() + b.sum()).double()


def _both(found: Tensor, masks: Tensor) -> Tensor:
    accuracy = 100 * (found == masks).double().mean()
    return torch.stack([accuracy, (_iou(found, masks) + _iou(~found, ~masks)) / 2])
