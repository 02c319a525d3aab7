"""Drawn images: the same bytes as ever, and each set varies what its recipe says."""

import hashlib
from collections import Counter

import numpy as np
import pytest
import torch

from habitats import composing, open_benchmark
from habitats.composing import PROPS, home_family
from habitats.cutouts import CHUNK, CUTOUTS, RECIPES, Cutouts
from habitats.drawings import OBJECTS, PRETRAINING, UNSEEN, class_split
from habitats.homes import CHALLENGE, HOMES, RECIPES_AT_HOME, habitats
from habitats.textures import FAMILIES, SEEN
from relevit.data.batch import join
from reproduction.params.cells import params_of
from reproduction.params.common import Benchmark

WORLD = habitats()
WORLDS = {
    "cutouts": (CUTOUTS, RECIPES, "267a649d68bc48eb"),
    "unseen": (Cutouts(drawings=UNSEEN), ("train", "val", "objectnet"), "cdaa8bfbccc986eb"),
    "habitats": (WORLD, RECIPES_AT_HOME, "f62435dc15a8fecf"),
    "objects": (habitats(0.5, 0.3, OBJECTS), RECIPES_AT_HOME, "ecc7f0c50f4fb367"),
}
SETS = [(world, name) for world, (_, names, _) in WORLDS.items() for name in names]


def tensors(batch):
    return [part for part in (batch.images, batch.masks, batch.props) if part is not None]


@pytest.mark.parametrize(("bench", "names", "digest"), WORLDS.values(), ids=WORLDS)
def test_same_seed_same_bytes(bench, names, digest):
    """On any machine and in every version: models that are shipped have learned from them."""
    found = hashlib.sha256()
    for name in names:
        for part in tensors(bench.draw(name, range(8), seed=3, size=64)):
            found.update(part.numpy().tobytes())
    assert found.hexdigest()[:16] == digest


@pytest.mark.parametrize(("world", "name"), SETS[::9])
def test_bytes_do_not_depend_on_order_or_batches(world, name):
    bench, count = WORLDS[world][0], CHUNK + 3  # more than are drawn at once
    once = bench.draw(name, range(count), seed=3, size=32)
    backwards = bench.draw(name, range(count - 1, -1, -1), seed=3, size=32)
    parts = list(bench.batches(name, count, 13, seed=3, size=32))
    assert [len(part) for part in parts] == [13, 13, count - 26]
    for other in (backwards.select(range(count - 1, -1, -1)), join(parts)):
        assert all(map(torch.equal, tensors(other), tensors(once)))
        assert torch.equal(other.labels, once.labels)


@pytest.mark.parametrize(("world", "name"), SETS)
def test_backgrounds_follow_the_recipe_and_masks_are_neither_empty_nor_full(world, name):
    bench = WORLDS[world][0]
    batch, recipe = bench.draw(name, range(200), size=16), bench.recipes[name]
    share = batch.masks.float().mean(dim=(1, 2, 3))
    assert (share.min() > 0 and share.max() < 1) != recipe.empty
    home = torch.tensor([home_family(label) for label in batch.labels.tolist()])
    away = float((batch.families != home).float().mean())
    rare = 1 - bench.home_share
    seen, every = range(len(SEEN)), range(len(FAMILIES))
    allowed, low, high = {
        "home": (seen, rare - 0.15, rare + 0.15),
        "always_home": (seen, 0.0, 0.0),
        "foreign": (seen, 1.0, 1.0),
        "seen": (seen, 0.7, 1.0),
        "unseen": (range(len(SEEN), len(FAMILIES)), 1.0, 1.0),
        "any": (every, 0.8, 1.0),
    }[recipe.background]
    assert set(batch.families.tolist()) == set(allowed) and low <= away <= high
    count = len(bench.classes)
    assert batch.labels.tolist() == [index % count for index in range(200)]
    if bench.habitats:
        assert bool(batch.props.any()) == recipe.props


def test_things_are_those_of_the_home_and_do_not_lie_on_the_animal():
    for index in range(40):
        key, recipe = [0, 1, index], RECIPES_AT_HOME["val"]
        placed = composing._place(WORLD, recipe, index, index, None, key, 112)
        apart = [np.hypot(*(prop.centre - placed.animal.centre)) for prop in placed.props]
        names = [PRETRAINING.classes[prop.which] for prop in placed.props]
        assert len(names) == PROPS and set(names) <= set(HOMES[placed.family].props)
        assert min(apart) > 0.4
    batch = WORLD.draw("val", range(40), size=112)
    assert batch.props.flatten(1).any(dim=1).all()  # each image shows some
    assert not (batch.props & batch.masks).any()


def test_the_challenge_changes_the_home_alone():
    own, random, empty = (WORLD.draw(name, range(80), size=64) for name in CHALLENGE)
    assert torch.equal(empty.families, own.families)
    assert set(random.families.tolist()) == set(range(len(SEEN)))
    assert torch.equal(own.masks, random.masks)
    assert not empty.masks.any() and empty.props.any()


def test_camouflage_hides_the_animal_in_pictures_and_not_in_masks():
    worlds = [habitats(0.9, low) for low in (1.0, 0.2)]
    clear, hidden = (world.draw("train", range(80), size=32) for world in worlds)
    assert clear.opacity.eq(1).all() and 0.2 <= hidden.opacity.min() < hidden.opacity.max() < 1
    assert torch.equal(clear.masks, hidden.masks) and torch.equal(clear.families, hidden.families)
    change = (clear.images.float() - hidden.images.float()).abs().mean(dim=1, keepdim=True)
    assert change[clear.masks].mean() > 10 and change[~clear.masks].mean() < 1
    assert torch.equal(*(world.draw("si_size", range(40), size=32).images for world in worlds))


def test_a_preset_opens_its_world():
    params = Benchmark(data="habitats", home_share=0.8, opacity=0.5, classes="objects")
    bench = open_benchmark(params_of("00_start")(benchmark=params))
    assert bench.name == "habitats" and bench.classes == OBJECTS.classes
    assert bench.rules == "habitats objects home 0.8 opacity 0.5"


def test_class_splits_are_disjoint_halves_and_leave_look_alikes_together():
    assert class_split(0) == (list(range(20)), list(range(20, 40)))
    splits = [class_split(seed) for seed in range(20)]
    for first, second in splits:
        assert len(first) == len(second) == 20 and sorted(first + second) == list(range(40))
        assert Counter(label // 2 for label in first) == dict.fromkeys({n // 2 for n in first}, 2)
    assert len({tuple(first) for first, _ in splits}) == 20


@pytest.mark.parametrize(
    ("bench", "arguments", "text"),
    [
        (CUTOUTS, {"set_name": "mixed_same"}, r"cutouts: set 'mixed_same' is unknown; .*'train',"),
        (CUTOUTS, {"size": 15}, r"cutouts: size 15 px; it must lie in 16\.\.128"),
        (CUTOUTS, {"size": 129}, r"size 129 px; .*16\.\.128, or be even and at most 256"),
        (WORLD, {"size": 258}, r"habitats: size 258 px; it must lie in 16\.\.128"),
    ],
)
def test_wrong_input_is_named(bench, arguments, text):
    with pytest.raises(ValueError, match=text):
        bench.draw(**({"set_name": "val", "indices": [0, 1], "size": 32} | arguments))
