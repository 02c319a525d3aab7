"""The images of a preset: drawn, replicas of the papers' own data sets, or of a reader."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from habitats import open_benchmark
from habitats import photographs as module
from habitats.cutouts import CUTOUTS, Cutouts
from habitats.photographs import open_photographs
from habitats.real.classes import IMAGENET_INDEX, split_classes
from relevit.choices.words import READERS
from relevit.data.image_set import picture_set
from replicas.__main__ import write_all
from reproduction.params.cells import params_of
from reproduction.params.common import Benchmark

CLASSES = 2


@pytest.fixture(scope="module")
def data_root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_all(folder, CLASSES, [0, 1, 2])
    return folder


@pytest.fixture(autouse=True)
def _fresh():
    module._opened.cache_clear()


def params(data_root, **others) -> Benchmark:
    values = {"data": "imagenet", "data_root": str(data_root), "finetuned_classes": CLASSES}
    return Benchmark(**values | others)


@pytest.fixture(scope="module")
def real(data_root):
    return open_photographs(params(data_root))


def test_cutouts_are_described_by_what_is_drawn():
    assert CUTOUTS.describe().splitlines() == [
        "40 classes, 8 textures seen in training",
        "classes that share a texture: [5]",
        "at home in 70 % of the training images",
    ]
    assert CUTOUTS.note_empty(3, 0) == CUTOUTS.note_skipped({}) == ""
    assert CUTOUTS.names([0, -1, 39]) == ["ant", "unknown", "llama"]


def test_homes_of_habitats_hold_every_class_once():
    bench = open_benchmark(params_of("00_start")())
    homes = bench.homes().set_index("home")
    lived_in = ", ".join(homes["classes"]).split(", ")
    assert sorted(lived_in) == sorted(bench.classes) and CUTOUTS.homes() is None
    assert homes.loc["sea", "things"] == "anchor, canoe, ship"
    assert "whale" in homes.loc["sea", "classes"]


@pytest.mark.parametrize("name", ["val", "a", "validation", "train"])
def test_a_set_that_is_smaller_than_asked_for_is_drawn_once(real, name):
    (whole,) = real.batches(name, 10_000, 10_000)
    drawn = real.draw(name, range(3 * len(whole)))
    assert torch.equal(drawn.images, whole.images) and torch.equal(drawn.labels, whole.labels)
    assert len({image.numpy().tobytes() for image in drawn.images}) == len(whole)


def test_the_first_images_are_a_sample_of_all_classes_and_numbers_begin_anew(real):
    """A set on disk is sorted by class: its first images alone would be of one class."""
    batch = real.draw("val", range(6))
    assert len(set(batch.labels.tolist())) > 2
    (other,) = real.batches("val", 6, 10)
    assert torch.equal(other.images, batch.images) and torch.equal(other.labels, batch.labels)
    count = sum(len(part) for part in real.batches("val", 10_000, 7))
    assert torch.equal(real.draw("val", [count]).images, batch.images[:1])


def test_the_first_classes_are_finetuned_and_others_drawn_by_a_seed(real):
    for seed, drawn in ((0, None), (1, 1)):
        halves = split_classes(CLASSES, drawn)
        assert real.split(seed) == tuple(sorted(map(IMAGENET_INDEX.get, half)) for half in halves)


def test_images_to_finetune_on_are_those_of_the_labels_each_once(real):
    labels = real.split(0)[0] * 2
    batch = real.draw("finetune", range(len(labels)), labels=labels)
    assert batch.labels.tolist() == labels
    assert len({image.numpy().tobytes() for image in batch.images}) == len(labels)
    assert bool(batch.masks.flatten(1).any(1).all()), "they have masks"
    labels = real.split(1)[0] * 3  # all of a class: in another order by seed, the same images
    drawn = [real.draw("finetune", range(6), labels=labels, seed=seed) for seed in (0, 1, 1)]
    bytes_of = [sorted(image.numpy().tobytes() for image in part.images) for part in drawn]
    assert bytes_of[0] == bytes_of[1]
    assert torch.equal(drawn[1].images, drawn[2].images)
    assert not torch.equal(drawn[0].images, drawn[1].images)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_run_is_validated_on_classes_that_it_finetunes(real, seed):
    """Classes of a run depend on its seed (A16), and so do those of its validation (B2)."""
    assert (CUTOUTS.validation_seed(seed), real.validation_seed(seed)) == (0, seed)
    finetuned = real.split(seed)[0]
    trained = real.to_finetune(finetuned * 3, seed, 224)
    shown = real.draw("validation", range(40), seed=seed)
    assert not set(shown.labels.tolist()) & set(finetuned)
    images = [{one.numpy().tobytes() for one in part.images} for part in (shown, trained)]
    assert not images[0] & images[1]
    (again,) = real.batches("validation", 1000, 1000, seed=seed)
    assert set(again.labels.tolist()) == set(shown.labels.tolist()), "of each other class one"
    assert len(again) == len(set(again.labels.tolist()))


def test_what_photographs_cannot_do_is_refused(real):
    labels = real.split(0)[0][:1] * 9
    with pytest.raises(ValueError, match=r"class .* \(0\) has 3 images, asked for more"):
        real.draw("finetune", range(9), labels=labels)
    with pytest.raises(ValueError, match="images of 112 pixels; the preset's view has 224"):
        real.draw("val", [0], size=112)
    with pytest.raises(ValueError, match="set 'nowhere' is unknown; use one of"):
        real.draw("nowhere", [0])


@pytest.mark.parametrize(("ways", "count"), [(1000, 0), (200, 200)])
def test_answers_of_a_and_r_are_sought_among(data_root, ways, count):
    bench = open_photographs(params(data_root, ways=ways))
    for name in ("a", "r"):
        assert len(bench.draw(name, [0]).candidates) == count
    assert bench.draw("val", [0]).candidates == ()


def test_objectnet_counts_as_published_or_as_described(data_root):
    """Published: the first label alone, and the red border is left on the picture (B7)."""
    both = {
        way: open_photographs(params(data_root, objectnet=way)).draw("objectnet", range(8))
        for way in ("published", "described")
    }
    assert both["published"].accepted == {} and both["described"].accepted[423] == (423, 559, 765)
    assert not torch.equal(both["published"].images, both["described"].images)


def test_preprocessing_goes_to_view_and_model_alike(data_root):
    found = {
        way: open_photographs(params(data_root, preprocessing=way, view_of="deit-s-cut"))
        for way in ("published", "timm")
    }
    specs = {way: bench.spec("deit-s-cut") for way, bench in found.items()}
    assert specs["published"].mean == (0.5, 0.5, 0.5)
    np.testing.assert_allclose(specs["timm"].mean, (0.485, 0.456, 0.406))
    images = [bench.draw("val", [0]).images for bench in found.values()]
    assert not torch.equal(*images), "crop and interpolation differ"


class Some(Cutouts):
    """Five images, of which none but two have an object."""

    outlined = "some"
    seen = (1, 4)

    def batches(self, set_name, count, batch_size, **options):
        batch = self.draw("val", range(5), size=16)
        shown = torch.tensor([place in self.seen for place in range(5)])[:, None, None, None]
        return replace(batch, masks=batch.masks & shown).split(2)


def test_images_without_an_object_are_left_out_and_counted():
    batch, empty = Some().with_masks(5)
    assert batch.labels.tolist() == [1, 4] and empty == 3
    Some.seen = ()
    with pytest.raises(ValueError, match="some has no object in 5 masks; take more images"):
        Some().with_masks(5)


def test_a_reader_gives_the_images_of_a_preset(tmp_path, monkeypatch):
    asked = []

    def dots(set_name, data_root, view):
        asked.append((set_name, data_root))
        if set_name == "nothing":
            return None
        disc = lambda place: np.arange(64).reshape(8, 8) > 10 * place  # noqa: E731
        draw = lambda place: Image.fromarray(disc(place).astype(np.uint8))  # noqa: E731
        return picture_set(
            set_name, "abcd", [0, 1, 2, 3], "abcd", draw, replace(view, squash=True), masks=disc
        )

    monkeypatch.setitem(READERS, "dots", dots)
    cfg = params_of("00_start")(benchmark={"data": "dots", "data_root": str(tmp_path)})
    bench = open_benchmark(cfg)
    assert (bench.name, bench.classes, bench.split(0)) == ("dots", tuple("abcd"), ([0, 1], [2, 3]))
    splits = {seed: bench.split(seed) for seed in range(6)}
    assert all(sorted(a + b) == [0, 1, 2, 3] for a, b in splits.values())
    assert len({str(split) for split in splits.values()}) > 1, "a seed draws them"
    skipping = replace(bench, params=cfg.benchmark.model_copy(update={"corrupted": "skip"}))
    assert skipping.skips and not bench.skips and skipping.rules != bench.rules
    assert replace(bench, view=replace(bench.view, squash=True)).rules != bench.rules
    assert bench.to_finetune([2, 0], 0, 224).labels.tolist() == [2, 0]
    assert (len(bench.with_masks(10)[0]), bench.validation_seed(3)) == (4, 0)
    assert asked == [("finetune", tmp_path), ("val", tmp_path)], "each is opened once"
    with pytest.raises(
        ValueError, match=r"dots: its reader gives a NoneType for 'nothing'; needed"
    ):
        bench.draw("nothing", [0])
    with pytest.raises(ValueError, match="class c \\(2\\) has 1 images, asked for more"):
        bench.to_finetune([2, 2], 0, 224)
