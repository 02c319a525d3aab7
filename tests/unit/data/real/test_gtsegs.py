"""The reader of gtsegs_ijcv.mat, on a small replica in MATLAB 7.3's format."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np
import pytest
import torch
from scipy.io import loadmat

from relevit.data.real.classes import index_of
from relevit.data.real.gtsegs import read_gtsegs
from relevit.data.real.image_set import UnreadableImage
from relevit.models.spec import View
from replicas.gtsegs import NO_CLASS, write_gtsegs
from replicas.pictures import object_mask, picture, truncate

SMALL = View(resize=48, crop=32)
LABELS = [0, 0, 386, 386, NO_CLASS, NO_CLASS]

pytestmark = pytest.mark.usefixtures("no_network")


@pytest.fixture
def path(tmp_path):
    return write_gtsegs(tmp_path)


def open_files() -> int:
    return h5py.h5f.get_obj_count(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_FILE)


def change(path, field, place, values):
    """Put another array in the place of a picture, of a mask, or of a target."""
    with h5py.File(path, "r+") as file:
        new = file["#refs#"].create_dataset(f"new_{field}_{place}", data=values)
        column = file[f"value/{field}"]
        if field == "gt":  # a cell around it
            column = file[column[place, 0]]
            place = 0
        column[place, 0] = new.ref


def test_the_replica_is_what_matlab_writes(path):
    with pytest.raises(NotImplementedError, match=r"HDF reader for matlab v7\.3"):
        loadmat(path)
    with h5py.File(path) as file:
        assert file["value/img"].shape == file["value/gt"].shape == (6, 1)
        assert file.userblock_size == 512


def test_pictures_and_masks_stand_upright(path):
    found = read_gtsegs(path.parent, SMALL)
    assert found.name == "gtsegs" and len(found) == 6
    for place, label in enumerate(LABELS):
        drawn, outlined = picture(place, label), object_mask(place, label)
        assert drawn.width != drawn.height  # else a swap would not show
        assert np.array_equal(np.asarray(found.open(place)), np.asarray(drawn))
        mask = found.masks(place)
        assert mask.dtype == bool and np.array_equal(mask, outlined)
        assert torch.equal(found[place], SMALL.picture(drawn))
        assert torch.equal(found.mask(place), SMALL.mask(outlined))


def test_labels_are_those_of_imagenet_where_it_has_the_class(path):
    found = read_gtsegs(path.parent)
    assert found.labels.tolist() == [0, 0, 386, 386, -1, -1] and index_of("n02504458") == 386
    assert found.labels.dtype == torch.int64
    assert not found.right(torch.full((6,), 386))[4:].any()


@pytest.mark.parametrize(
    "target",
    [
        np.array([[65]], dtype=np.uint16),
        np.full((9, 1), 2**40, dtype=np.uint64),
        np.zeros((9, 1)),
        np.zeros(2, dtype=np.uint64),  # MATLAB's empty text
    ],
)
def test_a_target_that_is_no_wnid_is_no_label(path, target):
    change(path, "target", 1, target)
    assert read_gtsegs(path.parent).labels.tolist() == [0, -1, 386, 386, -1, -1]


def test_a_file_without_targets_has_no_labels(tmp_path):
    write_gtsegs(tmp_path, targets=False)
    found = read_gtsegs(tmp_path, SMALL)
    assert found.labels.tolist() == [-1] * 6 and found.mask(0).any()


def test_the_first_mask_of_a_cell_is_taken(path):
    with h5py.File(path, "r+") as file:
        masks = [file[file["value/gt"][place, 0]][0, 0] for place in (0, 0, 1)]
        column = np.empty((3, 1), dtype=h5py.ref_dtype)
        column[:, 0] = masks
        cell = file["#refs#"].create_dataset("three", data=column)
        file["value/gt"][0, 0] = cell.ref
    assert np.array_equal(read_gtsegs(path.parent).masks(0), object_mask(0, 0))


@pytest.mark.parametrize("value", [0, 1, 255])
def test_an_empty_and_a_full_mask_are_passed_on(path, value):
    change(path, "gt", 2, np.full_like(object_mask(2, 386).T, value, dtype=np.uint8))
    mask = read_gtsegs(path.parent).masks(2)
    assert mask.all() if value else not mask.any()


def test_threads_read_together_and_leave_nothing_open(path):
    before = open_files()
    found = read_gtsegs(path.parent, SMALL)
    alone = [(found[place], found.mask(place)) for place in range(6)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda i: (found[i % 6], found.mask(i % 6)), range(24)))
    for i, (image, mask) in enumerate(together):
        assert torch.equal(image, alone[i % 6][0]) and torch.equal(mask, alone[i % 6][1])
    assert open_files() == before


def test_a_half_written_file_is_an_error(path):
    before, size = open_files(), path.stat().st_size
    truncate(path)
    text = rf"gtsegs: .*ijcv.mat has {size // 2} bytes and is not as published .*download it again"
    with pytest.raises(ValueError, match=text):
        read_gtsegs(path.parent)
    assert open_files() == before


@pytest.mark.parametrize("content", [b"", b"<html>404</html>", b"MATLAB 5.0 MAT-file" * 99])
def test_another_file_is_an_error(path, content):
    path.write_bytes(content)
    text = rf"gtsegs: .*has {len(content)} bytes .*needed is a MATLAB 7.3 file with value/img"
    with pytest.raises(ValueError, match=text):
        read_gtsegs(path.parent)


@pytest.mark.parametrize("field", ["img", "gt", "target"])
def test_fields_that_do_not_fit_are_errors(path, field):
    with h5py.File(path, "r+") as file:
        column = file[f"value/{field}"][:-1]
        del file[f"value/{field}"]
        file[f"value/{field}"] = column
    text = {"img": "5 images and 6 masks", "gt": "6 images and 5 masks"}
    with pytest.raises(ValueError, match=text.get(field, "6 images and 5 targets")):
        read_gtsegs(path.parent)
    with h5py.File(path, "r+") as file:
        del file[f"value/{field}"]
        file[f"value/{field}"] = np.zeros((6, 1))
    with pytest.raises(ValueError, match=rf"value/{field} is no column of references"):
        read_gtsegs(path.parent)


def test_a_file_without_pictures_or_masks_is_an_error(path):
    with h5py.File(path, "r+") as file:
        del file["value/gt"]
    with pytest.raises(ValueError, match=r"is not as published .*'gt'.*it is half downloaded"):
        read_gtsegs(path.parent)
    write_gtsegs(path.parent, classes=["n01440764"], per_class=1)
    with h5py.File(path, "r+") as file:
        for field in ("img", "gt"):
            empty = file[f"value/{field}"][:0]
            del file[f"value/{field}"]
            file[f"value/{field}"] = empty
    with pytest.raises(ValueError, match="0 images and 0 masks"):
        read_gtsegs(path.parent)


@pytest.mark.parametrize(
    ("field", "values", "text"),
    [
        ("img", np.zeros((3, 20, 30)), r"the image is float64 of shape \(3, 20, 30\); needed is"),
        ("img", np.zeros((20, 30, 3), np.uint8), r"uint8 of shape \(20, 30, 3\); needed is uint8"),
        ("gt", np.zeros((20, 30), np.uint8), r"the mask has \(width, height\) \(20, 30\), and"),
    ],
)
def test_a_picture_in_another_format_is_named(path, field, values, text):
    change(path, field, 3, values)
    found = read_gtsegs(path.parent, SMALL)
    with pytest.raises(UnreadableImage, match=rf"gtsegs: .*gtsegs_ijcv.mat/0003 .*{text}") as error:
        found.mask(3) if field == "gt" else found[3]
    assert error.value.place == 3
    assert found[2].shape == (3, 32, 32)


def test_a_reference_to_nothing_is_named(path):
    with h5py.File(path, "r+") as file:
        file["value/img"][1, 0] = h5py.Reference()
    with pytest.raises(UnreadableImage, match=r"gtsegs_ijcv.mat/0001 cannot be read"):
        read_gtsegs(path.parent)[1]
