"""CIFAR-10 and CIFAR-100 as they come: binary files, which are plain numbers, and no pickle.

Source: IAV Sec. V finetunes and tests on CIFAR-10, RobustViT supp. M uses CIFAR-100 for k-NN;
Krizhevsky 2009. Nothing is downloaded. torchvision's readers open the pickled versions alone.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2.functional import resize

from relevit.data.labelled import Labelled, to_square
from relevit.data.real.image_set import need_file, need_folder

Labels = Literal["fine", "coarse"]
Planes = UInt8[np.ndarray, "images 3 32 32"]
SIDE = 32  # pixels of a picture
PLANES = 3 * SIDE**2  # bytes: its red, green and blue plane, row by row
FOLDER10 = "cifar-10-batches-bin"
PICKLED10 = "cifar-10-batches-py"
ARCHIVE10 = "cifar-10-binary.tar.gz"
TRAIN10 = tuple(f"data_batch_{number}.bin" for number in range(1, 6))  # 10,000 pictures each
TEST10 = ("test_batch.bin",)  # 10,000 pictures
NAMES10 = "batches.meta.txt"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
FOLDER100 = "cifar-100-binary"
PICKLED100 = "cifar-100-python"
# MD5 of the files in cifar-100-python.tar.gz, as torchvision publishes them.
MD5_100 = {
    "train": "16019d7e3df5f24257cddd939b257f8d",
    "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
    "meta": "7973b15100ade9c7d40fb424638fde48",
}


def read_cifar10(root: Path, size: int) -> tuple[Labelled, Labelled]:
    """CIFAR-10: the training set (50,000 pictures as published) and the test set (10,000).

    `root` holds `cifar-10-batches-bin`, which cifar-10-binary.tar.gz unpacks to. Whole pictures
    are enlarged to `size` pixels a side, bicubic, when they are read: IAV does not say how.
    The middle alone, as real pictures are cut elsewhere, would lose the border of these small ones.
    Files with fewer pictures are read too, if these are whole: the sets' lengths tell how many. A
    copy that broke off nearly always ends inside a picture, and is refused.
    Raises: FileNotFoundError when the folder or a file is missing, or only pickled files are
    there; ValueError for other class names, a label without one, a file that is not made of
    whole pictures, or a size below 1.
    """
    folder = root / FOLDER10
    if not folder.is_dir() and (root / PICKLED10).is_dir():
        raise FileNotFoundError(
            f"cifar10: {root} has {PICKLED10} and not {FOLDER10}; files of the first are pickled "
            f"and were not opened, as a pickle can run any program: get {ARCHIVE10}, the binary "
            "version, and unpack it there"
        )
    need_folder("cifar10", folder, f"unpack {ARCHIVE10} there")
    if size < 1:
        raise ValueError(f"cifar10: pictures of {size} pixels a side; ask for at least 1")
    _need_files("cifar10", [folder / name for name in (NAMES10, *TRAIN10, *TEST10)])
    found = tuple((folder / NAMES10).read_text(encoding="utf-8").split())
    if found != CLASSES:
        raise ValueError(
            f"cifar10: {folder / NAMES10} has {len(found)} names, {found[:10]}; needed are the ten "
            f"of CIFAR-10, {CLASSES}: unpack {ARCHIVE10} again"
        )
    train, test = (
        _read_files10([folder / name for name in part], size) for part in (TRAIN10, TEST10)
    )
    return train, test


def _read_files10(paths: Sequence[Path], size: int) -> Labelled:
    """The pictures of the files, one file after the other."""
    parts = [
        _read_records("cifar10", path, CLASSES, NAMES10, label_bytes=1, column=0) for path in paths
    ]
    pixels = np.concatenate([planes for _, planes in parts])

    def read(wanted: Sequence[int]) -> UInt8[Tensor, "batch 3 size size"]:
        pictures = torch.from_numpy(pixels[list(wanted)])
        return resize(pictures, [size, size], InterpolationMode.BICUBIC, antialias=True)

    labels = torch.tensor([label for found, _ in parts for label in found])
    return Labelled("cifar10", CLASSES, labels, read)


def read_cifar100(
    root: Path, size: int, labels: Labels = "fine", hashes: Mapping[str, str] = MD5_100
) -> tuple[Labelled, Labelled]:
    """CIFAR-100: the training (known) and the test set (asked).

    `labels` are the 100 classes (`fine`) or the 20 superclasses (`coarse`); the paper says
    "20 classes" of a set that has 100, so that either may be meant.
    `root` holds `cifar-100-binary`, which is plain numbers and is preferred, or
    `cifar-100-python`, which is pickled. A pickle can run any program: a pickled file is opened
    only when its MD5 is the published one, which torchvision's reader demands too. Here the
    bytes that were summed are the bytes that are read, and it has the superclasses.
    `hashes` are those sums by file name; tests put their own in.
    Raises: FileNotFoundError when neither is there or a file is missing, ValueError for a file
    that is damaged or not the published one.
    """
    if (root / FOLDER100).is_dir():
        known, asked = _read_binary100(root / FOLDER100, size, labels)
        return known, asked
    folder = root / PICKLED100
    need_folder("cifar100", folder, "unpack cifar-100-binary.tar.gz there")
    meta, *parts = (_unpickle(folder / n, hashes[n]) for n in ("meta", "train", "test"))
    known, asked = (
        _cut_to_squares(
            meta[f"{labels}_label_names"],
            part[f"{labels}_labels"],
            part["data"].reshape(-1, 3, SIDE, SIDE),
            size,
        )
        for part in parts
    )
    return known, asked


def _read_binary100(folder: Path, size: int, labels: Labels) -> list[Labelled]:
    names, *files = (folder / n for n in (f"{labels}_label_names.txt", "train.bin", "test.bin"))
    _need_files("cifar100", [names, *files])
    classes, sets = names.read_text(encoding="utf-8").split(), []
    for path in files:
        column = ("coarse", "fine").index(labels)  # superclass, class
        found = _read_records("cifar100", path, classes, names.name, label_bytes=2, column=column)
        sets.append(_cut_to_squares(classes, *found, size))
    return sets


def _unpickle(path: Path, published: str) -> dict[str, Any]:
    """Open a pickled file, if its MD5 is the published one."""
    _need_files("cifar100", [path])
    content = path.read_bytes()
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != published:
        raise ValueError(
            f"cifar100: {path} has MD5 {found[:12]}..., published is {published[:12]}...; it is "
            "pickled and was not opened: unpack cifar-100-python.tar.gz again, or put "
            "cifar-100-binary beside it, which holds plain numbers"
        )
    return pickle.loads(content, encoding="latin1")


def _cut_to_squares(
    classes: Sequence[str], labels: list[int], pixels: Planes, size: int
) -> Labelled:
    def read(wanted: Sequence[int]) -> Tensor:
        upright = (np.ascontiguousarray(pixels[i].transpose(1, 2, 0)) for i in wanted)
        return torch.stack([to_square(Image.fromarray(picture), size) for picture in upright])

    return Labelled("cifar100", tuple(classes), torch.tensor(labels), read)


def _read_records(
    name: str, path: Path, classes: Sequence[str], names: str, *, label_bytes: int, column: int
) -> tuple[list[int], Planes]:
    """Labels and planes of one file; a record has `label_bytes` before its planes.

    `column` is the label to take among these bytes, `names` the file of the classes' names.
    Raises: ValueError when the file is empty or not made of whole records, or a label has no name.
    """
    numbers = np.fromfile(path, dtype=np.uint8)
    record = label_bytes + PLANES
    whole = len(numbers) > 0 and len(numbers) % record == 0
    records = numbers.reshape(-1, record) if whole else numbers
    if not whole or records[:, column].max() >= len(classes):
        archive = f"cifar-{name.removeprefix('cifar')}-binary.tar.gz"
        raise ValueError(
            f"{name}: {path} has {len(numbers)} bytes and {names} {len(classes)} names; it needs "
            f"records of {record} bytes and a name for each label: unpack {archive} again"
        )
    planes = records[:, label_bytes:].reshape(-1, 3, SIDE, SIDE)
    return records[:, column].tolist(), planes


def _need_files(name: str, paths: Sequence[Path]) -> None:
    for path in paths:
        need_file(name, path, "unpack the archive again")
