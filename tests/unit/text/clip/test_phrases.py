"""Two phrases on one image, and what the published settings change in their maps."""

from __future__ import annotations

import copy

import pytest
import torch

from relevit.attribution import METHODS
from relevit.data.foregrounds import class_split
from relevit.data.pairs import Pairs
from relevit.evaluate.pointing import pointing_table
from relevit.text.clip.dual import CLIP_METHODS
from relevit.text.clip.phrases import (
    first_of_groups,
    likely_pairs,
    phrase_maps,
    phrase_pointing,
    phrase_ranks,
    pointing,
    setting_maps,
    settings_table,
)

from .replica import TEXTS


@pytest.fixture(scope="module")
def pairs():
    """Three images with one object on the left and one on the right."""
    masks = torch.zeros(3, 2, 28, 28, dtype=torch.bool)
    masks[:, 0, :, :7], masks[:, 1, :, 21:] = True, True
    images = torch.randint(0, 256, (3, 3, 28, 28), generator=torch.Generator().manual_seed(4))
    return Pairs(images.to(torch.uint8), masks, torch.tensor([[0, 1], [1, 2], [2, 0]]))


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


def test_maps_of_both_phrases(random_dual, pairs):
    classifier = random_dual.image_classifier(random_dual.embed_texts(TEXTS))
    done = []
    maps = phrase_maps(classifier, random_dual.spec, pairs, on_part=done.append)
    assert tuple(maps) == CLIP_METHODS and done == [3, 3]
    for name, both in maps.items():
        assert both.shape == (3, 2, 16) and both.isfinite().all(), name
        blind = name in ("raw_attention", "rollout")
        assert torch.equal(both[:, 0], both[:, 1]) == blind, name
    # Image 0 has classes 0 and 1, image 2 has 2 and 0: each map is for its own phrase.
    swapped = Pairs(pairs.images, pairs.masks, pairs.labels.flip(1))
    other = phrase_maps(classifier, random_dual.spec, swapped, ["token_wise"])["token_wise"]
    torch.testing.assert_close(other, maps["token_wise"].flip(1))
    with pytest.raises(ValueError, match="phrase_maps: methods"):
        phrase_maps(classifier, random_dual.spec, pairs, ["partial_lrp"])


def test_a_broken_model_is_no_constant_map(random_dual, pairs):
    """NaN of its weights would become the zeros of a map without a positive value (C19)."""
    broken = copy.deepcopy(random_dual)
    classifier = broken.image_classifier(broken.embed_texts(TEXTS))
    with torch.no_grad():
        classifier.blocks[1].mlp.fc1.weight[0, 0] = torch.nan
    with pytest.raises(ValueError, match=r"image 0: the model's similarities are not finite .*ch"):
        phrase_maps(classifier, broken.spec, pairs, ["rollout"])


# As the parameters of 12_clip ask for it


def test_pairs_are_found_for_each_group(group_duo):
    seen, unseen = (set(part) for part in class_split(1))
    labels = group_duo.labels.tolist()
    assert len(group_duo) == 4
    assert all(seen >= set(both) for both in labels[:2])
    assert all(unseen >= set(both) for both in labels[2:])


def test_photographs_get_the_two_classes_they_are_most_similar_to(encoder, shown):
    classifier, spec = encoder.classifier(), encoder.dual.spec
    found = likely_pairs(classifier, spec, shown.batch, 3)
    with torch.no_grad():
        logits = classifier(spec.normalise(found.images))
    assert found.labels[:, 0].equal(logits.argmax(dim=1)) and not bool(found.masks.any())


def test_no_more_photographs_are_asked_for_than_there_are(encoder, shown):
    classifier = encoder.classifier(list(encoder.prompts))
    for count, expected in ((1, 1), (3, 2)):
        found = likely_pairs(classifier, encoder.dual.spec, shown.batch.select(range(2)), count)
        assert len(found) == expected


def test_no_pairs_no_rows_but_the_columns(cfg, encoder):
    table = pointing(cfg, encoder, None, {})
    assert table.empty and {"model", "seed", "classes", "method", "images"} <= set(table)


def test_settings_as_published_are_the_methods_own_maps(encoder, group_duo):
    classifier, spec = encoder.classifier(), encoder.dual.spec
    made = setting_maps(classifier, spec, group_duo)
    pixels = spec.normalise(group_duo.images)
    for name in ("token_wise", "head_wise"):
        whole = METHODS[name](classifier, pixels, group_duo.labels[:, 1], protocol="published")
        found = next(v for (n, kind, _), v in made.items() if (n, kind) == (name, "published"))
        torch.testing.assert_close(found[:, 1], whole, rtol=1e-3, atol=1e-7)
    values = {kind: both for (name, kind, _), both in made.items() if name == "token_wise"}
    assert not torch.allclose(values["published"], values["values of Z (D12)"])
    assert not torch.allclose(values["published"], values["all blocks (D11)"])
    assert classifier.family == "clip"  # left as it was


def test_settings_table_counts_agreement_and_pointing_only_with_masks(group_duo):
    rising = torch.arange(49.0).expand(4, 2, 49).contiguous()
    maps = {("ga", "published", 2): rising, ("ga", "other", 1): rising.flip(-1)}
    table = settings_table(group_duo, maps)
    assert table["same_order"].round(6).tolist() == [1, -1]
    assert table["same_top_pct"].tolist() == [100, 0]
    assert (table["own_object_pct"] == 50).all()  # the same map for both phrases
    bare = Pairs(group_duo.images, torch.zeros_like(group_duo.masks), group_duo.labels)
    assert "own_object_pct" not in settings_table(bare, maps)


@pytest.mark.parametrize(
    ("count", "each", "groups", "expected"),
    [
        (3, 2, 2, [[0, 1], [2, 3]]),
        (1, 2, 2, [[0], [2]]),
        (2, 3, 1, [[0, 1]]),
        (9, 3, 1, [[0, 1, 2]]),
    ],
)
def test_no_more_pairs_are_shown_than_there_are(count, each, groups, expected):
    many = each * groups
    numbers = torch.arange(many)
    duo = Pairs(
        numbers[:, None, None, None].expand(-1, 3, 4, 4).to(torch.uint8),
        torch.zeros(many, 2, 4, 4, dtype=torch.bool),
        numbers[:, None].expand(-1, 2),
    )
    maps = {"rollout": numbers[:, None, None].expand(-1, 2, 4).float()}
    parts = first_of_groups(duo, maps, groups, count)
    assert [part.images[:, 0, 0, 0].tolist() for part, _ in parts] == expected
    assert [part.labels[:, 1].tolist() for part, _ in parts] == expected
    assert [found["rollout"][:, 1, 3].tolist() for _, found in parts] == expected
