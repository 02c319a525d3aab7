"""A table of pictures, and a COCO file of annotations, as rows of a `Listing`.

Source of the latter: Lin et al. 2014, Microsoft COCO, as tools for drawing outlines export it
(CVAT, Label Studio, Roboflow). COCO has many objects in a picture; a classifier answers with one
class.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from relevit.base.errors import one_line
from relevit.base.results import parquet
from relevit.data.pictures import READING, opened
from relevit_own.listing import COLUMNS, PARTS, part_of, same_form, some
from relevit_own.outlines import CocoMask, Size, upright_size

TABLES = (".csv", ".tsv", ".parquet")
SEPARATORS = (",", ";", "\t")
KEY = (str, int, float)  # what an id or a name may be
COCO = {
    "images": {"id": KEY, "file_name": str},
    "annotations": {"image_id": KEY, "category_id": KEY},
    "categories": {"id": KEY, "name": KEY},
}
EXPORT = "export it again as COCO instances"
Found = tuple[pd.DataFrame, tuple[str, ...], tuple[Path, ...]]
Entry = Mapping[str, Any]


def read_table(path: Path) -> Found:
    """Rows, classes and what is left out (nothing) of a CSV or parquet file.

    Columns: `image`, a path relative to the file's folder; `label`, a name or a whole number;
    optional `mask`, a path or empty, and `split`, train, validation or test. Values of a CSV are
    separated by commas, semicolons or tabs. Classes are in the order of their names; if all are
    whole numbers, which are a head's own, by their value.
    Raises: ValueError for a file that cannot be read, is empty or lacks a column, and for a
    label, path or part that is none; FileNotFoundError for a picture or mask that is missing, with
    its row; rows count from 1 after the heading.
    """
    table = _opened(path)
    missing = [name for name in ("image", "label") if name not in table]
    if missing:
        raise ValueError(
            f"read_data: {path} has no column {' and none '.join(missing)}; it has "
            f"{some(list(table.columns))}: needed are image and label, and mask and split may be"
        )
    if table.empty:
        raise ValueError(f"read_data: {path} has no rows; list at least one picture of each class")
    rows = [_row(path, number, row) for number, row in enumerate(table.to_dict("records"), 1)]
    names = sorted({row["label"] for row in rows})
    classes = sorted(names, key=int) if all(map(str.isdecimal, names)) else names
    return pd.DataFrame(rows, columns=COLUMNS), tuple(classes), ()


def _opened(path: Path) -> pd.DataFrame:
    try:
        if path.suffix.lower() == ".parquet":
            return parquet(path)
        with path.open(encoding="utf-8-sig") as file:
            heading = file.readline()
        # Texts as they stand: a class may be called None, and 007 is not 7. Empty cells are NaN.
        table = pd.read_csv(
            path, sep=max(SEPARATORS, key=heading.count), dtype=str, keep_default_na=False,
            na_values=[""], encoding="utf-8-sig", skipinitialspace=True,
        )  # fmt: skip
    except (OSError, ValueError) as error:  # pandas' are ValueErrors
        raise ValueError(
            f"read_data: {path} cannot be read ({one_line(error)}); save it as a CSV in UTF-8, or "
            "as parquet"
        ) from error
    return table.rename(columns=str.strip)


def _row(path: Path, number: int, row: Entry) -> dict[str, Any]:
    """A row of a table as one of a listing."""
    where = f"read_data: {path}, row {number}"

    def file(column: str) -> Path:
        value = row[column]
        if not isinstance(value, str) or not value:
            raise ValueError(
                f"{where}, has {type(value).__name__} in the column {column}; needed is a path "
                f"relative to {path.parent}"
            )
        if not (path.parent / value).is_file():
            raise FileNotFoundError(
                f"{where}: the {column} {path.parent / value} is missing; write paths relative to "
                f"{path.parent}, or take the row out"
            )
        return path.parent / value

    label, image = row["label"], file("image")
    if isinstance(label, float | np.floating) and np.isfinite(label) and label == int(label):
        label = int(label)  # whole numbers of a column that has also had empty cells
    if not isinstance(label, str | int | np.integer | np.bool_) or not str(label).strip():
        what = "no label" if pd.api.types.is_scalar(label) and pd.isna(label) else repr(label)
        raise ValueError(
            f"{where}, has {what}; give each picture the name or whole number of its class"
        )
    split = row.get("split")
    if "split" in row and (not isinstance(split, str) or part_of(split.strip()) is None):
        raise ValueError(f"{where}, has the split {split!r}; give one of {', '.join(PARTS)}")
    return {
        "id": _inside(image, path.parent),
        "image": image,
        "label": same_form(str(label).strip()),
        "mask": None if pd.isna(row.get("mask")) else file("mask"),
        "split": split.strip() if split else None,
    }


def _inside(path: Path, folder: Path) -> str:
    """A file's name in a folder; the whole path of one outside."""
    return (path.relative_to(folder) if path.is_relative_to(folder) else path).as_posix()


# COCO


def read_coco(path: Path, folder: Path | None = None) -> Found:
    """Rows, classes and what is left out of a COCO file, in the order of its file names.

    A picture's class is the category of its largest annotation, measured from the outline or, of
    a box alone, from the box; its mask is the union of that category's outlines, or none if these
    are boxes. Crowds (`iscrowd`) and ignored regions (`ignore`) are no objects, as in COCO.
    Pictures without annotation are left out; so are categories without a picture, and classes have
    the order of the categories' ids, as COCO's own tools count them. File names are relative to
    `folder`; without one to that of the file, to images/ in it, or to COCO's own x/ for
    annotations/instances_x.json.
    Raises: ImportError without pycocotools; ValueError for a file that is not COCO, has no
    annotations of objects, or one of an unknown picture or category, or two categories of one name;
    FileNotFoundError for a picture that is missing.
    """
    try:
        import pycocotools.mask  # noqa: F401  it draws polygons
    except ImportError as error:
        raise ImportError(
            "read_data: a COCO file of annotations needs the package pycocotools, which is not "
            "installed: pip install pycocotools"
        ) from error
    content = _content(path)
    names = {entry["id"]: same_form(str(entry["name"])) for entry in content["categories"]}
    objects: dict[Any, list[Entry]] = {}
    for place, entry in enumerate(content["annotations"]):
        if all(entry.get(key) in (None, 0, "0") for key in ("iscrowd", "ignore")):
            named = {**entry, "place": f"annotations[{place}]"}
            objects.setdefault(entry["image_id"], []).append(named)
    if not objects:
        raise ValueError(f"read_data: {path} has crowds and ignored regions alone; mark an object")
    places, rows, bare = [folder] if folder else _folders(path), [], []
    for image in sorted(content["images"], key=lambda image: image["file_name"]):
        if not (mine := objects.get(image["id"])):
            bare.append(places[0] / image["file_name"])
            continue
        file = next(filter(Path.is_file, (place / image["file_name"] for place in places)), None)
        if file is None:
            raise FileNotFoundError(
                f"read_data: {path}: the picture {image['file_name']} is missing; put it into "
                f"{places[0]}, or give the folder of the pictures with --images"
            )
        size, several = _size(path, image), len({entry["category_id"] for entry in mine}) > 1
        largest = max(mine, key=lambda e: _area(e, size, file)) if several else mine[0]
        category = largest["category_id"]
        marked = [e for e in mine if e["category_id"] == category and e.get("segmentation")]
        outlines = tuple((e["place"], e["segmentation"]) for e in marked)
        mask = CocoMask(outlines, size) if marked else None
        rows.append((_inside(file, path.parent), file, names[category], mask, None))
    used = {label for _, _, label, *_ in rows}
    numbers = sorted(names, key=lambda number: (isinstance(number, str), number))
    classes = tuple(names[number] for number in numbers if names[number] in used)
    return pd.DataFrame(rows, columns=COLUMNS), classes, tuple(bare)


def _content(path: Path) -> dict[str, list[Entry]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        fault = next(_faults(content), "")
    except ValueError as error:  # a broken text, or bytes that are no text
        fault = f" cannot be read ({one_line(error)})"
    if fault:
        raise ValueError(f"read_data: {path}{fault}; {EXPORT}")
    return content


def _faults(content: Any) -> Iterator[str]:
    """What makes a text no COCO file, each as the rest of a sentence."""
    for key, needed in COCO.items():
        entries = content.get(key) if isinstance(content, dict) else None
        if not isinstance(entries, list) or not entries:
            yield f" has no {key}, as a COCO file has"
        for place, entry in enumerate(entries):
            had = entry if isinstance(entry, dict) else {}
            lacking = (n for n, kind in needed.items() if not isinstance(had.get(n), kind))
            yield from (f": {key}[{place}] has no {name}, as COCO has" for name in lacking)
    ids = {key: Counter(entry["id"] for entry in content[key]) for key in ("images", "categories")}
    names = Counter(same_form(str(entry["name"])) for entry in content["categories"])
    for what, counts in {**{f"{key} have the id": ids[key] for key in ids},
                         "categories have the name": names}.items():  # fmt: skip
        yield from (f": two {what} {value!r}" for value, count in counts.items() if count > 1)
    for place, entry in enumerate(content["annotations"]):
        for key, known in (("image_id", ids["images"]), ("category_id", ids["categories"])):
            if entry[key] not in known:
                said = f"{key} {entry[key]!r}, which the file does not describe"
                yield f": annotations[{place}] has {said}"


def _size(path: Path, image: Entry) -> Size | None:
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


def _area(entry: Entry, size: Size | None, file: Path) -> float:
    """Pixels of an annotation; infinitely many of what is no outline, which is told later."""
    if not (outline := entry.get("segmentation")):
        *_, width, height = entry.get("bbox") or (0, 0)
        return float(width) * float(height)
    alone = CocoMask((("", outline),), None)
    try:  # runs have a size of their own, of a turned picture that of its file
        size = alone.drawn_on or size
        if size is None:
            with opened(file) as image:
                size = upright_size(image)
        return float(alone.drawn(size).sum())
    except READING:
        return inf


def _folders(path: Path) -> list[Path]:
    """Where pictures lie beside a COCO file; x/ beside annotations/instances_x.json."""
    here, above = path.parent, path.parent.parent
    subset = path.stem.removeprefix("instances_")
    places = [here, here / "images"]
    if here.name == "annotations":
        places += [above / subset, above / "images" / subset, above / "images", above]
    return places
