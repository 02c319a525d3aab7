"""What masks can do without a relevance map: the same animal on another background, or on none.

Half of the images of a batch are changed before crop and flip, by a generator of their own, so
that crops are those of a run without. Sources: the background swap is that of *mixed-next* and its
like (Xiao et al. 2020, Noise or Signal) as augmentation; grey backgrounds are its *only-fg*.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample, interpolate

from relevit.choices.words import AUGMENTATIONS, CURES, Augmentation
from relevit.data.batch import Batch
from relevit.data.filling import (
    GREY,
    Masks,
    Whole,
    covered,
    fit_for_swap,
    grown,
    outlined,
    without_objects,
)

Backgrounds = Float[Tensor, "backgrounds 3 height width"]

SWAPS = ("swap", "swap_seams", "swap_sizes")  # onto backgrounds of other training images
SEAM = 4  # pixels of its own background that an object of `swap_seams` keeps around it
SIZES = (0.6, 1.2)  # of an object of `swap_sizes`, times its own
AROUND = 0.1  # of the object's box that `crop` leaves on each side of it


def backgrounds(train: Batch, kind: Augmentation) -> Backgrounds | None:
    """The pictures without their objects, for a swap; None where nothing is swapped.

    What an object covers is filled in (`data.filling`) or, for `swap_seams`, left grey. Pictures
    without a mask, or without a background, are left out.
    Raises: ValueError where fewer than two are left.
    """
    if kind not in SWAPS:
        return None
    fit = fit_for_swap(train)
    if int(fit.sum()) < 2:
        raise ValueError(
            f"augmentation {kind}: {int(fit.sum())} of {len(train)} training images have a mask "
            "and a background beside it, and a swap needs two; give masks that leave some of the "
            "picture, or swap nothing (augmentation none; cure relevance or label)"
        )
    found = train.select(fit)
    if kind == "swap_seams":
        masks = covered(found.masks)
        return found.images.float() * (1 - masks) + GREY * masks
    return without_objects(found.images, found.masks)


def augmented(
    batch: Batch, kind: Augmentation, others: Backgrounds | None, rng: np.random.Generator
) -> Batch:
    """A batch of which half has been changed by `kind`, maybe one of CURES; the rest is as before.

    `others` are the `backgrounds` of the training images. An object comes on any of them, and in
    one case of many on its own, filled in. Images without a mask are left alone.
    """
    (own,) = rng.spawn(1)  # crops and flips are drawn as without
    known = outlined(batch).nonzero()[:, 0]
    chosen = known[torch.from_numpy(own.permutation(len(known))[: -(-len(known) // 2)])]
    if kind == "none" or not len(chosen):
        return batch
    pictures, masks = batch.images[chosen].float(), batch.masks[chosen].float()
    if kind not in AUGMENTATIONS:
        pictures, masks = CURES[kind](pictures, masks, own)
    elif kind == "crop":
        pictures, masks = _cropped(pictures, masks)
    else:
        behind = _behind(kind, pictures, others, own)
        if kind == "swap_sizes":
            pictures, masks = _resized(pictures, masks, own)
        over = grown(masks, SEAM) if kind == "swap_seams" else masks
        pictures = over * pictures + (1 - over) * behind
    images, found = batch.images.clone(), batch.masks.clone()
    images[chosen] = pictures.round().clamp(0, 255).to(torch.uint8)
    found[chosen] = masks if found.is_floating_point() else masks > 0.5
    return replace(batch, images=images, masks=found)


def _behind(
    kind: Augmentation, pictures: Whole, others: Backgrounds | None, rng: np.random.Generator
) -> Whole:
    if kind == "swap_strange":  # of no texture that there is: four by four colours, smoothed
        colours = torch.from_numpy(rng.uniform(0, 255, (len(pictures), 3, 4, 4))).float()
        return interpolate(colours, pictures.shape[-2:], mode="bilinear", align_corners=False)
    if kind == "grey":
        return torch.full_like(pictures, GREY)
    return others[torch.from_numpy(rng.integers(len(others), size=len(pictures)))]


def _cropped(pictures: Whole, masks: Masks) -> tuple[Whole, Masks]:
    """The square around each object, as large as the picture was."""
    squares = []
    for mask in masks[:, 0] > 0.5:
        ends = [(axis.min(), axis.max() + 1) for axis in mask.nonzero(as_tuple=True)]
        side = max(float(high - low) for low, high in ends) * (1 + 2 * AROUND) / mask.shape[-1]
        middle = [float(low + high) / mask.shape[-1] - 1 for low, high in ends[::-1]]
        squares.append([[min(side, 1), 0, middle[0]], [0, min(side, 1), middle[1]]])
    return _moved(pictures, masks, torch.tensor(squares), "reflection")


def _resized(pictures: Whole, masks: Masks, rng: np.random.Generator) -> tuple[Whole, Masks]:
    """Each object at another size, about the picture's middle, and nothing where it ends."""
    factors = rng.uniform(*SIZES, size=len(pictures))
    wide = [[[1 / factor, 0, 0], [0, 1 / factor, 0]] for factor in factors]
    return _moved(pictures, masks, torch.tensor(wide), "zeros")


def _moved(pictures: Whole, masks: Masks, maps: Tensor, outside: str) -> tuple[Whole, Masks]:
    grid = affine_grid(maps.float(), list(masks.shape), align_corners=False)
    both = torch.cat([pictures, masks], dim=1)
    moved = grid_sample(both, grid, padding_mode=outside, align_corners=False)
    return moved[:, :3], moved[:, 3:].clamp(0, 1)
