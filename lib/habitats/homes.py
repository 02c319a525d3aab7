"""Habitats: Cutouts in which context goes with the class, so that a model can learn to lean on it.

A home is a texture and the things found there; five classes share one, and look-alikes live in
different ones. In most training images a class is at home. The backgrounds challenge (Xiao et al.
2020, Noise or Signal) measures how much a model leans on that: the same animals at home
(`mixed_same`) and in a random home (`mixed_random`), whose difference is the background gap, and
homes without an animal (`only_background`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from habitats.cutouts import RECIPES, Cutouts, Home, Recipe
from habitats.drawings import ANIMALS, Drawings

# Chosen by the original alone (docs/context.md): trained to the end, it still leans on its context.
HOME_SHARE, OPACITY = 0.95, 0.2
CHALLENGE = ("mixed_same", "mixed_random", "only_background")


HOMES = (  # in the order of textures.FAMILIES
    Home("forest", "moss", ("mushroom", "evergreen-tree", "maple-leaf")),
    Home("desert", "sand", ("cactus", "palm-tree", "coconut")),
    Home("sea", "water", ("anchor", "canoe", "ship")),
    Home("workshop", "bark", ("wrench", "key", "chair")),
    Home("street", "slate", ("bus", "motorcycle", "umbrella")),
    Home("railway", "rust", ("locomotive", "magnet", "locked")),
    Home("fair", "reef", ("balloon", "popcorn", "lollipop")),
    Home("farm", "straw", ("tractor", "ear-of-corn", "sunflower")),
    # Never seen in training.
    Home("sky", "ice", ("airplane", "helicopter", "rocket")),
    Home("kitchen", "lava", ("teapot", "bread", "pizza")),
    Home("stage", "velvet", ("violin", "trumpet", "saxophone")),
    Home("pitch", "jade", ("soccer-ball", "basketball", "tennis")),
)

RECIPES_AT_HOME: dict[str, Recipe] = RECIPES | {
    **{
        name: replace(RECIPES[name], camouflage=True)
        for name in ("train", "finetune", "validation", "val", "v2", "a")
    },
    "r": replace(RECIPES["r"], background="seen"),
    # SI-Score's backgrounds are scenes without a thing in front, sketches have none at all.
    "sketch": replace(RECIPES["sketch"], background="seen", props=False),
    **{
        name: replace(RECIPES[name], props=False)
        for name in ("si_location", "si_rotation", "si_size")
    },
    "mixed_same": Recipe("at home", background="always_home", twins="mixed"),
    "mixed_random": Recipe("in a random home", background="seen", twins="mixed"),
    "only_background": Recipe("a home alone", background="always_home", twins="mixed", empty=True),
}


@lru_cache(maxsize=32)
def habitats(
    home_share: float = HOME_SHARE, opacity: float = OPACITY, drawings: Drawings = ANIMALS
) -> Cutouts:
    """The world in which classes are at home in `home_share` of the images.

    `opacity` is the lowest with which an animal is drawn in training images and their like; 1
    hides none. `drawings` are other classes than the forty animals.
    """
    return Cutouts("habitats", home_share, RECIPES_AT_HOME, drawings, HOMES, opacity=opacity)
