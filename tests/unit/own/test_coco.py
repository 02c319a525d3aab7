"""COCO files: one class and one mask for each annotated picture."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import ExifTags, Image

from relevit_own.folder import read_data

encode = pytest.importorskip("pycocotools.mask").encode
BOX = [[2, 1, 8, 1, 8, 5, 2, 5]]  # x and y of the corners: columns 2 to 8, rows 1 to 5
RUNS = {"size": [10, 20], "counts": [0, 10, 190]}  # down the first column
SIZED = {"width": 20, "height": 10}


def annotation(image, category, area, segmentation):
    return {
        "image_id": image, "category_id": category, "area": area, "segmentation": segmentation,
    }  # fmt: skip


@pytest.fixture
def content(tmp_path):
    for name in ("a.jpg", "images/b.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (20, 10)).save(tmp_path / name)
    return {
        "images": [
            {"id": 7, "file_name": "b.jpg", **SIZED},
            {"id": 3, "file_name": "a.jpg", **SIZED},
            {"id": 4, "file_name": "bare.jpg", **SIZED},
        ],
        "categories": [{"id": i, "name": n} for i, n in ((0, "things"), (5, "cup"), (9, "bowl"))],
        "annotations": [
            annotation(3, 9, 24, BOX),
            annotation(3, 9, 10, RUNS),
            annotation(3, 5, 20, [[0, 0, 5, 0, 5, 4]]),
            annotation(7, 5, 24, BOX),
        ],
    }


def write(tmp_path, content):
    path = tmp_path / "marks.json"
    path.write_text(json.dumps(content))
    return path


def test_class_of_the_largest_and_union_of_its_masks(tmp_path, content):
    found = read_data(write(tmp_path, content))
    assert found.classes == ("cup", "bowl") and found.labels.tolist() == [1, 0], "by their ids"
    assert found.ids == ("a.jpg", "images/b.jpg")
    assert [path.name for path in found.left_out] == ["bare.jpg"]
    box = np.zeros((10, 20), dtype=bool)
    box[1:5, 2:8] = True
    assert np.array_equal(found.mask(1), box)
    box[:, 0] = True
    assert np.array_equal(found.mask(0), box)


@pytest.mark.parametrize("kind", [{"iscrowd": 1}, {"iscrowd": 0, "ignore": 1}])
def test_crowds_and_ignored_regions_are_no_objects(tmp_path, content, kind):
    content["annotations"] += [annotation(i, 0, 200, BOX) | kind for i in (3, 4, 7)]
    content["annotations"][1] |= kind
    found = read_data(write(tmp_path, content))
    assert found.classes == ("cup", "bowl") and len(found) == 2 and not found.mask(0)[:, 0].any()
    assert [path.name for path in found.left_out] == ["bare.jpg"]
    content["annotations"] = content["annotations"][4:]
    with pytest.raises(ValueError, match=r"has crowds and ignored regions alone; mark an object"):
        read_data(write(tmp_path, content))


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize("shape", [(20, 10), (5, 40), (10, 21)])
def test_runs_of_another_size_are_refused(tmp_path, content, packed, sized, shape):
    """Also where they have as many pixels as the picture."""
    other = np.zeros(shape, dtype=np.uint8, order="F")
    other[:, 0] = 1
    runs = {"size": shape, "counts": [0, shape[0], shape[0] * (shape[1] - 1)]}
    if packed:
        runs["counts"] = encode(other)["counts"].decode()
    content["annotations"][3]["segmentation"] = runs
    for image in content["images"] if not sized else ():
        del image["width"]
    found = read_data(write(tmp_path, content))
    with pytest.raises(ValueError, match=rf"{shape[1]} x {shape[0]}.* 20 x 10"):
        found.mask(1)
    del runs["size"]
    with pytest.raises(ValueError, match=r"annotations\[3\]: its runs have no size"):
        read_data(write(tmp_path, content)).mask(1)


@pytest.mark.parametrize("sized", [True, False])
def test_outlines_on_a_picture_as_it_is_stored_are_turned_with_it(tmp_path, content, sized):
    """Stored 20 wide and 10 high, and shown standing; also the largest is told by its runs."""
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    Image.new("RGB", (20, 10)).save(tmp_path / "a.jpg", exif=exif)
    content["annotations"][0]["segmentation"] = {"size": [10, 20], "counts": [0, 150, 50]}
    content["annotations"][2]["segmentation"] = {"size": [10, 20], "counts": [150, 9, 41]}
    for image in content["images"] if not sized else ():
        del image["width"]
    found = read_data(write(tmp_path, content))
    mask = found.mask(0)
    assert found.classes[found.labels[0]] == "bowl"
    assert mask.shape == (20, 10) and mask[:15].all() and not mask[15:].any()


def test_boxes_are_no_masks(tmp_path, content):
    content["annotations"][3] |= {"segmentation": [], "bbox": [2, 1, 6, 4]}
    del content["annotations"][3]["area"]
    found = read_data(write(tmp_path, content))
    assert found.masks[1] is None and found.masks[0] is not None


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda c: c.pop("annotations"), r"marks.json has no annotations, as a COCO file has"),
        (lambda c: c["annotations"].clear(), r"marks.json has no annotations"),
        (lambda c: c["annotations"][1].pop("image_id"), r"annotations\[1\] has no image_id"),
        (lambda c: c["annotations"][1].update(image_id=[3]), r"annotations\[1\] has no image_id"),
        (lambda c: c["images"][1].update(file_name=3), r"images\[1\] has no file_name, as COCO"),
        (lambda c: c.update(images=3), r"marks.json has no images, as a COCO file has"),
        (lambda c: c["annotations"][1].update(category_id=8), r"\[1\] has category_id 8, which"),
        (lambda c: c["categories"][0].update(name="cup"), r"two categories have the name 'cup'"),
        (lambda c: c["images"][0].update(file_name="x.jpg"), r"the picture x.jpg is missing"),
    ],
)
def test_what_is_no_coco_is_refused(tmp_path, content, spoil, text):
    spoil(content)
    with pytest.raises((ValueError, FileNotFoundError), match=text):
        read_data(write(tmp_path, content))


def test_outlines_that_are_none_are_refused_when_opened(tmp_path, content):
    content["annotations"][3]["segmentation"] = [[1, 2]]
    content["images"][1]["width"] = 30
    found = read_data(write(tmp_path, content))
    for place in range(2):
        with pytest.raises(ValueError, match=r"\[3\]: it has a polygon of 1 points|30 x 10 pixels"):
            found.mask(place)
