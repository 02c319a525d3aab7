"""Pictures on disk as batches: their order, what is left out, and what stays behind."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import torch
from PIL import Image

from relevit.data.real import decoding
from relevit.data.real.decoding import AHEAD, batches, draw
from relevit.data.real.image_set import ImageSet, UnreadableImage
from relevit.models.spec import View

SIDE = 8
VIEW = View(resize=SIDE, crop=SIDE)


class Disk:
    """Pictures of one colour, their number; notes which are opened, and by which thread."""

    def __init__(self, broken=(), slow=()):
        self.broken, self.slow = broken, slow
        self.opened, self.threads = [], set()

    def open(self, place):
        self.opened.append(place)
        self.threads.add(threading.get_ident())
        if place in self.slow:
            time.sleep(0.2)
        if place in self.broken:
            raise OSError("image file is truncated")
        return Image.new("RGB", (SIDE, SIDE), (place, 0, 255 - place))


def pictures_of(disk, count, **options):
    ids = tuple(f"n01/{place}.JPEG" for place in range(count))
    labels = torch.arange(count) % 7
    return ImageSet("objectnet", ids, labels, disk.open, VIEW, **options)


def numbers(batch):
    """The pictures' numbers; all channels must agree."""
    assert (batch.images[:, 0].int() + batch.images[:, 2] == 255).all()
    assert not batch.images[:, 1].any()
    return batch.images[:, 0, 3, 5].tolist()


def left_behind():
    return [t for t in threading.enumerate() if t.name.startswith("relevit-pictures")]


@pytest.mark.parametrize("workers", [0, 1, 5])
def test_order_is_that_of_the_set_whichever_thread_is_slow(workers):
    disk = Disk(slow=(0, 4))
    found = list(batches(pictures_of(disk, 11), 4, workers=workers))
    assert [numbers(batch) for batch in found] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]
    assert [batch.labels.tolist() for batch in found] == [[0, 1, 2, 3], [4, 5, 6, 0], [1, 2, 3]]
    assert all(batch.families.tolist() == [-1] * len(batch) for batch in found)
    assert found[0].images.dtype == torch.uint8 and found[0].families.dtype == torch.int64
    assert not any(batch.masks.any() for batch in found)
    assert found[2].masks.shape == (3, 1, SIDE, SIDE)
    assert threading.get_ident() not in disk.threads and not left_behind()


def test_answers_and_candidates_come_along():
    answers = {"accepted": {3: (3, 8)}, "candidates": (0, 3, 8)}
    (batch,) = batches(pictures_of(Disk(), 3, **answers), 5)
    assert batch.accepted == {3: (3, 8)} and batch.candidates == (0, 3, 8)


@pytest.mark.skipif(torch.cuda.is_available(), reason="on CUDA they lie in another way")
def test_images_lie_as_processors_like_them():
    """Channels last, as Pillow has them, makes the first layer of a ViT three times slower."""
    (batch,) = batches(pictures_of(Disk(), 3), 3)
    assert batch.images.is_contiguous() and not batch.images.is_pinned()


def test_no_more_is_decoded_than_a_few_batches_ahead():
    """A set of 50,000 pictures does not fit into the memory."""
    disk = Disk()
    running = batches(pictures_of(disk, 60), 5, workers=2)
    assert disk.opened == []  # nothing before it is asked for
    next(running)
    until = time.monotonic() + 5
    while len(disk.opened) < 5 * (1 + AHEAD) and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.05)
    assert 5 * (1 + AHEAD) <= len(disk.opened) <= 5 * (1 + AHEAD) + 1
    assert sum(len(batch) for batch in running) == 55


def test_an_iterator_that_is_left_leaves_no_thread():
    disk = Disk(slow=range(5, 60))
    running = batches(pictures_of(disk, 60), 5, workers=3)
    next(running)
    assert left_behind()
    running.close()
    opened = len(disk.opened)
    assert not left_behind()
    time.sleep(0.3)
    assert len(disk.opened) == opened < 60
    running = batches(pictures_of(disk, 60), 5, workers=3)
    next(running)
    del running  # forgotten
    assert not left_behind()


def test_an_error_names_set_picture_and_remedy_and_leaves_no_thread():
    running = batches(pictures_of(Disk(broken=(6,)), 20), 4, workers=3)
    assert numbers(next(running)) == [0, 1, 2, 3]
    text = r"objectnet: n01/6.JPEG cannot be read \(image file is truncated\); unpack .*='skip'"
    with pytest.raises(UnreadableImage, match=text) as caught:
        list(running)
    assert caught.value.place == 6 and not left_behind()


def test_broken_pictures_are_left_out_and_named():
    skipped: dict[int, str] = {}
    disk = Disk(broken=(0, 5, 6, 9), slow=(5,))
    found = list(batches(pictures_of(disk, 10), 4, workers=3, corrupted="skip", skipped=skipped))
    assert [numbers(batch) for batch in found] == [[1, 2, 3], [4, 7], [8]], "none changes its batch"
    assert [batch.labels.tolist() for batch in found] == [[1, 2, 3], [4, 0], [1]]
    assert skipped == {place: f"n01/{place}.JPEG" for place in (0, 5, 6, 9)}
    assert sum(map(len, batches(pictures_of(disk, 10), 4, corrupted="skip"))) == 6


def test_a_set_of_which_nothing_can_be_read_is_an_error():
    text = r"objectnet: none of its 3 pictures can be read, n01/0.JPEG the first; unpack it again"
    with pytest.raises(ValueError, match=text):
        list(batches(pictures_of(Disk(broken=range(3)), 3), 2, corrupted="skip"))


def test_other_errors_are_not_skipped():
    def no_such_key(place):
        raise KeyError(place)

    pictures = ImageSet("val", ("a",), torch.tensor([0]), no_such_key, VIEW)
    with pytest.raises(KeyError):
        list(batches(pictures, 1, corrupted="skip"))


def upper_half(place):
    mask = np.zeros((SIDE, SIDE), dtype=bool)
    mask[: SIDE // 2] = True
    return mask if place else ~mask


def test_masks_are_those_of_the_pictures():
    pictures = pictures_of(Disk(), 3, masks=upper_half)
    (batch,) = batches(pictures, 3, masks=True)
    assert batch.masks.dtype == torch.bool
    assert [mask[0].float().mean(dim=1).tolist() for mask in batch.masks] == [
        [0.0] * 4 + [1.0] * 4,
        [1.0] * 4 + [0.0] * 4,
        [1.0] * 4 + [0.0] * 4,
    ]
    (plain,) = batches(pictures, 3)
    assert not plain.masks.any()


def test_a_broken_mask_leaves_its_picture_out():
    def masks(place):
        if place == 1:
            raise OSError("broken")
        return upper_half(place)

    skipped = {}
    pictures = pictures_of(Disk(), 3, masks=masks)
    (batch,) = batches(pictures, 3, masks=True, corrupted="skip", skipped=skipped)
    assert numbers(batch) == [0, 2] and skipped == {1: "n01/1.JPEG"}


def test_draw_gives_the_pictures_asked_for_with_their_masks():
    batch = draw(pictures_of(Disk(), 10, masks=upper_half), [7, 0, 7])
    assert numbers(batch) == [7, 0, 7] and batch.labels.tolist() == [0, 0, 0]
    assert batch.masks[:, 0, 0, 0].tolist() == [True, False, True]
    assert not draw(pictures_of(Disk(), 10), (7,)).masks.any()
    assert not left_behind()


@pytest.mark.parametrize("places", [[], [10], [0, -1]])
def test_places_outside_of_the_set_are_an_error(places):
    with pytest.raises(ValueError, match=r"objectnet: \d places asked .*at least one in 0\.\.9"):
        draw(pictures_of(Disk(), 10), places)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"batch_size": 0}, "objectnet: batches of 0 pictures on 0 threads; give at least one"),
        ({"workers": -1}, "objectnet: batches of 2 pictures on -1 threads; give at least one"),
        pytest.param(
            {"corrupted": "ignore"},
            "objectnet: corrupted 'ignore' is unknown; use 'error' or 'skip'",
            marks=pytest.mark.wrong_types,
        ),
        ({"masks": True}, "objectnet: has no masks; use imagenet_s or gtsegs, or masks=False"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_read(options, text):
    disk = Disk()
    with pytest.raises(ValueError, match=text):
        batches(pictures_of(disk, 4), **{"batch_size": 2} | options)
    with pytest.raises(ValueError, match="objectnet: has no pictures; select at least one"):
        batches(pictures_of(disk, 0), 2)
    assert disk.opened == []


def test_as_many_threads_as_cores(monkeypatch):
    made = []
    monkeypatch.setattr(decoding, "cores", lambda: 3)
    pool = decoding.ThreadPoolExecutor

    def counted(workers, **options):
        made.append(workers)
        return pool(workers, **options)

    monkeypatch.setattr(decoding, "ThreadPoolExecutor", counted)
    for workers in (0, 2):
        list(batches(pictures_of(Disk(), 2), 2, workers=workers))
    assert made == [3, 2]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_images_lie_where_the_gpu_can_fetch_them():
    (batch,) = batches(pictures_of(Disk(), 3), 3)
    assert batch.images.is_pinned()
    assert batch.images.is_contiguous(memory_format=torch.channels_last)
