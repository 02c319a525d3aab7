"""One's own picture explained: what is drawn and said, and which files are refused."""

from __future__ import annotations

import numpy as np
import pytest
import timm
import torch
from PIL import Image

from relevit.models.loading import open_model
from relevit.models.spec import View
from relevit.pipeline.explaining import explain_file, open_image

SMALL = {"img_size": 32, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2}
TURNED = 6  # EXIF: a camera held upright


def model(classes=5):
    torch.manual_seed(0)
    return open_model(timm.create_model("vit_tiny_patch16_224", num_classes=classes, **SMALL))


@pytest.fixture
def picture(tmp_path):
    """Wide on disk and tall as it is meant, its top red."""
    pixels = np.zeros((48, 96, 3), dtype=np.uint8)
    pixels[:, :48, 0] = 255
    exif = Image.Exif()
    exif[0x0112] = TURNED
    Image.fromarray(pixels).save(tmp_path / "cat.png", exif=exif)
    return tmp_path / "cat.png"


def test_a_picture_and_what_is_said_of_it(picture, tmp_path):
    out = tmp_path / "maps" / "cat.png"
    said = explain_file(picture, model(), out=out)
    assert set(said) == {"target", "name", "predicted", "confidence_pct", "method", "out"}
    assert said["target"] == said["predicted"] and said["name"] == f"class {said['target']}"
    assert 20 <= said["confidence_pct"] <= 100 and (said["method"], said["out"]) == ("gae", out)
    first = out.read_bytes()
    with Image.open(out) as drawn:
        assert drawn.format == "PNG" and min(drawn.size) > 300
    other = (said["predicted"] + 1) % 5
    # Paths may be text.
    how = {"method": "rollout", "target": other, "names": "abcde"}
    again = explain_file(str(picture), model(), out=str(out), **how)
    assert (again["target"], again["name"]) == (other, "abcde"[other])
    assert again["predicted"] == said["predicted"]
    assert again["confidence_pct"] < said["confidence_pct"]
    assert out.read_bytes() != first
    assert [path.name for path in out.parent.iterdir()] == ["cat.png"]


def test_imagenets_names_for_a_thousand_classes(picture, tmp_path):
    said = explain_file(picture, model(1000), target=1, out=tmp_path / "map.png")
    assert said["name"] == "goldfish, Carassius auratus"


def test_pictures_are_upright(picture):
    shown = open_image(picture, View(32, 32, squash=True)).float()
    assert shown[0, :12].mean() > 250 and shown[0, -12:].mean() < 5


def test_what_is_refused(picture, tmp_path):
    own, out, text = model(), tmp_path / "map.png", tmp_path / "text.jpg"
    text.write_text("no picture")
    cut = tmp_path / "cut.png"
    cut.write_bytes(picture.read_bytes()[:90])
    for path in (text, cut):
        with pytest.raises(ValueError, match=rf"{path.name} cannot be read as an image \("):
            explain_file(path, own, out=out)
    with pytest.raises(FileNotFoundError, match=r"dog\.png is missing; check its name"):
        explain_file(tmp_path / "dog.png", own, out=out)
    with pytest.raises(ValueError, match=r"map\.jpg is no PNG by its name"):
        explain_file(picture, own, out=out.with_suffix(".jpg"))
    with pytest.raises(ValueError, match=r"target 5; the classes are 0 to 4"):
        explain_file(picture, own, target=5, out=out)
    with pytest.raises(ValueError, match=r"methods: \['gea'\] are unknown"):
        explain_file(picture, own, method="gea", out=out)
    with pytest.raises(ValueError, match="2 names for a model of 5 classes"):
        explain_file(picture, own, names=["a", "b"], out=out)
    assert not out.exists()
