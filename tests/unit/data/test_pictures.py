"""Every door through which a picture comes in refuses it alike, by its name."""

from __future__ import annotations

import os
import re

import pytest
from PIL import Image

from relevit.data.image_set import UnreadableImage
from relevit.data.own.folder import read_data
from relevit.data.own.outlines import open_mask
from relevit.data.pictures import FORMATS, READING, opened, read_picture
from relevit.data.real.catalogue import CATALOGUE
from relevit.models.spec import View
from relevit.pipeline.explaining import open_image
from replicas import WRITERS
from unit.data.own.troubles import write_plain

VIEW = View(resize=32, crop=32)


@pytest.mark.parametrize("key", ["val", "objectnet", "imagenet_s"])
def test_a_bomb_among_the_papers_pictures(tmp_path, monkeypatch, key):
    WRITERS[key](tmp_path)
    found = CATALOGUE[key].read(tmp_path)
    name = found.ids[0].rpartition("/")[2]
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    text = rf"{re.escape(name)} has more than the 100 pixels that are opened; scale it down"
    with pytest.raises(UnreadableImage, match=text):
        found.read([0])


@pytest.mark.parametrize("factor", [1.1, 1.9, 2.1])  # Pillow alone would warn, or refuse
def test_a_bomb_among_ones_own(tmp_path, monkeypatch, factor):
    listing = read_data(write_plain(tmp_path))
    image, mask = listing.images[0], listing.masks[0]
    with opened(image) as found:
        pixels = found.width * found.height
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", int(pixels / factor))
    for name, read in (
        ("0.jpg", lambda: listing.picture(0)),
        ("0.jpg", lambda: listing.mask(0)),
        ("0.png", lambda: open_mask(mask)),
        ("0.jpg", lambda: open_image(image, VIEW)),
        ("0.jpg", lambda: listing.image_set(VIEW).read([0])),
    ):
        with pytest.raises(ValueError, match=rf"{name} has more than the [\d,]+ pixels that are"):
            read()


def test_as_many_pixels_as_one_allows(tmp_path, monkeypatch):
    path = tmp_path / "large.png"
    Image.new("RGB", (30, 20)).save(path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 600)
    assert read_picture(path).size == (30, 20)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    assert read_picture(path).size == (30, 20)


@pytest.mark.skipif(os.name != "posix", reason="a program is put in the place of Ghostscript")
def test_no_program_is_started(tmp_path, monkeypatch):
    """As Pillow does for EPS, whatever the file's name."""
    ran, program, path = (tmp_path / name for name in ("ran", "gs", "cat.png"))
    program.write_text(f"#!/bin/sh\necho 10.0\ntouch {ran}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    path.write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 20 14\n%%EndComments\nshowpage\n"
    )
    with pytest.raises(OSError, match=r"^no picture that Pillow knows$"):
        read_picture(path)
    assert not ran.exists()


@pytest.mark.parametrize("kind", FORMATS)
def test_a_picture_that_is_cut_anywhere_is_read_or_refused(tmp_path, kind):
    """Pillow takes a cut GIF of several frames for a mistake in the program."""
    path, refused = tmp_path / "cat.png", 0
    frames = [Image.effect_noise((20, 14), 90 + n).convert("RGB") for n in range(3)]
    several = {"save_all": True, "append_images": frames[1:]} if kind == "GIF" else {}
    frames[0].save(path, kind, **several)
    whole = path.read_bytes()
    for length in range(0, len(whole), max(1, len(whole) // 1000)):
        path.write_bytes(whole[:length])
        try:
            with opened(path) as image:
                assert getattr(image, "is_animated", False) in (False, True)
                image.load()
        except READING:
            refused += 1
    assert refused > 10
