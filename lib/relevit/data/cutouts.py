"""Cutouts: drawings with exact masks on generated textures, in the paper's nine sets.

An image is made from (set, seed, index) alone, so any part of any set can be drawn again
with the same bytes and nothing has to be stored. The recipe follows SI-Score (Djolonga et
al. 2021), which pastes cut-out photographs on backgrounds and varies one thing at a time.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import grid_sample, interpolate

from relevit.data import textures
from relevit.data.batch import Batch, join
from relevit.data.foregrounds import CLASSES, Drawings, Levels, load_foregrounds
from relevit.data.labelled import Labelled
from relevit.data.textures import FAMILIES, SEEN, UNSEEN

HOME_SHARE = 0.7  # how often a class stands on its own texture family
CHUNK = 64  # images drawn at once; the bytes do not depend on it
LARGEST = 2 * textures.SIDE  # pixels of an image that is enlarged


@dataclass(frozen=True)
class Recipe:
    """What a set varies. Lengths are fractions of the image side."""

    title: str
    style: str = "3d"
    background: str = "home"  # home | foreign | unseen | any
    scale: tuple[float, float] = (0.45, 0.75)
    rotation_deg: float = 15.0  # uniform in +- this
    rotation_step_deg: float = 0.0  # 0: continuous
    shift: float = 0.12  # uniform in +- this, from the centre
    brightness: tuple[float, float] = (0.8, 1.15)
    anywhere: bool = False  # any place that keeps the whole square inside
    tilt: float = 0.0  # strength of the perspective
    paper: float = 0.0  # share of white mixed into the background


RECIPES: dict[str, Recipe] = {
    "train": Recipe("training images of the original model"),
    "finetune": Recipe("images for relevance finetuning"),
    "validation": Recipe("images for choices made during training"),
    "val": Recipe("same kind as training"),
    "v2": Recipe("new draws of the same kind"),
    "a": Recipe("on the background of another class", background="foreign"),
    "r": Recipe("flat renditions", style="flat"),
    "sketch": Recipe("black sketches on pale ground", style="high_contrast", paper=0.65),
    "objectnet": Recipe(
        "unseen backgrounds, any rotation and viewpoint",
        background="unseen",
        rotation_deg=180.0,
        tilt=0.35,
    ),
    "si_location": Recipe("anywhere", background="any", scale=(0.25, 0.4), anywhere=True),
    "si_rotation": Recipe(
        "turned in steps of 20 degrees",
        background="any",
        rotation_deg=180.0,
        rotation_step_deg=20.0,
    ),
    "si_size": Recipe("from small to large", background="any", scale=(0.15, 0.9)),
}
# The nine test sets, in the order of the columns of RobustViT Tables 1 and 2.
TEST_SETS = ("val", "a", "r", "sketch", "v2", "objectnet", "si_location", "si_rotation", "si_size")
SHIFTED_SETS = ("a", "r", "sketch", "objectnet", "si_location", "si_rotation", "si_size")


@dataclass(frozen=True)
class _Placement:
    """The random choices of one image."""

    family: int
    to_object: np.ndarray  # 3 x 3, from image to foreground coordinates, both in [-1, 1]
    level: int
    brightness: float
    corner: tuple[int, int]
    flips: tuple[bool, bool]
    white: np.ndarray


def home_family(label: int) -> int:
    """The texture family that a class mostly stands on in training; five classes share one."""
    # Look-alikes (2k, 2k+1) get different homes, so that the background is a tempting cue.
    return (label + label // len(SEEN)) % len(SEEN)


def draw(
    set_name: str,
    indices: Sequence[int],
    *,
    labels: Sequence[int] | None = None,
    families: Sequence[int] | None = None,
    seed: int = 0,
    size: int = 112,
    drawings: Drawings | None = None,
) -> Batch:
    """Draw images of one set.

    Arguments: `indices` name the images; `labels` gives their classes, by default
    index modulo 40, so that any whole multiple of 40 images is balanced. `families` puts
    the same animals on other textures and changes nothing else. `size` is the side in
    pixels, at most 128; an even one up to 256 is drawn at half of it and enlarged, as textures
    are no finer. `drawings` are pasted instead of the animals, with random choices of
    their own; labels then count their classes.
    Same arguments, same bytes, in whatever order or batches they are asked for.
    Raises: ValueError for no index, an unknown set, a label out of range or a bad size.
    """
    if set_name not in RECIPES:
        raise ValueError(f"cutouts: set {set_name!r} is unknown; use one of {tuple(RECIPES)}")
    if textures.SIDE < size <= LARGEST and size % 2 == 0:
        options = {"labels": labels, "families": families, "seed": seed, "drawings": drawings}
        return _twice_as_large(draw(set_name, indices, size=size // 2, **options))
    if not 16 <= size <= textures.SIDE:
        raise ValueError(
            f"cutouts: size {size} px; it must lie in 16..{textures.SIDE}, or be even and at most "
            f"{LARGEST}"
        )
    if len(indices) == 0:
        raise ValueError("cutouts: no images asked for; give at least one index")
    classes = len(CLASSES if drawings is None else drawings.classes)
    labels = [i % classes for i in indices] if labels is None else list(labels)
    wrong = [label for label in labels if not 0 <= label < classes]
    if wrong or len(labels) != len(indices):
        raise ValueError(
            f"cutouts: {len(labels)} labels for {len(indices)} images, out of range: {wrong[:5]}; "
            f"give one label in 0..{classes - 1} for each image"
        )
    families = [None] * len(indices) if families is None else list(families)
    wanted = list(zip(indices, labels, families, strict=True))
    return join(
        [
            _draw_chunk(set_name, wanted[i : i + CHUNK], seed, size, drawings)
            for i in range(0, len(wanted), CHUNK)
        ]
    )


def batches(
    set_name: str,
    count: int,
    batch_size: int,
    *,
    seed: int = 0,
    size: int = 112,
    skipped: dict[int, str] | None = None,
) -> Iterator[Batch]:
    """Yield the first `count` images of a set, `batch_size` at a time.

    `skipped` gets nothing: it is for images on a disk, of which some cannot be read.
    """
    for start in range(0, count, batch_size):
        yield draw(set_name, range(start, min(start + batch_size, count)), seed=seed, size=size)


def drawn(
    set_name: str, count: int, *, drawings: Drawings | None = None, seed: int = 0, size: int = 112
) -> Labelled:
    """The first `count` images of a set as labelled pictures, drawn when they are read.

    Nothing is kept in memory, so that a training can see new images in every epoch. Arguments and
    errors as `draw`.
    """
    classes = CLASSES if drawings is None else drawings.classes
    return Labelled(
        set_name,
        classes,
        torch.arange(count) % len(classes),
        lambda wanted: draw(set_name, list(wanted), seed=seed, size=size, drawings=drawings).images,
    )


def _twice_as_large(batch: Batch) -> Batch:
    pixels = interpolate(batch.images.float(), scale_factor=2, mode="bicubic")
    masks = batch.masks.repeat_interleave(2, dim=-2).repeat_interleave(2, dim=-1)
    return replace(batch, images=pixels.round().clamp(0, 255).to(torch.uint8), masks=masks)


def _draw_chunk(
    set_name: str,
    wanted: list[tuple[int, int, int | None]],
    seed: int,
    size: int,
    drawings: Drawings | None,
) -> Batch:
    """Draw (index, label, texture family or None for a drawn one) of one set."""
    recipe = RECIPES[set_name]
    key = set_name if drawings is None else f"{drawings.name}/{set_name}"
    set_key = zlib.crc32(key.encode())
    placements = [
        _place(recipe, label, family, np.random.default_rng([seed, set_key, index]), size)
        for index, label, family in wanted
    ]
    labels = [label for _, label, _ in wanted]
    background = _backgrounds(placements, size)
    background = background * (1 - recipe.paper) + recipe.paper
    load = load_foregrounds if drawings is None else drawings.load
    colour, alpha = _foregrounds(load(recipe.style), placements, labels, size)
    bright = torch.tensor([p.brightness for p in placements], dtype=torch.float64)
    colour = (colour * bright[:, None, None, None]).minimum(alpha)
    images = ((colour + (1 - alpha) * background) * 255).round().clamp(0, 255)
    return Batch(
        images.to(torch.uint8),
        alpha > 0.5,
        torch.tensor(labels),
        torch.tensor([p.family for p in placements]),
    )


def _choose_family(background: str, label: int, rng: np.random.Generator) -> int:
    home = home_family(label)
    if background == "unseen":
        return len(SEEN) + int(rng.integers(len(UNSEEN)))
    if background == "any":
        return int(rng.integers(len(FAMILIES)))
    if background == "home" and rng.random() < HOME_SHARE:
        return home
    return int((home + 1 + rng.integers(len(SEEN) - 1)) % len(SEEN))


def _place(
    recipe: Recipe, label: int, family: int | None, rng: np.random.Generator, size: int
) -> _Placement:
    drawn = _choose_family(recipe.background, label, rng)  # always, so that the rest stays equal
    family = drawn if family is None else family
    scale = rng.uniform(*recipe.scale)
    angle = np.deg2rad(_angle_deg(recipe, rng))
    reach = 1 - scale if recipe.anywhere else 2 * recipe.shift
    centre = rng.uniform(-reach, reach, size=2)
    mirror = -1.0 if rng.random() < 0.5 else 1.0
    tilt = rng.uniform(-recipe.tilt, recipe.tilt, size=2)
    cos, sin = np.cos(angle), np.sin(angle)
    back = np.array([[1, 0, -centre[0]], [0, 1, -centre[1]], [0, 0, 1]])
    turn = np.array([[mirror * cos, mirror * sin, 0], [-sin, cos, 0], [0, 0, scale]])
    # Perspective: the depth grows along the tilt direction, as for a card leaning back.
    lean = np.array([[1, 0, 0], [0, 1, 0], [tilt[0], tilt[1], 1]])
    slack = textures.SIDE - size
    return _Placement(
        family=family,
        to_object=lean @ turn @ back,
        level=_level(scale * size),
        brightness=rng.uniform(*recipe.brightness),
        corner=(int(rng.integers(slack + 1)), int(rng.integers(slack + 1))),
        flips=(bool(rng.integers(2)), bool(rng.integers(2))),
        # Integers are exact everywhere; only their spectrum matters, not their distribution.
        white=rng.integers(-128, 128, size=(textures.SIDE, textures.SIDE), dtype=np.int8),
    )


def _angle_deg(recipe: Recipe, rng: np.random.Generator) -> float:
    if recipe.rotation_step_deg:
        steps = int(2 * recipe.rotation_deg / recipe.rotation_step_deg)
        return float(rng.integers(steps)) * recipe.rotation_step_deg
    return float(rng.uniform(-recipe.rotation_deg, recipe.rotation_deg))


def _level(side_px: float) -> int:
    """The pyramid level whose side is nearest above the pasted side."""
    return 0 if side_px > 64 else 1 if side_px > 32 else 2


def _backgrounds(placements: list[_Placement], size: int) -> Tensor:
    white = np.stack([p.white for p in placements]).astype(np.float64)
    pictures = textures.draw_textures(np.array([p.family for p in placements]), white)
    cut = []
    for picture, p in zip(pictures, placements, strict=True):
        top, left = p.corner
        picture = picture[top : top + size, left : left + size]
        # Mirrored left to right only by chance; upside down too, for textures have no up.
        picture = picture[:: -1 if p.flips[0] else 1, :: -1 if p.flips[1] else 1]
        cut.append(picture)
    return torch.from_numpy(np.stack(cut)).permute(0, 3, 1, 2).double() / 255


def _foregrounds(
    levels: Levels, placements: list[_Placement], labels: Sequence[int], size: int
) -> tuple[Tensor, Tensor]:
    """Premultiplied colour [batch, 3, size, size] and alpha [batch, 1, size, size]."""
    pixel = (torch.arange(size, dtype=torch.float64) + 0.5) * (2 / size) - 1
    y, x = torch.meshgrid(pixel, pixel, indexing="ij")
    points = torch.stack([x, y, torch.ones_like(x)], dim=-1)
    pasted = torch.empty(len(placements), 4, size, size, dtype=torch.float64)
    for level in range(len(levels)):
        rows = [i for i, p in enumerate(placements) if p.level == level]
        if not rows:
            continue
        matrices = torch.from_numpy(np.stack([placements[i].to_object for i in rows]))
        mapped = torch.einsum("bij,hwj->bhwi", matrices, points)
        grid = mapped[..., :2] / mapped[..., 2:].clamp_min(1e-6)
        sources = levels[level][[labels[i] for i in rows]]
        pasted[rows] = grid_sample(sources, grid, align_corners=False)
    return pasted[:, :3], pasted[:, 3:].clamp(0, 1)
