"""ImageNet-1k (ILSVRC2012): training and validation photographs, in any layout they come in.

The validation archive unpacks to 50,000 files in one folder, and the labels come apart from it: in
ILSVRC's development kit, or in Kaggle's table. Many sort the files into class folders. Which of
these is there changes neither the labels nor the order of the pictures.
"""

from __future__ import annotations

import csv
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from scipy.io import loadmat
from scipy.io.matlab import MatReadError

from relevit.base.errors import one_line
from relevit.data.real.classes import IMAGENET_INDEX
from relevit.data.real.image_set import (
    PAPER_VIEW,
    ImageSet,
    need_file,
    need_folder,
    picture_set,
    read_class_folders,
)
from relevit.models.spec import View

Part = Literal["val", "train"]
FOLDER = "imagenet"
NAMES = {"val": "val", "train": "imagenet_train"}  # of the set
VAL_FILE = re.compile(r"ILSVRC2012_val_(\d{8})\.JPEG")
DEVKIT = Path("ILSVRC2012_devkit_t12") / "data"
TRUTH = "ILSVRC2012_validation_ground_truth.txt"
META = "meta.mat"
TABLE = "LOC_val_solution.csv"
UNREADABLE = (
    KeyError,
    IndexError,
    ValueError,
    TypeError,
    OSError,
    NotImplementedError,
    MatReadError,
    zlib.error,
)  # what scipy makes of damaged files


def read_imagenet(data_root: Path, view: View = PAPER_VIEW, *, part: Part = "val") -> ImageSet:
    """The validation (50,000) or the training photographs (1,281,167) of ImageNet-1k.

    `data_root`/imagenet has `train` and `val` with a folder for each class. `val` may be flat, with
    ILSVRC2012_devkit_t12 or LOC_val_solution.csv in `data_root`/imagenet or `data_root`; the first
    is taken when both are there.
    Raises: FileNotFoundError when a folder, or the labels of a flat `val`, are missing; ValueError
    for another part, a half-sorted `val`, labels that do not fit; further as `read_class_folders`.
    """
    if part not in get_args(Part):
        raise ValueError(f"imagenet: part is {part!r}; give one of {get_args(Part)}")
    name, folder = NAMES[part], data_root / FOLDER / part
    archive = f"ILSVRC2012_img_{part}.tar"
    need_folder(name, folder, f"unpack {archive} there")
    files = _flat_files(folder) if part == "val" else []
    if not files:
        return read_class_folders(name, folder, IMAGENET_INDEX, archive, view)
    labels = _labels_of(files, data_root)
    files.sort(key=lambda file: (labels[file], file))  # the order of class folders
    return picture_set(name, folder, files, [labels[file] for file in files], view)


def _flat_files(folder: Path) -> list[str]:
    """The pictures that lie in the folder itself. Raises: ValueError if class folders do too."""
    with os.scandir(folder) as entries:
        entries = list(entries)
    files = [entry.name for entry in entries if VAL_FILE.fullmatch(entry.name)]
    folders = sorted(entry.name for entry in entries if entry.name in IMAGENET_INDEX)
    if files and folders:
        raise ValueError(
            f"val: {folder} has {len(files)} pictures like {min(files)} and {len(folders)} class "
            f"folders like {folders[0]}; it needs one or the other: finish sorting, or unpack "
            "ILSVRC2012_img_val.tar again"
        )
    return files


def _labels_of(files: Sequence[str], data_root: Path) -> dict[str, int]:
    """The ImageNet index of each file of a flat `val`."""
    places = (data_root / FOLDER, data_root)
    for truth in (base / inner / TRUTH for base in places for inner in (DEVKIT, "")):
        if truth.is_file():
            return _from_devkit(files, truth)
    for table in (base / TABLE for base in places):
        if table.is_file():
            return _from_kaggle(files, table)
    raise FileNotFoundError(
        f"val: {data_root / FOLDER / 'val'} has {len(files)} pictures without class folders, and "
        f"their labels are missing; put {DEVKIT.parent} (ILSVRC2012_devkit_t12.tar.gz) or Kaggle's "
        f"{TABLE} into {data_root / FOLDER}"
    )


def _from_devkit(files: Sequence[str], truth: Path) -> dict[str, int]:
    """Line n of the ground truth is the ILSVRC id of picture n. An id is no ImageNet index."""
    index = _index_of_ids(truth.with_name(META))
    try:
        ids = [int(line) for line in truth.read_text(encoding="utf-8").split()]
    except ValueError as error:
        raise ValueError(f"val: {truth} has more than whole numbers ({one_line(error)})") from error
    labels = {}
    for file in files:
        number = int(VAL_FILE.fullmatch(file)[1])
        if not (1 <= number <= len(ids) and ids[number - 1] in index):
            found = ids[number - 1] if 1 <= number <= len(ids) else f"none of {len(ids)} lines"
            raise ValueError(
                f"val: {truth} has no class for {file} ({found}); it needs an id of 1 to 1000 in "
                "line n for picture n: unpack ILSVRC2012_devkit_t12.tar.gz again"
            )
        labels[file] = index[ids[number - 1]]
    return labels


def _index_of_ids(meta: Path) -> Mapping[int, int]:
    """ImageNet indices by ILSVRC id. Classes are the synsets without children, as published 1,000.

    A MATLAB 5 file holds plain data; reading it runs nothing.
    """
    remedy = "unpack ILSVRC2012_devkit_t12.tar.gz again"
    need_file("val", meta, f"it says what the ids mean: {remedy}")
    try:
        synsets = np.atleast_1d(loadmat(meta, squeeze_me=True)["synsets"])
        leaves = synsets[synsets["num_children"].astype(int) == 0]
        index = {
            int(ilsvrc): IMAGENET_INDEX[str(wnid)]
            for ilsvrc, wnid in zip(leaves["ILSVRC2012_ID"], leaves["WNID"], strict=True)
        }
    except UNREADABLE as error:
        raise ValueError(
            f"val: {meta} cannot be read ({one_line(error)}); it needs `synsets` with "
            f"ILSVRC2012_ID, WNID and num_children: {remedy}"
        ) from error
    if len(set(index.values())) != len(IMAGENET_INDEX):
        raise ValueError(f"val: {meta} has {len(index)} of the 1000 classes; {remedy}")
    return index


def _from_kaggle(files: Sequence[str], table: Path) -> dict[str, int]:
    """Kaggle's table has pictures' boxes, each a wnid and four numbers: the first is the class."""
    with table.open(encoding="utf-8", newline="") as lines:
        boxes = {row.get("ImageId"): row.get("PredictionString") for row in csv.DictReader(lines)}
    labels = {}
    for file in files:
        first = ((boxes.get(Path(file).stem) or "").split() or [""])[0]
        if first not in IMAGENET_INDEX:
            raise ValueError(
                f"val: {table} has {first!r} as the class of {file}; it needs a row "
                "'ImageId,PredictionString' that starts with a wnid: download it again"
            )
        labels[file] = IMAGENET_INDEX[first]
    return labels
