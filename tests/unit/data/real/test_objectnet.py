"""The reader of ObjectNet, on a small replica of what its archive unpacks to."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from relevit.data.real.classes import IMAGENET_NAMES
from relevit.data.real.image_set import UnreadableImage
from relevit.data.real.objectnet import read_objectnet
from replicas.objectnet import CLASSES, write_objectnet
from replicas.pictures import picture, truncate

OVERLAPPING = sorted(name for name, (_, indices) in CLASSES.items() if indices)
RED = (255, 0, 0)

pytestmark = pytest.mark.usefixtures("no_network")


@pytest.fixture
def folder(tmp_path):
    folder = write_objectnet(tmp_path, per_class=2)
    (folder / "images" / ".DS_Store").touch()
    return folder


def change(path, **entries):
    table = json.loads(path.read_text())
    path.write_text(json.dumps({**table, **entries}))


def test_pictures_have_the_first_index_of_their_class(folder):
    found = read_objectnet(folder.parent)
    assert found.name == "objectnet" and len(found) == 2 * len(OVERLAPPING)
    assert [name.split("/")[0] for name in found.ids[::2]] == OVERLAPPING
    assert found.labels[::2].tolist() == [CLASSES[name].indices[0] for name in OVERLAPPING]
    assert found.labels.dtype == torch.int64 and found[0].shape == (3, 224, 224)
    assert not any("air_freshener" in name for name in found.ids)  # no class of ImageNet


def test_the_order_of_ilsvrc_is_not_that_of_the_answers(folder):
    lines = (folder / "mappings" / "imagenet_to_label_2012_v2").read_text().splitlines()
    order = json.loads((folder / "mappings" / "pytorch_to_imagenet_2012_id.json").read_text())
    banana = lines.index("banana")
    assert banana != 954 and list(order).index("954") != 954  # neither place is the index
    assert order["954"] == banana
    found = read_objectnet(folder.parent)
    assert 954 in found.labels.tolist()


def test_every_imagenet_class_of_an_object_is_right(folder):
    found = read_objectnet(folder.parent)
    place = OVERLAPPING.index("chair") * 2
    assert found.accepted[423] == (423, 559, 765)  # in the file's order
    for guess, right in {423: True, 559: True, 765: True, 424: False}.items():
        predictions = torch.full((len(found),), guess)
        assert found.right(predictions)[place].item() is right
    assert found.right(torch.full((len(found),), 954)).sum() == 2  # the bananas alone


def test_the_published_code_counts_the_first_class_alone(folder):
    found = read_objectnet(folder.parent, answers="first")
    assert torch.equal(found.labels, read_objectnet(folder.parent).labels)
    assert not found.right(torch.full((len(found),), 559)).any()
    assert found.right(torch.full((len(found),), 423)).sum() == 2


def test_the_red_border_is_cut_off_and_nothing_else(folder):
    found, published = (read_objectnet(folder.parent, border=border) for border in (1, 0))
    for place, name in enumerate(OVERLAPPING):
        digests = sorted(path.name for path in (folder / "images" / name).iterdir())
        bare, whole = found.open(2 * place), published.open(2 * place)
        assert found.ids[2 * place] == f"{name}/{digests[0]}"
        assert whole.getpixel((0, 5)) == whole.getpixel((whole.width - 1, 5)) == RED
        drawn = [np.asarray(picture(seed, CLASSES[name].indices[0])) for seed in (0, 1)]
        assert any(np.array_equal(np.asarray(bare), pixels) for pixels in drawn)
        assert np.array_equal(np.asarray(bare), np.asarray(whole)[1:-1, 1:-1])
    assert not torch.equal(found[0], published[0])


def test_a_picture_that_is_border_alone_cannot_be_read(folder):
    found = read_objectnet(folder.parent)
    Image.new("RGB", (2, 9), RED).save(folder / "images" / found.ids[3])
    with pytest.raises(UnreadableImage, match=r"objectnet: .* cannot be read \(2 x 9 pixels are"):
        found[3]
    assert read_objectnet(folder.parent, border=0)[3].shape == (3, 224, 224)


@pytest.mark.parametrize("inner", ["images", "mappings", "images/chair"])
def test_a_missing_folder_is_an_error(folder, inner):
    shutil.rmtree(folder / inner)
    with pytest.raises(FileNotFoundError, match=rf"objectnet: folder .*{inner} is missing.*unpack"):
        read_objectnet(folder.parent)


def test_a_folder_without_label_or_pictures_is_an_error(folder):
    for path in (folder / "images" / "chair").iterdir():
        path.unlink()
    with pytest.raises(ValueError, match=r"objectnet: folder .*chair has no pictures; unpack"):
        read_objectnet(folder.parent)
    (folder / "images" / "spaceship").mkdir()
    with pytest.raises(ValueError, match=r"images has the folder 'spaceship', which folder_to_o"):
        read_objectnet(folder.parent)


@pytest.mark.parametrize(
    "name",
    [
        "folder_to_objectnet_label.json",
        "objectnet_to_imagenet_1k.json",
        "pytorch_to_imagenet_2012_id.json",
        "imagenet_to_label_2012_v2",
    ],
)
def test_a_missing_or_half_mapping_is_an_error(folder, name):
    path = truncate(folder / "mappings" / name)
    with pytest.raises(ValueError, match=rf"objectnet: .*{name} .*unpack objectnet-1.0.zip again"):
        read_objectnet(folder.parent)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=rf"objectnet: file .*{name} is missing; unpack"):
        read_objectnet(folder.parent)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ("banana; bananna", r"ImageNet's name 'bananna', which is on 0 lines of imagenet_to"),
        ("crane", r"ImageNet's name 'crane', which is on 2 lines"),
        (["banana"], r"objectnet_to_imagenet_1k.json is no table from texts to str values"),
    ],
)
def test_names_that_lead_nowhere_are_errors(folder, names, text):
    change(folder / "mappings" / "objectnet_to_imagenet_1k.json", Banana=names)
    with pytest.raises(ValueError, match=text):
        read_objectnet(folder.parent)


def test_mappings_that_do_not_fit_are_errors(folder):
    overlap = folder / "mappings" / "objectnet_to_imagenet_1k.json"
    change(overlap, Banana=f"{IMAGENET_NAMES[414]}; banana")  # begins like the backpack
    with pytest.raises(ValueError, match=r"'banana' begins with ImageNet's class 414 as another"):
        read_objectnet(folder.parent)
    assert len(read_objectnet(folder.parent, answers="first")) == 2 * len(OVERLAPPING)
    change(overlap, Spaceship="banana")
    with pytest.raises(ValueError, match=r"has the label 'Spaceship', which is no folder's in"):
        read_objectnet(folder.parent)


@pytest.mark.parametrize("entries", [{"1000": 5}, {"7": 8}, {"7": 1000}])
def test_an_order_that_is_none_is_an_error(folder, entries):
    change(folder / "mappings" / "pytorch_to_imagenet_2012_id.json", **entries)
    with pytest.raises(ValueError, match=r"needed are 1000 lines and the number of a line, from 0"):
        read_objectnet(folder.parent)
