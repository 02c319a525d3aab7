"""Batches keep what belongs to their images when they are cut and put together."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from relevit.data import batch as batches
from relevit.data import cutouts
from relevit.data.batch import Batch, join

ACCEPTED = {0: (0, 7), 3: (3, 1)}


@pytest.fixture
def batch():
    images = torch.arange(5, dtype=torch.uint8).view(5, 1, 1, 1).expand(5, 3, 2, 2)
    masks = torch.arange(5).view(5, 1, 1, 1).expand(5, 1, 2, 2) % 2 == 0
    return Batch(images, masks, torch.arange(5), torch.arange(5) + 10, ACCEPTED, (0, 1, 3, 7))


def numbers(batch):
    """Which images a batch has, as each of its tensors tells it."""
    told = {
        tuple(batch.images[:, 2, 1, 1].tolist()),
        tuple(batch.labels.tolist()),
        tuple((batch.families - 10).tolist()),
    }
    (found,) = told
    assert batch.masks[:, 0, 0, 0].tolist() == [number % 2 == 0 for number in found]
    return list(found)


def test_selected_images_keep_labels_answers_and_candidates(batch):
    some = batch.select([4, 1])
    assert numbers(some) == [4, 1] and len(some) == 2
    assert some.accepted == ACCEPTED and some.candidates == (0, 1, 3, 7)
    assert numbers(batch.select(batch.labels > 2)) == [3, 4]


def test_parts_are_the_whole_again(batch):
    parts = list(batch.split(2))
    assert [numbers(part) for part in parts] == [[0, 1], [2, 3], [4]]
    assert all(part.accepted == ACCEPTED and part.candidates == (0, 1, 3, 7) for part in parts)
    whole = join(parts)
    assert numbers(whole) == [0, 1, 2, 3, 4]
    assert whole.accepted == ACCEPTED and whole.candidates == (0, 1, 3, 7)


@pytest.mark.parametrize("other", [{"accepted": {}}, {"candidates": ()}])
def test_parts_with_other_right_answers_are_not_joined(batch, other):
    with pytest.raises(ValueError, match=r"batch: parts with other accepted .* join parts"):
        join([batch, replace(batch, **other)])


def test_a_cutout_has_one_answer_among_all_classes():
    assert cutouts.Batch is batches.Batch and cutouts.join is batches.join
    drawn = cutouts.draw("val", [3], size=16)
    assert drawn.accepted == {} and drawn.candidates == ()
