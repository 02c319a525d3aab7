"""Typical wrong answers to the exercises on the segmentation test, and what is said to each."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from checks import segmentation

from .answers import said


def scores(heat, masks, *, own=True, images=False, parts=("object", "background"), scale=100):
    found = heat > (heat.mean(dim=(1, 2, 3), keepdim=True) if own else heat.mean())
    pairs = {"object": (found, masks), "background": (~found, ~masks)}
    over = (1, 2, 3) if images else (0, 1, 2, 3)
    ious = [(a & b).sum(over) / (a | b).sum(over) for a, b in (pairs[name] for name in parts)]
    return scale * (found == masks).float().mean(), scale * torch.stack(ious).mean()


def precision(values, truth, *, order=None, at=None):
    order = values.argsort(descending=True) if order is None else order
    ordered = truth[order]
    notes = ordered.cumsum(0) / torch.arange(1, len(truth) + 1)
    return notes[ordered if at is None else at].mean()


WRONG = [
    (segmentation.scores, lambda h, m: scores(h, m, own=False), "all maps at one mean"),
    (segmentation.scores, lambda h, m: scores(h, m, images=True), "IoU of each image"),
    (segmentation.scores, lambda h, m: scores(h, m, parts=["object"]), "object alone"),
    (segmentation.scores, lambda h, m: scores(h, m, parts=["background"]), "background alone"),
    (segmentation.scores, lambda h, m: scores(-h, m), "You found the background"),
    (segmentation.precision, lambda v, t: precision(v, t, order=v.argsort()), "go up the list"),
    (
        segmentation.precision,
        lambda v, t: precision(v, t, order=torch.arange(len(v))),
        "did not sort",
    ),
    (segmentation.precision, lambda v, t: precision(v, t, at=slice(None)), "over all places"),
    (segmentation.precision, lambda v, t: 100 * precision(v, t), "leave out the factor"),
    (
        segmentation.precision,
        lambda v, t: precision(v, t) * t.sum() / len(t),
        "divided by the number of all pixels",
    ),
    (segmentation.good_marks, "a", "that of chance"),
    (segmentation.good_marks, "c", "No AP cuts the map"),
]

test_wrong_answers = said(WRONG)


@pytest.mark.parametrize("kind", [tuple, list, np.array, torch.stack])
def test_two_scores_come_in_any_form(kind, capsys):
    """The notebook takes them apart."""
    segmentation.scores(lambda h, m: kind(scores(h, m)))
    assert capsys.readouterr().out.startswith("✓ ")
