"""Pictures of odd kinds as a model sees them."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from relevit.data.pictures import open_image
from relevit.models.spec import View, as_rgb

DEEP = np.array([[0, 257, 32896, 65535]], dtype=np.uint16)


@pytest.mark.parametrize(
    "values",
    [DEEP, DEEP.astype(np.int32), (DEEP / 65535).astype(np.float32)],
    ids=lambda v: v.dtype,
)
@pytest.mark.parametrize("ending", ["png", "tif"])
def test_more_than_8_bits_are_scaled_and_not_cut_off(tmp_path, values, ending):
    image = Image.fromarray(values)
    if ending == "tif" or image.mode == "I;16":  # PNG has no other
        image.save(tmp_path / f"deep.{ending}")
        image = Image.open(tmp_path / f"deep.{ending}")
    found = np.array(as_rgb(image))
    assert np.array_equal(found, np.repeat([[[0], [1], [128], [255]]], 3, axis=2))


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (np.float32([[0.5, 80]]), r"fractions from 0.5 to 80; needed are 0 to 1: scale them"),
        (np.float32([[0.5, np.nan]]), r"fractions from nan to nan; needed are 0 to 1"),
        (np.int32([[0, 70000]]), r"whole numbers from 0 to 70000; needed are 0 to 65535"),
        (np.int32([[-1, 5]]), r"whole numbers from -1 to 5; needed"),
    ],
)
def test_values_of_an_unknown_scale_are_refused(values, text):
    with pytest.raises(ValueError, match=text):
        View().picture(Image.fromarray(values))


@pytest.mark.parametrize(("most", "seen"), [(4095, 255), (300, 75), (65535, 255), (120, 120)])
def test_greys_of_a_range_are_scaled_by_it(most, seen):
    """A camera of 12 bits is not black in a file of 16."""
    image = Image.fromarray(np.uint16([[0, most], [most, 0]]))
    assert as_rgb(image).getextrema() == ((0, seen),) * 3


@pytest.mark.parametrize(("most", "refused"), [(65535, False), (20000, False), (4095, True)])
def test_colours_of_16_bits_are_light_or_refused(tmp_path, most, refused):
    """Pillow keeps the upper 8 bits alone, and writes no such file."""
    rows = b"".join(b"\0" + np.full(15, most, ">u2").tobytes() for _ in range(4))
    parts = ((b"IHDR", struct.pack(">IIBBBBB", 5, 4, 16, 2, 0, 0, 0)),
             (b"IDAT", zlib.compress(rows)), (b"IEND", b""))  # fmt: skip
    chunks = (struct.pack(">I", len(c)) + k + c + struct.pack(">I", zlib.crc32(k + c))
              for k, c in parts)  # fmt: skip
    (tmp_path / "colours.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))
    if refused:
        with pytest.raises(ValueError, match=r"16 bits a colour and is nearly black .*; save it"):
            open_image(tmp_path / "colours.png")
    else:
        assert open_image(tmp_path / "colours.png").getextrema() == ((most // 256,) * 2,) * 3


def test_transparency_is_dropped_as_by_the_published_loaders():
    clear = Image.new("RGBA", (4, 4), (10, 20, 30, 0))
    assert as_rgb(clear).getpixel((0, 0)) == (10, 20, 30)


def test_of_a_very_long_picture_the_middle_is_seen_and_the_memory_stays_small():
    """A line of one by 60,000 pixels would be enlarged to four thousand million pixels."""
    values = np.repeat(np.uint8([[0], [255]]), 30_000, axis=0)
    view, mask = View(resize=64, crop=32), values > 0
    soft = replace(view, mask_pixels="soft")
    for found in (view.picture(Image.fromarray(values)), view.mask(mask), soft.mask(mask)):
        assert found.shape[1:] == (32, 32)
        whole = 255 if found.dtype == torch.uint8 else 1
        top, bottom = (row.float().mean() / whole for row in (found[:, 0], found[:, -1]))
        assert abs(top + bottom - 1) < 0.02 and bottom > 2 * top


def test_ordinary_pictures_are_resized_whole():
    random = np.random.default_rng(0)
    for width, height in ((37, 91), (640, 20), (300, 4), (5, 500)):
        image = Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8))
        short = min(width, height)
        size = (int(16 * width / short), int(16 * height / short))
        left, top = round((size[0] - 8) / 2), round((size[1] - 8) / 2)
        whole = image.resize(size, Image.Resampling.BILINEAR)
        expected = np.array(whole.crop((left, top, left + 8, top + 8)))
        found = View(resize=16, crop=8).picture(image)
        assert torch.equal(found, torch.from_numpy(expected).permute(2, 0, 1))


@pytest.mark.parametrize("size", [(640, 427), (31, 50), (33, 33), (1500, 10)])
@pytest.mark.parametrize(
    "view", [View(), View(37, 32, "bicubic"), View(24, 24), View(32, 32, squash=True)]
)
def test_the_box_is_what_is_seen(view, size):
    noise = np.random.default_rng(0).integers(0, 255, (6, size[0] // 5, 3), dtype=np.uint8)
    image = Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC)
    how = Image.Resampling[view.interpolation.upper()]
    part = image.resize((view.crop, view.crop), how, box=view.box(*size))
    seen = view.picture(image).permute(1, 2, 0).numpy()
    assert np.abs(np.array(part) - seen.astype(float)).mean() < 0.4
