"""Dual encoders made here: the quick one from its captions to its answers."""

from __future__ import annotations

import sys

import pytest
import torch

from relevit.data import things
from relevit.data.foregrounds import class_split
from relevit.evaluate.frozen_features import class_features
from relevit.evaluate.pointing import draw_pairs
from relevit.text.clip.captions import caption, captioned, names, prompt
from relevit.text.clip.joining import JoinSettings
from relevit.text.clip.zero_shot import zero_shot_table

pytest.importorskip("tokenizers", reason="needs the extra 'text'")
from relevit.text.clip.towers import (
    Examples,
    caption_tokenizer,
    captioned_examples,
    captioned_pairs,
    examples,
    join_towers,
    quick_towers,
    workshop_towers,
)

SETTINGS = JoinSettings(width=32, epochs=25, batch_size=40, lr=3e-3)


@pytest.fixture(scope="module")
def seen():
    return class_split(0)[0]


@pytest.fixture(scope="module")
def shown(seen):
    return captioned("train", range(80), labels=[seen[i % 4] for i in range(80)])


def test_quick_towers_learn_captions_and_nothing_of_other_classes(shown, seen):
    towers = quick_towers()
    first = examples(towers, shown)
    dual, joint = join_towers(towers, [first], SETTINGS)
    assert joint.history["loss"].iloc[-1] < joint.history["loss"].iloc[0] / 2
    images = dual.embed_images(towers.spec.normalise(shown.batch.images))
    texts = dual.embed_phrases(towers.tokenizer, [prompt(name) for name in names()])
    table = zero_shot_table(images, texts, shown.batch.labels, {"captioned": seen[:4]})
    assert table["accuracy_pct"].item() > 75 and table["chance_pct"].item() == 25
    assert not dual.training and not dual.text_tower.training


def test_same_seed_same_encoder(shown):
    first, again = (
        join_towers(towers, [examples(towers, shown)], JoinSettings(width=8, epochs=1))[0]
        for towers in (quick_towers(), quick_towers())
    )
    for one, other in zip(first.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def test_frozen_text_tower_stays_as_it_is(shown):
    towers = quick_towers()
    frozen = type(towers)(towers.image, towers.text, towers.tokenizer, towers.spec)
    before = [p.clone() for p in towers.text.parameters()]
    join_towers(frozen, [examples(towers, shown)], JoinSettings(width=8, epochs=2))
    assert all(torch.equal(*pair) for pair in zip(before, towers.text.parameters(), strict=True))


def test_examples_of_some_classes(shown, seen):
    labels = shown.batch.labels[:, None].expand(-1, 2)
    made = Examples(torch.arange(80.0)[:, None], shown.captions, labels)
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

    monkeypatch.setattr("relevit.text.clip.towers.class_features", counted)
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


def test_tokenizer_knows_the_words_of_captions(shown):
    towers = quick_towers()
    for tokens in towers.encode(
        [full for full, _ in shown.captions] + [prompt(n) for n in names()]
    ):
        assert tokens.unknown_share == 0
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
    assert all(tokens.unknown_share == 0 for tokens in towers.encode(texts))
    assert caption_tokenizer().get_vocab_size() < caption_tokenizer(drawings).get_vocab_size()


@pytest.mark.parametrize(
    ("package", "make"), [("tokenizers", caption_tokenizer), ("transformers", workshop_towers)]
)
def test_without_the_extra_it_says_what_to_install(monkeypatch, package, make):
    monkeypatch.setitem(sys.modules, package, None)
    message = rf"{package} is not installed; 11_text and 12_clip need it: pip install relevit\["
    with pytest.raises(ImportError, match=message):
        make()
