"""Cutouts: drawings with exact masks on generated textures, in the paper's nine sets.

An image is made from (set, seed, index) alone, so any part of any set can be drawn again
with the same bytes and nothing has to be stored. The recipe follows SI-Score (Djolonga et
al. 2021), which pastes cut-out photographs on backgrounds and varies one thing at a time.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import grid_sample, interpolate

from relevit.data import textures
from relevit.data.batch import Batch, join
from relevit.data.foregrounds import CLASSES, Drawings, Levels, load_foregrounds
from relevit.data.labelled import Labelled
from relevit.data.textures import FAMILIES, SEEN, UNSEEN

HOME_SHARE = 0.7  # how often a class stands on its own texture family
CHUNK = 32  # images drawn at once; the bytes do not depend on it
LARGEST = 2 * textures.SIDE  # pixels of an image that is enlarged
STYLE = "3d"  # of props
PROPS, PLACES, PROP_TURN_DEG = 2, 12, 15.0  # things in an image; places tried for each
LARGEST_PROP = 0.5  # of the image side
TURNED = 1.3  # of its side is the square around a thing that is turned by that, and a pixel


@dataclass(frozen=True)
class Recipe:
    """What a set varies. Lengths are fractions of the image side."""

    title: str
    style: str = "3d"
    background: str = "home"  # home | always_home | foreign | seen | unseen | any
    scale: tuple[float, float] = (0.45, 0.75)
    rotation_deg: float = 15.0  # uniform in +- this
    rotation_step_deg: float = 0.0  # 0: continuous
    shift: float = 0.12  # uniform in +- this, from the centre
    brightness: tuple[float, float] = (0.8, 1.15)
    anywhere: bool = False  # any place that keeps the whole square inside
    tilt: float = 0.0  # strength of the perspective
    paper: float = 0.0  # share of white mixed into the background
    props: bool = True  # where the world has any
    camouflage: bool = False  # where the world has it
    empty: bool = False  # the background alone: no animal, so that the mask is empty
    twins: str = ""  # in sets of one such name the animals stand the same


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


@dataclass(frozen=True, eq=False)
class World:
    """Which images there are: the sets, what is pasted, and how its context goes with its class.

    `home_share` is how often a class is at home in sets with `background="home"`. `props` are
    things that stand behind the animal: for each texture family, which of `things` belong to it.
    `opacity` is the lowest with which an animal is drawn where its recipe has camouflage.
    Raises: ValueError for shares and opacities out of range, a family without props, or props so
    large that an animal could not stand beside them.
    """

    name: str = ""
    home_share: float = HOME_SHARE
    recipes: Mapping[str, Recipe] = field(default_factory=lambda: RECIPES)
    drawings: Drawings | None = None  # of the classes; None: the forty animals
    things: Drawings | None = None
    props: tuple[tuple[int, ...], ...] = ()
    prop_scale: tuple[float, float] = (0.24, 0.36)  # of the image side
    opacity: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.home_share <= 1:
            raise ValueError(
                f"cutouts: home_share {self.home_share}; it is a share of the images, 0 to 1"
            )
        if not 0 < self.opacity <= 1:
            raise ValueError(
                f"cutouts: opacity {self.opacity}; above 0, or nobody sees the animal, to 1"
            )
        if self.props and (len(self.props) != len(FAMILIES) or not all(self.props)):
            raise ValueError(
                f"cutouts: props for {sum(map(bool, self.props))} of {len(FAMILIES)} textures; "
                "each is a home and needs at least one"
            )
        if self.props and not 0 < self.prop_scale[0] <= self.prop_scale[1] <= LARGEST_PROP:
            raise ValueError(
                f"cutouts: prop_scale {self.prop_scale} of the image side; two props above "
                f"{LARGEST_PROP} leave no room in which an animal is seen"
            )

    @property
    def classes(self) -> tuple[str, ...]:
        """The name of each label."""
        return CLASSES if self.drawings is None else self.drawings.classes

    @property
    def identity(self) -> str:
        """What tells worlds with the same recipes, things and scales apart."""
        drawn = "animals" if self.drawings is None else self.drawings.name
        return f"{self.name} {drawn} home {self.home_share} opacity {self.opacity}"


FIRST = World()  # textures alone


@dataclass(frozen=True)
class _Prop:
    thing: int
    to_object: np.ndarray  # as of _Placement
    level: int
    centre: np.ndarray  # x and y in the image, in [-1, 1]

    def corner(self, axis: int, side: int, size: int) -> int:
        """The first pixel of a square around it that lies in the image."""
        middle = (self.centre[axis] + 1) * size / 2
        return min(max(0, round(middle - side / 2)), size - side)


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
    props: tuple[_Prop, ...]
    opacity: float


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
    world: World = FIRST,
) -> Batch:
    """Draw images of one set.

    Arguments: `indices` name the images; `labels` gives their classes, by default
    index modulo 40, so that any whole multiple of 40 images is balanced. `families` puts
    the same animals on other textures and changes nothing else. `size` is the side in
    pixels, at most 128; an even one up to 256 is drawn at half of it and enlarged, as textures
    are no finer. `drawings` are pasted instead of the animals, with random choices of
    their own; labels then count their classes. `world` says which sets there are and how
    context goes with class; props are what stands behind the animal, and have masks.
    Same arguments, same bytes, in whatever order or batches they are asked for.
    Raises: ValueError for no index, an unknown set, a label out of range or a bad size.
    """
    if set_name not in world.recipes:
        raise ValueError(f"cutouts: set {set_name!r} is unknown; use one of {tuple(world.recipes)}")
    if textures.SIDE < size <= LARGEST and size % 2 == 0:
        options = {"labels": labels, "families": families, "seed": seed, "drawings": drawings}
        return _twice_as_large(draw(set_name, indices, size=size // 2, world=world, **options))
    if not 16 <= size <= textures.SIDE:
        raise ValueError(
            f"cutouts: size {size} px; it must lie in 16..{textures.SIDE}, or be even and at most "
            f"{LARGEST}"
        )
    if len(indices) == 0:
        raise ValueError("cutouts: no images asked for; give at least one index")
    drawings = drawings or world.drawings
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
            _draw_chunk(set_name, wanted[i : i + CHUNK], seed, size, drawings, world)
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
    world: World = FIRST,
) -> Iterator[Batch]:
    """Yield the first `count` images of a set, `batch_size` at a time.

    `skipped` gets nothing: it is for images on a disk, of which some cannot be read.
    """
    for start in range(0, count, batch_size):
        indices = range(start, min(start + batch_size, count))
        yield draw(set_name, indices, seed=seed, size=size, world=world)


def drawn(
    set_name: str,
    count: int,
    *,
    drawings: Drawings | None = None,
    seed: int = 0,
    size: int = 112,
    world: World = FIRST,
) -> Labelled:
    """The first `count` images of a set as labelled pictures, drawn when they are read.

    Nothing is kept in memory, so that a training can see new images in every epoch. Arguments and
    errors as `draw`.
    """
    classes = world.classes if drawings is None else drawings.classes
    options = {"seed": seed, "size": size, "drawings": drawings, "world": world}
    return Labelled(
        set_name,
        classes,
        torch.arange(count) % len(classes),
        lambda wanted: draw(set_name, list(wanted), **options).images,
    )


def _twice_as_large(batch: Batch) -> Batch:
    pixels = interpolate(batch.images.float(), scale_factor=2, mode="bicubic")
    masks, props = (
        None if mask is None else mask.repeat_interleave(2, dim=-2).repeat_interleave(2, dim=-1)
        for mask in (batch.masks, batch.props)
    )
    images = pixels.round().clamp(0, 255).to(torch.uint8)
    return replace(batch, images=images, masks=masks, props=props)


def _draw_chunk(
    set_name: str,
    wanted: list[tuple[int, int, int | None]],
    seed: int,
    size: int,
    drawings: Drawings | None,
    world: World,
) -> Batch:
    """Draw (index, label, texture family or None for a drawn one) of one set."""
    recipe = world.recipes[set_name]
    names = (world.name, "" if drawings is None else drawings.name, recipe.twins or set_name)
    set_key = zlib.crc32("/".join(name for name in names if name).encode())
    placements = [
        _place(recipe, label, family, [seed, set_key, index], size, world)
        for index, label, family in wanted
    ]
    labels = [label for _, label, _ in wanted]
    picture = _backgrounds(placements, size)
    picture = picture * (1 - recipe.paper) + recipe.paper
    bright = torch.tensor([p.brightness for p in placements], dtype=torch.float64)
    bright = bright[:, None, None, None]
    behind = None
    if world.props:
        behind = torch.zeros(len(placements), 1, size, size, dtype=torch.float64)
        for layer in range(PROPS if recipe.props else 0):
            _paste_props(picture, behind, [p.props[layer] for p in placements], bright, world)
    load = load_foregrounds if drawings is None else drawings.load
    pixel = torch.arange(size)
    colour, alpha = _pasted(
        load(recipe.style),
        labels,
        [p.level for p in placements],
        [p.to_object for p in placements],
        _points(pixel[:, None], pixel, size).expand(len(wanted), -1, -1, -1),
    )
    if recipe.empty:
        colour, alpha = torch.zeros_like(colour), torch.zeros_like(alpha)
    masks = alpha > 0.5
    props_seen = None if behind is None else (behind > 0.5) & ~masks
    opacity = torch.tensor([p.opacity for p in placements], dtype=torch.float64)
    opacity = opacity[:, None, None, None]
    colour = (colour * bright).minimum(alpha) * opacity
    images = ((colour + (1 - alpha * opacity) * picture) * 255).round().clamp(0, 255)
    return Batch(
        images.to(torch.uint8),
        masks,
        torch.tensor(labels),
        torch.tensor([p.family for p in placements]),
        props=props_seen,
    )


def _paste_props(
    picture: Tensor, behind: Tensor, props: Sequence[_Prop], bright: Tensor, world: World
) -> None:
    """Paste a thing into every picture, in place; `behind` becomes their alpha."""
    size = picture.shape[-1]
    side = min(size, math.ceil(TURNED * world.prop_scale[1] * size))
    # Within a square around each thing, as the rest of the picture does not change.
    corners = [[prop.corner(axis, side, size) for prop in props] for axis in (1, 0)]
    rows, columns = (torch.tensor(first)[:, None] + torch.arange(side) for first in corners)
    place = (
        torch.arange(len(props))[:, None, None],
        slice(None),
        rows[:, :, None],
        columns[:, None],
    )
    points = _points(rows[:, :, None], columns[:, None], size)
    colour, alpha = (
        layers.permute(0, 2, 3, 1)
        for layers in _pasted(
            world.things.load(STYLE),
            [prop.thing for prop in props],
            [prop.level for prop in props],
            [prop.to_object for prop in props],
            points,
        )
    )
    picture[place] = (colour * bright).minimum(alpha) + (1 - alpha) * picture[place]
    behind[place] = behind[place].maximum(alpha)


def _choose_family(
    background: str, label: int, rng: np.random.Generator, home_share: float = HOME_SHARE
) -> int:
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


def _place(
    recipe: Recipe, label: int, family: int | None, key: list[int], size: int, world: World
) -> _Placement:
    rng = np.random.default_rng(key)
    # Where context is more than a texture it has choices of its own, so that the animal stands
    # the same in another one.
    context = np.random.default_rng([*key, 1]) if world.props else rng
    # Always, so that the rest stays equal.
    drawn = _choose_family(recipe.background, label, context, world.home_share)
    family = drawn if family is None else family
    scale = rng.uniform(*recipe.scale)
    angle = np.deg2rad(_angle_deg(recipe, rng))
    reach = 1 - scale if recipe.anywhere else 2 * recipe.shift
    centre = rng.uniform(-reach, reach, size=2)
    mirror = -1.0 if rng.random() < 0.5 else 1.0
    tilt = rng.uniform(-recipe.tilt, recipe.tilt, size=2)
    slack = textures.SIDE - size
    return _Placement(
        family=family,
        to_object=_to_object(centre, scale, angle, mirror, tilt),
        level=_level(scale * size),
        brightness=rng.uniform(*recipe.brightness),
        corner=(int(rng.integers(slack + 1)), int(rng.integers(slack + 1))),
        flips=(bool(rng.integers(2)), bool(rng.integers(2))),
        # Integers are exact everywhere; only their spectrum matters, not their distribution.
        white=rng.integers(-128, 128, size=(textures.SIDE, textures.SIDE), dtype=np.int8),
        props=_place_props(world, family, centre, context, size) if world.props else (),
        opacity=context.uniform(world.opacity, 1) if recipe.camouflage else 1.0,
    )


def _to_object(
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


def _place_props(
    world: World, family: int, animal: np.ndarray, rng: np.random.Generator, size: int
) -> tuple[_Prop, ...]:
    """Things of a home beside the animal: each goes where, of some places, there is most room."""
    props, taken = [], [animal]
    for _ in range(PROPS):
        thing = world.props[family][int(rng.integers(len(world.props[family])))]
        scale = rng.uniform(*world.prop_scale)
        places = rng.uniform(scale - 1, 1 - scale, size=(PLACES, 2))
        room = np.min([np.hypot(*(places - other).T) for other in taken], axis=0)
        taken.append(places[int(room.argmax())])
        angle = np.deg2rad(rng.uniform(-PROP_TURN_DEG, PROP_TURN_DEG))
        mirror = -1.0 if rng.random() < 0.5 else 1.0
        matrix = _to_object(taken[-1], scale, angle, mirror)
        props.append(_Prop(thing, matrix, _level(scale * size), taken[-1]))
    return tuple(props)


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


def _points(y: Tensor, x: Tensor, size: int) -> Float[Tensor, "... height width 3"]:
    """The middles of pixels, numbered from the top left, in [-1, 1]; homogeneous."""
    y, x = torch.broadcast_tensors(*((n.double() + 0.5) * (2 / size) - 1 for n in (y, x)))
    return torch.stack([x, y, torch.ones_like(x)], dim=-1)


def _pasted(
    drawings: Levels,
    which: Sequence[int],
    levels: Sequence[int],
    matrices: Sequence[np.ndarray],
    points: Float[Tensor, "images height width 3"],
) -> tuple[Float[Tensor, "images 3 height width"], Float[Tensor, "images 1 height width"]]:
    """Premultiplied colour and alpha of a drawing in each image, at these points of it."""
    pasted = torch.empty(len(which), 4, *points.shape[1:3], dtype=torch.float64)
    for level in range(len(drawings)):
        rows = [i for i, found in enumerate(levels) if found == level]
        if not rows:
            continue
        to_object = torch.from_numpy(np.stack([matrices[i] for i in rows]))
        mapped = torch.einsum("bij,bhwj->bhwi", to_object, points[rows])
        grid = mapped[..., :2] / mapped[..., 2:].clamp_min(1e-6)
        sources = drawings[level][[which[i] for i in rows]]
        pasted[rows] = grid_sample(sources, grid, align_corners=False)
    return pasted[:, :3], pasted[:, 3:].clamp(0, 1)
