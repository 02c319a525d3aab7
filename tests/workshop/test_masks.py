"""Typical wrong answers to the exercises on automatic masks, and what is said to each."""

from __future__ import annotations

import numpy as np
import pytest
import scipy
import torch
from checks import masks
from torch.nn.functional import normalize

from relevit.masks import token_cut

from .answers import said


def cosines(features):
    return normalize(features, dim=1) @ normalize(features, dim=1).T


def eigenvectors(edges, *, normalised=True):
    sums = edges.sum(dim=1)
    root = sums.sqrt() if normalised else torch.ones_like(sums)
    laplacian = torch.diag(sums) - edges
    return torch.linalg.eigh(laplacian / root[:, None] / root[None, :])[1]


def root(edges):
    return edges.sum(dim=1).sqrt()


def rising(features):
    """Threads of unlike weight, of which the least is right."""
    return torch.linspace(1, 6, len(features) ** 2).reshape(len(features), -1)


def over_union(both, found, exact):
    return 100 * both / (found | exact).sum()


WRONG = [
    (masks.affinity, lambda k, tau: cosines(k), "return the cosines"),
    (masks.affinity, lambda k, tau: (k @ k.T > tau).double(), "divides them by both lengths"),
    (
        masks.affinity,
        lambda k, tau: (normalize(k, dim=0) @ normalize(k, dim=0).T > tau).double(),
        "that is each row",
    ),
    (masks.affinity, lambda k, tau: (cosines(k) <= tau).double(), "that are unlike"),
    (masks.affinity, lambda k, tau: (cosines(k) > tau).double(), "have no edge"),
    (masks.second_vector, lambda a: eigenvectors(a)[:, 0] / root(a), "That is the first vector"),
    (masks.second_vector, lambda a: eigenvectors(a)[:, 0], "That is the first y"),
    (masks.second_vector, lambda a: eigenvectors(a)[:, 1], "That is y: go back"),
    (masks.second_vector, lambda a: eigenvectors(a)[:, 1] * root(a), "multiply by the root"),
    (masks.second_vector, lambda a: eigenvectors(a)[:, 2] / root(a), "counting starts with 0"),
    (masks.iou, lambda f, e: over_union((f & e).sum(), f, e) / 100, "in percent"),
    (masks.iou, lambda f, e: 100 * (f & e).sum() / e.sum(), "the exact mask alone"),
    (masks.iou, lambda f, e: 100 * (f & e).sum() / f.sum(), "the found mask alone"),
    (masks.iou, lambda f, e: 100 * (f & e).sum() / (f.sum() + e.sum()), "in both twice"),
    (masks.iou, lambda f, e: 200 * (f & e).sum() / (f.sum() + e.sum()), "Dice"),
    (masks.leaf, "a", "on one side of the cut"),
    (masks.leaf, "b", "the leaf is found all the same"),
]

test_wrong_answers = said(WRONG)


def generalised(edges):
    table = edges.numpy()
    degrees = np.diag(table.sum(axis=1))
    return torch.as_tensor(scipy.linalg.eigh(degrees - table, degrees)[1][:, 1])


@pytest.mark.parametrize(
    "answer",
    [
        lambda a: token_cut.second_eigenpairs(a[None])[0][0],
        lambda a: -token_cut.second_eigenpairs(a[None])[0][0],
        lambda a: 30 * eigenvectors(a)[:, 1] / root(a),
        lambda a: (-eigenvectors(a)[:, 1] / root(a)).float(),
        generalised,
    ],
    ids=["library", "other-sign", "other-length", "float32", "generalised-solver"],
)
def test_sign_and_length_of_the_vector_are_free(answer, capsys):
    masks.second_vector(answer)
    assert capsys.readouterr().out.startswith("✓ That is the cut.")
