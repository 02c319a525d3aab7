"""Sets of pictures: their order, what is left out, and what stays behind; batches of them."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from habitats.cutouts import CUTOUTS
from relevit.data.batch import Batch, join
from relevit.data.image_set import AHEAD, UnreadableImage, picture_set
from relevit.models.spec import View

SIDE = 8
VIEW = View(resize=SIDE, crop=SIDE)
ANSWERS = {"accepted": {3: (3, 8)}, "candidates": (0, 3, 8)}


class Disk:
    """Pictures of one colour, their number; notes which are opened, and by which thread."""

    def __init__(self, broken=(), slow=()):
        self.broken, self.slow = broken, slow
        self.opened, self.threads = [], set()

    def open(self, place):
        self.opened.append(place)
        self.threads.add(threading.get_ident())
        if place in self.slow:
            time.sleep(0.02)
        if place in self.broken:
            raise OSError("image file is truncated")
        return Image.new("RGB", (SIDE, SIDE), (place, 0, 255 - place))


def pictures_of(disk, count, **options):
    ids = [f"n01/{place}.JPEG" for place in range(count)]
    labels = [place % 7 for place in range(count)]
    return picture_set("objectnet", "abcdefg", labels, ids, disk.open, VIEW, **options)


def numbers(batch):
    """The pictures' numbers; all channels must agree."""
    assert (batch.images[:, 0].int() + batch.images[:, 2] == 255).all()
    assert not batch.images[:, 1].any()
    assert (batch.labels == batch.images[:, 0, 3, 5] % 7).all()
    return batch.images[:, 0, 3, 5].tolist()


def assert_same(found, expected):
    for name in ("images", "masks", "labels", "families"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name
    assert (found.accepted, found.candidates) == (expected.accepted, expected.candidates)


def left_behind():
    return [t for t in threading.enumerate() if t.name.startswith("relevit-pictures")]


# One set


@pytest.mark.parametrize("ahead", [0, 1, 5])
def test_order_is_that_of_the_set_whichever_thread_is_slow(ahead):
    disk = Disk(slow=(0, 4))
    found = list(pictures_of(disk, 11).batches(4, ahead=ahead))
    assert [numbers(batch) for batch in found] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]
    assert all(batch.families.eq(-1).all() and not batch.masks.any() for batch in found)
    assert found[0].images.dtype == torch.uint8 and found[2].masks.shape == (3, 1, SIDE, SIDE)
    assert threading.get_ident() not in disk.threads and not left_behind()


@pytest.mark.parametrize("leave", ["close", "__del__", "throw"])
def test_an_iterator_that_is_left_leaves_no_thread(leave):
    disk = Disk(slow=range(5, 60), broken=(7,) if leave == "throw" else ())
    running = pictures_of(disk, 60).batches(5, ahead=AHEAD)
    next(running)
    assert left_behind()
    if leave == "close":
        running.close()
    elif leave == "throw":
        with pytest.raises(UnreadableImage, match=r"n01/7.JPEG cannot be read \(image file is tr"):
            next(running)
    del running
    assert not left_behind() and len(disk.opened) < 60


def test_broken_pictures_and_masks_are_left_out_and_named():
    def masks(place):
        if place == 2:
            raise OSError("broken")
        return np.ones((SIDE, SIDE), dtype=bool)

    skipped: dict[int, str] = {}
    pictures = pictures_of(Disk(broken=(0, 5, 6, 9), slow=(5,)), 10, masks=masks)
    found = list(pictures.batches(4, ahead=AHEAD, skipped=skipped))
    assert [numbers(batch) for batch in found] == [[1, 3], [4, 7], [8]], "none changes its batch"
    assert skipped == {place: f"n01/{place}.JPEG" for place in (0, 2, 5, 6, 9)}
    with pytest.raises(UnreadableImage, match=r"objectnet: the mask of n01/2.JPEG cannot be read"):
        pictures.read([2])
    text = r"objectnet: none of its 3 pictures can be read, n01/0.JPEG the first; unpack it again"
    with pytest.raises(ValueError, match=text):
        list(pictures_of(Disk(broken=range(3)), 3).batches(2, skipped={}))


@pytest.mark.parametrize(
    "images", [pictures_of(Disk(), 30, **ANSWERS), CUTOUTS.pictures("val", 30, size=16)], ids=str
)
def test_a_part_of_a_set_is_a_set(images):
    """Selected, sampled or kept: the same pictures, labels and answers."""
    parts = {
        (4, 1, 4): images.select([4, 1, 4]),
        tuple(np.random.default_rng(5).permutation(30)[:7].tolist()): images.sample(7, seed=5),
        tuple(range(30)): images.kept(),
    }
    for places, part in parts.items():
        assert (part.name, part.classes, len(part)) == (images.name, images.classes, len(places))
        assert part.labels.tolist() == images.labels[list(places)].tolist()
        assert_same(part.read(range(len(places))), images.read(list(places)))
        assert not images.ids or part.ids == tuple(images.ids[place] for place in places)
    assert sorted(images.sample(99, seed=0).labels.tolist()) == sorted(images.labels.tolist())
    kept = images.kept()
    kept.read([0]).images.zero_()
    assert torch.equal(kept.read([0]).images, images.read([0]).images), "what is read is a copy"


# One batch


def test_a_batch_is_its_parts():
    batch = replace(CUTOUTS.draw("val", range(5), size=16), **ANSWERS)
    parts = list(batch.split(2))
    assert [part.labels.tolist() for part in parts] == [[0, 1], [2, 3], [4]]
    for whole in (join(parts), batch.select(range(5)), batch.select(batch.labels >= 0)):
        assert_same(whole, batch)
    assert isinstance(whole, Batch) and batch.select([4, 1]).labels.tolist() == [4, 1]
