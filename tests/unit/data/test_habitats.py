"""Habitats: classes at home, things beside them, and sets that tell how much that matters."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from relevit.config import BenchmarkParams, StartParams
from relevit.data import cutouts
from relevit.data.benchmark import CUTOUTS, open_benchmark
from relevit.data.cutouts import TEST_SETS, home_family
from relevit.data.foregrounds import STYLES
from relevit.data.habitats import CHALLENGE, HOMES, RECIPES_AT_HOME, habitats
from relevit.data.textures import FAMILIES, SEEN, UNSEEN
from relevit.data.things import OBJECTS, PRETRAINING

WORLD = habitats(0.9, 0.3)
FIELDS = ("images", "masks", "labels", "families", "props")


def draw(name, indices, world=WORLD, size=32, **options):
    return cutouts.draw(name, indices, world=world, size=size, **options)


def same(one, other):
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in FIELDS)


@pytest.mark.parametrize("name", RECIPES_AT_HOME)
def test_same_arguments_same_bytes_in_any_order(name):
    count = cutouts.CHUNK + 3
    once = draw(name, range(count), seed=2)
    backwards = draw(name, range(count - 1, -1, -1), seed=2)
    assert same(backwards.select(range(count - 1, -1, -1)), once)
    assert same(draw(name, [5], seed=2), once.select([5]))


def test_every_home_has_a_texture_and_three_things_of_its_own():
    assert [home.texture for home in HOMES] == [family.name for family in FAMILIES]
    props = [name for home in HOMES for name in home.props]
    assert len(props) == len(set(props)) == 3 * len(FAMILIES)
    assert set(props) <= set(PRETRAINING.classes)
    assert not set(props) & set(OBJECTS.classes)


@pytest.mark.parametrize("share", [0.0, 0.6, 1.0])
def test_home_share_is_how_often_a_class_is_at_home(share):
    batch = draw("train", range(800), world=habitats(share), size=16)
    home = [home_family(label) for label in batch.labels.tolist()]
    found = np.mean([a == b for a, b in zip(home, batch.families.tolist(), strict=True)])
    assert abs(found - share) <= 4 * (share * (1 - share) / 800) ** 0.5


def test_things_are_those_of_the_home_and_do_not_lie_on_the_animal(monkeypatch):
    placed = []
    place = cutouts._place_props
    monkeypatch.setattr(
        cutouts,
        "_place_props",
        lambda world, family, *others: (
            placed.append((family, others[0], place(world, family, *others))) or placed[-1][2]
        ),
    )
    batch = draw("val", range(40), size=112)
    for family, animal, props in placed:
        assert min(np.hypot(*(prop.centre - animal)) for prop in props) > 0.4
        names = [PRETRAINING.classes[prop.thing] for prop in props]
        assert len(names) == cutouts.PROPS and set(names) <= set(HOMES[family].props)
    assert batch.props.any(dim=-1).any(dim=-1).all()  # each image shows some
    assert not (batch.props & batch.masks).any()
    seen = batch.masks.float().mean(dim=(1, 2, 3))
    alone = draw("val", range(40), world=replace(WORLD, props=()), size=112).masks
    assert batch.masks.sum() > 0 and seen.min() > 0.01
    assert alone.shape == batch.masks.shape


def test_masks_of_things_are_exact():
    """Where neither animal nor thing is, the picture is that of the texture alone."""
    with_things = draw("only_background", range(12), size=112)
    bare = {name: replace(recipe, props=False) for name, recipe in RECIPES_AT_HOME.items()}
    texture = draw("only_background", range(12), replace(WORLD, recipes=bare), size=112)
    changed = (with_things.images != texture.images).any(dim=1, keepdim=True)
    assert not texture.props.any()
    assert (changed | ~with_things.props).float().mean() > 0.999  # a thing may match by chance
    outside = changed & ~with_things.props
    assert outside.float().mean() < 0.04  # the soft edges


def test_the_challenge_changes_the_home_alone():
    own, random, empty = (draw(name, range(80), size=64) for name in CHALLENGE)
    homes = torch.tensor([home_family(label) for label in own.labels.tolist()])
    assert torch.equal(own.families, homes) and torch.equal(empty.families, homes)
    assert set(random.families.tolist()) == set(range(len(SEEN)))
    assert torch.equal(own.masks, random.masks)
    assert not empty.masks.any() and empty.props.any()
    inside = own.masks & (own.images == random.images).all(dim=1, keepdim=True)
    assert inside.sum() > 0.7 * own.masks.sum()  # all but the soft edge


@pytest.mark.parametrize("name", TEST_SETS)
def test_test_sets_vary_what_they_say(name):
    batch, kind = draw(name, range(160)), RECIPES_AT_HOME[name].background
    home = torch.tensor([home_family(label) for label in batch.labels.tolist()])
    away = (batch.families != home).float().mean()
    if kind == "unseen":
        assert set(batch.families.tolist()) == {len(SEEN) + i for i in range(len(UNSEEN))}
    else:
        low, high = {"home": (0, 0.25), "foreign": (1, 1), "seen": (0.7, 1), "any": (0.8, 1)}[kind]
        assert low <= away <= high
    assert bool(batch.props.any()) == RECIPES_AT_HOME[name].props


def test_camouflage_hides_the_animal_in_pictures_and_not_in_masks():
    clear, hidden = (draw("train", range(80), world=habitats(0.9, low)) for low in (1.0, 0.2))
    assert torch.equal(clear.masks, hidden.masks) and torch.equal(clear.families, hidden.families)
    change = (clear.images.float() - hidden.images.float()).abs().mean(dim=1, keepdim=True)
    assert change[clear.masks].mean() > 10
    assert change[~clear.masks].mean() < 1
    shown = [draw("si_size", range(40), world=habitats(0.9, low)).images for low in (1.0, 0.2)]
    assert torch.equal(*shown)


def test_worlds_share_every_other_choice():
    few, many = (draw("train", range(80), world=habitats(share)) for share in (0.5, 0.9))
    assert torch.equal(few.masks, many.masks)
    assert 0.2 < (few.families != many.families).float().mean() < 0.6


def test_objects_come_in_all_styles():
    for style in STYLES:
        assert all(len(level) == len(OBJECTS.classes) for level in OBJECTS.load(style))
    names = OBJECTS.classes
    assert len(set(names)) == 40 and set(names) <= set(PRETRAINING.classes)
    assert Counter(draw("r", range(80), habitats(drawings=OBJECTS)).labels.tolist()) == (
        dict.fromkeys(range(40), 2)
    )


def test_a_preset_opens_its_world():
    params = BenchmarkParams(data="habitats", home_share=0.8, opacity=0.5, classes="objects")
    bench = open_benchmark(StartParams(benchmark=params))
    assert bench == open_benchmark(StartParams(benchmark=params))
    assert bench.name == "habitats" and bench.classes == OBJECTS.classes
    assert bench.rules == "habitats objects home 0.8 opacity 0.5"
    assert bench.draw("val", [0], size=16).props is not None
    assert CUTOUTS.rules == "" and CUTOUTS.draw("val", [0], size=16).props is None
    spec = bench.spec("tiny")
    assert {batch.images.shape[-1] for batch in bench.probe(spec)} == {spec.image_size}


def test_labelled_pictures_are_those_that_are_drawn():
    bench = open_benchmark(StartParams(benchmark=BenchmarkParams(data="habitats")))
    shown = bench.labelled("train", 50, seed=3, size=16)
    assert torch.equal(shown.read([7, 41]), bench.draw("train", [7, 41], seed=3, size=16).images)
    assert shown.classes == bench.classes and shown.labels[41] == 1


# Wrong input


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"home_share": 1.2}, "home_share 1.2; it is a share of the images, 0 to 1"),
        ({"home_share": -0.1}, "home_share -0.1; it is a share"),
        ({"opacity": 0.0}, "opacity 0.0; above 0, or nobody sees the animal, to 1"),
        ({"props": ((1,),) * 11}, "props for 11 of 12 textures; each is a home and needs at least"),
        ({"props": ((),) * 12}, "props for 0 of 12 textures"),
        ({"prop_scale": (0.2, 0.8)}, "leave no room in which an animal is seen"),
    ],
)
def test_worlds_that_cannot_be_are_refused(options, text):
    with pytest.raises(ValueError, match=text):
        replace(WORLD, **options)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"home_share": 1.5}, r"home_share = 1\.5 .*less than or equal to 1 .*how often a class"),
        ({"opacity": 0.0}, r"opacity = 0\.0 .*greater than 0"),
        ({"data": "habitat"}, r"data = 'habitat' .*'cutouts', 'habitats' or 'imagenet'"),
        ({"classes": "cars"}, r"classes = 'cars' .*'animals' or 'objects'"),
    ],
)
def test_wrong_parameters_are_named(values, text):
    with pytest.raises(ValueError, match=text):
        BenchmarkParams.checked({"data": "habitats"} | values, "common.yaml")


def test_a_world_of_textures_alone_has_no_challenge():
    with pytest.raises(ValueError, match="set 'mixed_same' is unknown; use one of"):
        cutouts.draw("mixed_same", [0])
