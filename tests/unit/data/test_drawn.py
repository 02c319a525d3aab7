"""Sets of Cutouts that are drawn when they are read, or once for all."""

from __future__ import annotations

import pytest
import torch

from relevit.data import cutouts
from relevit.data.cutouts import drawn
from relevit.data.foregrounds import CLASSES
from relevit.data.labelled import Labelled
from relevit.data.things import PRETRAINING


@pytest.mark.parametrize("drawings", [None, PRETRAINING], ids=["animals", "things"])
@pytest.mark.parametrize("name", ["train", "val", "objectnet"])
def test_pictures_and_labels_are_those_of_the_recipe(name, drawings):
    images = drawn(name, 130, drawings=drawings, seed=2, size=16)
    wanted = [0, 39, 40, 99, 100, 129, 7]
    batch = cutouts.draw(name, wanted, drawings=drawings, seed=2, size=16)
    assert isinstance(images, Labelled) and images.name == name and len(images) == 130
    assert images.classes == (CLASSES if drawings is None else PRETRAINING.classes)
    assert torch.equal(images.read(wanted), batch.images)
    assert torch.equal(images.labels[wanted], batch.labels)
    assert images.labels.dtype == batch.labels.dtype


def test_seed_and_size_are_passed_on():
    one, again, other = (drawn("train", 4, seed=seed, size=24).read([0, 1]) for seed in (1, 1, 2))
    assert one.shape == (2, 3, 24, 24) and one.dtype == torch.uint8
    assert torch.equal(one, again) and not torch.equal(one, other)
    assert drawn("train", 1).read([0]).shape == (1, 3, 112, 112)


@pytest.fixture
def asked(monkeypatch):
    """The places that were drawn, in order."""
    places, draw = [], cutouts.draw

    def spy(name, indices, **named):
        places.extend(indices)
        return draw(name, indices, **named)

    monkeypatch.setattr(cutouts, "draw", spy)
    return places


def test_nothing_is_drawn_before_it_is_read_and_all_of_it_each_time(asked):
    images = drawn("val", 5, size=16)
    assert asked == []
    assert len(list(images.batches(2))) == 3
    images.read([3])
    assert asked == [0, 1, 2, 3, 4, 3]


def test_kept_pictures_are_drawn_once(asked):
    kept = drawn("val", 5, size=16).kept()
    assert asked == [0, 1, 2, 3, 4]
    batches = torch.cat(list(kept.batches(2)))
    assert torch.equal(kept.read(range(4, -1, -1)), batches.flip(0))
    assert torch.equal(kept.sample(5, seed=1).read([2]), kept.sample(5, seed=1).kept().read([2]))
    assert asked == [0, 1, 2, 3, 4]


def test_kept_pictures_are_the_same_set():
    images = drawn("val", 5, drawings=PRETRAINING, size=16)
    kept = images.kept()
    assert (kept.name, kept.classes, len(kept)) == (images.name, images.classes, 5)
    assert torch.equal(kept.labels, images.labels)
    assert torch.equal(kept.read([4, 0]), images.read([4, 0]))


def test_what_is_read_cannot_change_what_is_kept():
    kept = drawn("val", 3, size=16).kept()
    before = kept.read([0]).clone()
    kept.read([0]).zero_()
    next(kept.batches(3)).zero_()
    assert torch.equal(kept.read([0]), before)


def test_unknown_sets_are_errors_when_they_are_read():
    with pytest.raises(ValueError, match=r"cutouts: set 'imagenet' is unknown; use one of"):
        drawn("imagenet", 3).read([0])
