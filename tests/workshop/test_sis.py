"""Typical wrong answers to the exercises on sufficient subsets, and what is said to each."""

from __future__ import annotations

import pytest
import torch
from checks import sis

from .answers import said


def erased(kept, order, count):
    kept = kept.clone()
    kept[order.argsort()[:count]] = 0
    return kept


def in_view(kept, slope):
    return slope.masked_fill(kept == 0, torch.inf)


def surest(path, threshold):
    return path.argmax()


def first(path, threshold):
    return (path >= threshold).int().argmax()


def going_down(path, threshold):
    """While it is sure, from the whole image down."""
    step = 0
    while path[step + 1] >= threshold:
        step += 1
    return step


def before_the_fall(path, threshold):
    sure = False
    for step, confidence in enumerate(path):
        if sure and confidence < threshold:
            return step - 1
        sure = confidence >= threshold
    return surest(path, threshold)


def last(path, threshold, otherwise):
    sure = path >= threshold
    return int(sure.nonzero().max()) if sure.any() else otherwise


def falls(path, threshold):
    return ((path[:-1] >= threshold) & (path[1:] < threshold)).nonzero()[0, 0]


WRONG = [
    (sis.step, lambda k, s, n: erased(k, s, n), "gone already"),
    (sis.step, lambda k, s, n: erased(k, -s, n), "what the class needs most"),
    (sis.step, lambda k, s, n: erased(k, in_view(k, s).abs(), n), "nearest to 0"),
    (sis.step, lambda k, s, n: k - erased(k, in_view(k, s), n), "remove the rest"),
    (sis.step, lambda k, s, n: erased(torch.ones_like(k), in_view(k, s), n), "the whole image"),
    (sis.stop, going_down, "You stop at once"),
    (sis.stop, first, "for the first time"),
    (sis.stop, surest, "surest"),
    (sis.stop, before_the_fall, "first fall"),
    (sis.stop, lambda p, t: last(p, t, 0) + 1, "one step too far"),
    (sis.sure, "a", "pieces of 4 x 4"),
    (sis.sure, "c", "a million photographs"),
]

test_wrong_answers = said(WRONG)


def test_the_step_is_one_of_the_librarys_path():
    kept, slope, after = sis.step_example()
    assert kept.sum() == 12 and after.sum() == 8 and bool((kept >= after).all())
    assert slope[kept > after].max() < slope[after == 1].min()


@pytest.mark.parametrize(("path", "step"), [(sis.WAVERING, 8), (sis.NEVER, 3)])
def test_the_path_is_as_written_and_stops_where_the_library_does(path, step):
    made, right = sis.path_example(path)
    torch.testing.assert_close(made, torch.tensor(path, dtype=torch.float64))
    assert right == step
