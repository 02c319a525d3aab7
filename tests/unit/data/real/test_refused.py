"""What readers refuse at the file door, and how they say it: one table of wrong inputs."""

import pickle
import re
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image

from habitats.real.catalogue import CATALOGUE
from habitats.real.imagenet_s import class_numbers
from relevit.data.image_set import UnreadableImage
from relevit.models.spec import View
from replicas import WRITERS
from replicas.folders import FOLDERS
from replicas.imagenet_s import write_numbers
from replicas.pictures import Harmful, truncate

VIEW = View(resize=48, crop=32)
KNOWN = [key for key in FOLDERS if CATALOGUE[key].calls[0].get("names") != "own"]
pytestmark = pytest.mark.usefixtures("no_network")


@pytest.mark.parametrize("key", WRITERS)
def test_a_missing_set_is_told_with_what_to_get(tmp_path, key):
    archives = " and ".join(CATALOGUE[key].archives)
    with pytest.raises(
        FileNotFoundError, match=rf"^{key}: {tmp_path}/.* is missing; unpack {re.escape(archives)}"
    ):
        CATALOGUE[key].read(tmp_path)


def empty(folder):
    shutil.rmtree(folder)
    folder.mkdir(parents=True)


def without_pictures(folder):
    for path in next(path for path in sorted(folder.glob("[!.]*/"))).iterdir():
        path.rename(path.with_suffix(".part"))  # a download that broke off


@pytest.mark.parametrize("key", [*KNOWN, "objectnet", "imagenet_s"])
@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (empty, r"has no class folder; needed are folders like '.*': unpack .* again, and sort"),
        (lambda folder: (folder / "cats").mkdir(), r"has the folder 'cats', .* move it away, or"),
        (without_pictures, r"Found no valid file for the classes \S+\. unpack .* again"),
    ],
)
def test_class_folders_that_are_none(tmp_path, key, spoil, text):
    WRITERS[key](tmp_path)
    folder = tmp_path / CATALOGUE[key].folders[-1 if key == "si_location" else 0]
    folder = {"objectnet": folder / "images", "pneumonia": folder / "train"}.get(key, folder)
    spoil(folder)
    with pytest.raises((ValueError, FileNotFoundError), match=rf"{key}: .*({text}|is missing in)"):
        CATALOGUE[key].read(tmp_path)


def holding(content):
    return lambda path: path.write_bytes(content)


def shorter(path):
    with h5py.File(path, "r+") as file:
        column = file["value/gt"][:-1]
        del file["value/gt"]
        file["value/gt"] = column


CIFAR, CIFAR_AGAIN = "cifar-10-batches-py/data_batch_3", "-python.tar.gz again"
MAPPINGS, ZIP = "objectnet-1.0/mappings/", "objectnet-1.0.zip again"
TO_IMAGENET, ORDER = f"{MAPPINGS}objectnet_to_imagenet_1k.json", "imagenet_to_label_2012_v2"
LABELS, GTSEGS = "folder_to_objectnet_label.json", "needed is a MATLAB 7.3 file with"
FILES = [
    (CIFAR, truncate, f"data_batch_3 is not as published.*{CIFAR_AGAIN}"),
    (CIFAR, holding(b"<html>404</html>"), f"data_batch_3 is not as published.*{CIFAR_AGAIN}"),
    (CIFAR, holding(pickle.dumps({"data": []})), rf"is not as .* \('labels.*{CIFAR_AGAIN}"),
    (CIFAR, Path.unlink, "data_batch_3 is missing; unpack"),
    (TO_IMAGENET, holding(b'{"Banana": "bananna"}'), f"'bananna' is on 0 lines of.*{ZIP}"),
    (TO_IMAGENET, holding(b'{"Banana": "crane"}'), f"'crane' is on 2 lines.*{ZIP}"),
    (MAPPINGS + LABELS, holding(b'{"chair": "Ch'), f"{LABELS}: .*{ZIP}"),
    (MAPPINGS + ORDER, holding(b"tench\n"), f"list index out of range.*{ZIP}"),
    (MAPPINGS + ORDER, Path.unlink, f"mappings does not lead .*{ORDER}.*{ZIP}"),
    ("gtsegs_ijcv.mat", truncate, GTSEGS),
    ("gtsegs_ijcv.mat", holding(b"<html>404</html>"), f"16 bytes.*{GTSEGS}"),
    ("gtsegs_ijcv.mat", shorter, f"6 images, 5 masks, 6 targets.*{GTSEGS}"),
]


@pytest.mark.parametrize(("name", "spoil", "text"), FILES, ids=range(len(FILES)))
def test_files_that_are_none(tmp_path, name, spoil, text):
    key = {"c": "cifar10", "o": "objectnet", "g": "gtsegs"}[name[0]]
    WRITERS[key](tmp_path)
    spoil(tmp_path / name)
    with pytest.raises((ValueError, FileNotFoundError), match=rf"^{key}: .*{text}"):
        CATALOGUE[key].read(tmp_path)


def test_a_pickle_is_read_and_never_run(tmp_path):
    WRITERS["cifar100"](tmp_path)
    made, path = tmp_path / "made", tmp_path / "cifar-100-python" / "train"
    pickle.loads(pickle.dumps(Harmful(made)))
    made.rmdir()  # so it would be seen
    path.write_bytes(pickle.dumps(Harmful(made)))
    with pytest.raises(ValueError, match=r"train is not as published \(it would run posix.mkdir\)"):
        CATALOGUE["cifar100"].read(tmp_path)
    assert not made.exists()


def swapped(numbers):
    """As OpenCV writes it back: blue and red change places."""
    return np.stack([0 * numbers, numbers // 256, numbers % 256], axis=-1)


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda n: np.where(n == 1, 0, n), r"no pixel of its class, 1; it has \[0, 1000\]"),
        (lambda n: np.where(n == 1, 920, n), r"pixels of the mask are no class, such as 920"),
        (lambda n: n[:-1], r"the mask has \d+ x \d+ pixels, the picture"),
        (lambda n: swapped(n).astype(np.uint8), r"pixels of the mask are no class"),
        (lambda n: (n % 256).astype(np.uint8), r"has mode L; needed are the numbers in RGB"),
    ],
)
def test_masks_that_do_not_fit(tmp_path, spoil, text):
    WRITERS["imagenet_s"](tmp_path)
    found = CATALOGUE["imagenet_s"].read(tmp_path, VIEW)
    place = tmp_path / "ImageNetS919" / "train-semi-segmentation" / found.ids[1]
    path = place.with_suffix(".png")
    spoilt = spoil(class_numbers(Image.open(path)))
    Image.fromarray(spoilt).save(path) if spoilt.dtype == np.uint8 else write_numbers(spoilt, path)
    whole = rf"imagenet_s: the mask of {found.ids[1]} cannot be read \(.*{text}.*; unpack it again"
    with pytest.raises(UnreadableImage, match=whole):
        found.read([1])
    assert len(found.read([0, 2])) == 2
