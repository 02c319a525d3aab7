"""Erase parts of images in the order of a relevance map. Used by the perturbation test."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Direction = Literal["positive", "negative"]
DIRECTIONS = get_args(Direction)


def erased_parts(parts: int, share_pct: float) -> int:
    """How many of so many parts are erased: whole ones, rounded down (differences E5)."""
    # 29 % of 100 is 28.999999999999996 in floating point.
    return int(parts * share_pct / 100 + 1e-9)


def erasing_ranks(
    relevance: Float[Tensor, "batch parts"], direction: Direction, tie_seed: int = 0
) -> Int[Tensor, "batch parts"]:
    """Place of each part in the order of erasing, from 0.

    Equal relevance is common: clamped maps are zero in many places, and interpolation
    repeats its border (differences E5). Ties go by one shuffled order of the parts, drawn from
    `tie_seed` and the same for all images and both directions, so that ranks depend on no
    implementation of sorting, and a map that says nothing erases at random. Such is also a
    map with a value that is no finite number: all its parts tie.
    Raises: ValueError for an unknown direction.
    """
    check_name("direction", direction, DIRECTIONS)
    parts = relevance.shape[1]
    random = torch.Generator().manual_seed(tie_seed)
    shuffled = torch.randperm(parts, generator=random).to(relevance.device)
    useful = relevance.isfinite().all(dim=1, keepdim=True)
    values = torch.where(useful, relevance, 0.0)[:, shuffled]
    order = values.argsort(dim=1, descending=direction == "positive", stable=True)
    places = torch.arange(parts, device=relevance.device).expand_as(order)
    return torch.empty_like(order).scatter_(1, shuffled[order], places)


def erase(
    images: Float[Tensor, "batch 3 height width"],
    hidden: Bool[Tensor, "batch parts"],
    colour: Float[Tensor, "1 3 height width"],
) -> Float[Tensor, "batch 3 height width"]:
    """Give the hidden parts a colour; parts are pixels, or squares of pixels, row by row."""
    height, width = images.shape[-2:]
    if hidden.shape[1] != height * width:
        side = round(hidden.shape[1] ** 0.5)
        grid = hidden.reshape(-1, side, side)
        hidden = grid.repeat_interleave(height // side, 1).repeat_interleave(width // side, 2)
    return torch.where(hidden.reshape(-1, 1, height, width), colour, images)


def check_name(kind: str, given: str, allowed: tuple[str, ...]) -> None:
    """Raise ValueError unless `given` is one of the allowed names."""
    if given not in allowed:
        raise ValueError(f"{kind} {given!r} is unknown; use one of {list(allowed)}")
