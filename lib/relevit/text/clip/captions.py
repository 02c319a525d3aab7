"""Captions for Cutouts, "an orange cat on moss", and the class that a caption names.

A caption says what was drawn: the colour that covers most of the drawing, the class, and the
texture behind it. Nothing is taken from the pixels of the image itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from relevit.data import cutouts
from relevit.data.batch import Batch
from relevit.data.foregrounds import CLASSES, Drawings, load_foregrounds
from relevit.data.textures import FAMILIES

PROMPT = "a photo of a {}"
STYLE = "3d"  # the drawings whose colour a caption tells
_LISTS = {
    "colours": "black, grey, white, red, orange, yellow, green, blue, purple, pink, brown",
    # Names that nobody puts "a" before.
    "some": "grapes, cherries, pancakes, french fries, books, scissors, glasses, bread, bacon, "
    "broccoli, cheese, garlic, popcorn, ice cream",
}
COLOURS, _SOME = (tuple(words.split(", ")) for words in _LISTS.values())
# What the file of a drawing is called, where nobody would say so.
_SPOKEN = {
    "cooking": "frying pan",
    "locked": "padlock",
    "bowling": "bowling ball",
    "tennis": "tennis racket",
    "gem-stone": "gemstone",
    "running-shoe": "running shoe",
}
_GROUNDS = {"reef": "a reef"}
_AN = re.compile(r"(?!eu|uni)[aeiou]", re.IGNORECASE)  # how words begin that come after "an"


@dataclass(frozen=True)
class Captioned:
    """Images, and what is written below each: with its background, and without."""

    batch: Batch
    captions: tuple[tuple[str, str], ...]

    def __len__(self) -> int:
        return len(self.captions)


def spoken(name: str) -> str:
    """A class as one says it: `lady-beetle` is "lady beetle"."""
    return _SPOKEN.get(name, name.replace("-", " "))


def names(drawings: Drawings | None = None) -> tuple[str, ...]:
    """All classes of the animals, or of other drawings, as one says them, in label order."""
    return tuple(map(spoken, CLASSES if drawings is None else drawings.classes))


def caption(label: int, family: int | None = None, drawings: Drawings | None = None) -> str:
    """ "a red parrot on sand"; without a `family` of textures (None or -1) "a red parrot".

    Raises: ValueError for a label or a family that does not exist.
    """
    classes = names(drawings)
    _check_place("label", label, len(classes))
    tint = colour(label, drawings)
    words = classes[label].removeprefix(f"{tint} ")  # no "red red apple"
    words = f"{tint} {words}"
    text = f"{_article(words, classes[label])} {words}"
    if family is None or family == -1:
        return text
    _check_place("family", family, len(FAMILIES))
    ground = FAMILIES[family].name
    return f"{text} on {_GROUNDS.get(ground, ground)}"


def prompt(name: str, template: str = PROMPT) -> str:
    """The text that stands for a class zero-shot, its name as one says it after its article.

    Beyond Intuition Sec. 4.2 has "a photo of {class name}"; the article is CLIP's own, and becomes
    "an" or nothing where a name needs it. Raises: ValueError for a template without a place for
    the name.
    """
    if "{}" not in template:
        raise ValueError(
            f"prompt: template {template!r} has no place for a class; put {{}} into it"
        )
    text = spoken(name)
    if text.lower() in _SOME:
        template = re.sub(r"\ba (?=\{\})", "", template, flags=re.IGNORECASE)
    elif _AN.match(text):
        template = re.sub(r"\b(a) (?=\{\})", r"\1n ", template, flags=re.IGNORECASE)
    return template.format(text)


def published_prompt(name: str) -> str:
    """The prompt of the published script for CLIP: "a photo of a" and any name, as it is written.

    Source: CLIP/CLIP/visualisation.py, "a photo of a American chameleon" and "a photo of a
    scissors" too. Its names are torchvision's, each a tuple of synonyms; here it is one of them.
    """
    return PROMPT.format(name)


def described(label: int, drawings: Drawings | None = None) -> str:
    """A prompt that tells the colour too: "a photo of a red parrot"."""
    return f"a photo of {caption(label, None, drawings)}"


def colour_alone(label: int, drawings: Drawings | None = None) -> str:
    """A prompt with the colour and no class: what `described` gains without any knowledge of it."""
    return f"a photo of something {colour(label, drawings)}"


def captioned(
    set_name: str,
    indices: Sequence[int],
    *,
    labels: Sequence[int] | None = None,
    seed: int = 0,
    size: int = 112,
    drawings: Drawings | None = None,
) -> Captioned:
    """Images of a set (`cutouts.draw`) with their captions; same arguments, same result.

    Raises: ValueError for a set in another style, whose colours are others, and as `draw`.
    """
    recipe = cutouts.RECIPES.get(set_name)  # an unknown set is left to cutouts
    if recipe is not None and recipe.style != STYLE:
        allowed = tuple(name for name, other in cutouts.RECIPES.items() if other.style == STYLE)
        raise ValueError(
            f"captioned: set {set_name!r} is in style {recipe.style!r}, and captions tell the "
            f"colours of {STYLE!r} alone; use one of {allowed}"
        )
    batch = cutouts.draw(set_name, indices, labels=labels, seed=seed, size=size, drawings=drawings)
    pairs = zip(batch.labels.tolist(), batch.families.tolist(), strict=True)
    written = [(caption(i, family, drawings), caption(i, None, drawings)) for i, family in pairs]
    return Captioned(batch, tuple(written))


def class_of_caption(text: str, classes: Sequence[str] = CLASSES) -> int:
    """The place in `classes` of the one class that a caption names.

    Names are found as whole words, the longest first: "a hot dog" is no dog. Capitals, hyphens
    and apostrophes do not matter, in the caption or in the names.
    Raises: ValueError for a caption that names none of the classes, or several.
    """
    rest, found = _letters(text), []
    known = [_letters(spoken(name)) for name in classes]
    for place in sorted(range(len(classes)), key=lambda i: -len(known[i])):
        rest, times = re.subn(rf"\b{re.escape(known[place])}\b", "|", rest)
        found += [place] if times else []
    if len(found) == 1:
        return found[0]
    what = f"names {[classes[i] for i in sorted(found)]}" if found else "names no known class"
    raise ValueError(
        f"class_of_caption: {text!r} {what}; needed is one of {[spoken(c) for c in classes]}: "
        "write a caption with one of these words"
    )


@cache
def colour(label: int, drawings: Drawings | None = None) -> str:
    """The word of COLOURS that covers most of a drawing, by a rule on hue (`colour_words`).

    Raises: ValueError for a label that does not exist.
    """
    _check_place("label", label, len(CLASSES if drawings is None else drawings.classes))
    levels = (load_foregrounds if drawings is None else drawings.load)(STYLE)
    drawing = levels[1][label]  # half the size; the border of the object is a few pixels
    alpha = drawing[3].flatten()
    solid = alpha > 0.5
    words = colour_words((drawing[:3].flatten(1)[:, solid] / alpha[solid]).T)
    share = torch.zeros(len(COLOURS), dtype=alpha.dtype).index_add(0, words, alpha[solid])
    return COLOURS[int(share.argmax())]


def colour_words(rgb: Float[Tensor, "pixels 3"]) -> Tensor:
    """Which of COLOURS each pixel has, for red, green and blue in [0, 1].

    Dark is black, pale is white or grey; else the hue decides, but a dark orange is brown and
    a pale red is pink.
    """
    high, low = rgb.amax(dim=1), rgb.amin(dim=1)
    span = (high - low).clamp(min=1e-9)
    red, green, blue = rgb.T
    hue = (
        torch.where(
            high == red,
            (green - blue) / span % 6,
            torch.where(high == green, (blue - red) / span + 2, (red - green) / span + 4),
        )
        * 60
    )
    edges = torch.tensor([14.0, 38.0, 65.0, 165.0, 255.0, 290.0, 335.0], dtype=rgb.dtype)
    by_hue = torch.tensor([3, 4, 5, 6, 7, 8, 9, 3])[torch.bucketize(hue, edges, right=True)]
    saturation = span / high.clamp(min=1e-9)
    red, orange = by_hue == 3, by_hue == 4
    words = torch.where((orange & (high < 0.75)) | (red & (high < 0.65)), 10, by_hue)
    words = torch.where(red & (high >= 0.65) & (saturation < 0.55), 9, words)
    pale = (saturation < 0.15) | ((saturation < 0.25) & (high > 0.9))
    words = torch.where(pale, torch.where(high > 0.8, 2, 1), words)
    return torch.where((high < 0.25) | ((high < 0.4) & (saturation < 0.4)), 0, words)


def _article(words: str, name: str) -> str:
    if name in _SOME:
        return "some"
    return "an" if _AN.match(words) else "a"


def _letters(text: str) -> str:
    """Words in lower case with one space between them, nothing else."""
    return re.sub(r"[\W_]+", " ", text.lower()).strip()


def _check_place(kind: str, place: int, count: int) -> None:
    if not 0 <= place < count:
        raise ValueError(f"caption: {kind} {place}; there are {count}, use one in 0..{count - 1}")
