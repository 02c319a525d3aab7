"""Sentences about an answer: what a check is made of.

def background(answer):
    \"\"\"Mean squared relevance off the object.\"\"\"
    heat, mask = torch.rand(2, 1, 4, 4), ...
    given = result(answer, heat, mask)
    compare(given, background_loss(heat, mask), {
        "You punish the object: ...": background_loss(heat, 1 - mask),
    })
    passed("That is Eq. 1.")
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from numbers import Number
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

TOLERANCE = 1e-4  # relative and absolute: rounding, and no other formula


class Wrong(AssertionError):
    """An answer that is not right yet, in one sentence; a notebook shows no more than that."""

    def _render_traceback_(self) -> list[str]:
        """IPython's hook: the sentence in the place of a traceback."""
        return [f"✗ {self}"]


def passed(text: str) -> None:
    """Say that the answer is right, and why it matters."""
    print(f"✓ {text}")


def wrong(text: str) -> NoReturn:
    """Raises: Wrong with this sentence."""
    raise Wrong(text) from None


def result(
    answer: Callable | None,
    *inputs: Any,
    shape: tuple[int, ...] | None = None,
    unpacked: bool = False,
) -> Tensor:
    """What a student's function makes of these inputs, as a tensor of finite numbers.

    `shape` is asked for where it is given. Of tensors, several numbers must come as a tensor, since
    the notebook goes on with one; `unpacked` where it takes them apart, so that a tuple, a list or
    an array does as well. Raises: Wrong for a function that is missing or empty, that stops,
    changes its inputs, or returns something else.
    """
    given = value(answer, *inputs)
    if not unpacked and any(isinstance(each, Tensor) for each in inputs):
        for kind, name in ((np.ndarray, "an array"), (list, "a list"), (tuple, "a tuple")):
            if isinstance(given, kind):
                wrong(
                    f"Your function returns {name}; a tensor is asked for: torch.as_tensor(...) "
                    "makes one."
                )
    try:
        made = given.detach() if isinstance(given, Tensor) else torch.as_tensor(np.array(given))
    except (TypeError, ValueError, RuntimeError):
        wrong(f"Your function returns {_named(given)}; a tensor or a number is asked for.")
    made = made.to(torch.float64) if made.is_floating_point() else made
    if shape is not None and tuple(made.shape) != shape:
        wrong(f"Your result has the shape {_shape(made)}; {_shape(shape)} is asked for.")
    if made.is_floating_point() and not bool(made.isfinite().all()):
        wrong("Your result holds NaN or infinity: look for a division by 0 or a logarithm of 0.")
    return made


def value(answer: Callable | None, *inputs: Any) -> Any:
    """As `result`, but whatever the function returns."""
    if answer is None or answer is ...:
        wrong("There is no answer yet: write one in the cell above, run it, and then this one.")
    if not callable(answer):
        wrong(f"A function is asked for, and this is {_named(answer)}: leave its brackets out.")
    kept = copy.deepcopy(inputs)
    try:
        given = answer(*inputs)
    except Exception as error:  # whatever a beginner's code may raise
        if isinstance(error, NotImplementedError) and not str(error):  # torch's have a text
            wrong("The function is still empty: write its body, run its cell, and then this one.")
        shapes = ", ".join(_shape(i) if hasattr(i, "shape") else repr(i) for i in inputs)
        told = " ".join(str(error).split())[:200]
        wrong(f"Your function stopped with {type(error).__name__}: {told} (its inputs: {shapes}).")
    if given is None:
        wrong("Your function returns nothing: end it with `return`.")
    for number, (new, old) in enumerate(zip(inputs, kept, strict=True), start=1):
        if _differ(new, old):
            wrong(f"Your function changes its input number {number}: work on a copy of it.")
    return given


def compare(given: Tensor, right: Any, slips: Mapping[str, Any]) -> None:
    """Compare a result with what is right.

    `slips` are typical mistakes: the sentence that helps, and the result that each leads to.
    Raises: Wrong, with the slip's sentence where the result is that of one.
    """
    right = _tensor(right)
    if tuple(given.shape) != tuple(right.shape):
        wrong(f"Your result has the shape {_shape(given)}; {_shape(right)} is asked for.")
    if _same(given, right):
        return
    for text, slip in slips.items():
        made = _tensor(slip)
        if made.shape == given.shape and _same(given, made):
            wrong(text)
    away = (given.double() - right.double()).abs()
    if away.ndim == 0:
        wrong(f"Not right yet: your number is off by {away.item():.3g}.")
    worst = np.unravel_index(int(away.argmax()), tuple(away.shape))
    place = ", ".join(str(int(i)) for i in worst)
    count = int((away > TOLERANCE).sum())
    wrong(
        f"Not right yet: {count} of {away.numel()} numbers differ, most at [{place}], by "
        f"{away.max().item():.3g}."
    )


def choice(given: Any, right: str, told: Mapping[str, str]) -> None:
    """An answer by letter; `told` has a sentence for each letter. Prints the right one's.

    Raises: Wrong, with what speaks against the letter, and for what is no letter.
    """
    letters = ", ".join(sorted(told))
    if given is None or given is ...:
        wrong(f"There is no answer yet: choose one of {letters}.")
    letter = str(given).strip().lower()
    if letter not in told:
        wrong(f"{given!r} is none of the answers: choose one of {letters}, in quotes.")
    if letter != right:
        wrong(told[letter])
    passed(told[right])


def guess(given: Any, right: float, *, within: float, unit: str, low: str, high: str) -> None:
    """A prediction made before the cell is run: any number counts, and hears how far it is off.

    Prints how it compares; `low` and `high` say what a guess below or above has overlooked.
    Raises: Wrong only where there is no number.
    """
    if given is None or given is ...:
        wrong("There is no prediction yet: write a number, before you look. None is wrong.")
    if isinstance(given, bool) or not isinstance(given, Number) or not math.isfinite(given):
        wrong(f"A number is asked for, in {unit}; this is {_named(given)}.")
    seen = f"You said {given:g} {unit}, and it is {right:.1f}."
    if abs(given - right) <= within:
        passed(f"{seen} Well predicted.")
    else:
        passed(f"{seen} {low if given < right else high}")


def _tensor(given: Any) -> Tensor:
    made = given.detach() if isinstance(given, Tensor) else torch.as_tensor(np.asarray(given))
    return made


def _same(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a.double(), b.double(), rtol=TOLERANCE, atol=TOLERANCE)


def _differ(new: Any, old: Any) -> bool:
    if isinstance(new, Tensor | np.ndarray):
        return not np.array_equal(np.asarray(new), np.asarray(old))
    if hasattr(new, "equals"):  # a table
        return not new.equals(old)
    return isinstance(new, list | dict | tuple | str | Number) and bool(new != old)


def _shape(of: Any) -> str:
    return f"({', '.join(str(int(n)) for n in getattr(of, 'shape', of))})"


def _named(given: Any) -> str:
    return f"{given!r}" if isinstance(given, Number | str) else f"a {type(given).__name__}"
