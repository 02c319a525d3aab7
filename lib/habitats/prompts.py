"""The text that stands for a class where images are held against texts."""

from __future__ import annotations

import re

# Names that nobody puts "a" before.
_SOME = re.compile(
    "grapes|cherries|pancakes|french fries|books|scissors|glasses|bread|bacon|broccoli|cheese|"
    "garlic|popcorn|ice cream",
    re.IGNORECASE,
)
_AN = re.compile(r"(?!eu|uni)[aeiou]", re.IGNORECASE)  # how words begin that come after "an"


def prompt(name: str, *, fitting: bool = True) -> str:
    """ "a photo of an ant", "a photo of scissors".

    Beyond Intuition Sec. 4.2 has "a photo of {class name}". The published script puts "a" before
    any name, as it is written: "a photo of a American chameleon" (`fitting=False`).
    """
    if not fitting:
        return f"a photo of a {name}"
    said = name.replace("-", " ")
    article = "" if _SOME.fullmatch(said) else "an " if _AN.match(said) else "a "
    return f"a photo of {article}{said}"
