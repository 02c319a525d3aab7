"""Joining two towers: the loss in closed form, and what training finds."""

from __future__ import annotations

import math

import pytest
import torch

from relevit.text.clip.joining import (
    JoinSettings,
    caption_places,
    contrastive_loss,
    join,
    join_training_text,
)
from relevit.text.encoder import build_tiny
from relevit.text.tokens import Tokens

FAST = JoinSettings(width=8, epochs=30, batch_size=16, lr=0.02)


def test_loss_of_orthogonal_pairs():
    features = torch.eye(4).double()
    expected = math.log(math.exp(2) + 3) - 2  # one right answer of cosine 1, three of cosine 0
    assert contrastive_loss(features, 5 * features, 2.0).item() == pytest.approx(expected)
    wrong = contrastive_loss(features, features.roll(1, 0), 2.0).item()
    assert wrong == pytest.approx(math.log(math.exp(2) + 3))


def test_loss_is_the_same_in_both_directions():
    a, b = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0)).double()
    torch.testing.assert_close(contrastive_loss(a, b, 3.0), contrastive_loss(b, a, 3.0))


def test_a_caption_that_occurs_twice_is_no_wrong_answer():
    """Two images of one caption, a third of another: as if each twin had never met the other."""
    images = torch.eye(3).double()
    texts = torch.stack([images[0], images[0], images[2]])
    true = torch.tensor([[1, 1, 0], [1, 1, 0], [0, 0, 1]]).bool()
    s = 2.0
    # Rows: image 0 among texts 0 and 2, image 1 (cosine 0 to its text), image 2 among all.
    rows = [math.log(math.exp(s) + 1) - s, math.log(2), math.log(math.exp(s) + 2) - s]
    columns = [math.log(math.exp(s) + 1) - s, math.log(2), math.log(math.exp(s) + 2) - s]
    expected = (sum(rows) + sum(columns)) / 6
    assert contrastive_loss(images, texts, s, true).item() == pytest.approx(expected)
    assert contrastive_loss(images, texts, s).item() > expected + 0.1


def test_places_of_captions():
    different, places = caption_places([("b on x", "b"), ("a on x", "a"), ("b on y", "b")])
    assert different == ("a", "a on x", "b", "b on x", "b on y")
    assert places.tolist() == [[3, 2], [1, 0], [4, 2]]


@pytest.fixture(scope="module")
def data():
    """Six captions; an image is its caption's direction in another space, and noise."""
    random = torch.Generator().manual_seed(1)
    texts, centres = torch.randn(2, 6, 12, generator=random)
    captions_of = torch.arange(60)[:, None] % 6
    noise = 0.3 * torch.randn(60, 12, generator=random)
    return centres[captions_of[:, 0]] + noise, texts, captions_of


def answers(joint, images, texts):
    cosines = [
        torch.nn.functional.normalize(layer(features), dim=1)
        for layer, features in ((joint.image_projection, images), (joint.text_projection, texts))
    ]
    return (cosines[0] @ cosines[1].T).argmax(dim=1)


def test_join_finds_whose_caption_is_whose(data):
    images, texts, captions_of = data
    joint = join(images, texts, captions_of, FAST)
    assert (answers(joint, images, texts) == captions_of[:, 0]).float().mean() > 0.95
    assert joint.history["epoch"].tolist() == list(range(1, 31))
    assert joint.history["loss"].iloc[-1] < 0.3 * joint.history["loss"].iloc[0]
    assert joint.scale == pytest.approx(joint.history["scale"].iloc[-1])
    assert joint.scale != pytest.approx(1 / 0.07)  # learned
    assert not any(p.requires_grad for p in joint.image_projection.parameters())


def test_twins_do_not_keep_the_loss_up(data):
    """Ten images a caption in one batch: as wrong answers they keep the loss over log(10)."""
    images, texts, captions_of = data
    all_at_once = JoinSettings(width=8, epochs=60, batch_size=60, lr=0.02)
    assert join(images, texts, captions_of, all_at_once).history["loss"].iloc[-1] < 0.5


def test_same_seed_same_projections_and_torch_is_left_alone(data):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    settings = JoinSettings(width=4, epochs=2, batch_size=16)
    first, again = (join(*data, settings) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first.image_projection.weight, again.image_projection.weight)
    other = join(*data, JoinSettings(width=4, epochs=2, batch_size=16, seed=1))
    assert not torch.equal(first.image_projection.weight, other.image_projection.weight)


def test_all_forms_of_a_caption_are_learned(data):
    images, texts, captions_of = data
    both = torch.cat([captions_of, captions_of + 6], dim=1)
    others = torch.randn(6, 12, generator=torch.Generator().manual_seed(8))
    joint = join(images, torch.cat([texts, others]), both, FAST)
    assert (answers(joint, images, others) == captions_of[:, 0]).float().mean() > 0.9
    assert (answers(joint, images, texts) == captions_of[:, 0]).float().mean() > 0.9


def test_text_tower_without_knowledge_is_trained(data):
    images, _, captions_of = data
    tower = build_tiny(12, 1, width=16, depth=1, heads=2, positions=8, reads="mean")
    before = tower.embedding.words.weight.clone()
    texts = [words(5 + i, *[4] * (i % 3)) for i in range(6)]  # of three lengths
    joint = join_training_text(images, tower, texts, captions_of, FAST)
    assert not torch.equal(tower.embedding.words.weight, before) and not tower.training
    with torch.no_grad():
        pooled = torch.cat([tower(tower.embed(torch.tensor([t.ids]))) for t in texts])
    assert (answers(joint, images, pooled) == captions_of[:, 0]).float().mean() > 0.9


def words(*ids):
    ids = (2, *ids, 3)
    return Tokens("", ids, ((0, 0),) * len(ids), (True, *[False] * (len(ids) - 2), True))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"captions_of": torch.zeros(60).long()}, r"pairing \(60,\); needed are"),
        ({"captions_of": torch.zeros(59, 1).long()}, r"pairing \(59, 1\)"),
        ({"captions_of": torch.full((60, 1), 6)}, r"from 6 to 6, and there are 6; .* 0\.\.5"),
        ({"texts": torch.ones(1, 12)}, "two or more of each"),
        ({"settings": JoinSettings(batch_size=1)}, "batches of at least 2 pairs"),
        ({"settings": JoinSettings(epochs=0)}, "epochs of at least 1"),
        ({"settings": JoinSettings(temperature=0.0)}, "positive rate and temperature"),
    ],
)
def test_what_does_not_fit_is_refused(data, change, message):
    images, texts, captions_of = data
    arguments = {"images": images, "texts": texts, "captions_of": captions_of}
    with pytest.raises(ValueError, match=message):
        join(**arguments | change)
