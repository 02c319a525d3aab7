"""Two phrases on one image, and which words of a caption are found."""

from __future__ import annotations

import pytest
import torch

from relevit.evaluate.pointing import Pairs, pointing_table
from relevit.text.clip.dual import CLIP_METHODS
from relevit.text.clip.phrases import (
    phrase_maps,
    phrase_pointing,
    phrase_ranks,
    phrase_targets,
    word_attributions,
    word_table,
)
from relevit.text.tokens import Tokens

pytest.importorskip("transformers", reason="needs the extra 'text'")
from relevit.text.clip.from_transformers import from_clip

from .replica import TEXTS, hf_clip


@pytest.fixture(scope="module")
def pairs():
    """Three images with one object on the left and one on the right."""
    masks = torch.zeros(3, 2, 28, 28, dtype=torch.bool)
    masks[:, 0, :, :7], masks[:, 1, :, 21:] = True, True
    images = torch.randint(0, 256, (3, 3, 28, 28), generator=torch.Generator().manual_seed(4))
    return Pairs(images.to(torch.uint8), masks, torch.tensor([[0, 1], [1, 2], [2, 0]]))


@pytest.fixture(scope="module")
def dual():
    return from_clip(hf_clip()).float()


def left_and_right():
    maps = torch.zeros(3, 2, 4, 4)
    maps[:, 0, :, 0], maps[:, 1, :, 3] = 1.0, 1.0
    return maps.flatten(2)


def test_pointing_of_each_group(pairs):
    right = left_and_right()
    maps = {"right": right, "wrong": right.flip(1), "blind": right[:, :1].expand(-1, 2, -1)}
    groups = {"first": [0, 1], "all": [0, 1, 2], "nobody": [5]}
    table = phrase_pointing(pairs, maps, groups)
    assert table["group"].tolist() == ["first"] * 3 + ["all"] * 3
    assert table["explanations"].tolist() == [2] * 3 + [6] * 3
    assert table["own_object_pct"].tolist() == [100.0, 0.0, 50.0] * 2
    expected = pointing_table(pairs, {"blind": lambda target: maps["blind"][:, 0]})
    assert table["standard_error_pts"].iloc[-1] == expected["standard_error_pts"].item()


def test_recognised_phrases_are_counted_apart(pairs):
    """Only the left object of the first image is among the three best, and only it is found."""
    logits = torch.zeros(3, 8)
    logits[:, 4:7] = 1.0
    logits[0, 0] = 2.0
    maps = {"left": left_and_right()[:, :1].expand(-1, 2, -1)}
    assert phrase_ranks(logits, pairs.labels, range(8)).tolist() == [[0, 4], [3, 3], [3, 3]]
    table = phrase_pointing(pairs, maps, {"all": range(8), "few": [0, 1, 2]}, logits)
    assert table["phrases"].tolist() == ["all", "recognised"] * 2
    assert table["explanations"].tolist() == [6, 1, 6, 6]  # of three phrases all are the best three
    assert table["own_object_pct"].tolist() == [50.0, 100.0, 50.0, 50.0]


def test_pointing_without_pairs_or_with_other_maps_is_refused(pairs):
    with pytest.raises(ValueError, match="none of 3 pairs has both classes in one of"):
        phrase_pointing(pairs, {"right": left_and_right()}, {"nobody": [5]})
    with pytest.raises(ValueError, match=r"3 pairs, maps of {'right': 2}"):
        phrase_pointing(pairs, {"right": left_and_right()[:2]}, {"all": [0, 1, 2]})


def test_maps_of_both_phrases(dual, pairs):
    classifier = dual.image_classifier(dual.embed_texts(TEXTS))
    done = []
    maps = phrase_maps(classifier, dual.spec, pairs, on_part=done.append)
    assert tuple(maps) == CLIP_METHODS and done == [3, 3]
    for name, both in maps.items():
        assert both.shape == (3, 2, 16) and both.isfinite().all(), name
        blind = name in ("raw_attention", "rollout")
        assert torch.equal(both[:, 0], both[:, 1]) == blind, name
    # Image 0 has classes 0 and 1, image 2 has 2 and 0: each map is for its own phrase.
    swapped = Pairs(pairs.images, pairs.masks, pairs.labels.flip(1))
    other = phrase_maps(classifier, dual.spec, swapped, ["token_wise"])["token_wise"]
    torch.testing.assert_close(other, maps["token_wise"].flip(1))
    with pytest.raises(ValueError, match="phrase_maps: methods"):
        phrase_maps(classifier, dual.spec, pairs, ["partial_lrp"])


def test_a_broken_model_is_no_constant_map(pairs):
    """NaN of its weights would become the zeros of a map without a positive value (C19)."""
    broken = from_clip(hf_clip()).float()
    classifier = broken.image_classifier(broken.embed_texts(TEXTS))
    with torch.no_grad():
        classifier.blocks[1].mlp.fc1.weight[0, 0] = torch.nan
    with pytest.raises(ValueError, match=r"image 0: the model's similarities are not finite .*ch"):
        phrase_maps(classifier, broken.spec, pairs, ["rollout"])


def test_phrases_name_their_classes():
    assert phrase_targets(["a photo of a crab", "an orange cat on moss"]).tolist() == [7, 26]
    with pytest.raises(ValueError, match="names no known class"):
        phrase_targets(["a red bus on sand"])


def test_each_text_is_held_against_its_own_image(dual, pairs):
    features = dual.embed_images(dual.spec.normalise(pairs.images))
    maps = word_attributions(dual, TEXTS, features, "token_wise")
    for i, text in enumerate(TEXTS):
        alone = word_attributions(dual, [text], features[i : i + 1], "token_wise")[0]
        torch.testing.assert_close(alone, maps[i])
    others = word_attributions(dual, TEXTS, features.roll(1, 0), "token_wise")
    assert any(not torch.allclose(a, b) for a, b in zip(maps, others, strict=True))
    with pytest.raises(ValueError, match="3 texts and 2 images"):
        word_attributions(dual, TEXTS, features[:2], "token_wise")
    with pytest.raises(ValueError, match=r"method.* \['lrp'\] are not for CLIP"):
        word_attributions(dual, TEXTS, features, "lrp")


def tokens(text, *pieces):
    """Tokens of a text, cut where `pieces` say, between two special ones."""
    offsets, at = [], 0
    for piece in pieces:
        at = text.index(piece, at)
        offsets.append((at, at + len(piece)))
        at += len(piece)
    special = (True, *[False] * len(pieces), True)
    ids = tuple(range(len(pieces) + 2))
    return Tokens(text, ids, ((0, 0), *offsets, (0, 0)), special)


def test_words_of_a_caption_by_kind():
    first = tokens("a red lobster on sand", "a", "red", "lob", "ster", "on", "sand")
    second = tokens("a red cat", "a", "red", "cat")
    maps = [
        torch.tensor([0, 0, 1, 3, 4, 0, 2, 0.0]),
        torch.tensor([0, 1, 3, -5, 0.0]),
        torch.zeros(5),  # nothing positive: left out
    ]
    kinds = {"class": ["lobster", "cat"], "colour": ["red"]}
    table = word_table([first, second, second], maps, kinds).set_index("kind")
    assert table["tokens"].to_dict() == {"class": 3, "colour": 2, "other": 4}
    assert table["share_pct"].to_dict() == pytest.approx(
        {"class": 35, "colour": 42.5, "other": 22.5}
    )
    assert table["highest_pct"].to_dict() == {"class": 50, "colour": 50, "other": 0}
