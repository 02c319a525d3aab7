"""Replicas of ImageNet-1k and of the sets with its classes, as their archives unpack.

The labels of a flat validation folder come apart from it, as ILSVRC's development kit or as
Kaggle's table. Each writer draws `per_class` pictures of each class and gives the folder it wrote.
`classes` are wnids; without them a few are taken that all these sets have. Among the pictures are
grey and CMYK ones and some on their side, as among the published ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy.io import savemat

from relevit.data.real.classes import (
    A_WNIDS,
    IMAGENET_NAMES,
    IMAGENET_S_WNIDS,
    IMAGENET_WNIDS,
    R_WNIDS,
    index_of,
)
from relevit.data.real.imagenet import DEVKIT, FOLDER, META, TABLE, TRUTH
from relevit.data.real.shifted import A_FOLDER, R_FOLDER, SKETCH_FOLDER, V2_FOLDER
from replicas.pictures import Kind, picture, save_jpeg

Layout = Literal["folders", "devkit", "kaggle"]
SHARED = tuple(sorted(set(A_WNIDS) & set(R_WNIDS) & set(IMAGENET_S_WNIDS)))
SOME = SHARED[:: len(SHARED) // 4][:4]  # spread over ImageNet
PHOTOGRAPHS: tuple[Kind, ...] = ("rgb", "grey", "cmyk", "rgb", "exif")
RENDITIONS = ("art", "cartoon", "graffiti", "sketch", "toy")
NUMBERS = (10026, 9, 100, 1008, 18)  # of training files: no order of numbers
INNER = 860  # synsets above the classes, with the ids from 1001
FIELDS = """
    ILSVRC2012_ID WNID words gloss num_children children wordnet_height num_train_images
"""


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
        _write_devkit(folder, labels, seed)
    if layout == "kaggle":
        _write_kaggle_table(folder, labels, seed)
    return folder


class Archive(NamedTuple):
    """How the pictures of a set with ImageNet's classes lie in its archive."""

    folder: str
    wnids: Sequence[str]
    name: Callable[[str, int, int], str]  # of a picture: by wnid, number and seed
    folder_of: Callable[[str], str] = str  # of a class
    kinds: Sequence[Kind] = PHOTOGRAPHS
    readme: str = ""


def _name_of_a(wnid: str, number: int, seed: int) -> str:
    """What a ResNet took the picture for, with blanks."""
    guess = IMAGENET_NAMES[index_of(wnid)].split(",")[0]
    return f"0.{number:06d}_{guess} _ {guess}_0.{865662 + number}.jpg"


def _name_of_r(wnid: str, number: int, seed: int) -> str:
    """The kind of rendition."""
    return f"{RENDITIONS[number % len(RENDITIONS)]}_{number}.jpg"


def _name_of_v2(wnid: str, number: int, seed: int) -> str:
    text = f"{seed} {wnid} {number}".encode()
    return hashlib.sha1(text, usedforsecurity=False).hexdigest() + ".jpeg"


ARCHIVES = {
    "imagenet_a": Archive(A_FOLDER, A_WNIDS, _name_of_a, readme="ImageNet-A, a drawn replica.\n"),
    "imagenet_r": Archive(R_FOLDER, R_WNIDS, _name_of_r, readme="ImageNet-R, a drawn replica.\n"),
    "sketch": Archive(
        SKETCH_FOLDER,
        IMAGENET_WNIDS,
        lambda wnid, number, seed: f"sketch_{number}.JPEG",
        kinds=("grey", "rgb"),
    ),
    "v2": Archive(V2_FOLDER, IMAGENET_WNIDS, _name_of_v2, folder_of=lambda w: str(index_of(w))),
}  # a folder of V2 is an index


def _write_archive(
    archive: str,
    data_root: Path,
    *,
    per_class: int = 2,
    classes: Sequence[str] | None = None,
    seed: int = 0,
) -> Path:
    """One of ARCHIVES, with its README where it has one."""
    how, shift = ARCHIVES[archive], 2 + list(ARCHIVES).index(archive)
    wnids = _need_classes(f"write_{archive}", SOME if classes is None else classes, how.wnids)
    folder = _write(
        data_root / how.folder,
        wnids,
        per_class,
        seed + shift,
        lambda wnid, number: how.name(wnid, number, seed),
        kinds=how.kinds,
        folder_of=how.folder_of,
    )
    if how.readme:
        (folder / "README.txt").write_text(how.readme)
    return folder


write_imagenet_a, write_imagenet_r, write_sketch, write_v2 = (
    partial(_write_archive, archive) for archive in ARCHIVES
)


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


def _write_devkit(folder: Path, wnids: Mapping[int, str], seed: int = 0) -> Path:
    """The two files of ILSVRC2012_devkit_t12 that labels need, in `folder`.

    `wnids` gives the class of each picture, by its number from 1 without gaps. As in the published
    kit, ids are in an order of their own, which is not that of the wnids; the order itself is
    another, drawn by `seed`.
    """
    data = folder / DEVKIT
    data.mkdir(parents=True, exist_ok=True)
    order = np.random.default_rng(seed).permutation(len(IMAGENET_WNIDS)).tolist()
    ids = {IMAGENET_WNIDS[index]: place + 1 for place, index in enumerate(order)}
    (data / TRUTH).write_text("".join(f"{ids[wnids[n]]}\n" for n in sorted(wnids)))
    savemat(data / META, {"synsets": _synsets(order)})
    return data


def _write_kaggle_table(folder: Path, wnids: Mapping[int, str], seed: int = 0) -> Path:
    """LOC_val_solution.csv in `folder`: rows in no order, one to three boxes a picture."""
    random = np.random.default_rng(seed)
    rows = ["ImageId,PredictionString"]
    for number in random.permutation(sorted(wnids)).tolist():
        left, top = random.integers(0, 60, size=2)
        box = f"{wnids[number]} {left} {top} {left + 50} {top + 40} "
        rows.append(f"ILSVRC2012_val_{number:08d},{box * int(random.integers(1, 4))}")
    path = folder / TABLE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(rows) + "\n")
    return path


def _synsets(order: list[int]) -> np.ndarray:
    """The struct array of meta.mat, 1860 x 1: the classes in `order`, then the inner synsets."""
    synsets = np.empty((len(order) + INNER, 1), dtype=[(field, object) for field in FIELDS.split()])
    for place, index in enumerate(order):
        words = IMAGENET_NAMES[index]
        leaf = (place + 1, IMAGENET_WNIDS[index], words, words, 0, np.zeros((1, 0)), 0, 1300)
        synsets[place, 0] = tuple(map(_matlab, leaf))
    for number in range(len(order) + 1, len(synsets) + 1):
        inner = (number, f"n9{number:07d}", "entity", "entity", 2, np.array([[1, 2]]), 1, 0)
        synsets[number - 1, 0] = tuple(map(_matlab, inner))
    return synsets


def _matlab(value: object) -> object:
    """MATLAB's numbers are doubles."""
    return float(value) if isinstance(value, int) else value
