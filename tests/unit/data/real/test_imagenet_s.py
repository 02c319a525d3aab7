"""The reader of ImageNet-S-919, on a small replica of its two annotated parts."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from relevit.data.real.classes import IMAGENET_S_WNIDS, index_of
from relevit.data.real.image_set import UnreadableImage
from relevit.data.real.imagenet_s import CLASS_IDS, LEFT_OPEN, class_numbers, read_imagenet_s
from relevit.models.spec import View
from replicas.imagenet_s import KINDS, WNIDS, write_imagenet_s, write_numbers
from replicas.pictures import object_mask, truncate

SMALL, LARGE = View(resize=48, crop=32), View(resize=256, crop=224)
MERGED_HERE = ("n04355933", "n15075141")
OUTLINED = sorted(set(WNIDS) - set(MERGED_HERE))

pytestmark = pytest.mark.usefixtures("no_network")


@pytest.fixture
def folder(tmp_path):
    return write_imagenet_s(tmp_path, per_class=2)


def mask_path(folder, found, place, part="train-semi"):
    return (folder / f"{part}-segmentation" / found.ids[place]).with_suffix(".png")


def numbers_at(folder, found, place):
    return class_numbers(Image.open(mask_path(folder, found, place)))


def drawn_mask(place):
    """The object in the replica's picture at a place of the set without merged classes."""
    count = WNIDS.index(OUTLINED[place // 2]) * 2 + place % 2
    label = index_of(OUTLINED[place // 2])
    return object_mask(place % 2, label, kind=KINDS[count % len(KINDS)])


def test_numbers_of_classes_count_the_sorted_wnids_from_one():
    assert list(CLASS_IDS) == list(IMAGENET_S_WNIDS) == sorted(IMAGENET_S_WNIDS)
    assert len(CLASS_IDS) == 919 and set(CLASS_IDS.values()) == set(range(1, 920))
    assert [CLASS_IDS[wnid] for wnid in WNIDS] == [1, 256, 512, 918, 783, 919]
    assert CLASS_IDS["n13133613"] != index_of("n13133613") + 1 == 999


def test_pictures_are_listed_with_their_imagenet_labels(folder):
    found = read_imagenet_s(folder.parent, SMALL)
    assert found.name == "imagenet_s" and len(found) == 8
    assert found.labels.tolist() == [index_of(wnid) for wnid in OUTLINED for _ in range(2)]
    assert [name.split("/")[0] for name in found.ids[::2]] == OUTLINED
    assert all(found[place].shape == (3, 32, 32) for place in range(8))  # grey and CMYK too


def test_a_mask_is_the_object_and_not_what_was_left_open(folder):
    found = read_imagenet_s(folder.parent, SMALL)
    for place in range(len(found)):
        mask = found.masks(place)
        assert mask.dtype == bool and np.array_equal(mask, drawn_mask(place))
        assert (numbers_at(folder, found, place) == LEFT_OPEN).any()
        assert torch.equal(found.mask(place), SMALL.mask(mask))


def test_numbers_need_more_than_the_eight_bits_of_the_picture(folder):
    found = read_imagenet_s(folder.parent, SMALL)
    for place, wnid in enumerate(OUTLINED):
        pixels = np.asarray(Image.open(mask_path(folder, found, 2 * place)))
        short = pixels[..., 0] + (pixels[..., 1] << np.uint8(8))  # what 8 bits make of 256 G
        mask = found.masks(2 * place)
        assert short.dtype == np.uint8 and set(np.unique(short[mask])) == {CLASS_IDS[wnid] % 256}
        assert mask.any() and set(np.unique(numbers_at(folder, found, 2 * place)[mask])) == {
            CLASS_IDS[wnid]
        }


def test_merged_classes_are_skipped_or_have_two_answers(folder):
    skipped = read_imagenet_s(folder.parent, SMALL)
    assert not any(name.startswith(MERGED_HERE) for name in skipped.ids)
    kept = read_imagenet_s(folder.parent, SMALL, merged="keep")
    assert len(kept) == len(skipped) + 4
    place = next(i for i, name in enumerate(kept.ids) if name.startswith("n04355933/n04356056_"))
    assert kept.labels[place] == 836 and kept.accepted[836] == (836, 837)
    right = [kept.right(torch.full((len(kept),), guess))[place].item() for guess in (836, 837, 835)]
    assert right == [True, True, False]
    assert kept.masks(place).any()


def test_validation_is_another_part(folder):
    found = read_imagenet_s(folder.parent, SMALL, part="validation")
    assert len(found) == 8 and found.ids[0] == "n01440764/ILSVRC2012_val_00000001.JPEG"
    train = read_imagenet_s(folder.parent, SMALL)
    assert not torch.equal(found[0], train[0]) and found.masks(0).shape != train.masks(0).shape


def test_an_object_of_another_class_is_background(folder):
    found = read_imagenet_s(folder.parent, SMALL)
    numbers, before = numbers_at(folder, found, 2), found.masks(2)
    numbers[:9, :9] = 1
    write_numbers(numbers, mask_path(folder, found, 2))
    assert np.array_equal(found.masks(2), before) and not before[:9, :9].any()


def test_a_mask_may_be_full(folder):
    found = read_imagenet_s(folder.parent, LARGE)
    write_numbers(np.full_like(numbers_at(folder, found, 3), 256), mask_path(folder, found, 3))
    assert found.masks(3).all() and found.mask(3).min() == 1


def swapped(numbers):
    """As OpenCV writes it back: blue and red change places."""
    return np.stack([0 * numbers, numbers // 256, numbers % 256], axis=-1).astype(np.uint8)


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda n: np.where(n == 1, 0, n), r"no pixel of its class, 1; it has \[0, 1000\]"),
        (lambda n: np.where(n == 1, 257, n), r"no pixel of its class, 1; it has \[0, 257, 1000\]"),
        (lambda n: np.where(n == 1, 920, n), r"pixels of the mask are no class, such as 920"),
        (lambda n: n.T, r"the mask has \d+ x \d+ pixels, the picture \d+ x \d+"),
        (lambda n: n[:-1], r"the mask has \d+ x \d+ pixels, the picture"),
    ],
)
def test_masks_that_do_not_fit_are_errors(folder, spoil, text):
    found = read_imagenet_s(folder.parent, SMALL)
    write_numbers(spoil(numbers_at(folder, found, 1)), mask_path(folder, found, 1))
    whole = rf"imagenet_s: the mask of {found.ids[1]} cannot be read \(.*{text}.*; unpack it again"
    with pytest.raises(UnreadableImage, match=whole) as error:
        found.mask(1)
    assert error.value.place == 1
    assert found[1].shape == (3, 32, 32)


def test_masks_in_another_format_are_errors(folder):
    found = read_imagenet_s(folder.parent, SMALL)
    numbers, path = numbers_at(folder, found, 0), mask_path(folder, found, 0)
    Image.fromarray(swapped(numbers)).save(path)
    with pytest.raises(UnreadableImage, match="pixels of the mask are no class"):
        found.mask(0)
    Image.fromarray((numbers % 256).astype(np.uint8)).save(path)
    with pytest.raises(UnreadableImage, match="the mask has mode L; needed are the numbers in RGB"):
        found.mask(0)
    write_numbers(numbers, path)
    truncate(path)
    with pytest.raises(UnreadableImage, match=f"the mask of {found.ids[0]} cannot be read"):
        found.mask(0)


def test_pictures_and_masks_come_in_pairs(folder):
    found = read_imagenet_s(folder.parent, SMALL)
    (mask_path(folder, found, 0).parent / "._hidden.png").touch()
    assert len(read_imagenet_s(folder.parent, SMALL)) == 8
    picture, mask = folder / "train-semi" / found.ids[3], mask_path(folder, found, 3)
    kept = picture.read_bytes()
    picture.unlink()
    text = rf"the picture .*{picture.stem}.JPEG is missing; copy it from ImageNet \(1 are missing"
    with pytest.raises(FileNotFoundError, match=text):
        read_imagenet_s(folder.parent, SMALL)
    picture.write_bytes(kept)
    mask.unlink()
    text = rf"imagenet_s: the mask .*{mask.name} is missing; unpack ImageNetS919.zip again \(1 are"
    with pytest.raises(FileNotFoundError, match=text):
        read_imagenet_s(folder.parent, SMALL)


@pytest.mark.parametrize("inner", ["train-semi", "train-semi-segmentation"])
def test_a_missing_folder_is_an_error(folder, inner):
    shutil.rmtree(folder / inner)
    remedy = "copy the pictures from ImageNet" if inner == "train-semi" else "unpack ImageNetS919"
    with pytest.raises(
        FileNotFoundError, match=rf"imagenet_s: folder .*{inner} is missing; {remedy}"
    ):
        read_imagenet_s(folder.parent)


def test_a_class_without_outlines_is_an_error(folder):
    (folder / "train-semi" / "n02699494").mkdir()  # altar
    with pytest.raises(ValueError, match=r"imagenet_s: .*has the folder 'n02699494'.*unpack Image"):
        read_imagenet_s(folder.parent)
