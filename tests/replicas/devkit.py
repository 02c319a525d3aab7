"""The labels of a flat ImageNet validation folder, as ILSVRC and as Kaggle publish them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from scipy.io import savemat

from relevit.data.real.classes import IMAGENET_NAMES, IMAGENET_WNIDS
from relevit.data.real.imagenet import DEVKIT, META, TABLE, TRUTH

INNER = 860  # synsets above the classes, with the ids from 1001
FIELDS = (
    "ILSVRC2012_ID",
    "WNID",
    "words",
    "gloss",
    "num_children",
    "children",
    "wordnet_height",
    "num_train_images",
)


def write_devkit(folder: Path, wnids: Mapping[int, str], seed: int = 0) -> Path:
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


def write_kaggle_table(folder: Path, wnids: Mapping[int, str], seed: int = 0) -> Path:
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
    synsets = np.empty((len(order) + INNER, 1), dtype=[(field, object) for field in FIELDS])
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
