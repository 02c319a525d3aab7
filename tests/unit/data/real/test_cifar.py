"""The readers of CIFAR-10 and CIFAR-100, on replicas of what their archives unpack to."""

from __future__ import annotations

import hashlib
import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.datasets import CIFAR100

from relevit.data.labelled import to_square
from relevit.data.real.cifar import CLASSES, MD5_100, TRAIN10, read_cifar10, read_cifar100
from replicas.cifar import FINE, NAMES100, numbers, write_cifar10, write_cifar100
from replicas.pictures import Harmful

RECORD = 1 + 3 * 32 * 32
IN_A_FILE = 10

pytestmark = pytest.mark.usefixtures("no_network")


@pytest.fixture
def folder(tmp_path):
    folder = write_cifar10(tmp_path, per_class=1)
    (folder / "readme.html").write_text("<html></html>")
    return folder


def upright(planes):
    return Image.fromarray(np.ascontiguousarray(planes.transpose(1, 2, 0)))


# CIFAR-10


def test_sets_have_all_pictures_in_the_files_order(folder):
    train, test = read_cifar10(folder.parent, 32)
    assert train.classes == test.classes == CLASSES and len(CLASSES) == 10
    for images, files in ((train, range(5)), (test, [5])):
        labels, planes = zip(*(numbers(IN_A_FILE, 10, 1000 * file) for file in files), strict=True)
        assert images.labels.tolist() == np.concatenate(labels).tolist()
        found = torch.cat(list(images.batches(7)))
        assert found.dtype == torch.uint8 and np.array_equal(found.numpy(), np.concatenate(planes))


@pytest.mark.parametrize("size", [16, 56, 112])
def test_pictures_are_resized_whole(folder, size):
    _, test = read_cifar10(folder.parent, size)
    found = test.read([3, 1]).numpy()
    assert found.shape == (2, 3, size, size)
    for picture, planes in zip(found, numbers(IN_A_FILE, 10, 5000)[1][[3, 1]], strict=True):
        expected = upright(planes).resize((size, size), Image.Resampling.BICUBIC)
        difference = np.abs(picture.transpose(1, 2, 0) - np.asarray(expected, dtype=int))
        assert difference.max() <= 2 and difference.mean() < 0.1  # rounded in another way


def test_files_may_have_fewer_pictures_if_these_are_whole(folder):
    path = folder / TRAIN10[1]
    path.write_bytes(path.read_bytes()[: 2 * RECORD])
    train, _ = read_cifar10(folder.parent, 32)
    assert len(train) == 4 * IN_A_FILE + 2


@pytest.mark.parametrize("length", [0, 1, RECORD - 1, 3 * RECORD + 5])
def test_what_is_no_whole_picture_is_an_error(folder, length):
    path = folder / TRAIN10[4]
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


def test_a_size_of_nothing_is_an_error(folder):
    with pytest.raises(ValueError, match="cifar10: pictures of 0 pixels a side; ask for at least"):
        read_cifar10(folder.parent, 0)


def test_pickles_are_never_opened(tmp_path, folder):
    made, pickled = tmp_path / "made", tmp_path / "cifar-10-batches-py"
    pickled.mkdir()
    for name in ("batches.meta", "test_batch", *(name.removesuffix(".bin") for name in TRAIN10)):
        (pickled / name).write_bytes(pickle.dumps(Harmful(made)))
    assert len(read_cifar10(tmp_path, 32)[1]) == IN_A_FILE  # beside the binary version
    folder.rename(tmp_path / "elsewhere")
    text = r"has cifar-10-batches-py .*pickled and were not opened.*get cifar-10-binary.tar.gz"
    with pytest.raises(FileNotFoundError, match=text):
        read_cifar10(tmp_path, 32)
    assert not made.exists()


# CIFAR-100: pickled, or plain numbers


@pytest.fixture
def pickled(tmp_path):
    """The folder and the sums of its files, which are not the published ones."""
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    files = {"meta": {f"{kind}_label_names": names for kind, names in NAMES100.items()}}
    for number, part in enumerate(("train", "test")):
        fine, planes = numbers(FINE, FINE, 1000 * number)
        files[part] = {
            "filenames": [f"{i}.png" for i in fine],
            "batch_label": f"{part}ing batch 1 of 1",
            "fine_labels": fine.tolist(),
            "coarse_labels": (fine // 5).tolist(),
            "data": planes.reshape(FINE, -1),
        }
    for name, content in files.items():
        # Written by an old numpy, whose modules had other names.
        old = pickle.dumps(content, protocol=2).replace(b"numpy._core.", b"numpy.core.")
        (folder / name).write_bytes(old)
    return tmp_path, {n: hashlib.md5((folder / n).read_bytes()).hexdigest() for n in files}


def test_sums_are_those_that_torchvision_publishes():
    assert {
        "train": CIFAR100.train_list[0][1],
        "test": CIFAR100.test_list[0][1],
        "meta": CIFAR100.meta["md5"],
    } == MD5_100


@pytest.mark.parametrize(("labels", "classes", "last"), [("fine", 100, 99), ("coarse", 20, 19)])
def test_pickled_and_binary_cifar_are_the_same(pickled, labels, classes, last):
    root, hashes = pickled
    from_pickle = read_cifar100(root, 32, labels, hashes)
    write_cifar100(root, per_class=1)  # now it is there too, and preferred
    from_numbers = read_cifar100(root, 32, labels, hashes={})
    for one, other in zip(from_pickle, from_numbers, strict=True):
        assert len(one) == 100 and len(one.classes) == classes and one.classes == other.classes
        assert torch.equal(one.labels, other.labels) and int(one.labels[-1]) == last
        assert torch.equal(one.read(range(100)), other.read(range(100)))
    assert not torch.equal(from_pickle[0].read([0]), from_pickle[1].read([0]))


def test_cifar_pictures_are_upright(tmp_path):
    write_cifar100(tmp_path, per_class=1)
    known, _ = read_cifar100(tmp_path, 32)
    planes = numbers(FINE, FINE, 0)[1]
    assert torch.equal(known.read([3])[0], to_square(upright(planes[3]), 32))


@pytest.mark.parametrize("name", ["meta", "train", "test"])
def test_a_pickle_with_another_sum_is_never_opened(pickled, name):
    root, hashes = pickled
    made = root / "made"
    pickle.loads(pickle.dumps(Harmful(made)))
    made.rmdir()  # so it would be seen
    (root / "cifar-100-python" / name).write_bytes(pickle.dumps(Harmful(made)))
    with pytest.raises(ValueError, match=rf"{name} has MD5 .*was not opened: .*plain numbers"):
        read_cifar100(root, 28, hashes=hashes)
    assert not made.exists()


def test_only_the_published_sums_count_unless_others_are_given(pickled):
    with pytest.raises(ValueError, match=r"meta has MD5 .* published is 7973b15100ad"):
        read_cifar100(pickled[0], 28)


def test_missing_and_damaged_cifar_files_are_errors(pickled):
    root, hashes = pickled
    (root / "cifar-100-python" / "test").unlink()
    with pytest.raises(FileNotFoundError, match=r"file .*test is missing; unpack the archive"):
        read_cifar100(root, 28, hashes=hashes)
    folder = write_cifar100(root, per_class=1)
    train = folder / "train.bin"
    train.write_bytes(train.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"train.bin has 307399 bytes and .* records of 3074"):
        read_cifar100(root, 28)
    train.write_bytes(b"\0\144" + bytes(3072))
    with pytest.raises(ValueError, match=r"has 3074 bytes and .*100 names; .*name for each label"):
        read_cifar100(root, 28)
    (folder / "fine_label_names.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"fine_label_names.txt is missing"):
        read_cifar100(root, 28)
