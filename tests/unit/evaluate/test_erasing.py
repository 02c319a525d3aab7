"""Which parts of an image go first, and what they become."""

from __future__ import annotations

import math

import pytest
import torch

from relevit.evaluate.erasing import erase, erased_parts, erasing_ranks


@pytest.mark.parametrize(
    ("parts", "share_pct", "expected"),
    [(1024, 10, 102), (50176, 90, 45158), (64, 10, 6), (100, 29, 29), (16, 5, 0), (16, 100, 16)],
)
def test_number_of_parts(parts, share_pct, expected):
    assert erased_parts(parts, share_pct) == expected


def test_erase_on_a_grid_that_is_not_square_in_pixels():
    hidden = torch.tensor([[True, False, False, False]])
    seen = erase(torch.ones(1, 3, 4, 8), hidden, torch.zeros(1, 3, 4, 8))
    assert (seen[..., :2, :4] == 0).all() and seen.sum() == 3 * (32 - 8)


def test_ranks_without_ties():
    relevance = torch.tensor([[0.3, 0.1, 0.9, 0.5], [4.0, 3.0, 2.0, 1.0]])
    assert erasing_ranks(relevance, "positive").tolist() == [[2, 3, 0, 1], [0, 1, 2, 3]]
    assert erasing_ranks(relevance, "negative").tolist() == [[1, 0, 3, 2], [3, 2, 1, 0]]


@pytest.mark.parametrize("direction", ["positive", "negative"])
def test_ties_are_shuffled_the_same_way_each_time(direction):
    constant = torch.zeros(2, 400)
    first, second = erasing_ranks(constant, direction)
    assert torch.equal(first, second)
    assert torch.equal(first, erasing_ranks(constant[:1], direction)[0])
    assert not torch.equal(first, erasing_ranks(constant, direction, tie_seed=1)[0])
    assert first.sort().values.tolist() == list(range(400))
    halves = first[:200].double().mean(), first[200:].double().mean()
    assert halves[0].item() == pytest.approx(halves[1].item(), rel=0.2)  # no part of the image


def test_ties_stay_within_their_value():
    relevance = torch.tensor([[1.0, 0.0, 2.0, 0.0, 2.0, 1.0]])
    positive, negative = (erasing_ranks(relevance, d)[0] for d in ("positive", "negative"))
    for ranks, groups in (
        (positive, [[2, 4], [0, 5], [1, 3]]),
        (negative, [[1, 3], [0, 5], [2, 4]]),
    ):
        assert [sorted(ranks[g].tolist()) for g in groups] == [[0, 1], [2, 3], [4, 5]]
    assert (positive[2] < positive[4]) == (negative[2] < negative[4])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_map_with_a_bad_number_ties_everywhere(value):
    relevance = torch.rand(2, 16)
    relevance[1, 3] = value
    ranks = erasing_ranks(relevance, "positive")
    assert torch.equal(ranks[:1], erasing_ranks(relevance[:1], "positive"))
    assert torch.equal(ranks[1:], erasing_ranks(torch.zeros(1, 16), "positive"))


def test_errors_of_the_order():
    with pytest.raises(ValueError, match=r"direction 'up' is unknown; use one of \['positive'"):
        erasing_ranks(torch.zeros(1, 4), "up")
