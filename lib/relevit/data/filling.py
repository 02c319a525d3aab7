"""Pictures without their objects: what a mask covers, filled in from what surrounds it."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import avg_pool2d, interpolate, max_pool2d

from relevit.data.batch import Batch

Whole = Float[Tensor, "images 3 height width"]
Masks = Float[Tensor, "images 1 height width"]

RIM = 2  # pixels around an object in which its colours are mixed with those of its background
LEAST = 0.02  # of a picture that has to be background to be filled in from
GREY = 127.5


def without_objects(images: Tensor, masks: Tensor) -> Whole:
    """The pictures, of 0 to 255; each object and its rim are ever coarser means of the rest.

    Shapes: images [images, 3, height, width]; masks [images, 1, height, width], True or shares.
    """
    free = 1 - covered(masks)
    return _filled(images.float() * free, free)


def fit_for_swap(batch: Batch) -> Bool[Tensor, " images"]:
    """Which pictures have an object, and enough of a background to be filled in from."""
    free = 1 - covered(batch.masks)
    return (free.mean(dim=(1, 2, 3)) >= LEAST) & outlined(batch)


def outlined(batch: Batch) -> Bool[Tensor, " images"]:
    """Which pictures have an object."""
    every = (batch.masks > 0.5).flatten(1).any(dim=1)
    return every if batch.outlined is None else every & batch.outlined


def covered(masks: Tensor) -> Masks:
    """1 on each object and its rim: of an edge's pixel, whatever its share, nothing may stay."""
    return grown((masks > 0).float(), RIM)


def grown(masks: Masks, pixels: int) -> Masks:
    """The masks with so many pixels around them."""
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
