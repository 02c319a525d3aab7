"""CIFAR-10 and CIFAR-100 as torchvision keeps them: pickled numbers.

Source: IAV Sec. V finetunes and tests on CIFAR-10, RobustViT supp. M uses CIFAR-100 for k-NN;
Krizhevsky 2009. A pickle can run any program, so these are opened by a reader that knows arrays of
numpy and nothing else; torchvision's own opens the files whose sums it knows, and no smaller set.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image

from habitats.real.catalogue import Entry
from habitats.real.folders import need
from relevit.base.errors import one_line
from relevit.data.image_set import PAPER_VIEW, ImageSet, picture_set
from relevit.models.spec import View

SIDE = 32  # pixels of a picture
# The files of each part, and of the classes' names.
FILES = {
    "cifar10": {
        "train": [f"data_batch_{number}" for number in range(1, 6)],
        "test": ["test_batch"],
        "names": "batches.meta",
    },
    "cifar100": {"train": ["train"], "test": ["test"], "names": "meta"},
}
ARRAYS = ("_reconstruct", "ndarray", "dtype")  # of numpy: what its arrays are pickled with


def read_cifar(
    entry: Entry,
    data_root: Path,
    view: View = PAPER_VIEW,
    *,
    part: Literal["train", "test"] = "train",
    labels: Literal["fine", "coarse"] = "fine",
) -> ImageSet:
    """The training or the test pictures; a test set's order is that of its file.

    `labels` are, of CIFAR-100, its 100 classes (`fine`) or the 20 superclasses (`coarse`); the
    paper says "20 classes" of a set that has 100, so that either may be meant.
    """
    files, folder = FILES[entry.key], need(entry, data_root / entry.folders[0])
    kind = f"{labels}_" if entry.key == "cifar100" else ""
    (names,) = _numbers(entry, folder / files["names"], f"{kind}label_names")
    found = [_numbers(entry, folder / name, f"{kind}labels", "data") for name in files[part]]
    pixels = np.concatenate([np.reshape(planes, (-1, 3, SIDE, SIDE)) for _, planes in found])
    return picture_set(
        entry.key,
        names,
        [label for some, _ in found for label in some],
        [f"{part}/{place}" for place in range(len(pixels))],
        lambda place: Image.fromarray(np.ascontiguousarray(pixels[place].transpose(1, 2, 0))),
        view,
    )


class _Arrays(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] != "numpy" or name not in ARRAYS:
            raise pickle.UnpicklingError(f"it would run {module}.{name}")
        return super().find_class(module, name)


def _numbers(entry: Entry, path: Path, *keys: str) -> list[Any]:
    """What one file has under these keys."""
    try:
        with need(entry, path).open("rb") as file:
            content = _Arrays(file, encoding="latin1").load()
        return [content[key] for key in keys]
    except (pickle.UnpicklingError, EOFError, LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"{entry.key}: {path} is not as published ({one_line(error)}); {entry.remedy} again"
        ) from error
