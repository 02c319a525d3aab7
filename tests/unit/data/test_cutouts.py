"""Cutouts draws the same bytes whatever the order, and each set varies what its recipe says."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from relevit.data.batch import join
from relevit.data.composing import home_family
from relevit.data.cutouts import CHUNK, CUTOUTS, RECIPES, Cutouts
from relevit.data.drawings import CLASSES, LEVELS, UNSEEN, Drawings, class_split
from relevit.data.habitats import RECIPES_AT_HOME, habitats
from relevit.data.textures import FAMILIES, SEEN, SIDE

SMALL = 16  # pixels: the smallest size, for tests that do not look at the pictures
FIELDS = ("images", "masks", "labels", "families")


WORLDS = {"cutouts": CUTOUTS, "unseen": Cutouts(drawings=UNSEEN), "habitats": habitats(0.9, 0.3)}
SETS = [
    *(("cutouts", name) for name in RECIPES),
    *(("habitats", name) for name in RECIPES_AT_HOME),
    *(("unseen", name) for name in ("train", "val", "objectnet")),
]


def same(one, other) -> bool:
    names = (*FIELDS, *(["props"] if one.props is not None else []))
    return all(torch.equal(getattr(one, f), getattr(other, f)) for f in names)


# The same bytes


@pytest.mark.parametrize(("world", "name"), SETS[::5])
def test_same_arguments_same_bytes_in_any_order_or_batches(world, name):
    bench, count = WORLDS[world], CHUNK + 3  # more than are drawn at once
    once = bench.draw(name, range(count), seed=3, size=32)
    assert once.images.shape == (count, 3, 32, 32) and once.images.dtype == torch.uint8
    assert once.masks.shape == (count, 1, 32, 32) and once.masks.dtype == torch.bool
    backwards = bench.draw(name, range(count - 1, -1, -1), seed=3, size=32)
    assert same(backwards.select(range(count - 1, -1, -1)), once)
    parts = list(bench.batches(name, count, 13, seed=3, size=32))
    assert [len(part) for part in parts] == [13, 13, count - 26] and same(join(parts), once)


# Labels and backgrounds


@pytest.mark.parametrize("world", ["cutouts", "unseen"])
def test_whole_multiples_of_the_classes_are_balanced(world):
    bench = WORLDS[world]
    count = len(bench.classes)
    labels = bench.draw("val", range(17, 17 + 2 * count), size=SMALL).labels.tolist()
    assert bench.pictures("val", 60).labels.tolist() == [i % count for i in range(60)]
    assert Counter(labels) == dict.fromkeys(range(count), 2)


@pytest.mark.parametrize(("world", "name"), SETS)
def test_backgrounds_follow_the_recipe_and_masks_are_neither_empty_nor_full(world, name):
    bench = WORLDS[world]
    batch, recipe = bench.draw(name, range(200), size=SMALL), bench.recipes[name]
    share = batch.masks.float().mean(dim=(1, 2, 3))
    assert (share.min() > 0 and share.max() < 1) != recipe.empty
    home = torch.tensor([home_family(label) for label in batch.labels.tolist()])
    away = float((batch.families != home).float().mean())
    seen, every = range(len(SEEN)), range(len(FAMILIES))
    allowed, low, high = {
        "home": (seen, 0.0, 0.45),
        "always_home": (seen, 0.0, 0.0),
        "foreign": (seen, 1.0, 1.0),
        "seen": (seen, 0.7, 1.0),
        "unseen": (range(len(SEEN), len(FAMILIES)), 1.0, 1.0),
        "any": (every, 0.8, 1.0),
    }[recipe.background]
    assert set(batch.families.tolist()) == set(allowed) and low <= away <= high
    if bench.habitats:
        assert bool(batch.props.any()) == recipe.props


# Masks


def cards(alpha: float, *, full: bool = False) -> Cutouts:
    """Cutouts of drawings whose alpha is known: a transparent or black disc, or a full square."""
    y, x = torch.meshgrid(*2 * [torch.linspace(-1, 1, SIDE).double()], indexing="ij")
    disc = (1.1 - 1.6 * (x**2 + y**2).sqrt()).clamp(0, 1)  # with a wide soft edge
    rgba = torch.zeros(len(CLASSES), 4, SIDE, SIDE).double()
    rgba[:, 3] = alpha if full else alpha * disc
    levels = [rgba, *(torch.nn.functional.avg_pool2d(rgba, 2**i) for i in range(1, LEVELS))]
    return Cutouts(drawings=Drawings("animals", CLASSES, lambda style: tuple(levels)))


@pytest.mark.parametrize("name", ["val", "objectnet", "si_size"])
def test_mask_is_where_the_object_covers_more_than_half(name):
    empty, black = (cards(alpha).draw(name, range(40), size=64) for alpha in (0.0, 1.0))
    assert not empty.masks.any()
    # A black object darkens the background by its alpha.
    background = empty.images.double().amax(dim=1, keepdim=True)
    alpha = 1 - black.images.double().amax(dim=1, keepdim=True) / background.clamp(min=1)
    tells = (background > 64) & ((alpha - 0.5).abs() > 0.02)
    assert tells.float().mean() > 0.5
    assert torch.equal(black.masks[tells], alpha[tells] > 0.5)
    assert (alpha[tells] > 0.5).any() and (alpha == 0).any()


@pytest.mark.parametrize("name", ["val", "si_size"])
def test_objects_are_as_large_as_the_recipe_says(name):
    """A full square card, so that the mask's area is the scale squared."""
    shown = cards(1.0, full=True).draw(name, range(80), size=64)
    share = shown.masks.double().mean(dim=(1, 2, 3))
    low, high = RECIPES[name].scale
    assert float(share.max()) < 1.02 * high**2
    assert share.sqrt().max() - share.sqrt().min() > 0.5 * (high - low)


# Drawings and classes


def test_class_splits_are_disjoint_halves_and_leave_look_alikes_together():
    assert class_split(0) == (list(range(20)), list(range(20, 40)))
    splits = [class_split(seed) for seed in range(20)]
    for first, second in splits:
        assert len(first) == len(second) == 20
        assert sorted(first + second) == list(range(40))
        assert first == sorted(first) and second == sorted(second)
        assert all((2 * pair in first) == (2 * pair + 1 in first) for pair in range(20))
    assert len({tuple(first) for first, _ in splits}) == 20
    assert splits == [class_split(seed) for seed in range(20)]


# Wrong input


@pytest.mark.parametrize(
    ("bench", "arguments", "text"),
    [
        (CUTOUTS, {"set_name": "imagenet"}, r"cutouts: set 'imagenet' is unknown; use .*'train',"),
        (CUTOUTS, {"set_name": "mixed_same"}, r"cutouts: set 'mixed_same' is unknown; use one of"),
        (CUTOUTS, {"size": 15}, r"cutouts: size 15 px; it must lie in 16\.\.128"),
        (CUTOUTS, {"size": 129}, r"size 129 px; .*16\.\.128, or be even and at most 256"),
        (habitats(), {"size": 258}, r"habitats: size 258 px; it must lie in 16\.\.128"),
        (WORLDS["unseen"], {"set_name": "sketch"}, r"no drawings of unseen in style 'high_contr"),
    ],
)
def test_wrong_input_is_named(bench, arguments, text):
    with pytest.raises(ValueError, match=text):
        bench.draw(**({"set_name": "val", "indices": [0, 1], "size": 32} | arguments))


def test_seed_set_index_and_label_each_change_the_image():
    draws = [
        *({"set_name": name, "indices": range(40)} for name in RECIPES),
        {"set_name": "val", "indices": range(40, 80)},
        {"set_name": "val", "indices": range(40), "seed": 1},
        {"set_name": "val", "indices": range(40), "labels": [i % 40 for i in range(1, 41)]},
    ]
    flat = torch.cat([CUTOUTS.draw(**options, size=SMALL).images for options in draws]).flatten(1)
    assert len(torch.unique(flat, dim=0)) == len(flat)
