"""A small replica of ObjectNet: folders of named objects, and the four files that number them."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from habitats.real.classes import IMAGENET_NAMES
from habitats.real.objectnet import BETWEEN, LABELS_FILE, LINES_FILE, ORDER_FILE, OVERLAP_FILE
from replicas.pictures import Written, picture

FOLDER = "objectnet-1.0"
NO_CLASS = 1000  # label that a picture of a class without a number is drawn with


class Object(NamedTuple):
    """A class of ObjectNet: its name for people, and its ImageNet classes in the file's order."""

    label: str
    indices: tuple[int, ...]


# Neither the order of the folders nor that of a class's indices is that of ImageNet.
CLASSES: Mapping[str, Object] = MappingProxyType(
    {
        "air_freshener": Object("Air freshener", ()),
        "alarm_clock": Object("Alarm clock", (409, 530)),
        "backpack": Object("Backpack", (414,)),
        "banana": Object("Banana", (954,)),
        "bicycle": Object("Bicycle", (671, 444)),
        "chair": Object("Chair", (423, 559, 765)),
        "coffee_french_press": Object("Coffee/French press", (550,)),
        "dress_shoe_men": Object("Dress shoe (men)", (630,)),
    }
)


def write_objectnet(
    data_root: Path, *, per_class: int = 2, classes: Sequence[str] | None = None, seed: int = 0
) -> list[list[Written]]:
    """Write `objectnet-1.0` with `per_class` pictures of each class, framed in red.

    `classes` are keys of CLASSES; none: all. A picture of a class of several ImageNet classes is
    drawn as the first. The lines of ILSVRC2012 come in a made-up order.
    """
    folder = data_root / FOLDER
    chosen = {name: CLASSES[name] for name in (classes or CLASSES)}
    written = []
    for name, (_, indices) in chosen.items():
        (folder / "images" / name).mkdir(parents=True, exist_ok=True)
        for number in range(per_class):
            label = (*indices, NO_CLASS)[0]
            digest = hashlib.sha256(f"{name}/{seed}/{number}".encode()).hexdigest()
            id = f"{name}/{digest[:15]}.png"
            picture(seed + number, label, kind="border").save(folder / "images" / id)
            if indices:
                written.append(Written(id, label, picture(seed + number, label)))
    _write_mappings(folder / "mappings", chosen)
    return [written]


def _write_mappings(folder: Path, classes: Mapping[str, Object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    line_of = np.random.default_rng(2012).permutation(len(IMAGENET_NAMES)).tolist()
    lines = [""] * len(line_of)
    for index, line in enumerate(line_of):
        lines[line] = IMAGENET_NAMES[index]
    (folder / LINES_FILE).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    tables = {
        ORDER_FILE: {str(index): line for index, line in enumerate(line_of)},
        LABELS_FILE: {name: found.label for name, found in classes.items()},
        OVERLAP_FILE: {
            label: BETWEEN.join(IMAGENET_NAMES[index] for index in indices)
            for label, indices in classes.values()
            if indices
        },
    }
    for name, table in tables.items():
        (folder / name).write_text(json.dumps(table, sort_keys=True), encoding="utf-8")
