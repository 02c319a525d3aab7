"""Replicas of ImageNet-1k and of the sets with its classes, as their archives unpack.

Each writer draws `per_class` pictures of each class and gives the folder it wrote. `classes` are
wnids; without them a few are taken that all these sets have. Among the pictures are grey and CMYK
ones and some on their side, as among the published ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from relevit.data.real.classes import (
    A_WNIDS,
    IMAGENET_NAMES,
    IMAGENET_S_WNIDS,
    IMAGENET_WNIDS,
    R_WNIDS,
    index_of,
)
from relevit.data.real.imagenet import FOLDER
from relevit.data.real.shifted import A_FOLDER, R_FOLDER, SKETCH_FOLDER, V2_FOLDER
from replicas.devkit import write_devkit, write_kaggle_table
from replicas.pictures import Kind, picture, save_jpeg

Layout = Literal["folders", "devkit", "kaggle"]
SHARED = tuple(sorted(set(A_WNIDS) & set(R_WNIDS) & set(IMAGENET_S_WNIDS)))
SOME = SHARED[:: len(SHARED) // 4][:4]  # spread over ImageNet
PHOTOGRAPHS: tuple[Kind, ...] = ("rgb", "grey", "cmyk", "rgb", "exif")
SKETCHES: tuple[Kind, ...] = ("grey", "rgb")
RENDITIONS = ("art", "cartoon", "graffiti", "sketch", "toy")
NUMBERS = (10026, 9, 100, 1008, 18)  # of training files: no order of numbers


def write_imagenet(
    data_root: Path,
    *,
    per_class: int = 2,
    classes: Sequence[str] | None = None,
    seed: int = 0,
    layout: Layout = "folders",
) -> Path:
    """ILSVRC2012's `train`, and `val` in a layout: `folders`, or flat with the labels apart.

    Flat ones are labelled by the development kit or by Kaggle's table; their numbers mix the
    classes. The pictures of `val` are the same in every layout.
    Raises: ValueError for another layout; further as the other writers.
    """
    if layout not in get_args(Layout):
        raise ValueError(f"write_imagenet: layout {layout!r} is unknown; use {get_args(Layout)}")
    wnids = _need_classes("write_imagenet", SOME if classes is None else classes, IMAGENET_WNIDS)
    folder = data_root / FOLDER
    _write(folder / "train", wnids, per_class, seed, _training_name)
    order = np.random.default_rng(seed).permutation(len(wnids) * per_class) + 1
    places = {wnid: place * per_class for place, wnid in enumerate(wnids)}

    def name(wnid: str, number: int) -> str:
        return f"ILSVRC2012_val_{order[places[wnid] + number]:08d}.JPEG"

    _write(folder / "val", wnids, per_class, seed + 1, name, flat=layout != "folders")
    labels = {
        int(order[places[wnid] + number]): wnid for wnid in wnids for number in range(per_class)
    }
    if layout == "devkit":
        write_devkit(folder, labels, seed)
    if layout == "kaggle":
        write_kaggle_table(folder, labels, seed)
    return folder


def write_imagenet_a(
    data_root: Path, *, per_class: int = 2, classes: Sequence[str] | None = None, seed: int = 0
) -> Path:
    """ImageNet-A, with its README. Names tell what a ResNet took the picture for, with blanks."""
    wnids = _need_classes("write_imagenet_a", SOME if classes is None else classes, A_WNIDS)

    def name(wnid: str, number: int) -> str:
        guess = IMAGENET_NAMES[index_of(wnid)].split(",")[0]
        return f"0.{number:06d}_{guess} _ {guess}_0.{865662 + number}.jpg"

    folder = _write(data_root / A_FOLDER, wnids, per_class, seed + 2, name)
    (folder / "README.txt").write_text("ImageNet-A, a drawn replica.\n")
    return folder


def write_imagenet_r(
    data_root: Path, *, per_class: int = 2, classes: Sequence[str] | None = None, seed: int = 0
) -> Path:
    """ImageNet-R, with its README. Names tell the kind of rendition."""
    wnids = _need_classes("write_imagenet_r", SOME if classes is None else classes, R_WNIDS)

    def name(wnid: str, number: int) -> str:
        return f"{RENDITIONS[number % len(RENDITIONS)]}_{number}.jpg"

    folder = _write(data_root / R_FOLDER, wnids, per_class, seed + 3, name)
    (folder / "README.txt").write_text("ImageNet-R, a drawn replica.\n")
    return folder


def write_sketch(
    data_root: Path, *, per_class: int = 2, classes: Sequence[str] | None = None, seed: int = 0
) -> Path:
    """ImageNet-Sketch."""
    wnids = _need_classes("write_sketch", SOME if classes is None else classes, IMAGENET_WNIDS)

    def name(wnid: str, number: int) -> str:
        return f"sketch_{number}.JPEG"

    return _write(data_root / SKETCH_FOLDER, wnids, per_class, seed + 4, name, kinds=SKETCHES)


def write_v2(
    data_root: Path, *, per_class: int = 2, classes: Sequence[str] | None = None, seed: int = 0
) -> Path:
    """ImageNetV2, matched frequency: folders are indices, and names hashes."""
    wnids = _need_classes("write_v2", SOME if classes is None else classes, IMAGENET_WNIDS)

    def name(wnid: str, number: int) -> str:
        text = f"{seed} {wnid} {number}".encode()
        return hashlib.sha1(text, usedforsecurity=False).hexdigest() + ".jpeg"

    folder = data_root / V2_FOLDER
    return _write(folder, wnids, per_class, seed + 5, name, folder_of=lambda w: str(index_of(w)))


def _training_name(wnid: str, number: int) -> str:
    turn, place = divmod(number, len(NUMBERS))
    return f"{wnid}_{NUMBERS[place] + 20000 * turn}.JPEG"


def _write(
    folder: Path,
    wnids: Sequence[str],
    per_class: int,
    seed: int,
    name: Callable[[str, int], str],
    *,
    flat: bool = False,
    kinds: Sequence[Kind] = PHOTOGRAPHS,
    folder_of: Callable[[str], str] = str,
) -> Path:
    """Pictures of each class, in class folders or `flat`; no two are the same."""
    if per_class < 1:
        raise ValueError(f"{folder.name}: {per_class} pictures a class; ask for at least 1")
    for place, wnid in enumerate(wnids):
        inner = folder if flat else folder / folder_of(wnid)
        for number in range(per_class):
            kind = kinds[(place * per_class + number) % len(kinds)]
            image = picture(1000 * seed + number, index_of(wnid), kind=kind)
            save_jpeg(image, inner / name(wnid, number))
    return folder


def _need_classes(name: str, classes: Sequence[str], known: Sequence[str]) -> Sequence[str]:
    wrong = [wnid for wnid in classes if wnid not in known]
    if wrong or len(set(classes)) < max(1, len(classes)):
        raise ValueError(
            f"{name}: classes are {list(classes)[:5]}; needed are different wnids out of the "
            f"set's {len(known)}, like {known[0]!r}" + (f": {wrong[0]!r} is none" if wrong else "")
        )
    return classes
