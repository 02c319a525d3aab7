"""Habitats: classes at home, things beside them, and sets that tell how much that matters."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from relevit.config import BenchmarkParams, StartParams
from relevit.data import composing, open_benchmark
from relevit.data.composing import PROPS, home_family
from relevit.data.cutouts import CUTOUTS
from relevit.data.drawings import OBJECTS, PRETRAINING
from relevit.data.habitats import CHALLENGE, HOMES, RECIPES_AT_HOME, habitats
from relevit.data.textures import SEEN

WORLD = habitats(0.9, 0.3)


def draw(name, indices, world=WORLD, size=32, **options):
    return world.draw(name, indices, size=size, **options)


def test_things_are_those_of_the_home_and_do_not_lie_on_the_animal():
    for index in range(40):
        key, recipe = [0, 1, index], RECIPES_AT_HOME["val"]
        placed = composing._place(WORLD, recipe, index, index, None, key, 112)
        apart = [np.hypot(*(prop.centre - placed.animal.centre)) for prop in placed.props]
        names = [PRETRAINING.classes[prop.which] for prop in placed.props]
        assert len(names) == PROPS and set(names) <= set(HOMES[placed.family].props)
        assert min(apart) > 0.4
    batch = draw("val", range(40), size=112)
    assert batch.props.flatten(1).any(dim=1).all()  # each image shows some
    assert not (batch.props & batch.masks).any()
    assert batch.masks.float().mean(dim=(1, 2, 3)).min() > 0.01


def test_the_challenge_changes_the_home_alone():
    own, random, empty = (draw(name, range(80), size=64) for name in CHALLENGE)
    homes = torch.tensor([home_family(label) for label in own.labels.tolist()])
    assert torch.equal(own.families, homes) and torch.equal(empty.families, homes)
    assert set(random.families.tolist()) == set(range(len(SEEN)))
    assert torch.equal(own.masks, random.masks)
    assert not empty.masks.any() and empty.props.any()
    inside = own.masks & (own.images == random.images).all(dim=1, keepdim=True)
    assert inside.sum() > 0.7 * own.masks.sum()  # all but the soft edge


def test_camouflage_hides_the_animal_in_pictures_and_not_in_masks():
    clear, hidden = (draw("train", range(80), world=habitats(0.9, low)) for low in (1.0, 0.2))
    assert clear.opacity.eq(1).all() and 0.2 <= hidden.opacity.min() < hidden.opacity.max() < 1
    assert torch.equal(clear.masks, hidden.masks) and torch.equal(clear.families, hidden.families)
    change = (clear.images.float() - hidden.images.float()).abs().mean(dim=1, keepdim=True)
    assert change[clear.masks].mean() > 10
    assert change[~clear.masks].mean() < 1
    shown = [draw("si_size", range(40), world=habitats(0.9, low)).images for low in (1.0, 0.2)]
    assert torch.equal(*shown)


@pytest.mark.parametrize("share", [0.5])
def test_home_share_is_how_often_a_class_is_at_home_and_changes_nothing_else(share):
    """Within four standard deviations of the binomial distribution."""
    found, usual = (draw("train", range(400), habitats(s), size=16) for s in (share, 0.7))
    assert torch.equal(found.masks, usual.masks)
    home = torch.tensor([home_family(label) for label in found.labels.tolist()]) == found.families
    assert abs(float(home.float().mean()) - share) <= 4 * (share * (1 - share) / 400) ** 0.5


def test_a_preset_opens_its_world():
    params = BenchmarkParams(data="habitats", home_share=0.8, opacity=0.5, classes="objects")
    bench = open_benchmark(StartParams(benchmark=params))
    assert Counter(bench.draw("r", range(80), size=16).labels.tolist()) == dict.fromkeys(
        range(40), 2
    )
    assert bench == open_benchmark(StartParams(benchmark=params))
    assert bench.name == "habitats" and bench.classes == OBJECTS.classes
    assert bench.rules == "habitats objects home 0.8 opacity 0.5"
    assert bench.draw("val", [0], size=16).props is not None
    assert CUTOUTS.draw("val", [0], size=16).props is None
