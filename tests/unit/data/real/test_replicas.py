"""Drawn pictures that stand in for photographs."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from replicas.pictures import KINDS, object_mask, picture, save_jpeg, truncate

MODES = {"rgb": "RGB", "grey": "L", "cmyk": "CMYK", "exif": "RGB", "border": "RGB"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_is_made_from_its_arguments_alone(kind):
    image = picture(3, 8, kind=kind)
    assert image.mode == MODES[kind]
    assert np.array_equal(image, picture(3, 8, kind=kind))
    others = [picture(4, 8, kind=kind), picture(3, 9, kind=kind)]
    assert all(image.tobytes() != other.tobytes() for other in others)


def test_sizes_differ_and_both_aspects_occur():
    sizes = [picture(seed, label).size for seed in range(6) for label in range(5)]
    assert len(set(sizes)) > 20
    assert all(min(size) >= 120 and max(size) <= 200 for size in sizes)
    assert all(abs(width - height) >= 16 for width, height in sizes)
    assert {width > height for width, height in sizes} == {True, False}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("label", range(3))  # one of each outline
def test_the_mask_is_where_the_colour_of_the_class_is(kind, label):
    image, mask = picture(5, label, kind=kind), object_mask(5, label, kind=kind)
    assert mask.dtype == bool and mask.shape == image.size[::-1]
    assert 0.02 < mask.mean() < 0.3
    pixels = np.asarray(image.convert("RGB"), dtype=int)
    colour = pixels[mask][0]
    same = (pixels == colour).all(axis=2)
    assert same[mask].all() and same[~mask].mean() < 0.01


def test_kinds_are_what_they_say():
    upright = picture(2, 4)
    turned = picture(2, 4, kind="exif")
    assert turned.size == upright.size[::-1] and turned.getexif()[0x0112] == 6
    assert np.array_equal(np.rot90(np.asarray(turned), -1), upright)
    framed = np.asarray(picture(2, 4, kind="border"))
    assert np.array_equal(framed[1:-1, 1:-1], upright)
    frame = np.ones(framed.shape[:2], dtype=bool)
    frame[1:-1, 1:-1] = False
    assert (framed[frame] == (255, 0, 0)).all()
    with pytest.raises(
        ValueError, match=r"picture: kind 'rgba' is unknown; use one of \('rgb', 'g"
    ):
        picture(2, 4, kind="rgba")


def test_files_keep_mode_and_orientation_and_can_be_cut(tmp_path):
    for kind in KINDS:
        path = save_jpeg(picture(1, 1, kind=kind), tmp_path / "new" / f"{kind}.JPEG")
        with Image.open(path) as image:
            assert image.format == "JPEG" and image.mode == MODES[kind]
            assert image.getexif().get(0x0112) == (6 if kind == "exif" else None)
            image.load()
    size = path.stat().st_size
    assert truncate(path).stat().st_size == size // 2
    with Image.open(path) as image, pytest.raises(OSError, match="truncated"):
        image.load()
