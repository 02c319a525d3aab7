"""CIFAR-10 as it comes, from its binary version: plain numbers, and never a pickle.

Source: IAV Sec. V finetunes and tests on CIFAR-10; Krizhevsky 2009. Nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2.functional import resize

from relevit.data.labelled import Labelled
from relevit.data.real.cifar import SIDE, need_files, read_records

NAME = "cifar10"
FOLDER = "cifar-10-batches-bin"
PICKLED = "cifar-10-batches-py"
ARCHIVE = "cifar-10-binary.tar.gz"
TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))  # 10,000 pictures each
TEST = ("test_batch.bin",)  # 10,000 pictures
NAMES = "batches.meta.txt"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


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
    folder = root / FOLDER
    _need_folder(root)
    if size < 1:
        raise ValueError(f"{NAME}: pictures of {size} pixels a side; ask for at least 1")
    need_files(NAME, [folder / name for name in (NAMES, *TRAIN, *TEST)])
    found = tuple((folder / NAMES).read_text().split())
    if found != CLASSES:
        raise ValueError(
            f"{NAME}: {folder / NAMES} has {len(found)} names, {found[:10]}; needed are the ten "
            f"of CIFAR-10, {CLASSES}: unpack {ARCHIVE} again"
        )
    train, test = (_read_files([folder / name for name in part], size) for part in (TRAIN, TEST))
    return train, test


def _need_folder(root: Path) -> None:
    if (root / FOLDER).is_dir():
        return
    if (root / PICKLED).is_dir():
        raise FileNotFoundError(
            f"{NAME}: {root} has {PICKLED} and not {FOLDER}; files of the first are pickled and "
            f"were not opened, as a pickle can run any program: get {ARCHIVE}, the binary "
            "version, and unpack it there"
        )
    raise FileNotFoundError(f"{NAME}: folder {root / FOLDER} is missing; unpack {ARCHIVE} there")


def _read_files(paths: Sequence[Path], size: int) -> Labelled:
    """The pictures of the files, one file after the other."""
    parts = [
        read_records(NAME, path, path.parent / NAMES, label_bytes=1, column=0, archive=ARCHIVE)
        for path in paths
    ]
    labels = torch.tensor([label for _, found, _ in parts for label in found])
    pixels = np.concatenate([planes for _, _, planes in parts]).reshape(-1, 3, SIDE, SIDE)

    def read(wanted: Sequence[int]) -> UInt8[Tensor, "batch 3 size size"]:
        pictures = torch.from_numpy(pixels[list(wanted)])
        return resize(pictures, [size, size], InterpolationMode.BICUBIC, antialias=True)

    return Labelled(NAME, CLASSES, labels, read)
