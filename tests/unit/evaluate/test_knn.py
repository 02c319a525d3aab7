"""k-NN finds what scikit-learn finds, ties go to the nearest, and changes are paired."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from habitats.drawings import UNSEEN
from relevit.evaluate.frozen_features import knn_answers, nearest, vote
from reproduction.config import RobustnessParams
from reproduction.measures import knn


def blobs(count: int, seed: int, width: int = 5, classes: int = 4):
    """Overlapping clouds, so that neighbours disagree."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % classes
    centres = torch.eye(width).double()[:classes]
    return centres[labels] + 0.6 * torch.randn(count, width, generator=random).double(), labels


def nearest_breaks_ties(distances: np.ndarray) -> np.ndarray:
    """Weights with which scikit-learn follows our rule: a vote, and a bit more when nearer."""
    return np.tile(1 + 0.5 ** np.arange(2, distances.shape[1] + 2), (len(distances), 1))


# Neighbours


@pytest.mark.parametrize("k", [1, 2, 5, 10])
def test_answers_are_those_of_scikit_learn(k):
    (known, labels), (asked, true) = blobs(90, 0), blobs(70, 1)
    oracle = KNeighborsClassifier(
        k, metric="cosine", algorithm="brute", weights=nearest_breaks_ties
    ).fit(known.numpy(), labels.numpy())
    places = oracle.kneighbors(asked.numpy(), return_distance=False)
    assert np.array_equal(nearest(asked, known, k).numpy(), places)
    answers = knn_answers(known, labels, asked, true, [k])
    assert np.array_equal(answers["prediction"], oracle.predict(asked.numpy()))
    assert np.array_equal(answers["label"], true) and (answers["k"] == k).all()


@pytest.mark.parametrize(
    ("labels", "answer"),
    [
        ([3], 3),
        ([1, 0], 1),  # one vote each: the nearest
        ([2, 0, 0], 0),  # more votes beat the nearest
        ([5, 1, 0, 0, 1], 1),  # two each: 1 comes first
        ([9, 9, 4, 4, 4, 9, 0], 9),
    ],
)
def test_most_votes_win_and_the_nearest_decides_ties(labels, answer):
    assert vote(torch.tensor([labels])).tolist() == [answer]


# Opening


def test_open_data_draws_things_in_both_kinds():
    known, asked = knn.open_data(RobustnessParams(known_images=24, asked_images=30), 32)
    assert len(known) == 24 and list(asked) == ["val", "objectnet"]
    assert {len(images) for images in asked.values()} == {30}
    assert known.classes == UNSEEN.classes


def test_open_data_wants_a_folder_for_real_data():
    with pytest.raises(
        ValueError, match="03_robustness: knn_data 'cifar100' without knn_root; give"
    ):
        knn.open_data(RobustnessParams(knn_data="cifar100"), 32)
