"""Captions for Cutouts, "an orange cat on moss", prompts, and the class that a caption names.

A caption says what was drawn: the colour of the drawing, its class, and the texture behind it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from habitats.cutouts import Cutouts
from habitats.drawings import ANIMALS, Drawings
from habitats.textures import FAMILIES
from relevit.data.batch import Batch

# What colour most of a drawing has, of the 40 animals and the 100 things of `habitats.drawings`.
_DRAWN = {
    "black": "ant locomotive top-hat",
    "grey": "shark seal zebra elephant coconut television camera",
    "white": "duck swan cow ewe llama wine-glass beer-mug rocket ship bowling drum wrench",
    "red": "lady-beetle lobster shrimp parrot red-apple watermelon cherries strawberry tomato "
    "mushroom bacon french-fries popcorn teapot motorcycle balloon basketball backpack "
    "high-heeled-shoe telephone scissors magnet maple-leaf",
    "orange": "octopus blowfish cat dog goat leopard tiger kangaroo pineapple mango peach potato "
    "onion bread croissant pretzel pancakes pizza hot-dog cookie birthday-cake pie helicopter "
    "trophy crown trumpet locked broom",
    "yellow": "pear banana ear-of-corn cheese taco wrapped-gift saxophone light-bulb key sunflower",
    "green": "beetle cricket peacock kiwi-fruit avocado cucumber broccoli tractor books cactus "
    "palm-tree evergreen-tree",
    "blue": "dolphin tropical-fish whale ice-cream bus airplane canoe anchor soccer-ball glasses "
    "necktie dress gem-stone",
    "purple": "honeybee grapes eggplant cooking ring microscope telescope umbrella",
    "pink": "crab squid flamingo garlic cupcake lollipop tennis tulip",
    "brown": "cockroach scorpion eagle rooster turkey horse ox mammoth chestnut meat-on-bone "
    "chocolate-bar honey-pot american-football handbag violin chair",
}
COLOURS = tuple(_DRAWN)
_COLOUR = {name: colour for colour, names in _DRAWN.items() for name in names.split()}
# What the file of a drawing is called, where nobody would say so.
_SPOKEN = {
    "cooking": "frying pan",
    "locked": "padlock",
    "bowling": "bowling ball",
    "tennis": "tennis racket",
    "gem-stone": "gemstone",
    "running-shoe": "running shoe",
}
# Names that nobody puts "a" before.
_SOME = re.compile(
    "grapes|cherries|pancakes|french fries|books|scissors|glasses|bread|bacon|broccoli|cheese|"
    "garlic|popcorn|ice cream",
    re.IGNORECASE,
)
_AN = re.compile(r"(?!eu|uni)[aeiou]", re.IGNORECASE)  # how words begin that come after "an"


def captioned(
    set_name: str,
    indices: Sequence[int],
    *,
    seed: int = 0,
    size: int = 112,
    drawings: Drawings = ANIMALS,
) -> tuple[Batch, tuple[tuple[str, str], ...]]:
    """Images of a set in the style 3d (`Cutouts.draw`), and what is written below each: with its
    background, and without. Same arguments, same result.

    `drawings` are shown instead of the animals.
    """
    batch = Cutouts(drawings=drawings).draw(set_name, indices, seed=seed, size=size)
    names = drawings.classes
    pairs = zip(batch.labels.tolist(), batch.families.tolist(), strict=True)
    return batch, tuple(
        (caption(names[label], FAMILIES[family].name), caption(names[label]))
        for label, family in pairs
    )


def spoken(name: str) -> str:
    """A class as one says it: `lady-beetle` is "lady beetle"."""
    return _SPOKEN.get(name, name.replace("-", " "))


def caption(name: str, texture: str = "") -> str:
    """ "a red parrot on sand"; without a texture "a red parrot"."""
    said, colour = spoken(name), _COLOUR[name]
    words = f"{colour} {said.removeprefix(f'{colour} ')}"  # no "red red apple"
    text = f"{'some' if _SOME.fullmatch(said) else _article(words)} {words}"
    ground = "a reef" if texture == "reef" else texture
    return f"{text} on {ground}" if ground else text


def prompt(name: str, *, fitting: bool = True) -> str:
    """The text that stands for a class zero-shot: "a photo of an ant", "a photo of scissors".

    Beyond Intuition Sec. 4.2 has "a photo of {class name}". The published script puts "a" before
    any name, as it is written: "a photo of a American chameleon" (`fitting=False`).
    """
    if not fitting:
        return f"a photo of a {name}"
    said = spoken(name)
    return f"a photo of {said if _SOME.fullmatch(said) else f'{_article(said)} {said}'}"


def described(name: str) -> str:
    """A prompt that tells the colour too: "a photo of a red parrot"."""
    return f"a photo of {caption(name)}"


def colour_alone(name: str) -> str:
    """A prompt with the colour and no class: what `described` gains without any knowledge of it."""
    return f"a photo of something {_COLOUR[name]}"


def _article(words: str) -> str:
    return "an" if _AN.match(words) else "a"
