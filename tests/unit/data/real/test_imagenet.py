"""The reader of ImageNet-1k, on replicas in each layout that the archives are kept in."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import loadmat, savemat

from relevit.data.real.classes import IMAGENET_WNIDS, index_of
from relevit.data.real.imagenet import read_imagenet
from relevit.models.spec import View
from replicas.imagenet import SOME, write_imagenet
from replicas.pictures import truncate

LAYOUTS = ("folders", "devkit", "kaggle")
DATA = "ILSVRC2012_devkit_t12/data"
TRUTH = f"{DATA}/ILSVRC2012_validation_ground_truth.txt"

pytestmark = pytest.mark.usefixtures("no_network")


@pytest.fixture(scope="module")
def replicas(tmp_path_factory):
    """A data root of each layout; tests that change one make their own."""
    roots = {layout: tmp_path_factory.mktemp(layout) for layout in LAYOUTS}
    for layout, root in roots.items():
        write_imagenet(root, per_class=3, layout=layout)
    return roots


@pytest.fixture
def devkit(tmp_path, replicas):
    return shutil.copytree(replicas["devkit"], tmp_path, dirs_exist_ok=True)


@pytest.fixture
def kaggle(tmp_path, replicas):
    return shutil.copytree(replicas["kaggle"], tmp_path, dirs_exist_ok=True)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_labels_pictures_and_order(replicas, layout):
    sorted_into_folders = read_imagenet(replicas["folders"])
    found = read_imagenet(replicas[layout])
    assert found.name == "val" and found.candidates == ()
    assert found.labels.tolist() == [index_of(wnid) for wnid in SOME for _ in range(3)]
    names = [name.split("/")[-1] for name in sorted_into_folders.ids]
    assert [name.split("/")[-1] for name in found.ids] == names
    assert names != sorted(names)  # numbers mix the classes, so that labels by number go wrong
    for place in range(len(found)):
        assert torch.equal(found[place], sorted_into_folders[place])


def test_pictures_are_those_of_their_ids_in_the_view(replicas):
    view = View(resize=64, crop=48, interpolation="bicubic")
    found = read_imagenet(replicas["folders"], view)
    for place in (0, 4, 11):
        path = replicas["folders"] / "imagenet" / "val" / found.ids[place]
        assert torch.equal(found[place], view.picture(Image.open(path)))


def test_training_pictures_are_sorted_by_class_and_name_whatever_the_disk_says(
    replicas, monkeypatch
):
    scandir = os.scandir

    class Backwards:
        def __init__(self, folder):
            with scandir(folder) as entries:
                self.entries = sorted(entries, key=lambda entry: entry.name, reverse=True)

        def __enter__(self):
            return iter(self.entries)

        def __exit__(self, *error):
            return None

    monkeypatch.setattr(os, "scandir", Backwards)
    found = read_imagenet(replicas["folders"], part="train")
    assert found.name == "imagenet_train"
    files = [f"{wnid}/{wnid}_{number}.JPEG" for wnid in SOME for number in (100, 10026, 9)]
    assert list(found.ids) == files


def test_ids_of_the_devkit_are_not_indices(replicas):
    synsets = loadmat(replicas["devkit"] / "imagenet" / DATA / "meta.mat", squeeze_me=True)
    synsets = synsets["synsets"]
    assert len(synsets) == 1860 and synsets["num_children"][999] == 0
    assert synsets["num_children"][1000] > 0
    by_wnid = [index_of(wnid) for wnid in synsets["WNID"][:1000]]
    assert sorted(by_wnid) == list(range(1000))
    truth = (replicas["devkit"] / "imagenet" / TRUTH).read_text().split()
    found = read_imagenet(replicas["devkit"])
    for name, label in zip(found.ids, found.labels.tolist(), strict=True):
        ilsvrc = int(truth[int(name[-13:-5]) - 1])
        assert by_wnid[ilsvrc - 1] == label != ilsvrc - 1


def test_the_order_of_the_synsets_in_meta_does_not_matter(devkit):
    before = read_imagenet(devkit).labels
    path = devkit / "imagenet" / DATA / "meta.mat"
    savemat(path, {"synsets": loadmat(path)["synsets"][::-1]})
    assert read_imagenet(devkit).labels.equal(before)


@pytest.mark.parametrize("target", ["", "imagenet"])
def test_labels_may_lie_beside_the_pictures_or_the_sets(devkit, target):
    before = read_imagenet(devkit).labels
    for name in ("meta.mat", "ILSVRC2012_validation_ground_truth.txt"):
        (devkit / "imagenet" / DATA / name).rename(devkit / target / name)
    assert read_imagenet(devkit).labels.equal(before)


def test_half_an_archive_keeps_the_labels_by_number(devkit):
    before = read_imagenet(devkit)
    for name in before.ids[::2]:
        (devkit / "imagenet" / "val" / name).unlink()
    found = read_imagenet(devkit)
    assert found.ids == before.ids[1::2] and found.labels.equal(before.labels[1::2])


def test_the_first_box_of_kaggles_table_is_the_class(kaggle):
    table = kaggle / "imagenet" / "LOC_val_solution.csv"
    header, *rows = table.read_text().splitlines()
    assert any(row.count(" n") > 0 for row in rows)  # several boxes
    other = IMAGENET_WNIDS[999]
    before = read_imagenet(kaggle).labels
    table.write_text("\n".join([header, *(f"{row}{other} 1 2 3 4 " for row in rows)]))
    assert read_imagenet(kaggle).labels.equal(before)


@pytest.mark.parametrize(
    "text", ["ILSVRC2012_val_00000001,", "ILSVRC2012_val_00000001,dog 1 2 3 4"]
)
def test_a_table_without_a_class_is_an_error(kaggle, text):
    table = kaggle / "imagenet" / "LOC_val_solution.csv"
    rows = [row for row in table.read_text().splitlines() if "00000001," not in row]
    table.write_text("\n".join([*rows, text]))
    error = r"val: .*LOC_val_solution.csv has '(dog)?' as the class of ILSVRC2012_val_00000001.JPEG"
    with pytest.raises(ValueError, match=error):
        read_imagenet(kaggle)


def test_a_flat_folder_without_labels_is_an_error(kaggle):
    (kaggle / "imagenet" / "LOC_val_solution.csv").unlink()
    text = (
        r"val: .*val has 12 pictures without class folders.*devkit_t12.*LOC_val_solution.csv into"
    )
    with pytest.raises(FileNotFoundError, match=text):
        read_imagenet(kaggle)


def test_a_half_sorted_folder_is_an_error(devkit):
    folder = devkit / "imagenet" / "val"
    (folder / SOME[0]).mkdir()
    text = rf"val has 12 pictures like ILSVRC2012_val_00000001.JPEG and 1 .*{SOME[0]}.*finish sort"
    with pytest.raises(ValueError, match=text):
        read_imagenet(devkit)


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ("1\n2\n", r"no class for ILSVRC2012_val_000000\d\d.JPEG \(none of 2 lines\)"),
        ("0\n" * 12, r"no class for ILSVRC2012_val_000000\d\d.JPEG \(0\)"),
        ("1001\n" * 12, r"\(1001\); it needs an id of 1 to 1000 in line n for picture n"),
        ("n01440764\n" * 12, "more than whole numbers"),
    ],
)
def test_a_damaged_ground_truth_is_an_error(devkit, lines, text):
    (devkit / "imagenet" / TRUTH).write_text(lines)
    with pytest.raises(ValueError, match=text):
        read_imagenet(devkit)


def test_a_damaged_meta_is_an_error(devkit):
    path = devkit / "imagenet" / DATA / "meta.mat"
    truncate(path)
    with pytest.raises(ValueError, match=r"meta.mat cannot be read .*unpack ILSVRC2012_devkit_t12"):
        read_imagenet(devkit)
    savemat(path, {"synsets": np.arange(3)})
    with pytest.raises(ValueError, match="it needs `synsets` with ILSVRC2012_ID, WNID"):
        read_imagenet(devkit)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=r"meta\.mat cannot be read"):
        read_imagenet(devkit)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"meta.mat is missing; it says what the ids mean"):
        read_imagenet(devkit)


def test_a_meta_of_fewer_classes_is_an_error(devkit):
    path = devkit / "imagenet" / DATA / "meta.mat"
    savemat(path, {"synsets": loadmat(path)["synsets"][:700]})
    with pytest.raises(ValueError, match=r"meta.mat has 700 of the 1000 classes"):
        read_imagenet(devkit)


def test_packed_classes_of_the_training_archive_are_an_error(tmp_path):
    folder = tmp_path / "imagenet" / "train"
    folder.mkdir(parents=True)
    for wnid in SOME:
        (folder / f"{wnid}.tar").touch()
    text = (
        rf"imagenet_train: .*train has 4 archives like {SOME[0]}.tar; .*unpack each into a folder"
    )
    with pytest.raises(ValueError, match=text):
        read_imagenet(tmp_path, part="train")


def test_an_empty_folder_is_an_error(tmp_path):
    (tmp_path / "imagenet" / "val").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"val has no class folder; needed .*'n01440764': unpack"):
        read_imagenet(tmp_path)
