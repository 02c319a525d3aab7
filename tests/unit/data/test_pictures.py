"""Every door through which a picture comes in refuses it alike, by its name."""

from __future__ import annotations

import os

import pytest
from PIL import Image

from habitats.real.catalogue import CATALOGUE
from relevit.data.pictures import FORMATS, READING, open_image, opened, read_picture
from relevit.models.spec import View
from relevit_own.outlines import open_mask
from relevit_own.table import read_table
from replicas import WRITERS
from unit.own.troubles import write_plain

VIEW = View(resize=32, crop=32)


@pytest.mark.parametrize("factor", [1.1, 1.9, 2.1])  # Pillow alone would warn, or refuse
def test_every_door_refuses_a_bomb(tmp_path, monkeypatch, factor):
    WRITERS["imagenet_s"](tmp_path)
    papers = CATALOGUE["imagenet_s"].read(tmp_path)
    listing = read_table(write_plain(tmp_path / "own"))
    image, mask = listing.images[0], listing.masks[0]
    pixels = read_picture(image).width * read_picture(image).height
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", int(pixels / factor))
    for name, read in (
        ("0.jpg", lambda: listing.picture(0)),
        ("0.png", lambda: listing.mask(0)),
        ("0.png", lambda: open_mask(mask)),
        ("0.jpg", lambda: open_image(image)),
        ("0.jpg", lambda: listing.image_set(VIEW).read([0])),
        (papers.ids[0].rpartition("/")[2], lambda: papers.read([0])),
    ):
        with pytest.raises(ValueError, match=rf"{name} has more than the [\d,]+ pixels that are"):
            read()
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", pixels)
    assert read_picture(image).width * read_picture(image).height == pixels


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
    for length in range(0, len(whole), max(1, len(whole) // 100)):
        path.write_bytes(whole[:length])
        try:
            with opened(path) as image:
                assert getattr(image, "is_animated", False) in (False, True)
                image.load()
        except READING:
            refused += 1
    assert refused > 5
