"""Pictures without classes: which are found, in which order, upright, and with whose masks."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image, ImageOps

from relevit.data.pictures import mark, open_image, upright
from relevit_own.loose import find_masks, find_pictures
from relevit_own.table import NOT_READ

TURNED = 6  # EXIF: a camera held upright


@pytest.fixture
def folder(tmp_path):
    names = ["images/10.jpg", "images/2.jpg", "images/b/2.png", "masks/2.png", "masks/b/2.png"]
    for name in [*names, "images/.DS_Store", "images/notes.txt", "images/.thumb.jpg"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (3, 2)).save(tmp_path / name, "PNG")
    return tmp_path


def test_pictures_come_once_in_natural_order_without_masks(folder, monkeypatch):
    images = folder / "images"
    found, others = find_pictures([images / "b" / "2.png", folder, images])
    assert set(others) == {f"{at}notes.txt: {NOT_READ}" for at in ("images/", "")}
    wanted = {images / "b/2.png": "2.png", images / "2.jpg": "images/2.jpg"}
    assert found == wanted | {images / "10.jpg": "images/10.jpg"}
    assert list(find_pictures([folder])[0].values()) == [
        f"images/{n}" for n in ("2.jpg", "10.jpg", "b/2.png")
    ]
    assert len(find_pictures([folder], but=images / "b")[0]) == 2
    assert len(find_pictures([images / "b" / "2.png"], but=images / "b")[0]) == 1
    monkeypatch.chdir(images)
    twice = [images / "2.jpg", folder / "masks" / ".." / "images" / "2.jpg"]
    assert len(find_pictures(twice)[0]) == 1
    (folder / "none").mkdir()
    with pytest.raises(ValueError, match="none has no pictures; give"):
        find_pictures([folder / "none"])
    Figure(figsize=(1, 1)).savefig(folder / "none" / "x.png", **mark("png"))
    for given in (folder / "none", folder / "masks"):
        text = f"{given.name} has no pictures but masks, and what relevit wrote; give"
        with pytest.raises(ValueError, match=text):
            find_pictures([given])
    assert len(find_pictures([folder / "none" / "x.png"])[0]) == 1, "if it is asked for"


def test_a_mask_has_the_place_of_its_picture(folder):
    images, masks = folder / "images", folder / "masks"
    of_two = {images / "2.jpg": masks / "2.png", images / "b/2.png": masks / "b/2.png"}
    assert find_masks(find_pictures([folder])[0], None) == of_two
    assert find_masks(find_pictures([images / "b"])[0], None) == {
        images / "b/2.png": masks / "b/2.png"
    }
    for given in (folder, images):
        assert find_masks(find_pictures([given])[0], masks) == of_two
    with pytest.raises(ValueError, match=r"b/2\.png and .*2\.jpg have one name"):
        find_masks(find_pictures([images / "b" / "2.png", images / "2.jpg"])[0], masks)


def test_a_picture_is_upright(tmp_path):
    """Wide on disk and tall as it is meant, its top red."""
    pixels = np.zeros((48, 96, 3), dtype=np.uint8)
    pixels[:, :48, 0] = 255
    exif = Image.Exif()
    exif[0x0112] = TURNED
    Image.fromarray(pixels).save(tmp_path / "cat.png", exif=exif)
    shown = np.array(open_image(tmp_path / "cat.png"))
    assert shown.shape == (96, 48, 3) and shown[:40, :, 0].min() == 255 and shown[50:].max() == 0


@pytest.mark.parametrize("ending", ["png", "jpg", "tif"])
@pytest.mark.parametrize("turn", range(10))
def test_every_orientation_is_turned_once_as_pillow_does(tmp_path, monkeypatch, turn, ending):
    """Also beside a tag that is damaged, with which EXIF cannot be written anew."""
    exif, path = Image.Exif(), tmp_path / f"cat.{ending}"
    exif[0x0112] = turn
    pixels = np.random.default_rng(0).integers(0, 255, (16, 24, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, exif=exif)
    with Image.open(path) as image:
        told = ImageOps.exif_transpose(image).convert("RGB")
    monkeypatch.setattr(Image.Exif, "tobytes", lambda *_: 1 / 0)
    found = open_image(path)
    assert np.array_equal(found, told) and np.array_equal(upright(found), told)


@pytest.mark.parametrize(("mode", "ending"), [("RGB", "jpg"), ("L", "jpg"), ("RGB", "png")])
def test_a_file_that_ends_too_early_is_refused_at_the_first_look(tmp_path, mode, ending):
    path, noise = tmp_path / f"cut.{ending}", np.random.default_rng(0)
    Image.fromarray(noise.integers(0, 255, (90, 90, 3), dtype=np.uint8)).convert(mode).save(path)
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(ValueError, match=rf"cut\.{ending} cannot be read as an image \("):
        open_image(path)
