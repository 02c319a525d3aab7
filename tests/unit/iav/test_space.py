"""Class structure in the space of scores, on groups that are there or not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from relevit.evaluate.frozen_features import vote
from relevit.iav import class_structure, tsne

LABELS = torch.arange(60) % 3


def groups(width=0.0, heads=4):
    """Sixty images of three classes, each around a point of its own."""
    random = torch.Generator().manual_seed(0)
    centres = torch.rand(3, heads, generator=random).double()
    return centres[LABELS] + width * torch.randn(60, heads, generator=random).double()


# Numbers


@pytest.mark.parametrize("neighbours", [1, 5, 59])
def test_neighbours_vote_without_the_image_itself(neighbours):
    scores = groups(0.3)
    points = (scores - scores.mean(dim=0)) / scores.std(dim=0, correction=0)
    right = 0
    for i in range(60):
        others = torch.tensor([j for j in range(60) if j != i])
        near = (points[others] - points[i]).norm(dim=1).argsort()[:neighbours]
        right += int(vote(LABELS[others[near]][None])[0] == LABELS[i])
    assert class_structure(scores, LABELS, neighbours).knn_pct == pytest.approx(100 * right / 60)


def test_chance_of_unequal_classes_by_hand():
    """Three of one class and one of another: 3 of 4 images meet their like in 2 of 3 draws."""
    found = class_structure(groups()[:4], torch.tensor([0, 0, 0, 1]), neighbours=1)
    assert found.chance_pct == pytest.approx(50.0)


# Picture


def test_tsne_keeps_groups_apart_and_its_seed():
    scores = groups(0.05)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    picture = tsne(scores, seed=3)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
    assert picture.shape == (60, 2) and picture.isfinite().all()
    assert class_structure(picture, LABELS).knn_pct == 100.0
    assert torch.equal(tsne(scores, seed=3), picture)
