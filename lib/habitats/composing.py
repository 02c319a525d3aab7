"""How an image of Cutouts is put together: a texture, things of the home on it, an animal on top.

Every random choice of an image comes from (seed, set, index) alone. Coordinates are x and y in
[-1, 1], homogeneous; a drawing is looked up where the image's pixels fall on it.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import grid_sample

from habitats import textures
from habitats.drawings import Levels
from habitats.textures import FAMILIES, SEEN, UNSEEN
from relevit.data.batch import Batch

if TYPE_CHECKING:
    from habitats.cutouts import Cutouts, Recipe

PROP_STYLE = "3d"
THINGS = ("thing 1", "thing 2")  # of an image, in the order of drawing
PARTS = ("animal", *THINGS, "texture")  # of an image, which can be left out
PROPS, PLACES, PROP_TURN_DEG = len(THINGS), 12, 15.0  # things in an image; places tried for each
# In place of a texture that is left out: its mean colour would still tell the home.
GROUND = 0.5
TURNED = 1.3  # of its side is the square around a thing that is turned by that, and a pixel


class Pose(NamedTuple):
    """Where a drawing stands in an image, and which it is."""

    which: int
    to_drawing: np.ndarray  # 3 x 3, from image to drawing coordinates
    level: int
    centre: np.ndarray  # x and y in the image

    def corner(self, axis: int, side: int, size: int) -> int:
        """The first pixel of a square around it that lies in the image."""
        middle = (self.centre[axis] + 1) * size / 2
        return min(max(0, round(middle - side / 2)), size - side)


@dataclass(frozen=True)
class Placement:
    """The random choices of one image."""

    family: int
    animal: Pose
    brightness: float
    corner: tuple[int, int]
    flips: tuple[bool, bool]
    white: np.ndarray
    props: tuple[Pose, ...]
    opacity: float


def home_family(label: int) -> int:
    """The texture family that a class mostly stands on in training; five classes share one."""
    # Look-alikes (2k, 2k+1) get different homes, so that the background is a tempting cue.
    return (label + label // len(SEEN)) % len(SEEN)


def compose(
    world: Cutouts,
    set_name: str,
    wanted: Sequence[tuple[int, int, int | None]],
    seed: int,
    size: int,
    without: Collection[str] = (),
) -> Batch:
    """Images of a set from their index, label and texture family (None for a drawn one).

    `without` are those of PARTS that are not drawn; what is chosen at random stays.
    """
    recipe = world.recipes[set_name]
    # The first generation's sets had no name before theirs, nor had the animals.
    names = (world.name, world.drawings.name, recipe.twins or set_name)
    key = zlib.crc32("/".join(n for n in names if n not in ("cutouts", "animals")).encode())
    placed = [_place(world, recipe, *one, [seed, key, one[0]], size) for one in wanted]
    bright, opacity = (
        torch.tensor(values, dtype=torch.float64)[:, None, None, None]
        for values in zip(*((p.brightness, p.opacity) for p in placed), strict=True)
    )
    picture = _backgrounds(placed, size)
    if "texture" in without:
        picture.fill_(GROUND)
    picture = picture * (1 - recipe.paper) + recipe.paper
    behind = torch.zeros(len(placed), 1, size, size, dtype=torch.float64)
    for layer, thing in enumerate(THINGS if world.habitats and recipe.props else ()):
        if thing in without:
            continue
        _paste_props(picture, behind, [p.props[layer] for p in placed], bright, world)
    pixel = torch.arange(size)
    points = _points(pixel[:, None], pixel, size).expand(len(placed), -1, -1, -1)
    colour, alpha = _pasted(world.drawings.load(recipe.style), [p.animal for p in placed], points)
    if recipe.empty or "animal" in without:
        colour, alpha = torch.zeros_like(colour), torch.zeros_like(alpha)
    masks = alpha > 0.5
    colour = (colour * bright).minimum(alpha) * opacity
    images = ((colour + (1 - alpha * opacity) * picture) * 255).round().clamp(0, 255)
    return Batch(
        images.to(torch.uint8),
        masks,
        torch.tensor([label for _, label, _ in wanted]),
        torch.tensor([p.family for p in placed]),
        props=(behind > 0.5) & ~masks if world.habitats else None,
        opacity=opacity.flatten(),
    )


# Random choices: their order is part of the benchmark


def _place(
    world: Cutouts,
    recipe: Recipe,
    index: int,
    label: int,
    family: int | None,
    key: list[int],
    size: int,
) -> Placement:
    rng = np.random.default_rng(key)
    # Where context is more than a texture it has choices of its own, so that the animal stands
    # the same in another one.
    context = np.random.default_rng([*key, 1]) if world.habitats else rng
    # Always, so that the rest stays equal.
    drawn = _choose_family(recipe.background, label, context, world.home_share)
    family = drawn if family is None else family
    scale = rng.uniform(*recipe.scale)
    angle = np.deg2rad(_angle_deg(recipe, rng))
    reach = 1 - scale if recipe.anywhere else 2 * recipe.shift
    centre = rng.uniform(-reach, reach, size=2)
    mirror = -1.0 if rng.random() < 0.5 else 1.0
    tilt = rng.uniform(-recipe.tilt, recipe.tilt, size=2)
    to_animal = _to_drawing(centre, scale, angle, mirror, tilt)
    slack = textures.SIDE - size
    return Placement(
        family=family,
        animal=Pose(label, to_animal, _level(scale * size), centre),
        brightness=rng.uniform(*recipe.brightness),
        corner=(int(rng.integers(slack + 1)), int(rng.integers(slack + 1))),
        flips=(bool(rng.integers(2)), bool(rng.integers(2))),
        # Integers are exact everywhere; only their spectrum matters, not their distribution.
        white=rng.integers(-128, 128, size=(textures.SIDE, textures.SIDE), dtype=np.int8),
        props=_place_props(world, family, centre, context, size) if world.habitats else (),
        opacity=context.uniform(world.opacity, 1) if recipe.camouflage else 1.0,
    )


def _choose_family(background: str, label: int, rng: np.random.Generator, home_share: float) -> int:
    home = home_family(label)
    if background == "always_home":
        return home
    if background == "unseen":
        return len(SEEN) + int(rng.integers(len(UNSEEN)))
    if background == "any":
        return int(rng.integers(len(FAMILIES)))
    if background == "seen":
        return int(rng.integers(len(SEEN)))
    if background == "home" and rng.random() < home_share:
        return home
    return int((home + 1 + rng.integers(len(SEEN) - 1)) % len(SEEN))


def _angle_deg(recipe: Recipe, rng: np.random.Generator) -> float:
    if recipe.rotation_step_deg:
        steps = int(2 * recipe.rotation_deg / recipe.rotation_step_deg)
        return float(rng.integers(steps)) * recipe.rotation_step_deg
    return float(rng.uniform(-recipe.rotation_deg, recipe.rotation_deg))


def _place_props(
    world: Cutouts, family: int, animal: np.ndarray, rng: np.random.Generator, size: int
) -> tuple[Pose, ...]:
    """Things of a home beside the animal: each goes where, of some places, there is most room."""
    names, classes = world.habitats[family].props, world.things.classes
    props, taken = [], [animal]
    for _ in range(PROPS):
        thing = classes.index(names[int(rng.integers(len(names)))])
        scale = rng.uniform(*world.prop_scale)
        places = rng.uniform(scale - 1, 1 - scale, size=(PLACES, 2))
        room = np.min([np.hypot(*(places - other).T) for other in taken], axis=0)
        taken.append(places[int(room.argmax())])
        angle = np.deg2rad(rng.uniform(-PROP_TURN_DEG, PROP_TURN_DEG))
        mirror = -1.0 if rng.random() < 0.5 else 1.0
        matrix = _to_drawing(taken[-1], scale, angle, mirror)
        props.append(Pose(thing, matrix, _level(scale * size), taken[-1]))
    return tuple(props)


def _to_drawing(
    centre: np.ndarray,
    scale: float,
    angle: float,
    mirror: float,
    tilt: np.ndarray | tuple[float, float] = (0, 0),
) -> np.ndarray:
    """3 x 3, from the image to a drawing that is mirrored, turned, scaled, tilted and moved."""
    cos, sin = np.cos(angle), np.sin(angle)
    back = np.array([[1, 0, -centre[0]], [0, 1, -centre[1]], [0, 0, 1]])
    turn = np.array([[mirror * cos, mirror * sin, 0], [-sin, cos, 0], [0, 0, scale]])
    # Perspective: the depth grows along the tilt direction, as for a card leaning back.
    lean = np.array([[1, 0, 0], [0, 1, 0], [tilt[0], tilt[1], 1]])
    return lean @ turn @ back


def _level(side_px: float) -> int:
    """The pyramid level whose side is nearest above the pasted side."""
    return 0 if side_px > 64 else 1 if side_px > 32 else 2


# Pixels


def _backgrounds(placed: Sequence[Placement], size: int) -> Float[Tensor, "images 3 size size"]:
    white = np.stack([p.white for p in placed]).astype(np.float64)
    pictures = textures.draw_textures(np.array([p.family for p in placed]), white)
    cut = []
    for picture, p in zip(pictures, placed, strict=True):
        top, left = p.corner
        picture = picture[top : top + size, left : left + size]
        # Mirrored left to right only by chance; upside down too, for textures have no up.
        picture = picture[:: -1 if p.flips[0] else 1, :: -1 if p.flips[1] else 1]
        cut.append(picture)
    return torch.from_numpy(np.stack(cut)).permute(0, 3, 1, 2).double() / 255


def _paste_props(
    picture: Tensor, behind: Tensor, props: Sequence[Pose], bright: Tensor, world: Cutouts
) -> None:
    """Paste a thing into every picture, in place; `behind` becomes their alpha."""
    size = picture.shape[-1]
    side = min(size, math.ceil(TURNED * world.prop_scale[1] * size))
    # Within a square around each thing, as the rest of the picture does not change.
    corners = [[prop.corner(axis, side, size) for prop in props] for axis in (1, 0)]
    rows, columns = (torch.tensor(first)[:, None] + torch.arange(side) for first in corners)
    image = torch.arange(len(props))[:, None, None]
    place = (image, slice(None), rows[:, :, None], columns[:, None])
    points = _points(rows[:, :, None], columns[:, None], size)
    pasted = _pasted(world.things.load(PROP_STYLE), props, points)
    colour, alpha = (layers.permute(0, 2, 3, 1) for layers in pasted)
    picture[place] = (colour * bright).minimum(alpha) + (1 - alpha) * picture[place]
    behind[place] = behind[place].maximum(alpha)


def _points(y: Tensor, x: Tensor, size: int) -> Float[Tensor, "... height width 3"]:
    """The middles of pixels, numbered from the top left."""
    y, x = torch.broadcast_tensors(*((n.double() + 0.5) * (2 / size) - 1 for n in (y, x)))
    return torch.stack([x, y, torch.ones_like(x)], dim=-1)


def _pasted(
    drawings: Levels, poses: Sequence[Pose], points: Float[Tensor, "images height width 3"]
) -> tuple[Float[Tensor, "images 3 height width"], Float[Tensor, "images 1 height width"]]:
    """Premultiplied colour and alpha of a drawing in each image, at these points of it."""
    pasted = torch.empty(len(poses), 4, *points.shape[1:3], dtype=torch.float64)
    for level, sources in enumerate(drawings):
        rows = [i for i, pose in enumerate(poses) if pose.level == level]
        if not rows:
            continue
        matrices = torch.from_numpy(np.stack([poses[i].to_drawing for i in rows]))
        mapped = torch.einsum("bij,bhwj->bhwi", matrices, points[rows])
        grid = mapped[..., :2] / mapped[..., 2:].clamp_min(1e-6)
        which = [poses[i].which for i in rows]
        pasted[rows] = grid_sample(sources[which], grid, align_corners=False)
    return pasted[:, :3], pasted[:, 3:].clamp(0, 1)
