"""Dual encoders that several files of tests ask for: a random CLIP, and towers joined here."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers", reason="needs the extra 'text'")
from habitats.captions import captioned
from relevit.text.clip.from_transformers import from_clip
from reproduction.language import group_pairs
from reproduction.language.encoders import join_encoder
from reproduction.language.towers import begin_towers, draw_examples
from reproduction.params.cells import params_of

from .replica import TEXTS, hf_clip


@pytest.fixture(scope="session")
def model():
    """CLIP of transformers with random weights, in float64."""
    return hf_clip()


@pytest.fixture(scope="session")
def dual(model):
    return from_clip(model)


@pytest.fixture(scope="session")
def image_side(dual):
    """Three texts as classes of images."""
    return dual.image_classifier(dual.embed_texts(TEXTS))


@pytest.fixture(scope="session")
def single(model):
    """The same in float32, as images that are bytes need it."""
    return from_clip(model).float()


@pytest.fixture(scope="session")
def single_side(single):
    return single.image_classifier(single.embed_texts(TEXTS))


@pytest.fixture(scope="session")
def cfg():
    few = {"captioned_images": 80, "captioned_pairs": 24, "joining_epochs": 1}
    return params_of("09_text").checked(few | {"pairs": 2, "head_seeds": [0, 1]}, "test")


@pytest.fixture(scope="session")
def towers(cfg):
    return begin_towers(cfg, 1)


@pytest.fixture(scope="session")
def drawn(cfg, towers):
    """What the image tower makes of captioned animals."""
    return draw_examples(cfg, towers)


@pytest.fixture(scope="session")
def encoder(cfg, towers, drawn):
    """A small encoder, joined for one epoch."""
    return join_encoder(cfg, towers, drawn, 1)


@pytest.fixture(scope="session")
def shown(cfg, encoder):
    return captioned("val", range(cfg.zero_shot_images), seed=cfg.seed)[0]


@pytest.fixture(scope="session")
def group_duo(cfg, encoder):
    """Two pairs of each group."""
    return group_pairs(cfg, encoder, 112)
