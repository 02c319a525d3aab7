"""Dual encoders that several files of tests ask for: a random CLIP, and towers joined here."""

from __future__ import annotations

import pytest

from relevit.config import ClipParams
from relevit.text.clip.encoders import begin_towers, draw_examples, join_encoder
from relevit.text.clip.from_transformers import from_clip
from relevit.text.clip.phrases import group_pairs
from relevit.text.clip.zero_shot import held_out

from .replica import hf_clip

CFG = ClipParams.checked(
    {"captioned_images": 80, "joining_epochs": 1, "pairs": 2, "images": 3, "head_seeds": [1]},
    "test",
)


@pytest.fixture(scope="session")
def random_dual():
    """CLIP of transformers with random weights, in float32."""
    pytest.importorskip("transformers", reason="needs the extra 'text'")
    return from_clip(hf_clip()).float()


@pytest.fixture(scope="session")
def cfg():
    return CFG


@pytest.fixture(scope="session")
def towers():
    pytest.importorskip("tokenizers", reason="needs the extra 'text'")
    return begin_towers(CFG, 1)


@pytest.fixture(scope="session")
def encoder(towers):
    """A small encoder, joined for one epoch."""
    return join_encoder(CFG, towers, draw_examples(CFG, towers), 1)


@pytest.fixture(scope="session")
def shown(encoder):
    return held_out(CFG, encoder.dual.spec)


@pytest.fixture(scope="session")
def group_duo(encoder):
    """Two pairs of each group."""
    return group_pairs(CFG, encoder, 112)
