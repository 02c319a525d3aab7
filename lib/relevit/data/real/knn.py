"""The paper's three data sets for k-NN, as they come: iNat2021 mini, chest X-rays, CIFAR-100.

Source: RobustViT supp. M. Nothing is downloaded; each reader takes the folder to which the
published archives were unpacked. Pictures are cut to a square as for ImageNet at 224 px: the
shorter side to 256/224 of the wanted one, then the middle (the paper is silent on this).
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor
from torchvision.datasets import ImageFolder, INaturalist, VisionDataset
from torchvision.datasets.folder import IMG_EXTENSIONS

from relevit.base.paths import from_project
from relevit.data.labelled import Labelled
from relevit.data.real.cifar import need_files, read_records

CifarLabels = Literal["fine", "coarse"]
RESIZED = 256 / 224  # of the side that is kept
XRAY_CLASSES = ["NORMAL", "PNEUMONIA"]
# MD5 of the files in cifar-100-python.tar.gz, as torchvision publishes them.
CIFAR_MD5 = {
    "train": "16019d7e3df5f24257cddd939b257f8d",
    "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
    "meta": "7973b15100ade9c7d40fb424638fde48",
}


def read_inat2021_mini(root: Path, size: int) -> tuple[Labelled, Labelled]:
    """iNaturalist 2021: the mini training set (known) and the validation set (asked).

    `root` holds `2021_train_mini` and `2021_valid` with a folder for each of the 10,000
    species, the names that torchvision's reader uses.
    Raises: FileNotFoundError when a folder is missing, ValueError when its content is not
    iNaturalist's or the two have other species.
    """
    folders = [root / "2021_train_mini", root / "2021_valid"]
    _need_folders(
        "inat2021_mini", folders, "the archives unpack to train_mini and val: rename these two"
    )
    sets = [_inat(root, folder.name) for folder in folders]
    if sets[0].all_categories != sets[1].all_categories:
        raise ValueError(
            f"inat2021_mini: {folders[0]} and {folders[1]} have folders of other species; "
            "unpack both archives whole"
        )
    known, asked = (
        _from_dataset("inat2021_mini", data.all_categories, [y for y, _ in data.index], data, size)
        for data in sets
    )
    return known, asked


def _inat(root: Path, version: str) -> INaturalist:
    try:
        data = INaturalist(str(root), version)
    except (RuntimeError, NotADirectoryError) as error:  # a folder or file of another kind
        raise ValueError(
            f"inat2021_mini: {root / version} is not as published ({error}); it needs one folder "
            "a species, like 00000_Animalia_..., and nothing else"
        ) from error
    data.index.sort()  # torchvision lists files in the disk's order
    return data


def read_pneumonia(root: Path, size: int) -> tuple[Labelled, Labelled]:
    """Chest X-rays (Kermany et al. 2018): `train` (known) and `test` (asked), two classes.

    `root` holds `train` and `test`, or `chest_xray` with both, each with the folders NORMAL
    and PNEUMONIA. Hidden files, which the published archive has too, are left out.
    Raises: FileNotFoundError when a folder is missing or has no image, ValueError for other
    classes.
    """
    base = root / "chest_xray" if (root / "chest_xray").is_dir() else root
    folders = [base / "train", base / "test"]
    _need_folders("pneumonia", folders, "unpack chest_xray there")
    sets = []
    for folder in folders:
        found = sorted(path.name for path in folder.iterdir() if path.is_dir())
        if found != XRAY_CLASSES:
            raise ValueError(
                f"pneumonia: {folder} has the folders {found[:5]}; it needs {XRAY_CLASSES} and no "
                "other: unpack chest_xray again"
            )
        data = ImageFolder(str(folder), is_valid_file=_is_picture)
        sets.append(_from_dataset("pneumonia", data.classes, data.targets, data, size))
    return sets[0], sets[1]


def _is_picture(path: str) -> bool:
    name = Path(path).name.lower()
    return name.endswith(IMG_EXTENSIONS) and not name.startswith(".")


def read_cifar100(
    root: Path, size: int, labels: CifarLabels = "fine", hashes: Mapping[str, str] = CIFAR_MD5
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
    if (root / "cifar-100-binary").is_dir():
        return _cifar_binary(root / "cifar-100-binary", size, labels)
    folder = root / "cifar-100-python"
    _need_folders("cifar100", [folder], "unpack cifar-100-binary.tar.gz there")
    meta, *parts = (_unpickle(folder / n, hashes[n]) for n in ("meta", "train", "test"))
    known, asked = (
        _from_arrays(
            meta[f"{labels}_label_names"], part[f"{labels}_labels"], _upright(part["data"]), size
        )
        for part in parts
    )
    return known, asked


def _unpickle(path: Path, published: str) -> dict[str, Any]:
    """Open a pickled file, if its MD5 is the published one."""
    need_files("cifar100", [path])
    content = path.read_bytes()
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != published:
        raise ValueError(
            f"cifar100: {path} has MD5 {found[:12]}..., published is {published[:12]}...; it is "
            "pickled and was not opened: unpack cifar-100-python.tar.gz again, or put "
            "cifar-100-binary beside it, which holds plain numbers"
        )
    return pickle.loads(content, encoding="latin1")


def _cifar_binary(folder: Path, size: int, labels: CifarLabels) -> tuple[Labelled, Labelled]:
    names, *files = (folder / n for n in (f"{labels}_label_names.txt", "train.bin", "test.bin"))
    need_files("cifar100", [names, *files])
    sets = []
    for path in files:
        classes, found, planes = read_records(
            "cifar100",
            path,
            names,
            label_bytes=2,  # superclass, class
            column=("coarse", "fine").index(labels),
            archive="cifar-100-binary.tar.gz",
        )
        sets.append(_from_arrays(classes, found, _upright(planes), size))
    return sets[0], sets[1]


def _upright(flat: np.ndarray) -> UInt8[np.ndarray, "images 32 32 3"]:
    return flat.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


READERS: dict[str, Callable[[Path, int], tuple[Labelled, Labelled]]] = {
    "inat2021_mini": read_inat2021_mini,
    "pneumonia": read_pneumonia,
    "cifar100": read_cifar100,
    "cifar100_coarse": partial(read_cifar100, labels="coarse"),
}


def read_real(data: str, data_root: str, size: int) -> tuple[Labelled, Labelled]:
    """Pictures with known classes, and pictures to classify, of one of READERS.

    Raises: ValueError for an unknown set or no `data_root`, FileNotFoundError when the folder
    is not there; further as the readers.
    """
    if data not in READERS:
        raise ValueError(f"read_real: data {data!r} is unknown; use one of {tuple(READERS)}")
    if not data_root:
        raise ValueError(
            f"read_real: data {data!r} without data_root; give the folder that the data set was "
            "unpacked to, or use data='cutouts', which needs none"
        )
    root = from_project(data_root)
    _need_folders(data, [root], "give the folder that the data set was unpacked to as data_root")
    return READERS[data](root, size)


def to_square(picture: Image.Image, size: int) -> UInt8[Tensor, "3 size size"]:
    """The middle of a picture as RGB, `size` pixels a side, after resizing (bicubic)."""
    picture = picture.convert("RGB")
    scale = RESIZED * size / min(picture.size)
    width, height = (max(size, round(side * scale)) for side in picture.size)
    picture = picture.resize((width, height), Image.Resampling.BICUBIC)
    left, top = (width - size) // 2, (height - size) // 2
    square = picture.crop((left, top, left + size, top + size))
    return torch.from_numpy(np.array(square)).permute(2, 0, 1)


def _from_dataset(
    name: str, classes: Sequence[str], labels: list[int], data: VisionDataset, size: int
) -> Labelled:
    if not labels:
        raise ValueError(f"{name}: {data.root} has no images; unpack the archive again")

    def read(wanted: Sequence[int]) -> Tensor:
        with ThreadPoolExecutor() as pool:  # decoding JPEG lets go of the interpreter
            return torch.stack(list(pool.map(lambda i: to_square(data[i][0], size), wanted)))

    return Labelled(name, tuple(classes), torch.tensor(labels), read)


def _from_arrays(
    classes: Sequence[str],
    labels: list[int],
    pixels: UInt8[np.ndarray, "images 32 32 3"],
    size: int,
) -> Labelled:
    def read(wanted: Sequence[int]) -> Tensor:
        pictures = (np.ascontiguousarray(pixels[i]) for i in wanted)
        return torch.stack([to_square(Image.fromarray(picture), size) for picture in pictures])

    return Labelled("cifar100", tuple(classes), torch.tensor(labels), read)


def _need_folders(name: str, folders: Sequence[Path], what_to_do: str) -> None:
    for folder in folders:
        if not folder.is_dir():
            raise FileNotFoundError(f"{name}: folder {folder} is missing; {what_to_do}")
