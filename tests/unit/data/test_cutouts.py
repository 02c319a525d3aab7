"""Cutouts draws the same bytes whatever the order, and each set varies what its recipe says."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch

from relevit.data import cutouts, textures, things
from relevit.data.cutouts import RECIPES, SHIFTED_SETS, TEST_SETS, drawn, home_family
from relevit.data.foregrounds import CLASSES, LEVELS, STYLES, class_split, load_foregrounds
from relevit.data.labelled import Labelled
from relevit.data.textures import FAMILIES, SEEN, SIDE
from relevit.data.things import PRETRAINING, UNSEEN

SMALL = 16  # pixels: the smallest size, for tests that do not look at the pictures
FIELDS = ("images", "masks", "labels", "families")


def same(one: cutouts.Batch, other: cutouts.Batch) -> bool:
    return all(torch.equal(getattr(one, f), getattr(other, f)) for f in FIELDS)


# The same bytes


@pytest.mark.parametrize(
    ("name", "drawings"),
    [
        *((name, None) for name in RECIPES),
        *((name, UNSEEN) for name, recipe in RECIPES.items() if recipe.style == things.STYLE),
    ],
)
def test_same_arguments_same_bytes_in_any_order(name, drawings):
    options = {"seed": 3, "size": 32, "drawings": drawings}
    once = cutouts.draw(name, range(5), **options)
    assert same(once, cutouts.draw(name, range(5), **options))
    backwards = cutouts.draw(name, range(4, -1, -1), **options)
    assert same(backwards.select(range(4, -1, -1)), once)
    assert once.images.dtype == torch.uint8 and once.masks.dtype == torch.bool
    assert tuple(once.images.shape) == (5, 3, 32, 32)
    assert tuple(once.masks.shape) == (5, 1, 32, 32)


def test_bytes_do_not_depend_on_order_or_batches():
    count = cutouts.CHUNK + 7  # more than are drawn at once
    whole = cutouts.draw("objectnet", range(count), size=SMALL)
    backwards = cutouts.draw("objectnet", range(count - 1, -1, -1), size=SMALL)
    assert same(backwards.select(range(count - 1, -1, -1)), whole)
    for batch_size in (1, 13, count, 1000):
        parts = list(cutouts.batches("objectnet", count, batch_size, size=SMALL))
        assert [len(p) for p in parts[:-1]] == [batch_size] * (len(parts) - 1)
        joined = [torch.cat([getattr(p, f) for p in parts]) for f in FIELDS]
        assert same(cutouts.Batch(*joined), whole)


def test_seed_set_index_and_label_each_change_the_image():
    images = [
        cutouts.draw("val", [1], size=32).images,
        cutouts.draw("val", [1], seed=1, size=32).images,
        cutouts.draw("v2", [1], size=32).images,
        cutouts.draw("val", [41], size=32).images,
        cutouts.draw("val", [1], labels=[2], size=32).images,
    ]
    for i, one in enumerate(images):
        for other in images[:i]:
            assert (one != other).float().mean() > 0.2


def test_training_and_test_images_are_different_draws():
    images = [cutouts.draw(name, range(40), size=SMALL).images for name in RECIPES]
    flat = torch.cat(images).flatten(1)
    assert len(torch.unique(flat, dim=0)) == len(flat)


# Labels and backgrounds


@pytest.mark.parametrize("first", [0, 40, 17])
@pytest.mark.parametrize("drawings", [None, UNSEEN], ids=["animals", "things"])
def test_whole_multiples_of_the_classes_are_balanced(first, drawings):
    count = len(CLASSES if drawings is None else drawings.classes)
    indices = range(first, first + 2 * count)
    labels = cutouts.draw("val", indices, size=SMALL, drawings=drawings).labels.tolist()
    assert Counter(labels) == dict.fromkeys(range(count), 2)


@pytest.mark.parametrize("name", RECIPES)
def test_backgrounds_follow_the_recipe(name):
    batch = cutouts.draw(name, range(200), size=SMALL)
    home = torch.tensor([home_family(label) for label in batch.labels.tolist()])
    families = batch.families
    kind = RECIPES[name].background
    allowed = {
        "home": range(len(SEEN)),
        "foreign": range(len(SEEN)),
        "unseen": range(len(SEEN), len(FAMILIES)),
        "any": range(len(FAMILIES)),
    }[kind]
    assert set(families.tolist()) == set(allowed)
    if kind == "foreign":
        assert not (families == home).any()


def test_set_a_is_foreign_and_objectnet_unseen():
    assert RECIPES["a"].background == "foreign"
    assert RECIPES["objectnet"].background == "unseen"
    assert {RECIPES[name].background for name in ("train", "finetune", "val", "v2")} == {"home"}


def test_classes_mostly_stand_at_home():
    """Within four standard deviations of the binomial distribution."""
    count = 800
    batch = cutouts.draw("val", range(count), size=SMALL)
    home = [home_family(label) for label in batch.labels.tolist()]
    share = sum(a == b for a, b in zip(home, batch.families.tolist(), strict=True)) / count
    spread = math.sqrt(cutouts.HOME_SHARE * (1 - cutouts.HOME_SHARE) / count)
    assert 0.6 <= cutouts.HOME_SHARE <= 0.8
    assert abs(share - cutouts.HOME_SHARE) < 4 * spread


def test_five_classes_share_a_home_and_look_alikes_do_not():
    homes = [home_family(label) for label in range(len(CLASSES))]
    assert Counter(homes) == dict.fromkeys(range(len(SEEN)), 5)
    assert all(homes[i] != homes[i + 1] for i in range(0, len(CLASSES), 2))


# Masks


@pytest.mark.parametrize("name", RECIPES)
def test_masks_are_neither_empty_nor_full(name):
    share = cutouts.draw(name, range(200)).masks.float().mean(dim=(1, 2, 3))
    assert share.min() > 0 and share.max() < 1


class Cards:
    """Foregrounds whose alpha is known: a transparent or a black disc instead of animals."""

    def __init__(self, alpha: float):
        y, x = torch.meshgrid(*2 * [torch.linspace(-1, 1, SIDE).double()], indexing="ij")
        disc = alpha * (1.1 - 1.6 * (x**2 + y**2).sqrt()).clamp(0, 1)  # with a wide soft edge
        self.rgba = torch.zeros(len(CLASSES), 4, SIDE, SIDE).double()
        self.rgba[:, 3] = disc

    def __call__(self, style):
        pool = torch.nn.functional.avg_pool2d
        return tuple(self.rgba if i == 0 else pool(self.rgba, 2**i) for i in range(LEVELS))


@pytest.mark.parametrize("name", ["val", "objectnet", "si_size"])
def test_mask_is_where_the_object_covers_more_than_half(monkeypatch, name):
    monkeypatch.setattr(cutouts, "load_foregrounds", Cards(alpha=0.0))
    empty = cutouts.draw(name, range(40), size=64)
    monkeypatch.setattr(cutouts, "load_foregrounds", Cards(alpha=1.0))
    black = cutouts.draw(name, range(40), size=64)
    assert not empty.masks.any()
    # A black object darkens the background by its alpha.
    background = empty.images.double().amax(dim=1, keepdim=True)
    alpha = 1 - black.images.double().amax(dim=1, keepdim=True) / background.clamp(min=1)
    tells = (background > 64) & ((alpha - 0.5).abs() > 0.02)
    assert tells.float().mean() > 0.5
    assert torch.equal(black.masks[tells], alpha[tells] > 0.5)
    outside = alpha == 0
    assert (alpha[tells] > 0.5).any() and outside.any()
    assert not black.masks[outside].any()


@pytest.mark.parametrize("name", RECIPES)
def test_nothing_but_the_object_and_its_edge_changes_the_background(monkeypatch, name):
    with_object = cutouts.draw(name, range(40), size=64)
    monkeypatch.setattr(cutouts, "load_foregrounds", Cards(alpha=0.0))
    changed = (with_object.images != cutouts.draw(name, range(40), size=64).images).any(1, True)
    inside = with_object.masks
    share = inside.float().mean(dim=(1, 2, 3))
    assert changed[inside].float().mean() > 0.95
    # The bounding square of a mask, grown by a third on each side, holds all that changed.
    for mask, difference, area in zip(inside[:, 0], changed[:, 0], share, strict=True):
        rows, columns = mask.nonzero().T
        margin = 6 + int(0.35 * max(rows.max() - rows.min(), columns.max() - columns.min()))
        box = torch.zeros_like(mask)
        top, left = max(0, int(rows.min()) - margin), max(0, int(columns.min()) - margin)
        box[top : int(rows.max()) + margin + 1, left : int(columns.max()) + margin + 1] = True
        assert not (difference & ~box).any(), float(area)


@pytest.mark.parametrize("name", ["val", "si_size"])
def test_objects_are_as_large_as_the_recipe_says(monkeypatch, name):
    """A full square card, so that the mask's area is the scale squared."""
    cards = Cards(alpha=1.0)
    cards.rgba[:, 3] = 1.0
    monkeypatch.setattr(cutouts, "load_foregrounds", cards)
    share = cutouts.draw(name, range(80), size=64).masks.double().mean(dim=(1, 2, 3))
    low, high = RECIPES[name].scale
    assert float(share.max()) < 1.02 * high**2
    assert share.sqrt().max() - share.sqrt().min() > 0.5 * (high - low)


def test_objects_anywhere_are_whole(monkeypatch):
    """Discs, which no turn moves out of their square, go up to the edge and not beyond."""
    monkeypatch.setattr(cutouts, "load_foregrounds", Cards(alpha=1.0))
    masks = cutouts.draw("si_location", range(200), size=64).masks[:, 0]
    assert not (masks[:, [0, -1]].any() or masks[:, :, [0, -1]].any())
    seen = masks.any(dim=0)
    assert all(part.any() for part in (seen[:10], seen[-10:], seen[:, :10], seen[:, -10:]))


def test_sets_look_as_their_recipes_differ():
    """Sets with equal recipes are draws of one kind; the others change what they name."""
    assert set(TEST_SETS) <= set(RECIPES) and len(TEST_SETS) == 9
    assert set(TEST_SETS) - set(SHIFTED_SETS) == {"val", "v2"}
    kinds = {name: tuple(vars(RECIPES[name]).values())[1:] for name in RECIPES}
    for name in ("train", "finetune", "validation", "v2"):
        assert kinds[name] == kinds["val"]
    for name in SHIFTED_SETS:
        assert kinds[name] != kinds["val"]


# Errors


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"set_name": "imagenet"}, r"set 'imagenet' is unknown; use one of \('train', .*'val'"),
        ({"size": 15}, r"size 15 px; it must lie in 16\.\.128"),
        ({"size": 129}, r"size 129 px; it must lie in 16\.\.128, or be even and at most 256"),
        ({"size": 258}, r"size 258 px; it must lie in 16\.\.128"),
        ({"labels": [0, 40]}, r"2 labels for 2 images, out of range: \[40\]; .*0\.\.39 for each"),
        ({"labels": [-1, 0]}, r"out of range: \[-1\]; give one label in 0\.\.39"),
        ({"indices": []}, r"no images asked for; give at least one index"),
        (
            {"labels": [0, 24], "drawings": UNSEEN},
            r"out of range: \[24\]; give one label in 0\.\.23",
        ),
        ({"labels": [1]}, r"1 labels for 2 images, out of range: \[\]; give one label"),
    ],
)
def test_bad_arguments_are_errors(arguments, text):
    with pytest.raises(ValueError, match=f"cutouts: .*{text}"):
        cutouts.draw(**({"set_name": "val", "indices": [0, 1], "size": 32} | arguments))


def test_unknown_style_is_an_error():
    with pytest.raises(ValueError, match=r"style 'photo' is unknown; use one of \('3d', 'flat'"):
        load_foregrounds("photo")


# Foregrounds and classes


@pytest.mark.parametrize(
    ("load", "style", "count"),
    [
        *((load_foregrounds, style, len(CLASSES)) for style in STYLES),
        *((group.load, things.STYLE, len(group.classes)) for group in (UNSEEN, PRETRAINING)),
    ],
)
def test_foregrounds_are_premultiplied_and_halved(load, style, count):
    levels = load(style)
    assert [tuple(level.shape) for level in levels] == [
        (count, 4, SIDE >> i, SIDE >> i) for i in range(LEVELS)
    ]
    for level in levels:
        colour, alpha = level[:, :3], level[:, 3:]
        assert level.min() >= 0 and alpha.max() <= 1
        assert (colour <= alpha + 1e-12).all()
        assert (alpha.amax(dim=(1, 2, 3)) > 0.5).all(), "a drawing is missing"


def test_names_are_unique():
    assert len(set(CLASSES)) == 40
    assert (
        len({family.name for family in FAMILIES})
        == len(FAMILIES)
        == len(SEEN) + len(textures.UNSEEN)
    )


def test_class_split_of_seed_zero_is_the_order_of_the_classes():
    assert class_split(0) == (list(range(20)), list(range(20, 40)))


def test_class_splits_are_disjoint_halves_and_leave_look_alikes_together():
    splits = [class_split(seed) for seed in range(20)]
    for first, second in splits:
        assert len(first) == len(second) == 20
        assert sorted(first + second) == list(range(40))
        assert first == sorted(first) and second == sorted(second)
        assert all((2 * pair in first) == (2 * pair + 1 in first) for pair in range(20))
    assert len({tuple(first) for first, _ in splits}) == 20
    assert splits == [class_split(seed) for seed in range(20)]


def test_large_images_are_small_ones_enlarged():
    options = {"labels": [4, 7], "families": [1, 2], "seed": 3}
    large = cutouts.draw("si_size", [5, 6], size=130, **options)
    small = cutouts.draw("si_size", [5, 6], size=65, **options)
    assert large.images.shape == (2, 3, 130, 130)
    assert all(large.masks[..., i::2, j::2].equal(small.masks) for i in (0, 1) for j in (0, 1))
    means = torch.nn.functional.avg_pool2d(large.images.float(), 2)
    assert (means - small.images.float()).abs().mean() < 3
    assert large.labels.tolist() == [4, 7] and large.families.tolist() == [1, 2]


# As labelled pictures: drawn when they are read, or once for all


@pytest.mark.parametrize("drawings", [None, PRETRAINING], ids=["animals", "things"])
@pytest.mark.parametrize("name", ["train", "val", "objectnet"])
def test_pictures_and_labels_are_those_of_the_recipe(name, drawings):
    images = drawn(name, 130, drawings=drawings, seed=2, size=16)
    wanted = [0, 39, 40, 99, 100, 129, 7]
    batch = cutouts.draw(name, wanted, drawings=drawings, seed=2, size=16)
    assert isinstance(images, Labelled) and images.name == name and len(images) == 130
    assert images.classes == (CLASSES if drawings is None else PRETRAINING.classes)
    assert torch.equal(images.read(wanted), batch.images)
    assert torch.equal(images.labels[wanted], batch.labels)
    assert images.labels.dtype == batch.labels.dtype


def test_seed_and_size_are_passed_on():
    one, again, other = (drawn("train", 4, seed=seed, size=24).read([0, 1]) for seed in (1, 1, 2))
    assert one.shape == (2, 3, 24, 24) and one.dtype == torch.uint8
    assert torch.equal(one, again) and not torch.equal(one, other)
    assert drawn("train", 1).read([0]).shape == (1, 3, 112, 112)


@pytest.fixture
def asked(monkeypatch):
    """The places that were drawn, in order."""
    places, draw = [], cutouts.draw

    def spy(name, indices, **named):
        places.extend(indices)
        return draw(name, indices, **named)

    monkeypatch.setattr(cutouts, "draw", spy)
    return places


def test_nothing_is_drawn_before_it_is_read_and_all_of_it_each_time(asked):
    images = drawn("val", 5, size=16)
    assert asked == []
    assert len(list(images.batches(2))) == 3
    images.read([3])
    assert asked == [0, 1, 2, 3, 4, 3]


def test_kept_pictures_are_drawn_once(asked):
    kept = drawn("val", 5, size=16).kept()
    assert asked == [0, 1, 2, 3, 4]
    batches = torch.cat(list(kept.batches(2)))
    assert torch.equal(kept.read(range(4, -1, -1)), batches.flip(0))
    assert torch.equal(kept.sample(5, seed=1).read([2]), kept.sample(5, seed=1).kept().read([2]))
    assert asked == [0, 1, 2, 3, 4]


def test_kept_pictures_are_the_same_set():
    images = drawn("val", 5, drawings=PRETRAINING, size=16)
    kept = images.kept()
    assert (kept.name, kept.classes, len(kept)) == (images.name, images.classes, 5)
    assert torch.equal(kept.labels, images.labels)
    assert torch.equal(kept.read([4, 0]), images.read([4, 0]))


def test_what_is_read_cannot_change_what_is_kept():
    kept = drawn("val", 3, size=16).kept()
    before = kept.read([0]).clone()
    kept.read([0]).zero_()
    next(kept.batches(3)).zero_()
    assert torch.equal(kept.read([0]), before)


def test_unknown_sets_are_errors_when_they_are_read():
    with pytest.raises(ValueError, match=r"cutouts: set 'imagenet' is unknown; use one of"):
        drawn("imagenet", 3).read([0])
