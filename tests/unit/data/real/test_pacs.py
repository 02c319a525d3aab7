"""PACS as a benchmark, on a replica: what is read, which sets there are, what a seed draws."""

import os

import pytest
import torch

from habitats import open_benchmark
from habitats.real import pacs as module
from habitats.real import pacs_homes
from habitats.real.pacs import CLASSES, DOMAINS, PAGE, pictures_of
from relevit.data.image_set import UnreadableImage
from replicas.pacs import write_pacs
from replicas.pictures import picture, stored_jpeg, truncate
from reproduction.params.cells import params_of
from reproduction.params.common import Benchmark


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_pacs(tmp_path_factory.mktemp("data") / "PACS")


@pytest.fixture
def opened(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FEATURES", ("tiny-mae", 112))
    monkeypatch.setattr(module, "FOUND", str(tmp_path))

    def of(**values):
        images = {"data": "pacs", "data_root": str(folder)} | values
        return open_benchmark(params_of("04_cures")(model="tiny", benchmark=images))

    return of


def test_one_domain_is_learnt_from_and_the_others_are_the_test(opened):
    bench = opened(source="cartoon", side=140)
    assert bench.test_sets == ("val", "photo", "art_painting", "sketch")
    sizes = {name: len(bench.pictures(name, 10_000)) for name in (*bench.test_sets, "train")}
    assert sizes == {"val": 14, "photo": 70, "art_painting": 14, "sketch": 14, "train": 56}
    assert bench.spec("tiny").options["img_size"] == bench.spec("tiny").image_size == 140
    first = bench.draw("photo", range(20))
    assert first.images.shape[-1] == 140 and len(first.labels.unique()) > 4, "a sample"
    assert bench.rules != opened(source="photo", side=140).rules != opened(source="photo").rules
    assert opened().split(3) == ([*range(7)], [])


def test_a_seed_draws_photographs_that_the_original_has_seen(opened):
    """Classes take turns, so that the mask of a neighbour is one of another class."""
    bench = opened()
    labels = bench.split(0)[0] * 2
    found = bench.to_finetune(labels, 0, 112)
    assert 0 < len(found) <= 14 and (found.labels.diff() != 0).all(), "of sound masks alone"
    known = {image.numpy().tobytes() for image in bench.draw("train", range(56)).images}
    assert all(image.numpy().tobytes() in known for image in found.images)
    assert torch.equal(bench.to_finetune(labels, 0, 112).images, found.images)
    assert not torch.equal(bench.to_finetune(labels, 1, 112).images[:5], found.images[:5])
    kept = bench.to_finetune(labels, 0, 112, "tokencut")
    assert len(kept) >= len(found) and bool(kept.masks.flatten(1).any(dim=1).all())
    outlined, empty = bench.with_masks(100)
    assert len(bench.found_masks(5)) == 5 and empty == 0
    assert int(bench.found_masks(100).kept.sum()) == len(outlined)


def homes(batch, behind):
    """Of each picture the classes on whose backgrounds its object stands, by all pixels around."""
    free = ~batch.masks.expand(-1, 3, -1, -1)
    return [
        {int(label) for label, other in zip(behind.labels, behind.images, strict=True)
         if torch.equal(image[around], other[around])}
        for image, around in zip(batch.images, free, strict=True)
    ]  # fmt: skip


def test_a_class_is_at_home_as_often_as_is_said(opened):
    bench = opened(composed=True, home_share=0.7)
    parts = pacs_homes._parts(module.Pacs(bench.root, bench.view, bench.params))
    for name, part in {"home": "test", "away": "test", "never": "unseen", "train": "learn"}.items():
        batch, (_, behind) = bench.draw(name, range(1000)), parts[part]
        found = homes(batch, behind)
        assert all(len(classes) == 1 for classes in found), name
        at_home = [{int(label)} == own for label, own in zip(batch.labels, found, strict=True)]
        share = sum(at_home) / len(at_home)
        assert share == {"home": 1, "away": 0, "never": 0}.get(name, share)
        assert name != "train" or 0.6 < share < 0.8
    assert {*homes(bench.draw("never", range(1000)), parts["unseen"][1])[0]} == {-1}


def test_no_test_shows_what_is_learnt_from_and_all_show_the_same_objects(opened):
    bench = opened(composed=True)
    shown = {name: bench.draw(name, range(1000)) for name in (*bench.test_sets, "train")}
    tests = [shown[name] for name in bench.test_sets]
    for other in tests[1:]:
        assert torch.equal(other.labels, tests[0].labels)
        assert torch.equal(other.masks, tests[0].masks)
        both = tests[0].masks.expand(-1, 3, -1, -1)
        assert torch.equal(other.images[both], tests[0].images[both])
    learnt = {mask.numpy().tobytes() for mask in shown["train"].masks}
    assert len(shown["train"]) == pacs_homes.TIMES * len(learnt)
    assert not learnt & {mask.numpy().tobytes() for mask in tests[0].masks}
    assert not learnt & {m.numpy().tobytes() for m in bench.draw("validation", range(99)).masks}
    found = bench.to_finetune([*range(5)] * 9, 3, 112)
    assert {mask.numpy().tobytes() for mask in found.masks} <= learnt
    assert bench.spec("tiny").classes == len(bench.classes) == len(bench.split(0)[0]) == 5
    rules = {opened(composed=True, home_share=share).rules for share in (0.5, 1.0)}
    assert len(rules | {bench.rules, opened().rules}) == 4
    with pytest.raises(ValueError, match="pacs: set 'kept' is unknown; use one of"):
        bench.draw("kept", [0])


def test_what_cannot_be_composed_is_said(opened, monkeypatch):
    with pytest.raises(ValueError, match=r"composed with .*'habitats'.* is of data pacs with sour"):
        Benchmark(composed=True)
    monkeypatch.setattr(pacs_homes, "fit_for_swap", lambda batch: batch.labels != 1)
    with pytest.raises(ValueError, match="pacs: elephant has 0 photographs with a sound mask"):
        opened(composed=True, home_share=0.3).draw("val", [0])


def test_what_is_no_pacs_is_said_before_any_work(opened, folder, tmp_path):
    with pytest.raises(ValueError, match="data 'pacs' without data_root; give the folder that"):
        Benchmark(data="pacs")
    with pytest.raises(FileNotFoundError, match=f"no folder photo; .*Li et al. 2017.*{PAGE}"):
        pictures_of(tmp_path)
    before = pictures_of(folder)
    for domain in DOMAINS:
        (tmp_path / domain).mkdir()
        for name in CLASSES:
            os.symlink(folder / domain / name, tmp_path / domain / name)
    assert pictures_of.__wrapped__(tmp_path) == before, "wherever it lies"
    (tmp_path / "sketch" / "house").unlink()
    with pytest.raises(ValueError, match=r"sketch: house is missing, or none of it; with"):
        pictures_of.__wrapped__(tmp_path)
    (tmp_path / "sketch" / "house").mkdir()
    stored_jpeg(picture(1, 5), tmp_path / "sketch" / "house" / "cut.jpg")
    assert pictures_of.__wrapped__(tmp_path) != before
    truncate(tmp_path / "sketch" / "house" / "cut.jpg")
    with pytest.raises(UnreadableImage, match=r"house/cut.jpg cannot be read"):
        opened(data_root=str(tmp_path)).pictures("val", 1)


def test_parameters_of_pacs_are_in_no_other_name():
    said = set(Benchmark(data="pacs", data_root="there").model_dump()) - set(
        Benchmark().model_dump()
    )
    assert said == {"source", "side", "original_epochs"}
    there = {"data": "pacs", "data_root": "there", "composed": True}
    assert set(Benchmark(**there).model_dump()) - said - set(Benchmark().model_dump()) == {
        "composed"
    }
