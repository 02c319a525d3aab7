"""What is pasted: animals in three drawing styles, and things in the style of training, with alpha.

All are Microsoft's Fluent Emoji. There is one drawing of each class and style, so that two images
of a class differ by what a recipe varies: background, place, size, rotation, mirror image,
brightness and viewpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.resources import files

import numpy as np
import torch
import yaml
from jaxtyping import Float
from PIL import Image
from torch import Tensor
from torch.nn.functional import avg_pool2d

ASSETS = files("habitats") / "assets" / "drawings"
_NAMES: dict[str, str] = yaml.safe_load((ASSETS / "classes.yaml").read_text("utf-8"))
LEVELS = 3  # sides of 128, 64 and 32 pixels, so that small pastes do not alias
Levels = tuple[Float[Tensor, "classes 4 _ _"], ...]


@dataclass(frozen=True)
class Drawings:
    """Classes to paste; `load` gives all of them in a style.

    Premultiplied RGBA in [0, 1], float64, one tensor a level of the pyramid. The name goes into
    every random choice, so that no two groups ever have the same background.
    """

    name: str
    classes: tuple[str, ...]
    load: Callable[[str], Levels]


@lru_cache(maxsize=8)
def _read(folder: str, classes: tuple[str, ...], style: str) -> Levels:
    place = ASSETS / folder / style
    pictures = []
    for name in classes:
        with (place / f"{name}.png").open("rb") as file:
            pictures.append(np.asarray(Image.open(file).convert("RGBA")))
    rgba = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).double() / 255
    rgba[:, :3] *= rgba[:, 3:]
    levels = [rgba]
    for _ in range(LEVELS - 1):
        levels.append(avg_pool2d(levels[-1], 2))
    return tuple(levels)


def _drawings(name: str, folder: str) -> Drawings:
    classes = tuple(_NAMES[name].split())
    return Drawings(name, classes, partial(_read, folder, classes))


ANIMALS = _drawings("animals", ".")
UNSEEN = _drawings("unseen", "unseen")  # for k-NN: no training has seen them
PRETRAINING = _drawings("things", "things")  # of the small models of the IAV study
# Those of PRETRAINING that come in all styles and are no prop: classes that no choice has seen.
OBJECTS = _drawings("objects", "things")
CLASSES = ANIMALS.classes


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
