"""The paper's three data sets for k-NN, as they come: iNat2021 mini, chest X-rays, CIFAR-100.

Source: RobustViT supp. M. Nothing is downloaded; each reader takes the folder to which the
published archives were unpacked. Pictures are cut to a square as for ImageNet at 224 px
(`relevit.data.labelled.to_square`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torchvision.datasets import ImageFolder, INaturalist, VisionDataset

from relevit.base.files import from_project
from relevit.data.labelled import Labelled, to_square
from relevit.data.real.cifar import read_cifar100
from relevit.data.real.image_set import is_picture, need_folder

XRAY_CLASSES = ["NORMAL", "PNEUMONIA"]


def read_inat2021_mini(root: Path, size: int) -> tuple[Labelled, Labelled]:
    """iNaturalist 2021: the mini training set (known) and the validation set (asked).

    `root` holds `2021_train_mini` and `2021_valid` with a folder for each of the 10,000
    species, the names that torchvision's reader uses.
    Raises: FileNotFoundError when a folder is missing, ValueError when its content is not
    iNaturalist's or the two have other species.
    """
    folders = [root / "2021_train_mini", root / "2021_valid"]
    for folder in folders:
        remedy = "the archives unpack to train_mini and val: rename these two"
        need_folder("inat2021_mini", folder, remedy)
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
    for folder in folders:
        need_folder("pneumonia", folder, "unpack chest_xray there")
    sets = []
    for folder in folders:
        found = sorted(path.name for path in folder.iterdir() if path.is_dir())
        if found != XRAY_CLASSES:
            raise ValueError(
                f"pneumonia: {folder} has the folders {found[:5]}; it needs {XRAY_CLASSES} and no "
                "other: unpack chest_xray again"
            )
        data = ImageFolder(str(folder), is_valid_file=lambda path: is_picture(Path(path).name))
        sets.append(_from_dataset("pneumonia", data.classes, data.targets, data, size))
    return sets[0], sets[1]


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
    need_folder(data, root, "give the folder that the data set was unpacked to as data_root")
    return READERS[data](root, size)


def _from_dataset(
    name: str, classes: Sequence[str], labels: list[int], data: VisionDataset, size: int
) -> Labelled:
    if not labels:
        raise ValueError(f"{name}: {data.root} has no images; unpack the archive again")

    def read(wanted: Sequence[int]) -> Tensor:
        with ThreadPoolExecutor() as pool:  # decoding JPEG lets go of the interpreter
            return torch.stack(list(pool.map(lambda i: to_square(data[i][0], size), wanted)))

    return Labelled(name, tuple(classes), torch.tensor(labels), read)
