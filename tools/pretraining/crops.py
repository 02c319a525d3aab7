"""Random views of images, many at once: a box of each, mirrored or not, in other colours.

Source: DINO 3.1 and its published code: RandomResizedCrop, mirror images, colour jitter, gray.
Left out of that code: hue, Gaussian blur, solarisation and the random order of the jitter's parts.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

RATIO = 4 / 3  # of a box's sides, at most
JITTER = (0.4, 0.4, 0.2)  # of brightness, contrast and saturation: factors in 1 - this .. 1 + this
JITTER_SHARE, GRAY_SHARE = 0.8, 0.2  # of the views
LUMA = (0.299, 0.587, 0.114)  # gray from red, green, blue (ITU-R BT.601)


def draw_views(
    images: UInt8[Tensor, "batch 3 height width"],
    rng: np.random.Generator,
    count: int,
    side: int,
    areas: tuple[float, float],
) -> UInt8[Tensor, "views 3 side side"]:
    """`count` views of each image: the first of every image, then the second of every image, ...

    `areas` is the range of a box's area as a share of the image's, `side` is in pixels.
    All choices come from `rng`.
    """
    boxes = draw_boxes(rng, len(images) * count, areas).unflatten(0, (len(images), count))
    mirrored = torch.from_numpy(rng.random(boxes.shape[:2]) < 0.5)
    views = cut_out(images, boxes, mirrored, side)
    return recolour(views, draw_colours(rng, len(views))).round_().to(torch.uint8)


def draw_boxes(
    rng: np.random.Generator, count: int, areas: tuple[float, float]
) -> Float[Tensor, "count 4"]:
    """Left, top, width and height, as shares of the image's sides; every box lies inside.

    The area is uniform in `areas`, the logarithm of width over height is uniform within +- RATIO.
    Deviation: RandomResizedCrop redraws a box that is too long for the image; here the ratio is
    drawn among those that fit, so that the areas stay uniform.
    """
    area = rng.uniform(*areas, size=count)
    longest = np.minimum(math.log(RATIO), -np.log(area))
    stretch = np.exp(rng.uniform(-1, 1, size=count) * longest / 2)
    size = np.sqrt(area)[:, None] * np.stack([stretch, 1 / stretch], axis=1)
    size = size.clip(max=1)  # rounding
    corner = rng.random((count, 2)) * (1 - size)
    return torch.from_numpy(np.concatenate([corner, size], axis=1)).float()


def cut_out(
    images: UInt8[Tensor, "batch 3 height width"],
    boxes: Float[Tensor, "batch count 4"],
    mirrored: Bool[Tensor, "batch count"],
    side: int,
) -> Float[Tensor, "views 3 side side"]:
    """The boxes' contents, 0..255, each resized to `side` pixels; view by view as `draw_views`.

    Deviation: interpolates linearly between four pixels, where DINO averages bicubically.
    """
    batch, count = mirrored.shape
    corner, size = boxes.to(images.device).flatten(0, 1).split(2, dim=1)
    turned = torch.ones_like(size)
    turned[mirrored.flatten(), 0] = -1
    # From [-1, 1] in the view to [-1, 1] in the image.
    affine = torch.cat([torch.diag_embed(size * turned), (2 * corner + size - 1)[:, :, None]], 2)
    grid = affine_grid(affine, [batch * count, 3, side, side], align_corners=False)
    # One tall picture of all views of an image: the image need not be copied for each.
    tall = grid.view(batch, count * side, side, 2)
    views = grid_sample(images.float(), tall, padding_mode="border", align_corners=False)
    return views.view(batch, 3, count, side, side).permute(2, 0, 1, 3, 4).flatten(0, 1)


def draw_colours(rng: np.random.Generator, count: int) -> Float[Tensor, "count 3"]:
    """Factors of brightness, contrast and saturation; a saturation of 0 is gray."""
    factors = 1 + np.array(JITTER) * rng.uniform(-1, 1, size=(count, 3))
    factors[rng.random(count) >= JITTER_SHARE] = 1
    factors[rng.random(count) < GRAY_SHARE, 2] = 0
    return torch.from_numpy(factors).float()


def recolour(
    images: Float[Tensor, "batch 3 height width"], factors: Float[Tensor, "batch 3"]
) -> Float[Tensor, "batch 3 height width"]:
    """Multiply the brightness, the contrast around the mean gray, and the distance from gray.

    The three are one matrix on the colours of an image, of values 0..255.
    Deviation: torchvision cuts off at 0 and 255 after each of them; here that is done at the end.
    """
    factors = factors.to(images.device)[:, :, None, None]
    brightness, contrast, saturation = factors.unbind(dim=1)
    luma = images.new_tensor(LUMA)
    mix = saturation * torch.eye(3, device=images.device) + (1 - saturation) * luma
    gray = (images.mean(dim=(2, 3)) @ luma).view(-1, 1, 1)
    offset = (1 - contrast) * brightness * gray
    pixels = torch.baddbmm(offset, brightness * contrast * mix, images.flatten(2))
    return pixels.view_as(images).clamp_(0, 255)
