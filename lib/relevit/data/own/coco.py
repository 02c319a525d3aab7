"""A COCO file of annotations as pictures with one class and one mask each.

Source: Lin et al. 2014, Microsoft COCO, as tools for drawing outlines export it (CVAT, Label
Studio, Roboflow). COCO has many objects in a picture; a classifier answers with one class.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from relevit.base.errors import one_line
from relevit.data.own.listing import Listing, by_name
from relevit.data.own.outlines import CocoMask, need_pycocotools

KEYS = ("images", "annotations", "categories")
EXPORT = "export it again as COCO instances"


def read_coco(path: Path) -> Listing:
    """The annotated pictures of a COCO file, in the order of their file names.

    A picture's class is the category of its largest annotation (by `area`, else by its box), and
    its mask the union of that category's annotations in it, or none if these are boxes alone.
    Pictures without annotation are left out, and named by the listing; so are categories without a
    picture. File names are relative to the file's folder, or to images/ in it.
    Raises: ImportError without pycocotools; ValueError for a file that is not COCO, has no
    annotations, or one of an unknown picture or category, or two categories of one name;
    FileNotFoundError for an annotated picture that is missing.
    """
    need_pycocotools()
    content = _read(path)
    names = _names(path, content["categories"])
    annotations: dict[Any, list[Mapping[str, Any]]] = defaultdict(list)
    for annotation in content["annotations"]:
        annotations[annotation["image_id"]].append(annotation)
    images = {image["id"]: image for image in content["images"]}
    _need_known(path, content["annotations"], images, names)
    pictures = sorted(images.values(), key=lambda image: image["file_name"])
    annotated = [image for image in pictures if image["id"] in annotations]
    largest = [max(annotations[image["id"]], key=_area)["category_id"] for image in annotated]
    classes = by_name({names[category] for category in largest})
    masks = (
        _mask(image, [a for a in annotations[image["id"]] if a["category_id"] == category])
        for image, category in zip(annotated, largest, strict=True)
    )
    folder = path.parent
    return Listing(
        path.stem,
        classes,
        tuple(_file(path, image["file_name"]) for image in annotated),
        torch.tensor([classes.index(names[category]) for category in largest]),
        tuple(masks),
        folder,
        tuple(folder / i["file_name"] for i in pictures if i["id"] not in annotations),
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # a broken text, or bytes that are no text
        raise ValueError(
            f"read_data: {path} cannot be read ({one_line(error)}); {EXPORT}"
        ) from error
    lost = [key for key in KEYS if not isinstance(content, dict) or not content.get(key)]
    if lost:
        raise ValueError(f"read_data: {path} has no {lost[0]}, as a COCO file has; {EXPORT}")
    for key, needed in zip(
        KEYS, (("id", "file_name"), ("image_id", "category_id"), ("id", "name")), strict=True
    ):
        for place, entry in enumerate(content[key]):
            without = [n for n in needed if not isinstance(entry, dict) or n not in entry]
            if without:
                raise ValueError(
                    f"read_data: {path}: {key}[{place}] has no {without[0]}, as COCO has; {EXPORT}"
                )
    return content


def _names(path: Path, categories: Sequence[Mapping[str, Any]]) -> dict[Any, str]:
    names = {category["id"]: str(category["name"]) for category in categories}
    twice = [name for name in names.values() if list(names.values()).count(name) > 1]
    if twice:
        raise ValueError(
            f"read_data: {path} has two categories of the name {twice[0]!r}; rename one"
        )
    return names


def _need_known(
    path: Path,
    annotations: Sequence[Mapping[str, Any]],
    images: Mapping[Any, Any],
    names: Mapping[Any, str],
) -> None:
    for place, annotation in enumerate(annotations):
        for key, known in (("image_id", images), ("category_id", names)):
            if annotation[key] not in known:
                raise ValueError(
                    f"read_data: {path}: annotations[{place}] has {key} {annotation[key]!r}, which "
                    f"the file does not describe; {EXPORT}"
                )


def _area(annotation: Mapping[str, Any]) -> float:
    if annotation.get("area") is not None:
        return float(annotation["area"])
    *_, width, height = annotation.get("bbox") or (0, 0)
    return float(width) * float(height)


def _mask(image: Mapping[str, Any], annotations: Sequence[Mapping[str, Any]]) -> CocoMask | None:
    outlines = tuple(a["segmentation"] for a in annotations if a.get("segmentation"))
    sized = all(isinstance(image.get(side), int) for side in ("height", "width"))
    return CocoMask(outlines, image["height"], image["width"]) if outlines and sized else None


def _file(path: Path, name: str) -> Path:
    places = [path.parent / name, path.parent / "images" / name]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise FileNotFoundError(
            f"read_data: {path}: the picture {name} is missing; put it at {places[0]} or "
            f"{places[1]}"
        )
    return found
