"""Things instead of animals, drawn by the recipes of Cutouts.

Two groups of drawings from the same 3D style of Microsoft's Fluent Emoji as the animals. The
24 of UNSEEN are for k-NN: neither they nor their backgrounds are in any training. The 100 of
PRETRAINING are what the small models of the IAV study learn from before they see an animal.
40 of the latter, OBJECTS, come in all three styles, as classes of Habitats that no choice has seen.
There is one drawing of each class and style, so that two images of a class differ by what a recipe
varies: background, place, size, rotation, mirror image, brightness and viewpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from relevit.data import cutouts
from relevit.data.cutouts import RECIPES, Batch, drawn
from relevit.data.foregrounds import Drawings, Levels, read_levels
from relevit.data.labelled import Labelled

STYLE = "3d"  # the one that the animals are trained in
# The order is the label order. Of the unseen things neighbours are look-alikes, as among animals.
_NAMES = {
    "unseen": """
        automobile taxi fire-engine delivery-truck sailboat speedboat bicycle
        kick-scooter lemon tangerine carrot hot-pepper doughnut bagel hamburger sandwich
        guitar banjo hammer axe alarm-clock stopwatch running-shoe hiking-boot
    """,
    "things": """
        red-apple pear grapes watermelon banana pineapple mango peach cherries
        strawberry kiwi-fruit tomato coconut avocado eggplant potato ear-of-corn
        cucumber broccoli garlic onion mushroom chestnut bread croissant pretzel
        pancakes cheese meat-on-bone bacon french-fries pizza hot-dog taco cooking
        popcorn ice-cream cookie birthday-cake cupcake pie chocolate-bar lollipop
        honey-pot teapot wine-glass beer-mug locomotive bus tractor motorcycle airplane
        helicopter rocket ship canoe anchor balloon wrapped-gift trophy soccer-ball
        basketball american-football tennis bowling crown top-hat glasses necktie dress
        handbag backpack high-heeled-shoe ring gem-stone drum trumpet violin saxophone
        telephone television camera light-bulb books scissors key locked wrench magnet
        microscope telescope broom chair umbrella cactus palm-tree evergreen-tree
        sunflower tulip maple-leaf
    """,
}


# None of them is a prop of Habitats; neighbours are look-alikes.
_OBJECTS = """
    pear avocado grapes cherries mango peach strawberry tomato kiwi-fruit watermelon
    croissant pretzel cookie pie birthday-cake cupcake garlic onion cucumber eggplant
    hot-dog taco bacon meat-on-bone wine-glass beer-mug crown ring necktie dress
    handbag backpack microscope telescope camera television trophy wrapped-gift banana pineapple
"""


@cache
def _levels(group: str) -> Levels:
    return read_levels(f"{group}/{STYLE}", _NAMES[group].split())


@cache
def _objects(style: str) -> Levels:
    return read_levels(f"things/{style}", _OBJECTS.split())


UNSEEN, PRETRAINING = (
    Drawings(group, tuple(names.split()), lambda style, group=group: _levels(group))
    for group, names in _NAMES.items()
)
OBJECTS = Drawings("objects", tuple(_OBJECTS.split()), _objects)


def draw(
    drawings: Drawings, set_name: str, indices: Sequence[int], *, seed: int = 0, size: int = 112
) -> Batch:
    """Draw things by the recipe of a set of animals; same arguments, same bytes.

    Labels are index modulo the number of classes. Backgrounds, places and rotations are not
    those of the animals' image, or the other group's, with the same set, seed and index.
    Raises: ValueError for a set in another style than 3D, of which there are no drawings,
    and as `cutouts.draw`.
    """
    _check_style(set_name)
    return cutouts.draw(set_name, indices, seed=seed, size=size, drawings=drawings)


def labelled(
    drawings: Drawings, set_name: str, count: int, *, seed: int = 0, size: int = 112
) -> Labelled:
    """The first `count` images of a set, drawn now and kept in memory; errors as `draw`."""
    _check_style(set_name)
    return drawn(set_name, count, drawings=drawings, seed=seed, size=size).kept()


def _check_style(set_name: str) -> None:
    recipe = RECIPES.get(set_name)  # an unknown set is left to cutouts
    if recipe is not None and recipe.style != STYLE:
        allowed = tuple(name for name, other in RECIPES.items() if other.style == STYLE)
        raise ValueError(
            f"things: set {set_name!r} is in style {recipe.style!r}, and things are drawn in "
            f"{STYLE!r} alone; use one of {allowed}"
        )
