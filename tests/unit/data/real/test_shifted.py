"""The readers of ImageNet-A, -R, -Sketch, V2 and SI-Score, on replicas of their archives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from relevit.data.cutouts import TEST_SETS
from relevit.data.real.classes import A_WNIDS, IMAGENET_NAMES, IMAGENET_WNIDS, R_WNIDS, index_of
from relevit.data.real.shifted import (
    SI_CLASSES,
    SI_SETS,
    read_imagenet_a,
    read_imagenet_r,
    read_si_score,
    read_sketch,
    read_v2,
)
from relevit.models.spec import View
from replicas import imagenet as replicas
from replicas.pictures import KINDS, picture, save_jpeg
from replicas.si_score import OBJECTS, write_si_score

SETS = {
    "a": (read_imagenet_a, replicas.write_imagenet_a, A_WNIDS, "imagenet-a.tar"),
    "r": (read_imagenet_r, replicas.write_imagenet_r, R_WNIDS, "imagenet-r.tar"),
    "sketch": (read_sketch, replicas.write_sketch, IMAGENET_WNIDS, "ImageNet-Sketch.zip"),
    "v2": (read_v2, replicas.write_v2, IMAGENET_WNIDS, "imagenetv2-matched-frequency.tar.gz"),
}

pytestmark = pytest.mark.usefixtures("no_network")


@pytest.mark.parametrize("name", SETS)
def test_labels_are_among_the_thousand_classes(tmp_path, name):
    read, write, wnids, _ = SETS[name]
    classes = [wnids[-1], wnids[0], wnids[7]]
    folder = write(tmp_path, per_class=3, classes=classes)
    (folder / "._x").touch()
    (folder / ".hidden").mkdir()
    found = read(tmp_path)
    assert found.name == name and len(found) == 9 and found.candidates == ()
    assert found.labels.tolist() == sorted([index_of(w) for w in classes for _ in range(3)])
    assert found.labels.dtype == torch.int64
    places = {index_of(w): place for place, w in enumerate(sorted(classes))}
    assert found.labels.tolist() != [places[y] for y in found.labels.tolist()]  # folders counted
    for place in range(9):
        assert torch.equal(found[place], View().picture(Image.open(folder / found.ids[place])))
    assert len({found[place].numpy().tobytes() for place in range(9)}) == 9


def test_folders_of_v2_are_numbers_and_not_text(tmp_path):
    classes = [IMAGENET_WNIDS[index] for index in (2, 10, 100, 9, 999)]
    folder = replicas.write_v2(tmp_path, per_class=2, classes=classes)
    assert sorted(path.name for path in folder.iterdir()) == ["10", "100", "2", "9", "999"]
    found = read_v2(tmp_path)
    assert found.labels.tolist() == [2, 2, 9, 9, 10, 10, 100, 100, 999, 999]
    assert [name.split("/")[0] for name in found.ids[::2]] == ["2", "9", "10", "100", "999"]
    assert list(found.ids) == [
        f"{y}/{n}" for y in (2, 9, 10, 100, 999) for n in names_in(folder, y)
    ]


def names_in(folder, inner):
    return sorted(path.name for path in (folder / str(inner)).iterdir())


@pytest.mark.parametrize("name", ["1000", "007", "n01440764", "-1"])
def test_other_folders_in_v2_are_errors(tmp_path, name):
    (replicas.write_v2(tmp_path) / name).mkdir()
    with pytest.raises(ValueError, match=rf"v2: .* has the folder '{name}', which is .*like '0'"):
        read_v2(tmp_path)


@pytest.mark.parametrize("name", ["a", "r"])
def test_200_ways_ask_among_all_classes_of_the_set(tmp_path, name):
    read, write, wnids, _ = SETS[name]
    write(tmp_path, classes=wnids[3:5])
    found = read(tmp_path, ways=200)
    assert found.candidates == tuple(index_of(wnid) for wnid in wnids)
    assert len(found.candidates) == 200 and found.candidates != tuple(range(200))
    assert found.labels.tolist() == read(tmp_path).labels.tolist()
    assert set(found.labels.tolist()) <= set(found.candidates)


def test_the_200_classes_of_a_and_r_differ():
    assert len(set(A_WNIDS)) == len(set(R_WNIDS)) == 200 and len(set(A_WNIDS) & set(R_WNIDS)) == 86


@pytest.mark.parametrize("name", SETS)
def test_folders_that_are_no_class_are_errors(tmp_path, name):
    read, write, _, archive = SETS[name]
    (write(tmp_path) / "images").mkdir()
    text = rf"^{name}: .* has the folder 'images', which is no class .*1 such.*or unpack {archive}"
    with pytest.raises(ValueError, match=text):
        read(tmp_path)


def test_classes_of_another_set_are_errors(tmp_path):
    only_r = next(wnid for wnid in R_WNIDS if wnid not in A_WNIDS)
    replicas.write_imagenet_r(tmp_path, classes=[only_r]).rename(tmp_path / "imagenet-a")
    text = rf"a: .*'{only_r}', which is another class of ImageNet and none of this set's 200"
    with pytest.raises(ValueError, match=text):
        read_imagenet_a(tmp_path)


@pytest.mark.parametrize("name", SETS)
def test_a_class_without_pictures_is_an_error(tmp_path, name):
    read, write, _, archive = SETS[name]
    folder = write(tmp_path)
    emptied = min(path for path in folder.iterdir() if path.is_dir())
    for path in emptied.iterdir():
        path.rename(path.with_suffix(".part"))  # a download that broke off
    (emptied / "._1.jpeg").touch()
    text = rf"{name}: the class folder .*/{emptied.name} has no pictures; unpack {archive} again"
    with pytest.raises(ValueError, match=text):
        read(tmp_path)


@pytest.mark.parametrize("name", SETS)
def test_empty_sets_are_errors(tmp_path, name):
    read, write, _, archive = SETS[name]
    folder = write(tmp_path)
    for inner in [path for path in folder.iterdir() if path.is_dir()]:
        for path in inner.iterdir():
            path.unlink()
        inner.rmdir()
    with pytest.raises(ValueError, match=rf"^{name}: .* has no class folder; .*unpack {archive}"):
        read(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_of_any_mode_are_read_as_rgb(tmp_path, kind):
    stored = save_jpeg(picture(4, 5, kind=kind), tmp_path / "sketch" / "n01440764" / "x.JPEG")
    found = read_sketch(tmp_path, View(resize=100, crop=96))[0]
    assert found.shape == (3, 96, 96) and found.dtype == torch.uint8
    original = View(resize=100, crop=96).picture(picture(4, 5, kind=kind))
    assert (found.int() - original.int()).abs().float().mean() < 8  # JPEG loses a little
    if kind == "grey":
        assert (found[0] == found[2]).all()
    elif kind == "cmyk":
        colours = View(resize=100, crop=96).picture(picture(4, 5))
        assert (found.int() - colours.int()).abs().float().mean() < 8  # and no negative
    assert Image.open(stored).format == "JPEG"


def test_an_exif_orientation_is_ignored(tmp_path):
    stored = save_jpeg(picture(4, 5, kind="exif"), tmp_path / "sketch" / "n01440764" / "x.JPEG")
    found = read_sketch(tmp_path)[0]
    as_stored = Image.fromarray(np.asarray(Image.open(stored)))
    upright = ImageOps.exif_transpose(Image.open(stored))
    assert upright.size == as_stored.size[::-1]
    assert torch.equal(found, View().picture(as_stored))
    assert not torch.equal(found, View().picture(upright))


@pytest.mark.parametrize("name", SETS)
def test_writers_refuse_classes_that_the_set_has_not(tmp_path, name):
    _, write, wnids, _ = SETS[name]
    for classes in (["n99999999"], [], [wnids[0], wnids[0]]):
        with pytest.raises(ValueError, match=rf"different wnids out of the set's {len(wnids)}"):
            write(tmp_path, classes=classes)
    with pytest.raises(ValueError, match="0 pictures a class; ask for at least 1"):
        write(tmp_path, per_class=0)
    assert list(tmp_path.iterdir()) == []


# SI-Score


@pytest.fixture
def si_score(tmp_path):
    return write_si_score(tmp_path, per_class=3)


@pytest.mark.parametrize("factor", SI_SETS)
def test_each_factor_is_a_set_of_its_own(si_score, factor):
    found = read_si_score(si_score.parent, factor=factor)
    assert found.name == SI_SETS[factor] in TEST_SETS and found.candidates == ()
    assert found.labels.tolist() == sorted(SI_CLASSES[name] for name in OBJECTS for _ in range(3))
    for name, label in zip(found.ids, found.labels.tolist(), strict=True):
        assert SI_CLASSES[name.split("/")[0]] == label
    others = [read_si_score(si_score.parent, factor=other) for other in SI_SETS if other != factor]
    assert all((found[0] != other[0]).any() for other in others)


def test_tables_beside_the_folders_are_left_out(si_score):
    tables = [path.name for path in (si_score / "rotation").iterdir() if path.is_file()]
    assert {"metadata.csv", "backgrounds.csv"} < set(tables)
    found = read_si_score(si_score.parent, factor="rotation")
    assert len(found) == 3 * len(OBJECTS) and all(name.endswith(".jpg") for name in found.ids)


def test_location_may_keep_the_name_in_its_archive(tmp_path):
    folder = write_si_score(tmp_path, as_unpacked=True)
    assert not (folder / "location").exists()
    found = read_si_score(tmp_path)
    assert found.name == "si_location" and len(found) == 2 * len(OBJECTS)
    (folder / "location20_area02_min0pc").rename(folder / "location")
    assert read_si_score(tmp_path).ids == found.ids


def test_objects_are_matched_to_imagenet_by_hand():
    assert len(SI_CLASSES) == 61 == len(set(SI_CLASSES.values()))
    names = [name.lower().split(", ") for name in IMAGENET_NAMES]
    assert [name for name, index in SI_CLASSES.items() if name not in names[index]] == ["jeans"]
    last = {name: index for index, inner in enumerate(names) for name in inner}
    assert last["missile"] == 744 != SI_CLASSES["missile"]  # a look-up finds the projectile
    assert "blue jean" in names[SI_CLASSES["jeans"]]


@pytest.mark.parametrize("name", ["21", "n02391049", "340", "Zebra", "blue jean"])
def test_other_folders_are_errors(si_score, name):
    (si_score / "rotation" / name).mkdir()
    text = rf"si_rotation: .*rotation has the folder '{name}', which is .*unpack rotation.zip again"
    with pytest.raises(ValueError, match=text):
        read_si_score(si_score.parent, factor="rotation")
