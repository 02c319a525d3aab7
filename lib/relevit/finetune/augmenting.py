"""What masks can do without a relevance map: the same animal on another background, or on none.

Half of the images of a batch are changed before crop and flip, by a generator of their own, so
that crops are those of a run without. Sources: the background swap is that of *mixed-next* and its
like (Xiao et al. 2020, Noise or Signal) as augmentation; grey backgrounds are its *only-fg*.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import affine_grid, avg_pool2d, grid_sample, interpolate, max_pool2d

from relevit.choices.words import AUGMENTATIONS, CURES, Augmentation
from relevit.data.batch import Batch

Whole = Float[Tensor, "images 3 height width"]
Backgrounds = Float[Tensor, "backgrounds 3 height width"]
Masks = Float[Tensor, "images 1 height width"]

SWAPS = ("swap", "swap_seams", "swap_sizes")  # onto backgrounds of other training images
RIM = 2  # pixels around an object in which its colours are mixed with those of its background
SEAM = 4  # pixels of its own background that an object of `swap_seams` keeps around it
LEAST = 0.02  # of a picture that has to be background to be filled in from
SIZES = (0.6, 1.2)  # of an object of `swap_sizes`, times its own
AROUND = 0.1  # of the object's box that `crop` leaves on each side of it
GREY = 127.5


def backgrounds(train: Batch, kind: Augmentation) -> Backgrounds | None:
    """The pictures without their objects, for a swap; None where nothing is swapped.

    What an object and its rim cover is filled in by ever coarser means of what surrounds them, or,
    for `swap_seams`, left grey. Pictures without a mask, or without a background, are left out.
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
    pictures, masks = train.images[fit].float(), _covered(train.masks[fit])
    if kind == "swap_seams":
        return pictures * (1 - masks) + GREY * masks
    return _filled(pictures * (1 - masks), 1 - masks)


def fit_for_swap(train: Batch) -> Bool[Tensor, " images"]:
    """Which pictures have an object, and enough of a background to be filled in from."""
    free = 1 - _covered(train.masks)
    return (free.mean(dim=(1, 2, 3)) >= LEAST) & _outlined(train)


def _covered(masks: Tensor) -> Masks:
    # Of an edge's pixel, whatever its share, nothing may stay.
    return _grown((masks > 0).float(), RIM)


def augmented(
    batch: Batch, kind: Augmentation, others: Backgrounds | None, rng: np.random.Generator
) -> Batch:
    """A batch of which half has been changed by `kind`, maybe one of CURES; the rest is as before.

    `others` are the `backgrounds` of the training images. An object comes on any of them, and in
    one case of many on its own, filled in. Images without a mask are left alone.
    """
    (own,) = rng.spawn(1)  # crops and flips are drawn as without
    known = _outlined(batch).nonzero()[:, 0]
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
        over = _grown(masks, SEAM) if kind == "swap_seams" else masks
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


def _outlined(batch: Batch) -> Bool[Tensor, " images"]:
    every = (batch.masks > 0.5).flatten(1).any(dim=1)
    return every if batch.outlined is None else every & batch.outlined


def _grown(masks: Masks, pixels: int) -> Masks:
    return max_pool2d(masks, 2 * pixels + 1, stride=1, padding=pixels)


def _filled(seen: Whole, weight: Masks) -> Whole:
    """What is missing of pictures times `weight`, from ever coarser means of what is there."""
    if max(seen.shape[-2:]) == 1:
        return seen / weight.clamp_min(1e-6)
    coarse = avg_pool2d(torch.cat([seen, weight], dim=1), 2, ceil_mode=True)
    part = coarse[:, 3:]
    coarse = coarse * ((4 * part).clamp(max=1) / part.clamp_min(1e-6))  # a pixel of four counts
    mean = _filled(coarse[:, :3], coarse[:, 3:])
    wide = interpolate(mean, seen.shape[-2:], mode="bilinear", align_corners=False)
    return seen + (1 - weight) * wide


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
