"""Squares in a file: the same bytes, decoded once, and never those of something else."""

from __future__ import annotations

import os
import shutil
from collections import namedtuple

import numpy as np
import pytest
import torch
from PIL import Image

from relevit.data import squares
from relevit.data.image_set import picture_set
from relevit.models.spec import View

VIEW = View(resize=32, crop=28)


def picture(path, seed):
    pixels = np.random.default_rng(seed).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "set").mkdir()
    for n in range(6):
        picture(tmp_path / "set" / f"{n}.png", n)
    return tmp_path


class Reader:
    """The set, and how many pictures were decoded."""

    def __init__(self, folder, rules="", **options):
        files, self.decoded = sorted((folder / "set").iterdir()), 0

        def opened(place):
            self.decoded += 1
            return Image.open(files[place])

        ids = [each.name for each in files]
        file = files.__getitem__
        made = picture_set("made", ["a"], [0] * len(ids), ids, opened, VIEW, file=file, **options)
        self.plain = made.read(range(len(ids)))
        self.kept = made.kept_in(folder / "kept", rules, VIEW.crop)
        self.decoded = 0

    def read(self, places=range(6)):
        return torch.equal(self.kept.read(places).images, self.plain.images[list(places)])


def test_pictures_are_decoded_once_and_have_the_same_bytes(folder):
    first, second = Reader(folder), Reader(folder)
    assert first.read([4, 1]) and first.decoded == 2
    assert second.read() and second.decoded == 4
    assert first.read() and first.decoded == 2
    assert first.kept.select([5, 0]).read([1]).images.equal(first.plain.images[:1])
    assert (second.kept.read([2]).masks == 0).all() and second.kept.read([2]).labels.tolist() == [0]


def test_other_files_rules_and_damage_are_never_taken_for_them(folder):
    assert Reader(folder).read()
    path = folder / "set" / "3.png"
    about = path.stat()
    picture(path, 99)
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns + 1))
    changed = Reader(folder)
    assert changed.read() and changed.decoded == 1
    (store,) = (folder / "kept").iterdir()
    for place in (10, store.stat().st_size - 2):  # a pixel of the first, the sum of the last
        with store.open("r+b") as file:
            file.seek(place)
            byte = file.read(1)
            file.seek(place)
            file.write(bytes([byte[0] ^ 1]))
    damaged = Reader(folder)
    assert damaged.read() and damaged.decoded == 2
    assert Reader(folder, rules="others").read()
    assert len(list((folder / "kept").iterdir())) == 2


def test_a_full_disk_costs_time_alone_and_is_told_once(folder, monkeypatch):
    usage = namedtuple("usage", "free")(2**20)
    monkeypatch.setattr(squares.shutil, "disk_usage", lambda path: usage)
    full = Reader(folder)
    with pytest.warns(UserWarning, match="decoded each time, for no more squares are kept") as told:
        assert full.read()
    assert len(told) == 1 and full.read() and full.decoded == 12
    monkeypatch.setattr(squares.shutil, "disk_usage", shutil.disk_usage)


def test_pictures_with_masks_are_read_as_before(folder):
    outlined = Reader(folder, masks=lambda place: np.ones((40, 60), dtype=bool))
    assert outlined.read() and outlined.decoded == 6 and not (folder / "kept").exists()
