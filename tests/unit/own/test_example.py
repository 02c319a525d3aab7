"""The example that is written can be read as any data set of one's own."""

from __future__ import annotations

import hashlib
import shutil

import numpy as np
import pytest

from habitats.homes import habitats
from relevit_own.example import write_example
from relevit_own.table import read_table

OPTIONS = {"per_class": 2, "sets": ("a", "only_background"), "size": 16}


def sums(folder):
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.glob("**/*.*")
    }


def test_example_is_read_with_its_masks_and_has_the_same_bytes_again(tmp_path):
    assert write_example(tmp_path / "x", **OPTIONS) == tmp_path / "x"
    found = read_table(tmp_path / "x" / "data")
    assert len(found) == 80 and found.has_masks
    world = habitats()
    assert found.classes == tuple(sorted(world.classes))
    label = world.classes.index(found.classes[0])
    drawn = world.draw("finetune", [label + 40], size=16)
    assert np.array_equal(found.mask(1), drawn.masks[0, 0].numpy())
    shifted = read_table(tmp_path / "x" / "a")
    assert len(shifted) == 80 and shifted.classes == found.classes and not shifted.has_masks
    first = sums(tmp_path / "x")
    assert len(first) == 80 * 4
    write_example(str(tmp_path / "y"), **OPTIONS)  # a path may be text
    assert sums(tmp_path / "y") == first
    with pytest.raises(ValueError, match=r"0001.jpg is no picture of this example; give an empty"):
        write_example(tmp_path / "x", **(OPTIONS | {"per_class": 1}))
    other = tmp_path / "y" / "cat" / "1.jpg"
    other.parent.mkdir()
    shutil.copy(shifted.images[0], other)
    with pytest.raises(ValueError, match=r"y/cat/1.jpg is no picture of this example"):
        write_example(tmp_path / "y", **OPTIONS)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"per_class": 0}, r"0 pictures a class; write at least 1"),
        ({"sets": ("photos",)}, r"set 'photos' is unknown; use some of"),
        ({"size": 7}, r"size 7 px; it must lie in"),
    ],
)
def test_wrong_requests_are_refused(tmp_path, change, text):
    with pytest.raises(ValueError, match=text):
        write_example(tmp_path, **(OPTIONS | change))
