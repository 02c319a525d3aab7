"""Two phrases on one image."""

from dataclasses import replace

import pytest
import torch

from relevit.data.batch import Batch
from relevit.text.clip.dual import CLIP_METHODS
from reproduction.language.phrases import likely_pairs, phrase_maps, pointing


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


def test_pointing_of_each_group(cfg, encoder, pairs):
    right = left_and_right()
    maps = {"right": right, "wrong": right.flip(1), "blind": right[:, :1].expand(-1, 2, -1)}
    groups = {"first": [0, 1], "all": range(8)}
    table = pointing(cfg, replace(encoder, groups=groups), pairs, maps, (4, 4))
    found = table.set_index(["classes", "method"])[["images", "own_object_pct"]].sort_index()
    for group, images in (("first", 2), ("all", 6)):
        expected = {"right": (images, 100), "wrong": (images, 0), "blind": (images, 50)}
        assert dict(found.loc[group].apply(tuple, axis=1)) == expected
    assert len(table) == 6 and (table["model"] == cfg.dual_model).all()
    bare = replace(pairs, masks=torch.zeros_like(pairs.masks))
    none = pointing(cfg, encoder, bare, maps, (4, 4))
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
    found = likely_pairs(classifier, spec, shown.select(range(2)), count)
    with torch.no_grad():
        logits = classifier(spec.normalise(found.images))
    assert len(found) == expected and not bool(found.masks.any())
    assert found.labels[:, 0].equal(logits.argmax(dim=1))
