"""A random CLIP that several files of tests ask for."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers", reason="needs the extra 'text'")
from relevit.text.clip.from_transformers import from_clip

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
