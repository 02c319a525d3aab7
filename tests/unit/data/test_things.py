"""Things are drawn as the animals are, but from drawings and random choices of their own."""

from __future__ import annotations

import hashlib
from importlib.resources import files

import pytest
import torch

from relevit.data import cutouts, foregrounds, things
from relevit.data.textures import SEEN
from relevit.data.things import PRETRAINING, UNSEEN


def test_no_class_is_in_two_groups():
    names = [*UNSEEN.classes, *PRETRAINING.classes, *foregrounds.CLASSES]
    assert (len(UNSEEN.classes), len(PRETRAINING.classes)) == (24, 100)
    assert len(set(names)) == len(names)


def test_every_class_has_a_drawing_of_its_own_and_no_file_is_left_over():
    folder = files("relevit") / "assets" / "cutouts"
    digests = []
    for place, names in (
        (folder / "unseen" / "3d", UNSEEN.classes),
        (folder / "things" / "3d", PRETRAINING.classes),
        (folder / "3d", foregrounds.CLASSES),
    ):
        assert sorted(file.name for file in place.iterdir()) == sorted(f"{n}.png" for n in names)
        digests += [hashlib.sha256(file.read_bytes()).hexdigest() for file in place.iterdir()]
    assert len(set(digests)) == len(digests) == 24 + 100 + 40


def test_each_image_of_a_class_is_another_one():
    batch = things.draw(UNSEEN, "train", [0, 24, 48], size=32)
    assert batch.labels.tolist() == [0, 0, 0]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert (batch.images[one] != batch.images[other]).float().mean() > 0.5


def test_backgrounds_are_not_those_of_the_animals(monkeypatch):
    """A model has seen the animals' backgrounds in training; none may come back with a thing."""
    blank = tuple(torch.zeros_like(level) for level in UNSEEN.load("3d"))
    nothing = foregrounds.Drawings("unseen", UNSEEN.classes, lambda style: blank)
    with_none = tuple(torch.zeros_like(level) for level in foregrounds.load_foregrounds("3d"))
    monkeypatch.setattr(cutouts, "load_foregrounds", lambda style: with_none)
    grounds = [
        cutouts.draw("train", range(8), families=[0] * 8, size=32, drawings=drawings).images
        for drawings in (None, nothing)
    ]
    assert ((grounds[0] != grounds[1]).float().mean(dim=(1, 2, 3)) > 0.5).all()


def test_objectnet_is_on_backgrounds_that_no_known_image_has():
    known, asked = (
        things.draw(UNSEEN, name, range(96), size=16) for name in ("train", "objectnet")
    )
    assert (known.families < len(SEEN)).all() and (asked.families >= len(SEEN)).all()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sketch", r"things: set 'sketch' is in style 'high_contrast', .*'3d' alone; use one of"),
        ("imagenet", r"cutouts: set 'imagenet' is unknown; use one of"),
    ],
)
def test_sets_that_cannot_be_drawn_are_errors(name, text):
    with pytest.raises(ValueError, match=text):
        things.draw(UNSEEN, name, [0])


# Labelled pictures


def test_samples_keep_pictures_and_labels_together():
    images = things.labelled(UNSEEN, "val", 30, size=16)
    some = images.sample(7, seed=5)
    places = [
        int((images.read(range(30)) == p).all(dim=(1, 2, 3)).nonzero()[0, 0])
        for p in some.read(range(7))
    ]
    assert len(some) == len(set(places)) == 7
    assert torch.equal(images.labels[places], some.labels)
    assert torch.equal(some.read([3]), images.read([places[3]]))
    assert torch.equal(images.sample(7, seed=5).labels, some.labels)
    assert images.sample(6, seed=0).labels.tolist() != images.sample(6, seed=1).labels.tolist()
    assert sorted(images.sample(99, seed=0).labels.tolist()) == sorted(images.labels.tolist())


def test_an_empty_sample_is_an_error():
    with pytest.raises(ValueError, match="val: a sample of 0 images; ask for at least 1"):
        things.labelled(UNSEEN, "val", 24, size=16).sample(0, seed=0)
