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
from relevit.data.own.listing import Listing, same_form
from relevit.data.own.outlines import OUTLINES, CocoMask, drawn, size_of_runs, upright_size
from relevit.data.pictures import READING, opened

NEEDED = {
    "images": ("id", "file_name"),
    "annotations": ("image_id", "category_id"),
    "categories": ("id", "name"),
}
EXPORT = "export it again as COCO instances"
Entry = Mapping[str, Any]


def read_coco(path: Path, folder: Path | None = None) -> Listing:
    """The annotated pictures of a COCO file, in the order of their file names.

    A picture's class is the category of its largest annotation, measured from the outline or, of
    a box alone, from the box; its mask is the union of that category's outlines, or none if these
    are boxes. Crowds (`iscrowd`) and ignored regions (`ignore`) are no objects, as in COCO.
    Pictures without annotation are left out, and named by the listing; so are categories without a
    picture, and classes have the order of the categories' ids, as COCO's own tools count them. File
    names are relative to `folder`; without one to that of the file, to images/ in it, or to COCO's
    own x/ for annotations/instances_x.json.
    Raises: ImportError without pycocotools; ValueError for a file that is not COCO, has no
    annotations of objects, or one of an unknown picture or category, or two categories of one name;
    FileNotFoundError for a picture that is missing.
    """
    _need_pycocotools()
    content = _read(path)
    names = _names(path, content["categories"])
    annotations: dict[Any, list[Entry]] = defaultdict(list)
    for place, annotation in enumerate(content["annotations"]):
        if _is_object(annotation):
            annotations[annotation["image_id"]].append({**annotation, "place": place})
    if not annotations:
        raise ValueError(f"read_data: {path} has crowds and ignored regions alone; mark an object")
    images = {image["id"]: image for image in content["images"]}
    _need_known(path, content["annotations"], images, names)
    places = [folder] if folder else _folders(path)
    pictures = sorted(images.values(), key=lambda image: image["file_name"])
    annotated = [image for image in pictures if image["id"] in annotations]
    files = [_file(path, image["file_name"], places) for image in annotated]
    labels: list[str] = []
    masks: list[CocoMask | None] = []
    for image, file in zip(annotated, files, strict=True):
        size = _size(path, image)
        mine = annotations[image["id"]]
        category = _largest(mine, size, file)
        labels.append(names[category])
        masks.append(_mask(image, [a for a in mine if a["category_id"] == category], size))
    used = set(labels)
    numbers = sorted(names, key=lambda number: (isinstance(number, str), number))
    classes = tuple(names[number] for number in numbers if names[number] in used)
    return Listing(
        path.stem,
        classes,
        tuple(files),
        torch.tensor([classes.index(name) for name in labels]),
        tuple(masks),
        path.parent,
        tuple(places[0] / i["file_name"] for i in pictures if i["id"] not in annotations),
    )


def _need_pycocotools() -> None:
    try:
        import pycocotools.mask  # noqa: F401  it draws polygons
    except ImportError as error:
        raise ImportError(
            "read_data: a COCO file of annotations needs the package pycocotools, which is not "
            "installed: pip install pycocotools"
        ) from error


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # a broken text, or bytes that are no text
        raise ValueError(
            f"read_data: {path} cannot be read ({one_line(error)}); {EXPORT}"
        ) from error
    for key, needed in NEEDED.items():
        if not isinstance(content, dict) or not content.get(key):
            raise ValueError(f"read_data: {path} has no {key}, as a COCO file has; {EXPORT}")
        for place, entry in enumerate(content[key]):
            without = [n for n in needed if not isinstance(entry, dict) or n not in entry]
            if without:
                raise ValueError(
                    f"read_data: {path}: {key}[{place}] has no {without[0]}, as COCO has; {EXPORT}"
                )
    for key in ("images", "categories"):
        ids = [entry["id"] for entry in content[key]]
        if len(set(ids)) < len(ids):
            twice = next(each for each in ids if ids.count(each) > 1)
            raise ValueError(f"read_data: {path}: two {key} have the id {twice!r}; {EXPORT}")
    return content


def _names(path: Path, categories: Sequence[Entry]) -> dict[Any, str]:
    names = {category["id"]: same_form(str(category["name"])) for category in categories}
    twice = [name for name in names.values() if list(names.values()).count(name) > 1]
    if twice:
        raise ValueError(
            f"read_data: {path} has two categories of the name {twice[0]!r}; rename one"
        )
    return names


def _need_known(
    path: Path, annotations: Sequence[Entry], images: Mapping[Any, Any], names: Mapping[Any, str]
) -> None:
    for place, annotation in enumerate(annotations):
        for key, known in (("image_id", images), ("category_id", names)):
            if annotation[key] not in known:
                raise ValueError(
                    f"read_data: {path}: annotations[{place}] has {key} {annotation[key]!r}, which "
                    f"the file does not describe; {EXPORT}"
                )


def _is_object(annotation: Entry) -> bool:
    return all(annotation.get(key) in (None, 0, "0") for key in ("iscrowd", "ignore"))


def _size(path: Path, image: Entry) -> tuple[int, int] | None:
    """Width and height as the file has them, numbers or their text; None without."""
    given = [image.get(side) for side in ("width", "height")]
    if None in given:
        return None
    try:
        width, height = (int(float(side)) for side in given)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"read_data: {path}: the picture {image['file_name']} has width and height {given}; "
            f"pixels are needed: {EXPORT}"
        ) from None
    return width, height


def _largest(annotations: Sequence[Entry], size: tuple[int, int] | None, file: Path) -> Any:
    """The category of the largest annotation, or of one that is no outline, which is told later."""
    categories = {annotation["category_id"] for annotation in annotations}
    if len(categories) == 1:
        return categories.pop()
    size = size or _size_of(file)
    return max(annotations, key=lambda annotation: _area(annotation, size))["category_id"]


def _area(annotation: Entry, size: tuple[int, int]) -> float:
    if not annotation.get("segmentation"):
        *_, width, height = annotation.get("bbox") or (0, 0)
        return float(width) * float(height)
    outline = annotation["segmentation"]
    try:  # runs have a size of their own, of a turned picture that of its file
        return float(drawn(outline, size_of_runs(outline) or size).sum())
    except OUTLINES:
        return float("inf")


def _size_of(file: Path) -> tuple[int, int]:
    try:
        with opened(file) as image:
            return upright_size(image)
    except READING:
        return 1, 1  # it is refused when it is looked at


def _mask(
    image: Entry, annotations: Sequence[Entry], size: tuple[int, int] | None
) -> CocoMask | None:
    outlined = [a for a in annotations if a.get("segmentation")]
    if not outlined:
        return None
    return CocoMask(
        tuple(a["segmentation"] for a in outlined),
        tuple(f"annotations[{a['place']}]" for a in outlined),
        size,
    )


def _folders(path: Path) -> list[Path]:
    """Where pictures lie beside a COCO file; x/ beside annotations/instances_x.json."""
    here, above = path.parent, path.parent.parent
    subset = path.stem.removeprefix("instances_")
    places = [here, here / "images"]
    if here.name == "annotations":
        places += [above / subset, above / "images" / subset, above / "images", above]
    return places


def _file(path: Path, name: str, places: Sequence[Path]) -> Path:
    found = next((place / name for place in places if (place / name).is_file()), None)
    if found is None:
        raise FileNotFoundError(
            f"read_data: {path}: the picture {name} is missing; put it into {places[0]}, or give "
            "the folder of the pictures with --images"
        )
    return found
