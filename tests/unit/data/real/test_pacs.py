"""PACS as a benchmark, on a replica: what is read, which sets there are, what a seed draws."""

import os

import pytest
import torch

from habitats import open_benchmark
from habitats.real import pacs as module
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
