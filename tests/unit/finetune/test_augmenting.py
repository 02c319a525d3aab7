"""What masks do to images: the object is left as it is, and of another's object nothing stays."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from relevit.choices.words import AUGMENTATIONS
from relevit.data.batch import Batch
from relevit.data.filling import RIM
from relevit.finetune.augmenting import AROUND, SIZES, augmented, backgrounds

KINDS = AUGMENTATIONS[1:]
IN_PLACE = ("swap", "swap_seams", "swap_strange", "grey")  # the object stays where it is
SOFTNESS = ("sharp", "soft", "thin")  # of masks: True or False, shares, shares that reach no one
RED = 0  # channel that objects have and backgrounds lack


def scenes(count=6, side=30, softness="sharp", seed=0) -> Batch:
    """Red discs, their rims too, on noise without any red."""
    random = torch.Generator().manual_seed(seed)
    images = torch.randint(1, 256, (count, 3, side, side), generator=random).byte()
    centres = torch.randint(8, side - 8, (count, 2, 1, 1), generator=random)
    rows, columns = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    away = ((rows - centres[:, 0]) ** 2 + (columns - centres[:, 1]) ** 2).float().sqrt()[:, None]
    masks = ((6 - away) / 2).clamp(0, 1)  # all within 4 pixels, none from 6 on
    if softness == "thin":
        masks = 0.6 * masks
    images[:, RED] = torch.where(away < 6 + RIM - 1, 255, 0)[:, 0].byte()
    found = masks > 0.5 if softness == "sharp" else masks
    return Batch(images, found, torch.arange(count))


def changed(kind, batch, others=None, seed=0):
    """The batch after `kind`, and which images are others than before."""
    others = backgrounds(batch, kind) if others is None else others
    found = augmented(batch, kind, others, np.random.default_rng(seed))
    return found, (found.images != batch.images).flatten(1).any(dim=1)


@pytest.mark.parametrize("side", [28, 33])
@pytest.mark.parametrize("softness", SOFTNESS)
def test_backgrounds_have_nothing_of_their_object(softness, side):
    train = scenes(side=side, softness=softness)
    for kind, reds in (("swap", [0.0]), ("swap_sizes", [0.0]), ("swap_seams", [0.0, 127.5])):
        behind = backgrounds(train, kind)
        assert behind.shape == train.images.shape and behind[:, RED].unique().tolist() == reds
        far = train.images[:, RED] == 0
        for channel in (1, 2):  # what no object was near is as it was
            same = behind[:, channel] == train.images[:, channel]
            assert same[far & (behind[:, RED] == 0)].float().mean() > 0.85
        assert behind.min() >= 0 and behind.max() <= 255
    assert not any(map(partial(backgrounds, train), ("none", "grey", "crop", "swap_strange")))


@pytest.mark.parametrize("softness", SOFTNESS)
@pytest.mark.parametrize("kind", IN_PLACE)
def test_object_stays_and_its_surroundings_are_those_of_another(kind, softness):
    batch = scenes(softness=softness)
    found, touched = changed(kind, batch)
    assert torch.equal(found.masks, batch.masks) and torch.equal(found.labels, batch.labels)
    objects = (batch.masks == 1).expand_as(batch.images)
    assert torch.equal(found.images[objects], batch.images[objects])
    outside = batch.masks[:, 0] == 0
    for image, out in zip(found.images[touched], outside[touched], strict=True):
        if kind == "swap":
            behind = backgrounds(batch, kind).round().byte()
            assert any(torch.equal(image[:, out], each[:, out]) for each in behind)
        if kind == "grey":
            assert image[:, out].unique().tolist() == [128]


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_half_of_the_outlined_images_are_changed_and_nothing_else_is(kind, count):
    """Rounded up; an image may be without a mask, or its mask empty."""
    batch, others = scenes(count + 2), backgrounds(scenes(6, seed=1), kind)
    batch.masks[0] = False
    batch = replace(batch, outlined=torch.arange(count + 2) != 1)
    before = batch.images.clone(), batch.masks.clone()
    for seed in range(5):
        random = np.random.default_rng(seed)
        found = augmented(batch, kind, others, random)
        touched = (found.images != batch.images).flatten(1).any(dim=1)
        assert int(touched.sum()) == (count + 1) // 2 and not touched[:2].any()
        assert torch.equal(found.masks[~touched], batch.masks[~touched])
        assert found.masks.dtype == batch.masks.dtype
        state = np.random.default_rng(seed).bit_generator.state
        assert random.bit_generator.state == state, "crops and flips are those without"
        assert torch.equal(changed(kind, batch, others, seed)[0].images, found.images)
    assert torch.equal(batch.images, before[0]) and torch.equal(batch.masks, before[1])
    assert changed("none", batch)[0] is batch
    bare = replace(batch, outlined=torch.zeros(count + 2).bool())
    assert changed(kind, bare, others)[0] is bare


@pytest.mark.parametrize("softness", SOFTNESS)
@pytest.mark.parametrize("kind", ["crop", "swap_sizes"])
def test_moved_object_takes_its_mask_along(kind, softness):
    batch = scenes(40, 40, softness)
    found, touched = changed(kind, batch)
    before, after = (each.masks[touched].float() for each in (batch, found))
    ratio = (after.sum(dim=(1, 2, 3)) / before.sum(dim=(1, 2, 3))).sqrt()
    if kind == "crop":
        sides = (after > 0.5).flatten(1, 2).any(dim=1).sum(dim=1)  # columns
        assert (sides - 40 / (1 + 2 * AROUND)).abs().max() <= 4
    else:
        assert SIZES[0] - 0.1 <= ratio.min() < 0.8 < 1 < ratio.max() <= SIZES[1] + 0.1
    inner = after[:, 0] > 0.99 * before.max()
    assert inner.any() and (found.images[touched][:, RED][inner] > 120 * before.max()).all()


@pytest.mark.parametrize(
    ("given", "few"),
    [
        (lambda batch: batch.select([0]), "1 of 1"),
        (lambda batch: replace(batch, masks=torch.ones_like(batch.masks)), "0 of 6"),
        (lambda batch: replace(batch, masks=torch.zeros_like(batch.masks)), "0 of 6"),
        (lambda batch: replace(batch, outlined=torch.arange(6) == 2), "1 of 6"),
    ],
)
def test_too_few_backgrounds_are_refused(given, few):
    with pytest.raises(ValueError, match=f"augmentation swap: {few} training images"):
        backgrounds(given(scenes()), "swap")
