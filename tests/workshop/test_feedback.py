"""What is said to answers that are none: missing, empty, broken, of another kind or shape."""

from __future__ import annotations

import math

import pytest
import torch
from checks.feedback import Wrong, choice, compare, guess, result, value


def changing(x):
    x += 1
    return x


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (None, "There is no answer yet"),
        (3.0, "A function is asked for, and this is 3.0"),
        (lambda x: None, "returns nothing: end it with `return`"),
        (lambda x: 1 - (x > 0), "stopped with NotImplementedError: Subtraction"),
        (lambda x: x[7], "stopped with IndexError"),
        (lambda x: x.log(), "NaN or infinity"),
        (lambda x: x[0], "has the shape (2); (2, 2) is asked for"),
        (lambda x: {"a": 1}, "returns a dict; a tensor or a number"),
        (changing, "changes its input number 1"),
    ],
)
def test_answers_that_are_none(answer, sentence):
    with pytest.raises(Wrong) as found:
        result(answer, torch.tensor([[-1.0, 1.0], [2.0, 3.0]]), shape=(2, 2))
    assert sentence in str(found.value)


def test_an_empty_function_is_not_one_that_torch_refuses():
    def empty(x):
        raise NotImplementedError

    def refused(x):
        raise NotImplementedError("this operation is not there")

    for answer, sentence in ((empty, "still empty"), (refused, "stopped with NotImplementedError")):
        with pytest.raises(Wrong, match=sentence):
            value(answer, 1)


def test_difference_is_named_without_the_solution():
    right = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(Wrong, match=r"1 of 4 numbers differ, most at \[1, 0\], by 0\.5"):
        compare(torch.tensor([[1.0, 2.0], [3.5, 4.0]]), right, {})
    with pytest.raises(Wrong, match=r"off by 0\.25"):
        compare(torch.tensor(1.25), 1.0, {})
    with pytest.raises(Wrong, match=r"^twice$"):
        compare(2 * right, right, {"twice": 2 * right})
    compare(right + 1e-6, right, {})


def test_letters_and_guesses(capsys):
    told = {"a": "no, since", "b": "yes, since"}
    choice(" B ", "b", told)
    guess(40, 30.0, within=5, unit="%", low="more", high="less")
    guess(31, 30.0, within=5, unit="%", low="more", high="less")
    assert capsys.readouterr().out.splitlines() == [
        "✓ yes, since",
        "✓ You said 40 %, and it is 30.0. less",
        "✓ You said 31 %, and it is 30.0. Well predicted.",
    ]
    for given, sentence in (
        (None, "no answer yet"),
        ("c", "none of the answers"),
        ("a", "no, since"),
    ):
        with pytest.raises(Wrong, match=sentence):
            choice(given, "b", told)
    for given in (None, "forty", math.nan, True):
        with pytest.raises(Wrong, match=r"no prediction yet|A number is asked for"):
            guess(given, 30.0, within=5, unit="%", low="", high="")
