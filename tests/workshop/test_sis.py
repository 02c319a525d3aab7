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
    (sis.step, lambda k, s, n: k * (s >= 0), "at once"),
    (sis.step, lambda k, s, n: erased(k, in_view(k, s), n + 1), "too many"),
    (sis.step, lambda k, s, n: erased(k, in_view(k, s), n - 1), "too few"),
    (sis.step, lambda k, s, n: erased(k, in_view(k, s), 1), "a single part"),
    (sis.step, lambda k, s, n: k.mul_(s > 0), "changes its input number 1"),
    (sis.step, lambda k, s, n: s.argsort()[:n], "(4); (16) is asked for"),
    (sis.stop, going_down, "You stop at once"),
    (sis.stop, first, "for the first time"),
    (sis.stop, surest, "surest"),
    (sis.stop, before_the_fall, "first fall"),
    (sis.stop, lambda p, t: last(p, t, 0) + 1, "one step too far"),
    (sis.stop, lambda p, t: falls(p, t), "first fall"),
    (sis.stop, lambda p, t: len(p) - 1, "end of the path"),
    (sis.stop, lambda p, t: (p >= t).sum(), "You count the steps"),
    (sis.stop, lambda p, t: (p >= t).nonzero()[:, 0], "has the shape (5); () is asked for"),
    (sis.stop, lambda p, t: (p >= t).nonzero()[-1], "stopped with IndexError"),
    (sis.stop, lambda p, t: p[last(p, t, 0)], "number of the step"),
    (sis.stop, lambda p, t: p[p >= t].min(), "least confidence"),
    (sis.stop, lambda p, t: last(p, t, 0), "not the whole image"),
    (sis.stop, lambda p, t: last(p, t, -1), "not -1"),
    (sis.stop, lambda p, t: last(p, t, len(p) - 1), "not the last"),
    (sis.stop, lambda p, t: last(p, t, p.max()), "not its confidence"),
    (sis.stop, lambda p, t: (p >= t).nonzero().max(), "stopped with"),
    (sis.sure, "a", "pieces of 4 x 4"),
    (sis.sure, "c", "a million photographs"),
]

test_wrong_answers = said(WRONG)


def in_brackets(path, threshold):
    sure = (path >= threshold).nonzero()
    return sure[-1] if len(sure) else path.argmax()


@pytest.mark.parametrize(
    "answer",
    [
        in_brackets,
        lambda p, t: int(in_brackets(p, t)),
        lambda p, t: max((i for i, c in enumerate(p) if c >= t), default=p.argmax()),
    ],
    ids=["in-brackets", "whole-number", "loop"],
)
def test_one_number_is_a_number_in_any_form(answer, capsys):
    sis.stop(answer)
    assert capsys.readouterr().out.startswith("✓ That is the smallest subset")


@pytest.mark.parametrize("kind", [torch.Tensor.bool, torch.Tensor.int, torch.Tensor.float])
def test_what_is_kept_may_be_true_and_false_or_whole(kind, capsys):
    """The notebook makes numbers of it, before it asks for their gradient."""
    sis.step(lambda k, s, n: kind(erased(k, in_view(k, s), n)))
    assert capsys.readouterr().out.startswith("✓ That is a step")


def test_every_slip_on_the_wavering_path_leads_to_a_step_of_its_own():
    path, right = sis.path_example(sis.WAVERING)
    sure = (path >= sis.SURE_PCT).nonzero()[:, 0]
    slips = [0, int(sure[0]), int(path.argmax()), int(falls(path, sis.SURE_PCT)), len(sure)]
    steps = [*slips, right, right + 1, len(path) - 1]
    assert len(set(steps)) == len(steps)


@pytest.mark.parametrize(("number", "sentence"), [(2, "takes more"), (80, "can do with less")])
def test_a_prediction_hears_what_it_overlooks(number, sentence, capsys):
    sis.own_subset(number, torch.tensor([20.0, 30.0, 40.0]))
    assert f"You said {number} % of the pixels, and it is 30.0." in (out := capsys.readouterr().out)
    assert sentence in out


def test_the_step_is_one_of_the_librarys_path():
    kept, slope, after = sis.step_example()
    assert kept.sum() == 12 and after.sum() == 8 and bool((kept >= after).all())
    assert slope[kept > after].max() < slope[after == 1].min()


@pytest.mark.parametrize(("path", "step"), [(sis.WAVERING, 8), (sis.NEVER, 3)])
def test_the_path_is_as_written_and_stops_where_the_library_does(path, step):
    made, right = sis.path_example(path)
    torch.testing.assert_close(made, torch.tensor(path, dtype=torch.float64))
    assert right == step
