"""ObjectNet: household objects from odd viewpoints; the classes that ImageNet-1k has too.

Source: Barbu et al. 2019; RobustViT Tab. 1 and 2. Its classes are named, not numbered, and four
files in `mappings` lead from a folder to a model's answers: folder -> ObjectNet's label ->
ImageNet's names -> lines of ILSVRC2012's own order -> indices of the answers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from PIL import Image

from habitats.real.catalogue import Entry
from habitats.real.classes import SHORT_NAMES
from habitats.real.folders import list_pictures, need
from relevit.base.errors import one_line
from relevit.data.image_set import PAPER_VIEW, ImageSet, picture_set
from relevit.data.pictures import read_picture
from relevit.models.spec import View

LABELS_FILE = "folder_to_objectnet_label.json"
OVERLAP_FILE = "objectnet_to_imagenet_1k.json"
LINES_FILE = "imagenet_to_label_2012_v2"
ORDER_FILE = "pytorch_to_imagenet_2012_id.json"
BETWEEN = "; "  # ImageNet's names of one label; a comma is part of a name


def read_objectnet(
    entry: Entry,
    data_root: Path,
    view: View = PAPER_VIEW,
    *,
    answers: Literal["any", "first"] = "any",
    border: int = 1,
) -> ImageSet:
    """ObjectNet's pictures of the 113 of its 313 classes that overlap with ImageNet-1k.

    `data_root` holds `objectnet-1.0` with `images` and `mappings`. A class may be several of
    ImageNet's (a chair is a barber, a folding or a rocking chair): `answers="any"` counts each as
    right, as the set's authors do, and `"first"` the first alone (B7). `border` is how many pixels
    are cut off on each side: 1 takes away the red line around each picture, as the authors ask.
    The label of a picture is the first of its ImageNet classes.
    """
    folder = data_root / entry.folders[0]
    images = need(entry, folder / "images")
    try:
        indices = _indices_of_folders(need(entry, folder / "mappings"))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{entry.key}: {folder / 'mappings'} does not lead from folders to ImageNet's classes "
            f"({one_line(error)}); {entry.remedy} again"
        ) from error
    found = {name: name.partition("/")[0] for name in list_pictures(entry, images, indices)}
    found = {name: inner for name, inner in found.items() if indices[inner]}
    ids = list(found)
    return picture_set(
        entry.key,
        SHORT_NAMES,
        [indices[inner][0] for inner in found.values()],
        ids,
        lambda place: _without_border(read_picture(images / ids[place]), border),
        view,
        file=lambda place: images / ids[place],
        accepted={all_of[0]: all_of for all_of in indices.values() if all_of}
        if answers == "any"
        else {},
    )


def _without_border(image: Image.Image, border: int) -> Image.Image:
    width, height = image.size
    if min(width, height) <= 2 * border:
        raise ValueError(f"{width} x {height} pixels are nothing but border")
    return image.crop((border, border, width - border, height - border)) if border else image


def _indices_of_folders(mappings: Path) -> dict[str, tuple[int, ...]]:
    """For each folder the indices of its ImageNet classes, in the file's order; often none."""
    labels, overlap, order = (
        _read_json(mappings / name) for name in (LABELS_FILE, OVERLAP_FILE, ORDER_FILE)
    )
    lines = (mappings / LINES_FILE).read_text(encoding="utf-8").splitlines()
    # Keys of `order` are indices as text, and sorted as text: their place means nothing.
    by_name: dict[str, list[int]] = {}
    for index, line in order.items():
        by_name.setdefault(lines[line].strip(), []).append(int(index))
    return {
        folder: tuple(
            _only(by_name, name.strip())
            for name in (overlap[label].split(BETWEEN) if label in overlap else [])
        )
        for folder, label in labels.items()
    }


def _only(by_name: dict[str, list[int]], name: str) -> int:
    found = by_name.get(name, [])
    if len(found) != 1:  # "crane" is both a bird and a machine
        raise ValueError(f"ImageNet's name {name!r} is on {len(found)} lines of {LINES_FILE}")
    return found[0]


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path.name}: {one_line(error)}") from error
