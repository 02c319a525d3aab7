"""Joining two towers: the loss in closed form, what training finds, and what it is trained on."""

import math
from dataclasses import replace

import pytest
import torch

from habitats.captions import caption
from habitats.drawings import CLASSES, class_split
from reproduction.language.joining import contrastive_loss, join_towers
from reproduction.language.towers import THING, Examples, quick_towers


def changed(cfg, **values):
    return cfg.model_copy(update=values)


def test_loss_of_orthogonal_pairs():
    features, one = torch.eye(4).double(), torch.eye(4, dtype=torch.bool)  # each of its own alone
    expected = math.log(math.exp(2) + 3) - 2  # one right answer of cosine 1, three of cosine 0
    assert contrastive_loss(features, 5 * features, 2.0, one).item() == pytest.approx(expected)
    wrong = contrastive_loss(features, features.roll(1, 0), 2.0, one).item()
    assert wrong == pytest.approx(math.log(math.exp(2) + 3))


def test_a_caption_that_occurs_twice_is_no_wrong_answer():
    """Two images of one caption, a third of another: as if each twin had never met the other."""
    images = torch.eye(3).double()
    texts = torch.stack([images[0], images[0], images[2]])
    true = torch.tensor([[1, 1, 0], [1, 1, 0], [0, 0, 1]]).bool()
    s = 2.0
    # Rows: image 0 among texts 0 and 2, image 1 (cosine 0 to its text), image 2 among all. Columns
    # have the same three values.
    rows = [math.log(math.exp(s) + 1) - s, math.log(2), math.log(math.exp(s) + 2) - s]
    assert contrastive_loss(images, texts, s, true).item() == pytest.approx(sum(rows) / 3)
    assert contrastive_loss(images, texts, s, torch.eye(3).bool()).item() > sum(rows) / 3 + 0.1


@pytest.mark.parametrize("frozen", [True, False])
def test_join_finds_whose_caption_is_whose_and_trains_no_frozen_tower(cfg, frozen):
    settings = changed(cfg, joining_epochs=40, joining_batch=60, joint_width=8, joining_lr=0.02)
    towers = replace(quick_towers(), frozen=frozen)
    before = [weights.clone() for weights in towers.text.parameters()]
    random = torch.Generator().manual_seed(1)
    centres = torch.randn(6, 12, generator=random)
    own = torch.arange(60) % 6
    features = centres[own] + 0.3 * torch.randn(60, 12, generator=random)
    forms = tuple((caption(CLASSES[i], "sand"), caption(CLASSES[i])) for i in own.tolist())
    shown = Examples(features, forms, own[:, None].expand(-1, 2))
    torch.manual_seed(5)
    state = torch.get_rng_state()
    dual, history = join_towers(settings, towers, shown, 0)
    assert torch.equal(torch.get_rng_state(), state)
    same = all(torch.equal(*pair) for pair in zip(before, towers.text.parameters(), strict=True))
    assert same == frozen
    # Ten images a caption in one batch: as wrong answers they would keep the loss over log(10).
    assert history["epoch"].tolist() == list(range(1, 41)) and history["loss"].iloc[-1] < 0.5
    assert dual.scale.item() == pytest.approx(history["scale"].iloc[-1])
    found = torch.nn.functional.normalize(dual.image_tower.head(features), dim=1)
    for texts in zip(*forms, strict=True):
        cosines = found @ dual.embed_phrases(towers.tokenizer, texts[:6]).T
        assert (cosines.argmax(dim=1) == own).float().mean() > 0.9
    again, _ = join_towers(settings, replace(quick_towers(), frozen=frozen), shown, 0)
    assert torch.equal(again.image_tower.head.weight, dual.image_tower.head.weight)
    other, _ = join_towers(changed(settings, joining_epochs=1), quick_towers(), shown, 1)
    assert not torch.equal(other.image_tower.head.weight, dual.image_tower.head.weight)


def test_animals_in_the_middle_and_anywhere_and_in_pairs_where_a_seed_has_both(cfg, drawn):
    assert drawn.labels[:80, 0].tolist() == [*range(40), *range(40)]
    assert not torch.allclose(drawn.features[0], drawn.features[40])
    halves = [class_split(seed)[0] for seed in cfg.head_seeds]
    pairs = list(zip(drawn.labels[80:].tolist(), drawn.captions[80:], strict=True))
    assert 0 < len(pairs) < cfg.captioned_pairs
    for both, texts in pairs:
        assert both[0] != both[1] and any(set(both) <= set(half) for half in halves)
        assert texts == tuple(caption(CLASSES[label]) for label in both)
    for half in halves:
        kept = drawn.of_classes(half)
        assert len(kept.captions) == len(kept.features) == len(kept.labels) > 40
        assert set(kept.labels.flatten().tolist()) == set(half)
    things = replace(drawn, labels=drawn.labels.where(drawn.labels != 0, THING))
    assert set(things.of_classes([1, 2]).labels.flatten().tolist()) == {1, 2, THING}
