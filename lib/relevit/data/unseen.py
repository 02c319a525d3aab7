"""Things instead of animals: classes that no model of the suite was ever trained on.

Twenty-four drawings of vehicles, food, tools and other things, from the same 3D style of
Microsoft's Fluent Emoji as the animals, and drawn by the same recipes (`relevit.data.cutouts`).
There is one drawing of each class, so that two images of a class differ by what a recipe
varies: background, place, size, rotation, mirror image, brightness and viewpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from relevit.data import cutouts
from relevit.data.cutouts import RECIPES, Batch
from relevit.data.foregrounds import Drawings, Levels, read_levels
from relevit.data.labelled import Labelled

STYLE = "3d"  # the one that the animals are trained in
# The order is the label order. Neighbours are look-alikes, as among the animals.
CLASSES = (
    "automobile", "taxi", "fire-engine", "delivery-truck", "sailboat", "speedboat",
    "bicycle", "kick-scooter", "lemon", "tangerine", "carrot", "hot-pepper",
    "doughnut", "bagel", "hamburger", "sandwich", "guitar", "banjo",
    "hammer", "axe", "alarm-clock", "stopwatch", "running-shoe", "hiking-boot",
)  # fmt: skip


@cache
def _levels() -> Levels:
    return read_levels(f"unseen/{STYLE}", CLASSES)


DRAWINGS = Drawings("unseen", CLASSES, lambda style: _levels())


def draw(set_name: str, indices: Sequence[int], *, seed: int = 0, size: int = 112) -> Batch:
    """Draw things by the recipe of a set of animals; same arguments, same bytes.

    Labels are index modulo 24 and count CLASSES. Backgrounds, places and rotations are not
    those of the animals' image with the same set, seed and index.
    Raises: ValueError for a set in another style than 3D, of which there are no drawings,
    and as `cutouts.draw`.
    """
    recipe = RECIPES.get(set_name)  # an unknown set is left to cutouts
    if recipe is not None and recipe.style != STYLE:
        allowed = tuple(name for name, other in RECIPES.items() if other.style == STYLE)
        raise ValueError(
            f"unseen: set {set_name!r} is in style {recipe.style!r}, and things are drawn in "
            f"{STYLE!r} alone; use one of {allowed}"
        )
    return cutouts.draw(set_name, indices, seed=seed, size=size, drawings=DRAWINGS)


def labelled(set_name: str, count: int, *, seed: int = 0, size: int = 112) -> Labelled:
    """The first `count` images of a set, drawn now and kept in memory; errors as `draw`."""
    batch = draw(set_name, range(count), seed=seed, size=size)
    return Labelled(set_name, CLASSES, batch.labels, lambda wanted: batch.images[list(wanted)])
