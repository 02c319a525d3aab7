"""The reader of SI-Score, on a small replica of what its three archives unpack to."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from relevit.data.real.si_score import CLASSES, NAMES, read_si_score

from relevit.data.cutouts import TEST_SETS
from relevit.data.real.classes import IMAGENET_NAMES
from relevit.data.real.image_set import UnreadableImage
from replicas.pictures import truncate
from replicas.si_score import OBJECTS, write_si_score

pytestmark = pytest.mark.usefixtures("no_network")


@pytest.fixture
def folder(tmp_path):
    return write_si_score(tmp_path, per_class=3)


@pytest.mark.parametrize("factor", NAMES)
def test_each_factor_is_a_set_of_its_own(folder, factor):
    found = read_si_score(folder.parent, factor=factor)
    assert found.name == NAMES[factor] in TEST_SETS and found.candidates == ()
    assert found.labels.tolist() == sorted(CLASSES[name] for name in OBJECTS for _ in range(3))
    for name, label in zip(found.ids, found.labels.tolist(), strict=True):
        assert CLASSES[name.split("/")[0]] == label
    others = [read_si_score(folder.parent, factor=other) for other in NAMES if other != factor]
    assert all((found[0] != other[0]).any() for other in others)


def test_size_is_the_folder_area(folder):
    assert read_si_score(folder.parent, factor="area").name == "si_size"
    shutil.rmtree(folder / "area")
    text = r"si_size: folder .*si-score/area is missing; unpack size.zip there"
    with pytest.raises(FileNotFoundError, match=text):
        read_si_score(folder.parent, factor="area")


def test_tables_beside_the_folders_are_left_out(folder):
    tables = [path.name for path in (folder / "rotation").iterdir() if path.is_file()]
    assert {"metadata.csv", "backgrounds.csv"} < set(tables)
    found = read_si_score(folder.parent, factor="rotation")
    assert len(found) == 3 * len(OBJECTS) and all(name.endswith(".jpg") for name in found.ids)


def test_location_may_keep_the_name_in_its_archive(tmp_path):
    folder = write_si_score(tmp_path, as_unpacked=True)
    assert not (folder / "location").exists()
    found = read_si_score(tmp_path)
    assert found.name == "si_location" and len(found) == 2 * len(OBJECTS)
    (folder / "location20_area02_min0pc").rename(folder / "location")
    assert read_si_score(tmp_path).ids == found.ids


def test_objects_are_matched_to_imagenet_by_hand():
    assert len(CLASSES) == 61 == len(set(CLASSES.values()))
    names = [name.lower().split(", ") for name in IMAGENET_NAMES]
    assert [name for name, index in CLASSES.items() if name not in names[index]] == ["jeans"]
    last = {name: index for index, inner in enumerate(names) for name in inner}
    assert last["missile"] == 744 != CLASSES["missile"]  # a look-up finds the projectile
    assert "blue jean" in names[CLASSES["jeans"]]


@pytest.mark.parametrize("name", ["21", "n02391049", "340", "Zebra", "blue jean"])
def test_other_folders_are_errors(folder, name):
    (folder / "rotation" / name).mkdir()
    text = rf"si_rotation: .*rotation has the folder '{name}', which is .*unpack rotation.zip again"
    with pytest.raises(ValueError, match=text):
        read_si_score(folder.parent, factor="rotation")


def test_another_factor_is_an_error(folder):
    text = r"si_score: factor is 'size'; give one of \('location', 'rotation', 'area'\)"
    with pytest.raises(ValueError, match=text):
        read_si_score(folder.parent, factor="size")


def test_a_broken_picture_is_named(folder):
    found = read_si_score(folder.parent)
    truncate(folder / "location" / found.ids[4])
    with pytest.raises(UnreadableImage, match=f"si_location: {found.ids[4]} cannot be read"):
        found[4]
    assert np.isfinite(found[5].numpy()).all()
