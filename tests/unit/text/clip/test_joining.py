"""Joining two towers: the loss in closed form, what training finds, and what it is trained on."""

from __future__ import annotations

import math
import sys

import pytest
import torch

from relevit.data import things
from relevit.data.foregrounds import class_split
from relevit.data.pairs import draw_pairs
from relevit.evaluate.frozen_features import class_features
from relevit.text.clip.captions import caption, captioned, names, prompt
from relevit.text.clip.joining import (
    Examples,
    JoinSettings,
    caption_places,
    caption_tokenizer,
    captioned_examples,
    captioned_pairs,
    contrastive_loss,
    examples,
    join,
    join_towers,
    join_training_text,
    quick_towers,
    workshop_towers,
)
from relevit.text.clip.zero_shot import zero_shot_table
from relevit.text.encoder import build_tiny

from ..builders import tokens

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
    texts = [tokens(5 + i, *[4] * (i % 3)) for i in range(6)]  # of three lengths
    joint = join_training_text(images, tower, texts, captions_of, FAST)
    assert not torch.equal(tower.embedding.words.weight, before) and not tower.training
    with torch.no_grad():
        pooled = torch.cat([tower(tower.embed(torch.tensor([t.ids]))) for t in texts])
    assert (answers(joint, images, pooled) == captions_of[:, 0]).float().mean() > 0.9


@pytest.mark.wrong_types
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


# The towers

pytest.importorskip("tokenizers", reason="needs the extra 'text'")
SETTINGS = JoinSettings(width=32, epochs=25, batch_size=40, lr=3e-3)


@pytest.fixture(scope="module")
def seen():
    return class_split(0)[0]


@pytest.fixture(scope="module")
def drawn_seen(seen):
    return captioned("train", range(80), labels=[seen[i % 4] for i in range(80)])


def test_quick_towers_learn_captions_and_nothing_of_other_classes(drawn_seen, seen):
    towers = quick_towers()
    first = examples(towers, drawn_seen)
    dual, joint = join_towers(towers, [first], SETTINGS)
    assert joint.history["loss"].iloc[-1] < joint.history["loss"].iloc[0] / 2
    images = dual.embed_images(towers.spec.normalise(drawn_seen.batch.images))
    texts = dual.embed_phrases(towers.tokenizer, [prompt(name) for name in names()])
    table = zero_shot_table(images, texts, drawn_seen.batch.labels, {"captioned": seen[:4]})
    assert table["accuracy_pct"].item() > 75 and table["chance_pct"].item() == 25
    assert not dual.training and not dual.text_tower.training


def test_same_seed_same_encoder(drawn_seen):
    first, again = (
        join_towers(towers, [examples(towers, drawn_seen)], JoinSettings(width=8, epochs=1))[0]
        for towers in (quick_towers(), quick_towers())
    )
    for one, other in zip(first.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def test_frozen_text_tower_stays_as_it_is(drawn_seen):
    towers = quick_towers()
    frozen = type(towers)(towers.image, towers.text, towers.tokenizer, towers.spec)
    before = [p.clone() for p in towers.text.parameters()]
    join_towers(frozen, [examples(towers, drawn_seen)], JoinSettings(width=8, epochs=2))
    assert all(torch.equal(*pair) for pair in zip(before, towers.text.parameters(), strict=True))


def test_examples_of_some_classes(drawn_seen, seen):
    labels = drawn_seen.batch.labels[:, None].expand(-1, 2)
    made = Examples(torch.arange(80.0)[:, None], drawn_seen.captions, labels)
    some = made.of_classes([seen[1]])
    assert some.features.flatten().tolist() == list(range(1, 80, 4)) and len(some.captions) == 20
    assert all("beetle" in full for full, _ in some.captions)
    assert set(some.labels.flatten().tolist()) == {seen[1]}
    with pytest.raises(ValueError, match=r"none of 80 images has a class of \[39\]"):
        made.of_classes([39])


def test_an_image_of_two_classes_stays_where_both_are_wanted():
    labels = torch.tensor([[0, 1], [2, 3], [4, 0], [0, 2]])
    captions = (("a", "b"), ("c", "d"), ("e", "a"), ("a", "c"))
    some = Examples(torch.arange(4.0)[:, None], captions, labels).of_classes([0, 2])
    assert some.features.flatten().tolist() == [3]
    assert some.captions == (("a", "c"),) and some.labels.tolist() == [[0, 2]]


def test_both_animals_of_a_pair_have_captions_and_tests_show_other_pairs():
    towers = quick_towers()
    made = captioned_pairs(towers, 3)
    assert made.captions == tuple(
        tuple(caption(label) for label in both) for both in made.labels.tolist()
    )
    assert all(first != second for first, second in made.labels.tolist())
    drawn = draw_pairs(3, size=towers.spec.image_size)
    tested = class_features(towers.image, towers.spec, [drawn.images])
    assert not any(torch.allclose(*two) for two in zip(made.features, tested, strict=True))


def test_pairs_of_no_group_are_left_out_before_the_tower_is_run(monkeypatch):
    towers = quick_towers()
    whole = captioned_pairs(towers, 12)
    groups = [range(20), range(20, 40)]
    run = []

    def counted(model, spec, batches):
        run.extend(parts := list(batches))
        return class_features(model, spec, parts)

    monkeypatch.setattr("relevit.text.clip.joining.class_features", counted)
    spared = captioned_pairs(towers, 12, groups=groups)
    assert 0 < len(spared.captions) == sum(map(len, run)) < 12
    for group in groups:
        one, other = whole.of_classes(group), spared.of_classes(group)
        assert one.captions == other.captions and torch.equal(one.labels, other.labels)
        torch.testing.assert_close(one.features, other.features)
    with pytest.raises(ValueError, match="none of 12 images shows two classes of one group"):
        captioned_pairs(towers, 12, groups=[[0], [1]])


def test_captioned_examples_are_in_the_middle_and_anywhere():
    towers = quick_towers()
    made = captioned_examples(towers, 5, drawings=things.PRETRAINING)
    shorts = [short for _, short in made.captions]
    assert shorts[:3] == ["a red apple", "a yellow pear", "some purple grapes"]
    assert shorts[3:] == shorts[:2] and made.labels[:, 1].tolist() == [0, 1, 2, 0, 1]
    assert made.features.shape == (5, 128)
    assert not torch.allclose(made.features[0], made.features[3])
    tested = examples(towers, captioned("train", range(1), drawings=things.PRETRAINING))
    assert not torch.allclose(made.features[0], tested.features[0])  # other draws
    with pytest.raises(ValueError, match="1 images asked for; give at least 2"):
        captioned_examples(towers, 1)


def test_tokenizer_knows_the_words_of_captions(drawn_seen):
    towers = quick_towers()
    for one in towers.encode(
        [full for full, _ in drawn_seen.captions] + [prompt(n) for n in names()]
    ):
        assert one.unknown_share == 0
    assert caption_tokenizer().token_to_id("[PAD]") == towers.text.pad_id == 0
    with pytest.raises(ValueError, match="knows no word of text 'ein Hund'"):
        towers.encode(["ein Hund"])
    with pytest.raises(ValueError, match="has no token; leave out empty texts"):
        towers.encode([""])


def test_long_captions_are_refused_instead_of_cut():
    towers = quick_towers()
    whole = "a red parrot on sand " * 4 + "on sand"
    assert len(towers.encode([whole])[0]) == towers.text.limit == 24
    message = (
        r"clip: text 'a red parrot on sand a .*'\.\.\. has 25 tokens.* at most 24: write a short"
    )
    with pytest.raises(ValueError, match=message):
        towers.encode(["a red cat", f"{whole} moss"])


def test_captions_of_other_drawings_are_known_where_they_are_trained_on():
    drawings = things.PRETRAINING
    towers = quick_towers(others=drawings)
    texts = [caption(i, None, drawings) for i in range(len(drawings.classes))]
    texts += [prompt(name) for name in (*drawings.classes, *names())]
    assert all(one.unknown_share == 0 for one in towers.encode(texts))
    assert caption_tokenizer().get_vocab_size() < caption_tokenizer(drawings).get_vocab_size()


@pytest.mark.parametrize(
    ("package", "make"), [("tokenizers", caption_tokenizer), ("transformers", workshop_towers)]
)
def test_without_the_extra_it_says_what_to_install(monkeypatch, package, make):
    monkeypatch.setitem(sys.modules, package, None)
    message = rf"{package} is not installed; 11_text and 12_clip need it: pip install relevit\["
    with pytest.raises(ImportError, match=message):
        make()
