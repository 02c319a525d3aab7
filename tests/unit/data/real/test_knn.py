"""The data sets for k-NN, on small replicas of what the published archives unpack to."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from relevit.data.labelled import to_square
from relevit.data.real import knn as real_knn
from relevit.data.real.knn import read_real
from replicas.cifar import write_cifar100

SIDE = 28
COLOURS = ((200, 30, 30), (30, 200, 30), (30, 30, 200))
SPECIES = [
    "00000_Animalia_Annelida_Clitellata_Haplotaxida_Lumbricidae_Lumbricus_terrestris",
    "00001_Animalia_Annelida_Polychaeta_Sabellida_Sabellidae_Sabella_spallanzanii",
    "00002_Plantae_Tracheophyta_Liliopsida_Poales_Poaceae_Poa_annua",
]

pytestmark = pytest.mark.usefixtures("no_network")


def save(path: Path, colour, mode: str = "RGB", size=(60, 40)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).convert(mode).save(path)


def nearest_colour(picture: torch.Tensor) -> int:
    mean = picture.double().mean(dim=(1, 2))
    return int((torch.tensor(COLOURS).double() - mean).abs().sum(dim=1).argmin())


# iNat2021 mini: <version>/<number_kingdom_..._species>/<uuid>.jpg


@pytest.fixture
def inat(tmp_path):
    for version, count in (("2021_train_mini", 3), ("2021_valid", 2)):
        for label, species in enumerate(SPECIES):
            for i in range(count):
                # Names that do not sort as they were written, and a shade for each number.
                name = f"{'cab'[i]}{label}-{version}.jpg"
                shade = tuple(value + 20 * i for value in COLOURS[label])
                save(tmp_path / version / species / name, shade)
    return tmp_path


def test_inat_has_species_as_classes(inat):
    known, asked = read_real("inat2021_mini", str(inat), SIDE)
    assert known.classes == asked.classes == tuple(SPECIES)
    assert known.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert asked.labels.tolist() == [0, 0, 1, 1, 2, 2]
    pictures = torch.cat(list(asked.batches(4)))
    assert tuple(pictures.shape) == (6, 3, SIDE, SIDE) and pictures.dtype == torch.uint8
    assert [nearest_colour(p) for p in pictures] == asked.labels.tolist()


def test_inat_order_is_that_of_the_names_not_of_the_disk(inat, monkeypatch):
    listed = os.listdir
    first = real_knn.read_inat2021_mini(inat, SIDE)[0].read(range(9))
    monkeypatch.setattr("os.listdir", lambda path: sorted(listed(path), reverse=True))
    assert torch.equal(real_knn.read_inat2021_mini(inat, SIDE)[0].read(range(9)), first)
    assert not torch.equal(first[0], first[1])


def test_inat_without_or_with_other_folders_is_an_error(inat):
    (inat / "2021_valid" / SPECIES[2]).rename(inat / "2021_valid" / SPECIES[2].replace("a_", "b_"))
    with pytest.raises(ValueError, match=r"inat2021_mini: .* folders of other species; unpack"):
        read_real("inat2021_mini", str(inat), SIDE)
    (inat / "2021_valid" / "notes.txt").write_text("")
    with pytest.raises(ValueError, match=r"2021_valid is not as published \(Unexpected category"):
        read_real("inat2021_mini", str(inat), SIDE)
    (inat / "2021_valid").rename(inat / "val")
    with pytest.raises(FileNotFoundError, match=r"2021_valid is missing; .*rename these two"):
        read_real("inat2021_mini", str(inat), SIDE)
    assert not (inat / "2021_valid").exists(), "torchvision makes folders; it must not get so far"


# Pneumonia: chest_xray/<train|test>/<NORMAL|PNEUMONIA>/*.jpeg, grey or RGB


@pytest.fixture
def xray(tmp_path):
    base = tmp_path / "chest_xray"
    for part, count in (("train", 3), ("val", 1), ("test", 2)):
        for kind, grey in (("NORMAL", 60), ("PNEUMONIA", 180)):
            for i in range(count):
                path = base / part / kind / f"person{i}_bacteria_{i}.jpeg"
                save(path, (grey, grey, grey), "L" if i else "RGB", (50, 44 + i))
            (base / part / kind / ".DS_Store").write_bytes(b"\0\0\0\1Bud1")
            (base / part / kind / "._person0.jpeg").write_bytes(b"\0\5\26\7")
    return tmp_path


@pytest.mark.parametrize("inner", ["", "chest_xray"])
def test_xrays_are_read_with_their_two_classes(xray, inner):
    known, asked = read_real("pneumonia", str(xray / inner), SIDE)
    assert known.classes == ("NORMAL", "PNEUMONIA")
    assert known.labels.tolist() == [0, 0, 0, 1, 1, 1] and asked.labels.tolist() == [0, 0, 1, 1]
    bright = asked.read(range(4)).double().mean(dim=(1, 2, 3))
    assert (bright[:2] < 70).all() and (bright[2:] > 170).all()


def test_xrays_with_other_folders_are_errors(xray):
    train = xray / "chest_xray" / "train"
    for path in (train / "NORMAL").iterdir():
        path.unlink()
    with pytest.raises(FileNotFoundError, match="Found no valid file for the classes NORMAL"):
        read_real("pneumonia", str(xray), SIDE)
    (train / "COVID").mkdir()
    with pytest.raises(ValueError, match=r"pneumonia: .*train has the folders \['COVID', 'NORMAL"):
        read_real("pneumonia", str(xray), SIDE)
    (xray / "chest_xray" / "test").rename(xray / "chest_xray" / "holdout")
    with pytest.raises(FileNotFoundError, match="test is missing; unpack chest_xray there"):
        read_real("pneumonia", str(xray), SIDE)


# All


@pytest.mark.parametrize("name", real_knn.READERS)
def test_an_empty_folder_and_no_folder_are_errors(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=f"{name.removesuffix('_coarse')}: folder .* is"):
        read_real(name, str(tmp_path), SIDE)
    with pytest.raises(FileNotFoundError, match=r"nowhere is missing; .*as data_root"):
        read_real(name, str(tmp_path / "nowhere"), SIDE)
    with pytest.raises(ValueError, match=f"data '{name}' without data_root; give the folder"):
        read_real(name, "", SIDE)
    assert list(tmp_path.iterdir()) == []


def test_unknown_data_is_an_error():
    with pytest.raises(ValueError, match=r"data 'mnist' is unknown; use one of \('inat2021_mini'"):
        read_real("mnist", "somewhere", SIDE)


@pytest.mark.parametrize("size", [(300, 200), (200, 300), (32, 32), (20, 500)])
def test_squares_are_the_middle(size):
    """A picture that grows brighter to the right: the middle keeps its grey."""
    ramp = np.linspace(0, 255, size[0]).round().astype(np.uint8)
    picture = Image.fromarray(np.tile(ramp, (size[1], 1)))
    square = to_square(picture, 56)
    assert tuple(square.shape) == (3, 56, 56)
    assert abs(float(square.double().mean()) - 127.5) < 3
    seen = (square[0, 0, -1] - square[0, 0, 0].double()) / 255  # part of the width that is left
    assert float(seen) == pytest.approx(min(size) / size[0] * 224 / 256, abs=0.06)


def test_the_rehearsals_replica_is_read(tmp_path):
    write_cifar100(tmp_path, per_class=1)
    for data, classes in (("cifar100", 100), ("cifar100_coarse", 20)):
        known, asked = read_real(data, str(tmp_path), SIDE)
        assert len(known) == len(asked) == 100
        assert len(known.classes) == len(known.labels.unique()) == classes
    assert not torch.equal(known.read([0]), asked.read([0])), "other pictures of the same class"
