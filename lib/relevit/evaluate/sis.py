"""Sufficient input subsets: few pixels that alone make a model sure of a class.

Source: RobustViT App. A, Fig. 5, which has no published code (differences B21). It follows
Carter, Mueller, Jain, Gifford 2019 (AISTATS; the subsets) and Carter, Jain, Mueller, Gifford
2021 (NeurIPS; Batched Gradient SIS), whose steps are taken here:

- backward selection: remove the parts whose removal lowers the target's confidence least, by
  the gradient with respect to the mask, until nothing is left;
- forward: put parts back in reverse order until the confidence reaches the threshold.

Both ask for a class of which the model is sure already on the whole image. RobustViT shows
subsets for labels drawn at random, of which it is not, and does not say how they were found.
Here only that precondition is dropped: the order is that of the label's own confidence, which
may rise on the way, as parts that speak against the label are removed first. Nothing ensures
that a subset is found, and none being found does not prove that none exists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from relevit.base.device import Precision, autocast
from relevit.maps import attention_for_gradients, frozen_weights
from relevit.models.answers import need_classes

CHUNK = 20  # images in one pass; the subsets do not depend on it beyond rounding
Grid = tuple[int, int]
POOL = 400  # the first images of val, from which pairs are drawn


@dataclass(frozen=True)
class Subsets:
    """What `gradient_sis` found; where nothing is sufficient, the surest subset met on the way.

    `path_pct` is the target's confidence before each step, the whole image first.
    """

    mask: Bool[Tensor, "batch 1 height width"]  # True where a pixel is kept
    confidence_pct: Float[Tensor, " batch"]  # of the target, on the subset alone
    kept_pct: Float[Tensor, " batch"]  # share of the pixels in the subset
    found: Bool[Tensor, " batch"]  # whether the confidence reaches the threshold
    path_pct: Float[Tensor, "steps batch"]


def gradient_sis(
    model: nn.Module,
    images: Float[Tensor, "batch 3 height width"],
    target: Int[Tensor, " batch"],
    *,
    threshold_pct: float = 90.0,
    side: int = 1,
    per_step: int = 100,
    precision: Precision = "float32",
    chunk: int = CHUNK,
) -> Subsets:
    """The smallest sufficient subset on one path of backward selection, for each image.

    Source: Carter et al. 2021, Batched Gradient SIS, as for ImageNet: 100 of 224 x 224 pixels
    a step. `images` are normalised, and a removed pixel is 0, the mean colour. Parts are
    squares of `side` pixels, `per_step` of them removed at a time; fewer a step takes longer
    and tends to find more. The gradient is that of the log of the confidence: the same order, but
    it does not vanish where the confidence does. Equal gradients go row by row, without the
    noise of the published code. `model` is in evaluation mode and left as it is.
    `bfloat16` runs the path in mixed precision; what decides, the confidence on the subset
    that is returned and on any smaller one passed over, is computed again without it.
    Raises: ValueError for parts that do not tile the image, or a head with one output.
    """
    height, width = images.shape[-2:]
    if height % side or width % side:
        raise ValueError(
            f"gradient_sis: parts of {side} pixels do not tile {height} x {width}; give a side "
            "that divides both"
        )
    grid = (height // side, width // side)
    kept = images.new_ones(len(images), grid[0] * grid[1])
    removed_at = torch.zeros_like(kept, dtype=torch.long)
    path, left = [], []
    for step, start in enumerate(range(0, kept.shape[1], per_step)):
        with autocast(images.device, precision):
            confidence, slope = _confidence_and_slope(model, images, target, kept, grid, chunk)
        path.append(confidence)
        left.append(kept.shape[1] - start)
        slope = slope.masked_fill(kept == 0, torch.inf)
        least = slope.argsort(dim=1, stable=True)[:, : min(per_step, left[-1])]
        kept.scatter_(1, least, 0.0)
        removed_at.scatter_(1, least, step)
    path_pct = 100 * torch.stack(path).to(images)
    if precision != "float32":

        def exact_pct(rows: Tensor, steps: Tensor) -> Tensor:
            mask = _pixels(removed_at[rows] >= steps[:, None], grid, side)
            return confidence_of_subsets_pct(model, images[rows], target[rows], mask, chunk)

        path_pct = _decided(path_pct, threshold_pct, exact_pct)
    best, found = _last_sufficient(path_pct, threshold_pct)
    shares = 100 * images.new_tensor(left) / kept.shape[1]
    return Subsets(
        mask=_pixels(removed_at >= best[:, None], grid, side),
        confidence_pct=path_pct.gather(0, best[None])[0],
        kept_pct=shares[best],
        found=found,
        path_pct=path_pct,
    )


@torch.inference_mode()
def confidence_of_subsets_pct(
    model: nn.Module,
    images: Float[Tensor, "batch 3 height width"],
    target: Int[Tensor, " batch"],
    mask: Bool[Tensor, "batch 1 height width"],
    chunk: int = CHUNK,
) -> Float[Tensor, " batch"]:
    """Softmax of the target in percent when only the pixels of `mask` are seen.

    With the mask of another model's subset it says whether that is sufficient here, too.
    """
    parts = zip(*(t.split(chunk) for t in (images, target, mask)), strict=True)
    shares = [model(x * m).softmax(dim=1).gather(1, y[:, None])[:, 0] for x, y, m in parts]
    return 100 * torch.cat(shares)


def draw_targets(
    labels: Int[Tensor, " pool"], images: int, targets: int, seed: int, classes: int | None = None
) -> tuple[list[int], list[int]]:
    """Random images and random labels, the same labels for every image as in Fig. 5.

    `labels` are the classes of the images to draw from, and those to draw labels from unless
    `classes`, the number of all there are, is given. No label drawn is the class of one of the
    images, so that every pair asks for a wrong answer.
    Returns: numbers of the images, and labels; both lists of int.
    Raises: ValueError when there are not as many images or labels.
    """
    random = np.random.default_rng(seed)
    known = np.unique(labels.numpy()) if classes is None else np.arange(classes)
    if not (1 <= images <= len(labels) and targets >= 1):
        raise ValueError(
            f"draw_targets: {images} images and {targets} labels asked for; give at least one of "
            f"each and at most the {len(labels)} images there are"
        )
    picked = random.choice(len(labels), images, replace=False)
    others = np.setdiff1d(known, labels.numpy()[picked])
    if targets > len(others):
        raise ValueError(
            f"draw_targets: {targets} labels asked for, but only {len(others)} classes are not "
            "shown in the images; ask for fewer labels or images"
        )
    return picked.tolist(), random.choice(others, targets, replace=False).tolist()


def subset_rows(
    subsets: Subsets,
    model_run: str,
    images: list[int],
    labels: Int[Tensor, " batch"],
    target: Int[Tensor, " batch"],
    objects: Bool[Tensor, "batch 1 height width"],
) -> pd.DataFrame:
    """One row a pair. `images` are their numbers in the set, `objects` their masks.

    Columns: model_run, image, label, target, confidence_pct, kept_pct, found, whole_pct
    (confidence on the whole image) and on_object_pct (share of the kept pixels that lie on
    the object).
    """
    mask = subsets.mask.cpu()
    on_object = (mask & objects).sum(dim=(1, 2, 3)) / mask.sum(dim=(1, 2, 3))
    return pd.DataFrame(
        {
            "model_run": model_run,
            "image": images,
            "label": labels.tolist(),
            "target": target.tolist(),
            "confidence_pct": subsets.confidence_pct.tolist(),
            "kept_pct": subsets.kept_pct.tolist(),
            "found": subsets.found.tolist(),
            "whole_pct": subsets.path_pct[0].tolist(),
            "on_object_pct": (100 * on_object).tolist(),
        }
    )


def _confidence_and_slope(
    model: nn.Module, images: Tensor, target: Tensor, kept: Tensor, grid: Grid, chunk: int
) -> tuple[Tensor, Tensor]:
    """Confidence in [0, 1] on what is kept, and the slope of its log by each part's mask."""
    side = images.shape[-1] // grid[1]
    confidences, slopes = [], []
    with frozen_weights(model), attention_for_gradients(model), torch.enable_grad():
        parts = zip(*(t.split(chunk) for t in (images, target, kept)), strict=True)
        for part, wanted, mask in parts:
            mask = mask.clone().requires_grad_()
            logits = model(part * _pixels(mask, grid, side))
            need_classes(logits)
            score = logits.to(images).log_softmax(dim=1).gather(1, wanted[:, None])[:, 0]
            slopes.append(torch.autograd.grad(score.sum(), mask)[0])
            confidences.append(score.detach().exp())
    return torch.cat(confidences), torch.cat(slopes)


def _last_sufficient(path_pct: Tensor, threshold_pct: float) -> tuple[Tensor, Tensor]:
    """Step with the fewest parts left that reaches the threshold, else the surest one."""
    steps = torch.arange(len(path_pct), device=path_pct.device)[:, None]
    last = torch.where(path_pct >= threshold_pct, steps, -1).amax(dim=0)
    found = last >= 0
    return torch.where(found, last, path_pct.argmax(dim=0)), found


def _decided(
    path_pct: Tensor, threshold_pct: float, exact_pct: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """The path with exact values wherever `_last_sufficient` relies on one."""
    path_pct = path_pct.clone()
    known = torch.zeros_like(path_pct, dtype=torch.bool)
    while True:
        best, _ = _last_sufficient(path_pct, threshold_pct)
        rows = (~known.gather(0, best[None])[0]).nonzero().flatten()
        if not len(rows):
            return path_pct
        path_pct[best[rows], rows] = exact_pct(rows, best[rows])
        known[best[rows], rows] = True


def _pixels(parts: Tensor, grid: Grid, side: int) -> Tensor:
    """[batch, parts] as [batch, 1, height, width]."""
    squares = parts.reshape(-1, 1, *grid)
    return squares.repeat_interleave(side, 2).repeat_interleave(side, 3)
