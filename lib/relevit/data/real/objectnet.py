"""ObjectNet: household objects from odd viewpoints; the classes that ImageNet-1k has too.

Source: Barbu et al. 2019; RobustViT Tab. 1 and 2. Its classes are named, not numbered, and four
files in `mappings` lead from a folder to a model's answers: folder -> ObjectNet's label ->
ImageNet's names -> lines of ILSVRC2012's own order -> indices of the answers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from PIL import Image

from relevit.base.errors import one_line
from relevit.data.pictures import read_picture
from relevit.data.real.classes import IMAGENET_WNIDS
from relevit.data.real.image_set import PAPER_VIEW, ImageSet, need_file, need_folder, picture_names
from relevit.models.spec import View

Answers = Literal["any", "first"]
NAME = "objectnet"
FOLDER = "objectnet-1.0"
ARCHIVE = "objectnet-1.0.zip"
AGAIN = f"unpack {ARCHIVE} again"
LABELS_FILE = "folder_to_objectnet_label.json"
OVERLAP_FILE = "objectnet_to_imagenet_1k.json"
LINES_FILE = "imagenet_to_label_2012_v2"
ORDER_FILE = "pytorch_to_imagenet_2012_id.json"
BETWEEN = "; "  # ImageNet's names of one label; a comma is part of a name


def read_objectnet(
    data_root: Path, view: View = PAPER_VIEW, *, answers: Answers = "any", border: int = 1
) -> ImageSet:
    """ObjectNet's pictures of the 113 of its 313 classes that overlap with ImageNet-1k.

    `data_root` holds `objectnet-1.0` with `images` and `mappings`. A class may be several of
    ImageNet's (a chair is a barber, a folding or a rocking chair): `answers="any"` counts each as
    right, as the set's authors do. `border` is how many pixels are cut off on each side: 1 takes
    away the red line around each picture, as the authors ask.
    RobustViT's published code is `answers="first"`, `border=0` (differences B7).
    The label of a picture is the first of its ImageNet classes.
    Raises: FileNotFoundError when a folder or file is missing; ValueError for another option, a
    damaged or unfitting mapping, and a folder in `images` that the mappings do not know.
    """
    if answers not in get_args(Answers):
        raise ValueError(
            f"{NAME}: answers is {answers!r}; give 'any', or 'first' as the published code (B7)"
        )
    if border < 0:
        raise ValueError(f"{NAME}: border is {border} pixels; give 1, or 0 to cut nothing off (B7)")
    images = data_root / FOLDER / "images"
    need_folder(NAME, images, f"unpack {ARCHIVE} in {data_root}")
    indices = _indices_of_folders(data_root / FOLDER / "mappings")
    _need_class_folders(images, indices)
    if answers == "first":
        indices = {folder: found[:1] for folder, found in indices.items()}
    pictures = [
        (f"{folder}/{picture}", found[0])
        for folder, found in sorted(indices.items())
        if found
        for picture in _pictures(images / folder)
    ]
    ids = tuple(name for name, _ in pictures)
    return ImageSet(
        name=NAME,
        ids=ids,
        labels=torch.tensor([label for _, label in pictures]),
        open=lambda place: _open(images / ids[place], border),
        view=view,
        accepted=_accepted(indices),
    )


def _open(path: Path, border: int) -> Image.Image:
    image = read_picture(path)
    width, height = image.size
    if min(width, height) <= 2 * border:
        raise ValueError(f"{width} x {height} pixels are nothing but border")
    return image.crop((border, border, width - border, height - border)) if border else image


def _accepted(indices: Mapping[str, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
    """The right answers by label. Raises: ValueError for a label with two different ones."""
    accepted: dict[int, tuple[int, ...]] = {}
    for folder, found in indices.items():
        if found and accepted.setdefault(found[0], found) != found:
            raise ValueError(
                f"{NAME}: {folder!r} begins with ImageNet's class {found[0]} as another folder "
                f"does, and goes on differently; {AGAIN}, or give answers='first'"
            )
    return accepted


def _indices_of_folders(mappings: Path) -> dict[str, tuple[int, ...]]:
    """For each folder the indices of its ImageNet classes, in the file's order; often none."""
    need_folder(NAME, mappings, AGAIN)
    labels, overlap = (_read_json(mappings / name) for name in (LABELS_FILE, OVERLAP_FILE))
    lost = sorted(set(overlap) - set(labels.values()))
    if lost:
        raise ValueError(
            f"{NAME}: {mappings / OVERLAP_FILE} has the label {lost[0]!r}, which is no folder's in "
            f"{LABELS_FILE}; {AGAIN}"
        )
    by_name = _indices_of_names(mappings)
    indices: dict[str, tuple[int, ...]] = {}
    for folder, label in labels.items():
        names = overlap[label].split(BETWEEN) if label in overlap else []
        indices[folder] = tuple(_index_of_name(name.strip(), by_name, mappings) for name in names)
    return indices


def _index_of_name(name: str, by_name: Mapping[str, list[int]], mappings: Path) -> int:
    found = by_name.get(name, [])
    if len(found) != 1:  # "crane" is both a bird and a machine
        raise ValueError(
            f"{NAME}: {mappings / OVERLAP_FILE} has ImageNet's name {name!r}, which is on "
            f"{len(found)} lines of {LINES_FILE}; needed is one: {AGAIN}"
        )
    return found[0]


def _indices_of_names(mappings: Path) -> dict[str, list[int]]:
    """The indices among a model's answers by ImageNet's name, through the lines of ILSVRC2012.

    The keys of ORDER_FILE are indices as text, and sorted as text: their place means nothing.
    """
    path = mappings / LINES_FILE
    need_file(NAME, path, AGAIN)
    names = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    order, count = _read_json(mappings / ORDER_FILE), len(IMAGENET_WNIDS)
    wanted = list(range(count))
    if (
        len(names) != count
        or sorted(order) != sorted(map(str, wanted))
        or sorted(order.values()) != wanted
    ):
        raise ValueError(
            f"{NAME}: {path} has {len(names)} lines and {ORDER_FILE} {len(order)} entries; needed "
            f"are {count} lines and the number of a line, from 0, for each index: {AGAIN}"
        )
    by_name: dict[str, list[int]] = {}
    for index, line in order.items():
        by_name.setdefault(names[line], []).append(int(index))
    return by_name


def _read_json(path: Path) -> dict[str, Any]:
    need_file(NAME, path, AGAIN)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # a broken text, or bytes that are no text
        raise ValueError(f"{NAME}: {path} cannot be read ({one_line(error)}); {AGAIN}") from error
    kind = int if path.name == ORDER_FILE else str
    if not isinstance(found, dict) or not all(type(value) is kind for value in found.values()):
        raise ValueError(
            f"{NAME}: {path} is no table from texts to {kind.__name__} values; {AGAIN}"
        )
    return found


def _need_class_folders(images: Path, indices: Mapping[str, tuple[int, ...]]) -> None:
    with os.scandir(images) as entries:
        found = {e.name for e in entries if not e.name.startswith(".") and e.is_dir()}
    unknown, missing = sorted(found - set(indices)), sorted(set(indices) - found)
    if unknown:
        raise ValueError(
            f"{NAME}: {images} has the folder {unknown[0]!r}, which {LABELS_FILE} does not know "
            f"({len(unknown)} such folders); move it away, or {AGAIN}"
        )
    if missing:
        raise FileNotFoundError(
            f"{NAME}: folder {images / missing[0]} is missing ({len(missing)} of {len(indices)} "
            f"are); {AGAIN}"
        )


def _pictures(folder: Path) -> list[str]:
    pictures = picture_names(folder)
    if not pictures:
        raise ValueError(f"{NAME}: folder {folder} has no pictures; {AGAIN}")
    return pictures
