"""What readers refuse at the file door, and how they say it: one table of wrong inputs."""

import pickle
import re
import shutil

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


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (truncate, "is not as published"),
        (lambda path: path.write_bytes(b"<html>404</html>"), "is not as published"),
        (lambda path: path.write_bytes(pickle.dumps({"data": []})), "is not as .* \\('labels"),
    ],
)
def test_files_of_cifar_that_are_none(tmp_path, spoil, text):
    WRITERS["cifar10"](tmp_path)
    path = tmp_path / "cifar-10-batches-py" / "data_batch_3"
    spoil(path)
    with pytest.raises(ValueError, match=rf"cifar10: .*data_batch_3 {text}.*-python.tar.gz again"):
        CATALOGUE["cifar10"].read(tmp_path)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"cifar10: .*data_batch_3 is missing; unpack"):
        CATALOGUE["cifar10"].read(tmp_path)


def test_a_pickle_is_read_and_never_run(tmp_path):
    WRITERS["cifar100"](tmp_path)
    made, path = tmp_path / "made", tmp_path / "cifar-100-python" / "train"
    pickle.loads(pickle.dumps(Harmful(made)))
    made.rmdir()  # so it would be seen
    path.write_bytes(pickle.dumps(Harmful(made)))
    with pytest.raises(ValueError, match=r"train is not as published \(it would run posix.mkdir\)"):
        CATALOGUE["cifar100"].read(tmp_path)
    assert not made.exists()


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("objectnet_to_imagenet_1k.json", '{"Banana": "bananna"}', "'bananna' is on 0 lines of"),
        ("objectnet_to_imagenet_1k.json", '{"Banana": "crane"}', "'crane' is on 2 lines"),
        ("folder_to_objectnet_label.json", '{"chair": "Ch', "folder_to_objectnet_label.json: "),
        ("imagenet_to_label_2012_v2", "tench\n", "list index out of range"),
        ("imagenet_to_label_2012_v2", None, "imagenet_to_label_2012_v2"),
    ],
)
def test_mappings_that_lead_nowhere(tmp_path, name, content, text):
    WRITERS["objectnet"](tmp_path)
    path = tmp_path / "objectnet-1.0" / "mappings" / name
    path.unlink() if content is None else path.write_text(content)
    text = rf"objectnet: .*mappings does not lead .*{text}.*; unpack objectnet-1.0.zip again"
    with pytest.raises(ValueError, match=text):
        CATALOGUE["objectnet"].read(tmp_path)


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


def change(path, field, place, values):
    """Put another array in the place of a picture, of a mask, or of a target."""
    with h5py.File(path, "r+") as file:
        new = file["#refs#"].create_dataset(f"new_{field}_{place}", data=values)
        column = file[f"value/{field}"]
        if field == "gt":  # a cell around it
            column, place = file[column[place, 0]], 0
        column[place, 0] = new.ref


def shorter(path):
    with h5py.File(path, "r+") as file:
        column = file["value/gt"][:-1]
        del file["value/gt"]
        file["value/gt"] = column


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (truncate, ""),
        (lambda path: path.write_bytes(b"<html>404</html>"), "16 bytes"),
        (shorter, "6 images, 5 masks, 6 targets"),
    ],
)
def test_a_file_that_is_no_gtsegs(tmp_path, spoil, text):
    WRITERS["gtsegs"](tmp_path)
    spoil(tmp_path / "gtsegs_ijcv.mat")
    with pytest.raises(ValueError, match=rf"gtsegs: .*{text}.*needed is a MATLAB 7.3 file with"):
        CATALOGUE["gtsegs"].read(tmp_path)
