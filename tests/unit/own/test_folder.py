"""Data sets as people have them are found, in one order; what is wrong is said in a sentence."""

from __future__ import annotations

import json
import shutil
import subprocess

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.datasets import ImageFolder

from relevit.data.image_set import UnreadableImage
from relevit.models.spec import View
from relevit_own.folder import read_data, read_splits
from replicas.pictures import object_mask, picture, save_jpeg, truncate
from unit.own.troubles import save_mask, write_plain

VIEW = View(resize=64, crop=64)


def test_class_folders_with_masks_beside(tmp_path):
    found = read_data(write_plain(tmp_path / "insects"))
    assert (found.name, found.classes) == ("insects", ("ant", "bee"))
    assert found.ids == ("ant/0.jpg", "ant/1.jpg", "bee/0.jpg", "bee/1.jpg")
    assert found.labels.tolist() == [0, 0, 1, 1] and found.labels.dtype == torch.int64
    batch = found.image_set(VIEW).read(range(4))
    assert batch.images.shape == (4, 3, 64, 64)
    expected = VIEW.mask(object_mask(1, 1))  # ant is the second label of the replica
    assert torch.equal(batch.masks[1], expected)


def test_folders_of_classes_alone_and_masks_from_elsewhere(tmp_path):
    """As torchvision has them, numbers ordered as texts, too; and folders in them are read."""
    write_plain(tmp_path, ("10", "2"))
    (tmp_path / "images").rename(tmp_path / "set")
    (tmp_path / "set" / "2" / "more").mkdir()
    shutil.move(tmp_path / "set" / "2" / "0.jpg", tmp_path / "set" / "2" / "more" / "0.jpg")
    found = read_data(tmp_path / "set")
    assert list(found.classes) == ImageFolder(tmp_path / "set").classes == ["10", "2"]
    assert not found.has_masks and found.ids[2:] == ("2/1.jpg", "2/more/0.jpg")
    outlined = read_data(tmp_path / "set", tmp_path / "masks")
    assert [mask is not None for mask in outlined.masks] == [True, True, True, False]
    assert not outlined.image_set(VIEW).read([0]).masks.any()  # as one is missing
    assert outlined.select([0, 2]).image_set(VIEW).read([0]).masks.any()
    assert [path.name for path in outlined.left_out] == ["0.png"]


def test_photographs_are_set_upright_and_masks_must_match_them_so(tmp_path):
    write_plain(tmp_path)
    lying, standing = picture(0, 0, kind="exif"), picture(0, 0)
    save_jpeg(lying, tmp_path / "images" / "bee" / "0.jpg")
    found = read_data(tmp_path)
    with found.picture(2) as image:
        difference = np.abs(np.asarray(image, dtype=int) - np.asarray(standing)).mean()
        assert image.size == standing.size and difference < 5
    assert np.array_equal(found.mask(2), object_mask(0, 0))
    on_its_side = object_mask(0, 0, kind="exif")  # as the picture is stored
    path = save_mask(on_its_side, tmp_path / "masks" / "bee" / "0.png")
    assert np.array_equal(found.mask(2), object_mask(0, 0))
    Image.fromarray(on_its_side).save(path, exif=lying.getexif())  # the mask says so itself
    assert np.array_equal(found.mask(2), object_mask(0, 0))
    standing.save(tmp_path / "images" / "bee" / "0.jpg")
    save_mask(on_its_side, path)
    with pytest.raises(ValueError, match=r"the mask has .* pixels, the upright picture"):
        found.mask(2)


def test_a_broken_picture_says_what_to_do_with_it(tmp_path):
    write_plain(tmp_path)
    truncate(tmp_path / "images" / "ant" / "1.jpg")
    pictures = read_data(tmp_path).image_set(VIEW)
    text = (
        r"ant/1.jpg cannot be read \(.*\); save it again as JPEG or PNG, or take it out, or leave"
    )
    with pytest.raises(UnreadableImage, match=text):
        pictures.read([1])


@pytest.mark.parametrize("masks", ["inside", "shared", "by part"])
def test_parts_of_a_folder_have_one_order_of_classes(tmp_path, masks):
    for part, classes in (("train", ("ant", "bee", "fly")), ("val", ("bee",)), ("test", ("fly",))):
        write_plain(tmp_path / part, classes)
        if masks == "inside":
            continue
        outlines = tmp_path / "masks" if masks == "shared" else tmp_path / "masks" / part
        shutil.copytree(tmp_path / part / "masks", outlines, dirs_exist_ok=True)
        for name in classes:
            (tmp_path / part / "images" / name).rename(tmp_path / part / name)
        for name in ("masks", "images"):
            shutil.rmtree(tmp_path / part / name)
    found = read_splits(tmp_path)
    assert list(found) == ["train", "validation", "test"]
    assert {part.classes for part in found.values()} == {("ant", "bee", "fly")}
    assert found["validation"].labels.tolist() == [1, 1] and found["test"].labels.tolist() == [2, 2]
    assert found["test"].name == f"{tmp_path.name}/test"
    assert all(part.has_masks for part in found.values())
    with pytest.raises(ValueError, match=r"has the parts train, validation, test; read it with"):
        read_data(tmp_path)


@pytest.mark.parametrize("prefix", ["seg_", "asl alphabet-", ""])
def test_folders_that_hold_one_other_alone_are_passed_through(tmp_path, prefix):
    """As archives unpack: x_train/x_train/<class>, and all of it in a folder once more."""
    for part in ("train", "test"):
        inside = tmp_path / "set" / "all" / f"{prefix}{part}" / f"{prefix}{part}"
        write_plain(inside, masks=False)
        for path in [*(inside / "images").iterdir()]:
            path.rename(inside / path.name)
        (inside / "images").rmdir()
    found = read_splits(tmp_path / "set")
    assert list(found) == ["train", "test"]
    for name, part in found.items():
        assert part.name == f"set/{prefix}{name}" and part.classes == ("ant", "bee")
        assert part.ids == ("ant/0.jpg", "ant/1.jpg", "bee/0.jpg", "bee/1.jpg")


@pytest.mark.parametrize("layout", ["labels", "Ground-Truth", "0_mask.png", "0-seg.png"])
def test_masks_that_lie_elsewhere_are_masks(tmp_path, layout):
    write_plain(tmp_path)
    for path in sorted((tmp_path / "masks").glob("*/*.png")):
        at = tmp_path / layout / path.parent.name / path.name
        if layout.endswith(".png"):
            at = tmp_path / "images" / path.parent.name / layout.replace("0", path.stem)
        at.parent.mkdir(parents=True, exist_ok=True)
        path.rename(at)
    shutil.rmtree(tmp_path / "masks")
    found = read_data(tmp_path)
    assert len(found) == 4 and found.has_masks and not found.left_out
    assert np.array_equal(found.mask(1), object_mask(1, 1))


def test_what_was_written_here_is_no_class_and_no_picture(tmp_path):
    """Maps and a run whose folder lies in the data, in a class or beside them."""
    write_plain(tmp_path, masks=False)
    (tmp_path / "images").rename(tmp_path / "set")
    for folder, name, content in (
        (
            "run",
            "run.json",
            json.dumps({"classes": [], "choices": {"a": 1}}, indent=1, sort_keys=True),
        ),
        ("maps", "manifest.csv", "file,model,method,target,class\n"),
        ("ant/maps", "manifest.csv", "file,model,method,target,class\n"),
    ):
        save_jpeg(picture(0, 0), tmp_path / "set" / folder / "masks" / "0.png")
        (tmp_path / "set" / folder / name).write_text(content)
    found = read_data(tmp_path / "set")
    assert found.classes == ("ant", "bee") and len(found) == 4
    assert [path.name for path in found.left_out] == ["maps", "run"]
    (tmp_path / "set" / "maps" / "manifest.csv").write_text("mine\n")
    assert read_data(tmp_path / "set").classes == ("ant", "bee", "maps")


def test_a_class_that_training_lacks_is_named(tmp_path):
    write_plain(tmp_path / "train")
    write_plain(tmp_path / "val", ("ant", "wasp"))
    with pytest.raises(ValueError, match=r"/val: class 'wasp' \(1 such\) is none of the 2"):
        read_splits(tmp_path)


# Pictures and masks in two flat folders.
FLAT = """for f in images/*/*.jpg masks/*/*.png
do mv $f ${{f%%/*}}/$(basename ${{f%/*}})_${{f##*/}}; done
rmdir */*/; mv images x; mv masks {1}; mv x {0}"""
ASIDE = "for f in 0 1; do cp masks/ant/$f.png images/ant/${{f}}{}; done"


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        ("rm -r *", r"has no class folder; put the pictures of each class into a folder"),
        ("mv images/ant/0.jpg . ; rm -r */", r"has 1 pictures and no class folder"),
        (
            "mkdir data; mv images masks data; cp -r data/images more",
            r"data has images and masks, and so is a data set of its own .*; give this",
        ),
        ("mkdir images/cat", r"the class folder .*cat has no pictures; needed are files that end"),
        ("mkdir images/cat; touch images/cat/0.heic", r"cat has 1 files like 0.heic and no pict"),
        ("mv masks/ant masks/aunt", r"masks has the class 'aunt', which .*images lacks \(1 such\)"),
        (
            "for f in masks/*/*.png; do mv $f ${f%.png}_mask.png; done",
            r"none of the 4 pictures has a mask in .* would be .*ant/0.png",
        ),
        (
            "cp images/ant/0.jpg images/ant/0.png",
            r"ant has the pictures 0.jpg and 0.png, .*which their mask is 0; rename",
        ),
        (
            "cp masks/ant/0.png masks/ant/0.PNG",
            r"ant has the masks 0.PNG and 0.png, so that it is not known which",
        ),
        (
            "cp images/ant/0.jpg masks/ant/1.jpg",
            r"1.jpg is no PNG file \(1 such in .*\); save masks",
        ),
        (FLAT.format("images", "labels"), r"has images and labels, which are called as pictures"),
        (FLAT.format("image", "mask"), r"image and mask, .* into images/<class> and its masks"),
        (FLAT.format("JPEGImages", "SegmentationClass"), r"JPEGImages and SegmentationClass, wh"),
        (
            "cp -r masks labels; mv masks 'ground truth'",
            r"has ground truth and labels, and each may be the masks; call one of them",
        ),
        (
            f"{ASIDE.format('_mask.png')}; {ASIDE.format('_mask_1.png')}; rm -r masks",
            r"0_mask.png and 0_mask_1.png, both masks of 0",
        ),
        (
            f"{ASIDE.format('_mask.jpg')}; rm -r masks",
            r"0_mask.jpg is called as the mask of 0 and is no PNG file; sa",
        ),
    ],
)
def test_wrong_folders_are_refused_in_a_sentence(tmp_path, spoil, text):
    subprocess.run(["bash", "-c", spoil], cwd=write_plain(tmp_path), check=True)
    with pytest.raises(ValueError, match=text):
        read_data(tmp_path)


def test_what_is_missing_or_of_another_kind(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere is missing; give a folder of class"):
        read_data(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"the folder of masks .*nowhere is missing"):
        read_data(write_plain(tmp_path), tmp_path / "nowhere")
    (tmp_path / "birds.zip").write_text("packed")
    with pytest.raises(ValueError, match=r"birds.zip is a .zip file; give a folder"):
        read_splits(tmp_path / "birds.zip")
