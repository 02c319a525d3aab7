"""From photographs to what a model reads: as timm's own transform has it, and by one call."""

from __future__ import annotations

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from timm.data import create_transform, resolve_model_data_config

from relevit import explain, load_model, model_input
from relevit.models import MODELS, open_model

SMALL = {"embed_dim": 12, "depth": 1, "num_heads": 2}


@pytest.fixture
def picture(tmp_path):
    noise = np.random.default_rng(0).integers(0, 255, (5, 7, 3), dtype=np.uint8)
    image = Image.fromarray(noise).resize((700, 500), Image.Resampling.BICUBIC)
    image.save(tmp_path / "a.png")
    return tmp_path / "a.png"


LOADED = {
    **{name: (name, {}) for name, model in MODELS.items() if model.image_size < 224},
    "deit-s": ("deit-s", SMALL),
    "timm's, of another size": (
        "vit_tiny_patch16_224.augreg_in21k_ft_in1k",
        SMALL | {"img_size": 96},
    ),
    "timm's, squashed": ("vit_base_patch16_siglip_gap_224", SMALL | {"img_size": 64}),
}


@pytest.mark.parametrize("name", LOADED)
def test_timms_transform_makes_what_a_loaded_model_takes(picture, name):
    timm_name, options = LOADED[name]
    ours = open_model(timm_name, "random", classes=3, options=options)
    model, spec = ours.network, ours.spec
    made = model_input(model, picture)
    assert made.shape == (1, 3, spec.image_size, spec.image_size)
    with Image.open(picture) as image:
        theirs = create_transform(**resolve_model_data_config(model))(image.convert("RGB"))
        torch.testing.assert_close(made[0], theirs, rtol=0, atol=1e-5)
        assert torch.equal(made, spec.normalise(ours.view.picture(image)[None]))
    assert model(made).shape == (1, 3)


def test_files_and_pictures_alone_and_together(picture):
    model = load_model("tiny").double()
    with Image.open(picture) as image:
        grey, turned = image.convert("L"), image.transpose(Image.Transpose.ROTATE_90)
        turned.getexif()[274] = 6  # to be turned back
        alone = [model_input(model, one) for one in (picture, str(picture), image, turned)]
        both = model_input(model, [image, grey])
    assert {one.dtype for one in alone} == {torch.float64}
    assert all(torch.equal(one, alone[0]) for one in alone)
    assert turned.size == (500, 700), "the picture that was given is left alone"
    assert torch.equal(both[:1], alone[0]) and not torch.equal(both[1:], alone[0])
    assert explain(model, both).shape == (2, 1, 112, 112)


@pytest.mark.wrong_types
def test_what_is_no_picture_is_named(tmp_path):
    model = load_model("tiny")
    (tmp_path / "a.png").write_text("none")
    for given, text in (
        ([], "model_input: no pictures; give a file"),
        (tmp_path / "a.png", "a.png cannot be read as an image"),
        (tmp_path / "b.png", "b.png cannot be read as an image"),
        (np.zeros((1, 8, 8, 3), np.uint8), "model_input: a ndarray is no picture; give a file or"),
    ):
        with pytest.raises(ValueError, match=text):
            model_input(model, given)
    bare = timm.models.vision_transformer.VisionTransformer(**SMALL)
    with pytest.raises(ValueError, match="how its pixels were normalised is unknown; set"):
        model_input(bare, tmp_path / "a.png")
