"""What an exercise of a notebook says to an answer: one sentence; and how the notebook goes on.

An exercise is a name that a cell of a notebook gives a meaning to, mostly a function. The cell
below asks for it: `gae = checks.answer("gae", globals())`. That tries it on small examples and
prints a line that begins with ✓ or ✗. A slip that is known (`pipeline/tasks.py`) has a sentence of
its own. What is not right yet is replaced by the solution, so that a notebook runs to its end,
whoever is stuck.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from itertools import product
from numbers import Number
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from reproduction.pipeline.tasks import EXERCISES, Example, Exercise

TOLERANCE = 1e-4  # relative and absolute: rounding, and no other formula
GOES_ON = "Until then the notebook goes on with the solution, which hint 3 explains."


class Wrong(Exception):
    """An answer that is not right yet, in one sentence."""


def answer(name: str, names: Mapping[str, Any]) -> Any:
    """Say whether an exercise is solved; what stands in `names` if it is, else the solution.

    Raises: ValueError for a name that is no exercise.
    """
    if name not in EXERCISES:
        raise ValueError(f"checks: {name!r} is no exercise; use one of {', '.join(EXERCISES)}")
    exercise, given = EXERCISES[name], names.get(name)
    try:
        if name not in names:
            _wrong(
                f"There is no `{name}`: its cell was not run, stopped with an error, or names it "
                "otherwise."
            )
        if given is exercise.solution:
            _wrong(f"`{name}` is the solution now: run your own cell again, and then this one.")
        _judge(given, exercise)
    except Exception as error:  # whatever an answer may hold: a check never stops a notebook
        wrong = isinstance(error, Wrong)
        text = error if wrong else f"Your answer cannot be read: {_one_line(error)}."
        print(f"✗ {text} {GOES_ON}")
        return exercise.solution
    print(f"✓ {exercise.praise}")
    return given


# How an answer is judged


def _judge(given: Any, exercise: Exercise) -> None:
    """Raises: Wrong for an answer that is not right yet."""
    if exercise.said is not None:
        if text := exercise.said(given):
            _wrong(text)
        return
    if not callable(given):
        _wrong(f"A function is asked for, and this is {str(given)[:40]!r}.")
    for number, (mine, ours) in enumerate(
        zip(exercise.examples(), exercise.examples(), strict=True)
    ):
        try:
            found = _result(given, mine.inputs)
            _compare(found, exercise.solution(*ours.inputs), slips_of(exercise, number))
            _check_trains(found, mine, exercise.solution(*ours.inputs), ours)
        except Wrong as wrong:
            if number:
                _wrong(
                    "Right for one example, and not for a second one of other sizes: does a number "
                    f"of the first stand in your code? {wrong}"
                )
            raise


def _compare(found: Any, right: Any, slips: Mapping[str, Tensor]) -> None:
    """Raises: Wrong for another result, with the sentence of the slip that makes it, if any."""
    given, right = _number(found), _number(right)
    if _same(given, right):
        return
    for factor, (text, slip) in product((1, 100), slips.items()):
        if _same(factor * given, slip):  # a slip may come with a share for percent
            _wrong(text)
    if given.shape != right.shape:
        _wrong(f"Your result has {_shape(given)}; {_shape(right)} is asked for.")
    if not bool(given.isfinite().all()):
        _wrong("Your result holds NaN or infinity: look for a division by 0.")
    away = (given - right).abs()
    if away.ndim == 0:
        _wrong(f"Not right yet: your number is {given:.4g}, and off by {away:.3g}.")
    worst = ", ".join(map(str, np.unravel_index(int(away.argmax()), away.shape)))
    count = int((away > TOLERANCE).sum())
    _wrong(
        f"Not right yet: {count} of {away.numel()} numbers differ, most at [{worst}], by "
        f"{away.max():.3g}."
    )


def slips_of(exercise: Exercise, number: int) -> dict[str, Tensor]:
    """What each slip comes to on one of the examples, by its sentence."""
    return {
        text: _number(slip(*exercise.examples()[number].inputs))
        for text, slip in exercise.slips.items()
    }


def _check_trains(found: Any, mine: Example, right: Any, ours: Example) -> None:
    """Raises: Wrong where a right number hands no gradient to what it is to train, or another."""
    if mine.trained is None:
        return
    slope = None
    if isinstance(found, Tensor) and found.requires_grad:
        (slope,) = torch.autograd.grad(found, mine.trained, allow_unused=True)
    (wanted,) = torch.autograd.grad(right, ours.trained)
    if slope is None or not _same(slope, wanted):
        _wrong(
            "Your number is right, and cut off from what it is to train: no gradient comes back "
            "through it, or not all of it."
        )


def _result(function: Callable, inputs: tuple) -> Any:
    """What a student's function returns. Raises: Wrong where it stops or changes its inputs."""
    kept = tuple(copy.deepcopy(_parts(each)) for each in inputs)
    try:
        given = function(*inputs)
    except (Exception, SystemExit) as error:  # whatever a beginner's code may raise
        if isinstance(error, NotImplementedError) and not str(error):  # torch's have a text
            _wrong(_empty(function, error))
        _wrong(f"Your function stopped with {_one_line(error)}.")
    if given is None:
        _wrong("Your function returns nothing: end it with `return`.")
    for number, (new, old) in enumerate(zip(inputs, kept, strict=True), start=1):
        new = _parts(new)
        if len(new) != len(old) or not all(map(np.array_equal, new, old)):
            _wrong(f"Your function changes its input number {number}: work on a copy of it.")
    return given


def _empty(function: Callable, error: NotImplementedError) -> str:
    """Which function is still to be written: the answer itself, or one that it calls."""
    trace = error.__traceback__
    while trace.tb_next:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    if code is getattr(function, "__code__", None):
        return "The function is still empty: write its body, run its cell, and then this one."
    return (
        f"Your function calls `{code.co_name}`, which is still empty: write that first, or run its "
        "check."
    )


def _parts(given: Any) -> list[np.ndarray]:
    each = given if isinstance(given, list) else [given]
    return [np.asarray(one.detach() if isinstance(one, Tensor) else one) for one in each]


def _number(given: Any) -> Tensor:
    """A result as a tensor. Raises: Wrong for what is none, such as a dictionary."""
    if isinstance(given, Tensor | np.ndarray | np.generic | pd.Series | Number):
        given = given.detach() if isinstance(given, Tensor) else given
        return torch.tensor(np.asarray(given, dtype=float))
    _wrong(f"Your function returns a {type(given).__name__}: one tensor or number is asked for.")


def _one_line(error: BaseException) -> str:
    told = " ".join(str(error).split())[:200].rstrip(".")
    return f"{type(error).__name__}: {told}"


def _wrong(text: str) -> NoReturn:
    raise Wrong(text) from None


def _same(a: Tensor, b: Tensor) -> bool:
    close = {"rtol": TOLERANCE, "atol": TOLERANCE}
    return a.shape == b.shape and torch.allclose(a, b, **close)


def _shape(of: Tensor) -> str:
    return f"the shape ({', '.join(map(str, of.shape))})" if of.ndim else "one number"
