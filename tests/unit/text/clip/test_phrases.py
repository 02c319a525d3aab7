"""Two phrases on one image, and what the published settings change in their maps."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from relevit.data.batch import Batch
from relevit.text.clip.dual import CLIP_METHODS
from relevit.text.clip.phrases import (
    likely_pairs,
    phrase_maps,
    phrase_ranks,
    pointing,
    settings_table,
)


@pytest.fixture(scope="module")
def pairs():
    """Three images with one object on the left and one on the right."""
    masks = torch.zeros(3, 2, 28, 28, dtype=torch.bool)
    masks[:, 0, :, :7], masks[:, 1, :, 21:] = True, True
    images = torch.randint(0, 256, (3, 3, 28, 28), generator=torch.Generator().manual_seed(4))
    return Batch(images.to(torch.uint8), masks, torch.tensor([[0, 1], [1, 2], [2, 0]]))


def left_and_right():
    maps = torch.zeros(3, 2, 4, 4)
    maps[:, 0, :, 0], maps[:, 1, :, 3] = 1.0, 1.0
    return maps.flatten(2)


def test_pointing_of_each_group_and_of_recognised_phrases(cfg, encoder, pairs):
    """Only the left object of the first image is among the three best of all eight."""
    right = left_and_right()
    maps = {"right": right, "wrong": right.flip(1), "blind": right[:, :1].expand(-1, 2, -1)}
    logits = torch.zeros(3, 8)
    logits[:, 4:7] = 1.0
    logits[0, 0] = 2.0
    assert phrase_ranks(logits, pairs.labels, range(8)).tolist() == [[0, 4], [3, 3], [3, 3]]
    groups = {"first": [0, 1], "all": range(8), "nobody": [5]}
    table = pointing(cfg, replace(encoder, groups=groups), pairs, maps, logits, (4, 4))
    found = table.set_index(["classes", "phrases", "method"])[["images", "own_object_pct"]]
    found = found.sort_index()
    for group, kind, images, blind in (
        ("first", "all", 2, 50),
        ("first", "recognised", 2, 50),  # of two phrases both are the best three
        ("all", "all", 6, 50),
        ("all", "recognised", 1, 100),
    ):
        expected = {"right": (images, 100), "wrong": (images, 0), "blind": (images, blind)}
        assert dict(found.loc[group, kind].apply(tuple, axis=1)) == expected
    assert len(table) == 12 and (table["model"] == cfg.dual_model).all()
    none = pointing(cfg, encoder, None, {}, logits, (4, 4))
    assert none.empty and list(none) == list(table)


def test_maps_of_both_phrases(single, single_side, pairs):
    done = []
    maps = phrase_maps(single_side, single.spec, pairs, on_part=done.append)
    assert tuple(maps) == CLIP_METHODS and done == [3, 3]
    for name, both in maps.items():
        assert both.shape == (3, 2, 16) and both.isfinite().all(), name
        blind = name in ("raw_attention", "rollout")
        assert torch.equal(both[:, 0], both[:, 1]) == blind, name
    # Image 0 has classes 0 and 1, image 2 has 2 and 0: each map is for its own phrase.
    swapped = Batch(pairs.images, pairs.masks, pairs.labels.flip(1))
    other = phrase_maps(single_side, single.spec, swapped)["token_wise"]
    torch.testing.assert_close(other, maps["token_wise"].flip(1))


@pytest.mark.parametrize(("count", "expected"), [(1, 1), (3, 2)])
def test_photographs_get_the_two_classes_they_are_most_similar_to(encoder, shown, count, expected):
    classifier, spec = encoder.classifier(), encoder.dual.spec
    found = likely_pairs(classifier, spec, shown.batch.select(range(2)), count)
    with torch.no_grad():
        logits = classifier(spec.normalise(found.images))
    assert len(found) == expected and not bool(found.masks.any())
    assert found.labels[:, 0].equal(logits.argmax(dim=1))


def test_settings_table_counts_agreement_and_pointing_only_with_masks(group_duo):
    rising = torch.arange(49.0).expand(4, 2, 49).contiguous()
    maps = {("ga", "published", 2): rising, ("ga", "other", 1): rising.flip(-1)}
    table = settings_table(group_duo, maps, (7, 7))
    assert table["same_order"].round(6).tolist() == [1, -1]
    assert table["same_top_pct"].tolist() == [100, 0]
    assert (table["own_object_pct"] == 50).all()  # the same map for both phrases
    bare = replace(group_duo, masks=torch.zeros_like(group_duo.masks))
    assert "own_object_pct" not in settings_table(bare, maps, (7, 7))
