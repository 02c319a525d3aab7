"""The forty animals of Cutouts in three drawing styles, with exact alpha."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor
from torch.nn.functional import avg_pool2d

STYLES = ("3d", "flat", "high_contrast")
_ANIMALS = """
    ant beetle honeybee cricket lady-beetle cockroach scorpion crab lobster shrimp octopus squid
    dolphin shark tropical-fish blowfish whale seal duck swan eagle parrot flamingo peacock
    rooster turkey cat dog horse zebra cow ox goat ewe elephant mammoth leopard tiger kangaroo
    llama
"""
CLASSES = tuple(_ANIMALS.split())  # in the label order; neighbours are look-alikes
LEVELS = 3  # sides of 128, 64 and 32 pixels, so that small pastes do not alias
Levels = tuple[Float[Tensor, "classes 4 _ _"], ...]


@dataclass(frozen=True)
class Drawings:
    """Other things to paste than the forty animals; `load` gives their levels in a style."""

    name: str  # goes into every random choice, so that animals never had the same background
    classes: tuple[str, ...]
    load: Callable[[str], Levels]


def class_split(seed: int) -> tuple[list[int], list[int]]:
    """Labels of the classes used for finetuning (A) and of the others (B), 20 each.

    Seed 0 takes the first half of the classes in order, as the paper takes the first 500
    (RobustViT Sec. 4; that seed 0 leaves the order alone is the published habit, differences
    A16). Any other seed draws another random half, as the paper does for its spread over
    seeds (App. E). Look-alikes stay on one side: a class of Cutouts has a single one, and
    finetuning one twin alone would test which of two names is called, not where it looks.
    """
    pairs = np.arange(len(CLASSES)).reshape(-1, 2)
    if seed:
        pairs = np.random.default_rng(seed).permutation(pairs)
    half = len(pairs) // 2
    return sorted(pairs[:half].ravel().tolist()), sorted(pairs[half:].ravel().tolist())


@lru_cache(maxsize=len(STYLES))
def load_foregrounds(style: str) -> Levels:
    """All animals in one style: premultiplied RGBA in [0, 1], float64, one tensor a level.

    Raises: ValueError for an unknown style.
    """
    if style not in STYLES:
        raise ValueError(f"load_foregrounds: style {style!r} is unknown; use one of {STYLES}")
    return read_levels(style, CLASSES)


def read_levels(folder: str, names: Sequence[str]) -> Levels:
    """The drawings `<name>.png` of a folder below `assets/cutouts`, as `load_foregrounds`."""
    pictures = []
    for name in names:
        with (files("relevit") / "assets" / "cutouts" / folder / f"{name}.png").open("rb") as file:
            pictures.append(np.asarray(Image.open(file).convert("RGBA")))
    rgba = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).double() / 255
    rgba[:, :3] *= rgba[:, 3:]
    levels = [rgba]
    for _ in range(LEVELS - 1):
        levels.append(avg_pool2d(levels[-1], 2))
    return tuple(levels)
