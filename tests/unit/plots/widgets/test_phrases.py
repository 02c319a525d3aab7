"""A phrase and an image of two things: any phrase is mapped, and a wrong one is refused."""

from __future__ import annotations

import pytest
import torch

from relevit.data.drawings import CLASSES
from relevit.data.pairs import draw_pairs
from relevit.plots.widgets.phrases import phrase_explorer
from relevit.text.clip.captions import described, prompt
from relevit.text.clip.dual import DualEncoder, with_head
from relevit.text.clip.encoders import Encoder
from relevit.text.clip.towers import quick_towers

pytest.importorskip("tokenizers")
PHRASES = list(map(described, CLASSES))


@pytest.fixture(scope="module")
def encoder():
    """The towers of quick, joined by chance."""
    torch.manual_seed(0)
    towers = quick_towers()
    words = towers.text.embedding.words.embedding_dim
    image = with_head(towers.image, torch.nn.Linear(towers.image.embed_dim, 8))
    text = with_head(towers.text, torch.nn.Linear(words, 8))
    dual = DualEncoder(image, text, 10.0, towers.spec)
    return Encoder(dual, towers.tokenizer, tuple(map(prompt, CLASSES)), {"all": range(40)})


@pytest.fixture(scope="module")
def pairs(encoder):
    return draw_pairs(2, size=encoder.dual.spec.image_size)


@pytest.fixture
def explorer(encoder, pairs):
    return phrase_explorer(encoder, encoder.dual.spec, pairs, PHRASES)


@pytest.mark.parametrize(
    ("control", "value", "words"),
    [
        ("phrase", "a photo of something red", "“a photo of something red” on image 1"),
        ("image", 2, "on image 2"),
        ("method", "gradcam", "cosine"),
    ],
)
def test_a_control_changes_picture_and_text(explorer, shown, control, value, words):
    before = shown(explorer)
    getattr(explorer, control).value = value
    after = shown(explorer)
    assert after[0] != before[0] and words in after[1]


def test_the_cosine_is_the_encoders(explorer, encoder, pairs, shown):
    explorer.phrase.value = "a red parrot"
    image = encoder.dual.embed_images(encoder.dual.spec.normalise(pairs.images[:1]))
    cosine = float(image @ encoder.texts(["a red parrot"]).T)
    assert f"cosine {cosine:.2f}, above" in shown(explorer)[1]
    assert "of 40 others" in shown(explorer)[1]


def test_a_known_phrase_is_not_compared_with_itself(explorer, pairs, shown):
    assert explorer.phrase.value == PHRASES[int(pairs.labels[0, 0])]
    assert "of 39 others" in shown(explorer)[1]


def test_the_text_says_which_animal_the_map_is_nearer_to(explorer, pairs, shown):
    near = shown(explorer)[1].rpartition("the map is highest near: ")[2].rstrip(".")
    assert near in [PHRASES[label] for label in pairs.labels[0].tolist()]


@pytest.mark.parametrize("phrase", ["独角兽", " "])
def test_a_phrase_that_means_nothing_is_refused(explorer, shown, phrase):
    before = shown(explorer)
    explorer.phrase.value = phrase
    assert "knows no word of" in explorer.state.value and 'role="alert"' in explorer.state.value
    assert shown(explorer)[0] == before[0]
    explorer.phrase.value = PHRASES[0]
    assert 'role="status"' in explorer.state.value


def test_errors(encoder, pairs):
    none = pairs.select(torch.tensor([], dtype=torch.long))
    with pytest.raises(ValueError, match="no images; give at least one pair"):
        phrase_explorer(encoder, encoder.dual.spec, none, PHRASES)
