"""Typical wrong answers to the exercises on faithfulness, and what is said to each."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch
from checks import faithfulness

from .answers import said


def erased(image, relevance, share_pct, *, turned=False, keep=False, count=math.floor):
    side = round(len(relevance) ** 0.5)
    first = relevance.argsort(descending=True)[: count(len(relevance) * share_pct / 100)]
    hidden = torch.full(relevance.shape, keep)
    hidden[first] = not keep
    hidden = hidden.reshape(side, side)
    hidden = (hidden.T if turned else hidden).repeat_interleave(3, 0).repeat_interleave(3, 1)
    return image * ~hidden


def above(image, relevance, share_pct):
    high = relevance > (1 - share_pct / 100) * relevance.max()
    return erased(image, high.double(), 100 * high.double().mean() + 1e-6)


def area(shares, accuracy, *, end=(100,), last=(0,), weigh=lambda a, b: (a + b) / 2):
    shares, accuracy = np.array([*shares, *end]), np.array([*accuracy, *last])
    return float((np.diff(shares) * weigh(accuracy[:-1], accuracy[1:])).sum() / 100)


WRONG = [
    (faithfulness.erase_most, lambda i, r, s: erased(i, -r, s), "the negative test"),
    (faithfulness.erase_most, lambda i, r, s: erased(i, r, s, keep=True), "erase all others"),
    (faithfulness.erase_most, lambda i, r, s: erased(i, r, s, turned=True), "are exchanged"),
    (faithfulness.erase_most, above, "above a share of the largest"),
    (faithfulness.erase_most, lambda i, r, s: erased(i, r, s, count=math.ceil), "a patch too many"),
    (faithfulness.area, lambda s, a: area(s, a, end=(), last=()), "left the last point out"),
    (faithfulness.area, lambda s, a: np.mean(a), "mean of the points"),
    (faithfulness.area, lambda s, a: np.mean([*a, 0]), "mean of the points"),
    (faithfulness.area, lambda s, a: area(s, a, weigh=lambda x, y: x), "as stairs do"),
    (faithfulness.area, lambda s, a: area(s, a, weigh=lambda x, y: y), "at their end alone"),
    (faithfulness.colour, "a", "the same patches go"),
    (faithfulness.colour, "b", "not a pixel"),
]

test_wrong_answers = said(WRONG)

TRUTH = pd.DataFrame({
    "method": ["gae", "gae", "random", "random"],
    "direction": ["positive", "negative"] * 2,
    "share_pct": 30.0,
    "accuracy_pct": [7.5, 92.5, 90.0, 88.0],
})  # fmt: skip


@pytest.mark.parametrize(
    ("prediction", "sentence"),
    [((10, 90), "Well predicted."), ((60, 30), "covers a seventh"), ((10, 30), "hard to blind")],
)
def test_every_prediction_counts_and_hears_how_far_it_is_off(prediction, sentence, capsys):
    faithfulness.fall(prediction, TRUTH, 30)
    printed = capsys.readouterr().out
    assert sentence in printed and printed.count("✓ ") == 2
