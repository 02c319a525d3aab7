"""The reader of CIFAR-10, on a small replica of what cifar-10-binary.tar.gz unpacks to."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from relevit.data.real.cifar import CLASSES, read_cifar10

RECORD = 1 + 3 * 32 * 32
IN_A_FILE = 12
TRAIN = [f"data_batch_{number}.bin" for number in range(1, 6)]

pytestmark = pytest.mark.usefixtures("no_network")


def numbers_of(seed: int, count: int = IN_A_FILE):
    """Labels in another order for each file, and planes."""
    random = np.random.default_rng(seed)
    labels = random.permutation(np.arange(count) % 10).astype(np.uint8)
    return labels, random.integers(256, size=(count, 3, 32, 32), dtype=np.uint8)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    (folder / "batches.meta.txt").write_text("\n".join(CLASSES) + "\n\n")
    (folder / "readme.html").write_text("<html></html>")
    for seed, name in enumerate([*TRAIN, "test_batch.bin"]):
        labels, planes = numbers_of(seed)
        records = np.column_stack([labels, planes.reshape(IN_A_FILE, -1)])
        assert records.shape[1] == RECORD
        (folder / name).write_bytes(records.tobytes())
    return folder


def test_sets_have_all_pictures_in_the_files_order(folder):
    train, test = read_cifar10(folder.parent, 32)
    assert len(train) == 5 * IN_A_FILE and len(test) == IN_A_FILE
    assert train.classes == test.classes == CLASSES and len(CLASSES) == 10
    labels = np.concatenate([numbers_of(seed)[0] for seed in range(5)])
    assert train.labels.tolist() == labels.tolist()
    assert test.labels.tolist() == numbers_of(5)[0].tolist()
    planes = np.concatenate([numbers_of(seed)[1] for seed in range(5)])
    found = torch.cat(list(train.batches(7)))
    assert found.dtype == torch.uint8 and np.array_equal(found.numpy(), planes)


def test_a_sample_has_its_own_labels(folder):
    train, _ = read_cifar10(folder.parent, 32)
    some = train.sample(9, seed=1)
    planes, labels = train.read(range(len(train))), train.labels
    for picture, label in zip(some.read(range(9)), some.labels, strict=True):
        (place,) = (planes == picture).flatten(1).all(dim=1).nonzero()[:, 0]
        assert labels[place] == label


@pytest.mark.parametrize("size", [16, 56, 112])
def test_pictures_are_resized_whole(folder, size):
    _, test = read_cifar10(folder.parent, size)
    found = test.read([3, 1]).numpy()
    assert found.shape == (2, 3, size, size)
    for picture, planes in zip(found, numbers_of(5)[1][[3, 1]], strict=True):
        image = Image.fromarray(np.ascontiguousarray(planes.transpose(1, 2, 0)))
        expected = np.asarray(image.resize((size, size), Image.Resampling.BICUBIC), dtype=int)
        difference = np.abs(picture.transpose(1, 2, 0) - expected)
        assert difference.max() <= 2 and difference.mean() < 0.1  # rounded in another way


def test_files_may_have_fewer_pictures_if_these_are_whole(folder):
    path = folder / TRAIN[1]
    path.write_bytes(path.read_bytes()[: 2 * RECORD])
    train, _ = read_cifar10(folder.parent, 32)
    assert len(train) == 4 * IN_A_FILE + 2


@pytest.mark.parametrize("length", [0, 1, RECORD - 1, 3 * RECORD + 5])
def test_what_is_no_whole_picture_is_an_error(folder, length):
    path = folder / TRAIN[4]
    path.write_bytes(path.read_bytes()[:length])
    text = (
        rf"cifar10: .*data_batch_5.bin has {length} bytes .*records of 3073 bytes .*binary.tar.gz"
    )
    with pytest.raises(ValueError, match=text):
        read_cifar10(folder.parent, 32)


def test_a_label_without_a_name_is_an_error(folder):
    path = folder / "test_batch.bin"
    path.write_bytes(bytes([10]) + path.read_bytes()[1:])
    with pytest.raises(ValueError, match=r"test_batch.bin .*10 names; .*a name for each label"):
        read_cifar10(folder.parent, 32)


@pytest.mark.parametrize("names", [CLASSES[:9], CLASSES[::-1], (*CLASSES, "whale"), ()])
def test_other_names_are_an_error(folder, names):
    (folder / "batches.meta.txt").write_text("\n".join(names))
    text = rf"batches.meta.txt has {len(names)} names, .*needed are the ten of CIFAR-10, \('airpl"
    with pytest.raises(ValueError, match=text):
        read_cifar10(folder.parent, 32)


@pytest.mark.parametrize("name", ["batches.meta.txt", "data_batch_3.bin", "test_batch.bin"])
def test_a_missing_file_is_an_error(folder, name):
    (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=rf"cifar10: file .*{name} is missing; unpack the"):
        read_cifar10(folder.parent, 32)


def test_a_missing_folder_and_a_size_of_nothing_are_errors(folder):
    with pytest.raises(ValueError, match="cifar10: pictures of 0 pixels a side; ask for at least"):
        read_cifar10(folder.parent, 0)
    text = r"folder .*cifar-10-batches-bin is missing; unpack cifar-10-binary.tar.gz there"
    with pytest.raises(FileNotFoundError, match=text):
        read_cifar10(folder, 32)


class Harmful:
    """A pickle that makes a folder when it is opened."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


def test_pickles_are_never_opened(tmp_path, folder):
    made, pickled = tmp_path / "made", tmp_path / "cifar-10-batches-py"
    pickled.mkdir()
    for name in ("batches.meta", "test_batch", *(name.removesuffix(".bin") for name in TRAIN)):
        (pickled / name).write_bytes(pickle.dumps(Harmful(made)))
    assert len(read_cifar10(tmp_path, 32)[1]) == IN_A_FILE  # beside the binary version
    folder.rename(tmp_path / "elsewhere")
    text = r"has cifar-10-batches-py .*pickled and were not opened.*get cifar-10-binary.tar.gz"
    with pytest.raises(FileNotFoundError, match=text):
        read_cifar10(tmp_path, 32)
    assert not made.exists()
