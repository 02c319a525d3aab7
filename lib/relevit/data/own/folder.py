"""A data set of one's own, found: class folders with masks beside, a table, or a COCO file.

    birds/images/<class>/*.jpg  birds/masks/<class>/*.png  pictures, and masks of the same names
    birds/<class>/*.jpg                        folders as torchvision and Hugging Face have them
    birds.csv, birds.parquet                   columns image, label, perhaps mask and split
    annotations.json                           COCO, with pictures beside it or in images/

Any of the folders may have parts, as in birds/train/<class> and birds/val/<class>, with masks in
birds/masks/train/<class> or birds/masks/<class>. Classes are in the order of their names, numbers
by their value.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torchvision.datasets.folder import IMG_EXTENSIONS

from relevit.data.own.coco import read_coco
from relevit.data.own.listing import Listing, by_name, some
from relevit.data.own.tables import TABLES, read_table

ENDINGS = (*IMG_EXTENSIONS, ".gif")
KINDS = "a folder of class folders, a .csv or .parquet table, or a COCO .json"
WHOLE = "all"
PARTS = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "dev": "validation",
    "test": "test",
    "testing": "test",
}
CLUTTER = ("thumbs.db", "desktop.ini", "ehthumbs.db")  # of Windows; hidden files begin with a dot


def read_data(
    path: Path | str, masks: Path | str | None = None, *, least_classes: int = 2
) -> Listing:
    """One listing of all pictures at `path`, in a fixed order; no picture is opened.

    `path` is a folder or file as this module has them; `masks` is the folder of masks of class
    folders, where it is not masks/ beside them. Folders in a class folder are read too. Left out
    are hidden files, and others than `ENDINGS`, which the listing names. A mask is a PNG of its
    picture's name; a picture may lack one, but not all may.
    A set with fewer classes than `least_classes` is refused: give 1 for one to be tested alone.
    Raises: FileNotFoundError for a path that is missing, of a table or COCO file also a picture's;
    ValueError for a set that is empty, has too few classes or parts that `read_splits` tells apart,
    for a class without pictures or with images/ and masks/ of its own, masks of unknown classes or
    of no picture, two pictures for a mask, a table without its columns or labels, and a COCO file
    without annotations.
    """
    path, masks = _paths(path, masks)
    if path.is_file():
        found = _read_file(path, masks)
        if set(found) != {WHOLE}:
            raise ValueError(
                f"read_data: {path} has the parts {', '.join(found)} in its column split; read it "
                "with read_splits"
            )
        return _need_classes(found, least_classes)[WHOLE]
    parts = _parts(_pictures_root(path))
    if parts:
        raise ValueError(
            f"read_data: {path} has the parts {', '.join(parts)} and not classes; read it with "
            "read_splits, or give the path of one part"
        )
    listing = _read_folder(_pictures_root(path), masks or _masks_root(path), _name(path))
    return _need_classes({WHOLE: listing}, least_classes)[WHOLE]


def read_splits(
    path: Path | str, masks: Path | str | None = None, *, least_classes: int = 2
) -> dict[str, Listing]:
    """The parts of a data set by name: "train", "validation" and "test", or "all" without parts.

    Of a folder the parts are its subfolders, of a table what its column `split` says; val, valid
    and dev are names of validation, too. All parts have the classes of "train" (without it, those
    of any part), so that their labels mean the same; a part may lack some.
    Raises: as `read_data`; ValueError also for a class that "train" lacks.
    """
    path, masks = _paths(path, masks)
    if path.is_file():
        return _need_classes(_with_same_classes(_read_file(path, masks)), least_classes)
    root = _pictures_root(path)
    parts = _parts(root)
    if not parts:
        return {WHOLE: read_data(path, masks, least_classes=least_classes)}
    known = {name for part in parts.values() for name in _class_names(_pictures_root(root / part))}
    found = {}
    for name, part in parts.items():
        folder = root / part
        beside = _masks_root(folder) if masks is None else None
        outlines = beside or _part_of(masks or _masks_root(path), part)
        pictures = _pictures_root(folder)
        found[name] = _read_folder(pictures, outlines, f"{_name(path)}/{part}", known)
    return _need_classes(_with_same_classes(found), least_classes)


def _name(path: Path) -> str:
    return path.absolute().name  # of "." too


def _paths(path: Path | str, masks: Path | str | None) -> tuple[Path, Path | None]:
    """Both with the user's home folder put in. Raises: FileNotFoundError."""
    path = Path(path).expanduser()
    masks = None if masks is None else Path(masks).expanduser()
    if not path.exists():
        raise FileNotFoundError(f"read_data: {path} is missing; give {KINDS}")
    if masks is not None and not masks.is_dir():
        raise FileNotFoundError(
            f"read_data: the folder of masks {masks} is missing; give one with a folder for each "
            "class, or none"
        )
    return path, masks


def _read_file(path: Path, masks: Path | None) -> dict[str, Listing]:
    ending = path.suffix.lower()
    if ending not in (*TABLES, ".json"):
        raise ValueError(f"read_data: {path} is a {ending or 'nameless'} file; give {KINDS}")
    if masks is not None:
        where = "the outlines in it" if ending == ".json" else "the column mask"
        raise ValueError(
            f"read_data: masks {masks} is given beside {path.name}, whose masks are {where}; leave "
            "one of both out"
        )
    if ending == ".json":
        return {WHOLE: read_coco(path)}
    return read_table(path, PARTS, WHOLE)


def _pictures_root(folder: Path) -> Path:
    inside = folder / "images"
    return inside if inside.is_dir() and _subfolders(inside) else folder


def _masks_root(folder: Path) -> Path | None:
    """The folder `masks`, unless it is a class: then it has pictures and no folders."""
    inside = folder / "masks"
    return inside if inside.is_dir() and _subfolders(inside) else None


def _part_of(masks: Path | None, part: str) -> Path | None:
    """The masks of one part, or those of all, where these have no folders of parts."""
    if masks is None or not _parts(masks):
        return masks
    return masks / part if (masks / part).is_dir() else None


def _parts(folder: Path) -> dict[str, str]:
    """Folder names by part, if all folders are parts and one is for training; else none.

    Raises: ValueError for two folders of one part.
    """
    names = [name for name in _subfolders(folder) if folder / name != _masks_root(folder)]
    if not names or any(name.lower() not in PARTS for name in names):
        return {}
    found: dict[str, str] = {}
    for part in dict.fromkeys(PARTS.values()):
        of_part = [name for name in names if PARTS[name.lower()] == part]
        if len(of_part) > 1:
            raise ValueError(
                f"read_splits: {folder} has {' and '.join(of_part)}, both for {part}; keep one"
            )
        if of_part:
            found[part] = of_part[0]
    return found if "train" in found else {}


def _subfolders(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(e.name for e in entries if not e.name.startswith(".") and e.is_dir())


def _class_names(root: Path) -> tuple[str, ...]:
    masks = _masks_root(root)
    return by_name(name for name in _subfolders(root) if root / name != masks)


def _read_folder(
    root: Path, masks: Path | None, name: str, known: set[str] | None = None
) -> Listing:
    """The pictures in `root`/<class>; `known` are the classes that masks may have."""
    classes = _class_names(root)
    if not classes:
        straight = sum(map(_is_picture, os.listdir(root)))
        inside = f"{straight} pictures and no class folder" if straight else "no class folder"
        raise ValueError(
            f"read_data: {root} has {inside}; put the pictures of each class into a folder of its "
            "name, or list them in a .csv with the columns image and label"
        )
    _need_known_masks(masks, known or set(classes), root)
    images: list[Path] = []
    labels: list[int] = []
    outlines: list[Path | None] = []
    left_out: list[Path] = []
    for label, found in enumerate(classes):
        _need_class(root / found)
        pictures, others = _pictures(root / found)
        _need_pictures(root / found, pictures, others)
        beside = {} if masks is None else _masks(masks / found)
        if beside:
            _need_one_each(root / found, pictures, "pictures", "their mask is")
        images += [root / found / picture for picture in pictures]
        labels += [label] * len(pictures)
        outlines += [beside.pop(_stem(picture), None) for picture in pictures]
        left_out += [root / found / other for other in others] + list(beside.values())
    if masks is not None and not any(outlines):
        raise ValueError(
            f"read_data: none of the {len(images)} pictures has a mask in {masks}, the first would "
            f"be {masks / images[0].relative_to(root).with_suffix('.png')}; name each mask as its "
            "picture, or leave the masks out"
        )
    return Listing(
        name, classes, tuple(images), torch.tensor(labels),
        tuple(outlines), root, tuple(left_out),
    )  # fmt: skip


def _pictures(folder: Path) -> tuple[list[str], list[str]]:
    """Pictures at any depth, relative to `folder` and sorted, and what else is there to see."""
    pictures, others = [], []
    for place, folders, files in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in files:
            relative = (Path(place).relative_to(folder) / name).as_posix()
            if _is_picture(name):
                pictures.append(relative)
            elif not name.startswith(".") and name.lower() not in CLUTTER:
                others.append(relative)
    return sorted(pictures), sorted(others)


def _is_picture(name: str) -> bool:
    """Whether a file is a picture by its name, and not one of macOS's `._` files."""
    return name.lower().endswith(ENDINGS) and not name.startswith(".")


def _stem(name: str) -> str:
    return Path(name).with_suffix("").as_posix()


def _masks(folder: Path) -> dict[str, Path]:
    """The PNG files of a class by the stem of their picture, none where the folder is missing."""
    if not folder.is_dir():
        return {}
    pictures, others = _pictures(folder)
    wrong = [name for name in pictures + others if not name.lower().endswith(".png")]
    if wrong:
        raise ValueError(
            f"read_data: {folder / wrong[0]} is no PNG file ({len(wrong)} such in {folder}); save "
            "masks as PNG, which keeps edges, and take other files out"
        )
    _need_one_each(folder, pictures, "masks", "their picture is")
    return {_stem(name): folder / name for name in pictures}


def _need_one_each(folder: Path, names: Sequence[str], what: str, whose: str) -> None:
    """Raise ValueError when two files differ in their ending alone."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(_stem(name), name)
        if other != name:
            raise ValueError(
                f"read_data: {folder} has the {what} {other} and {name}, so that it is not known "
                f"which {whose} {_stem(name)}; rename one, or take it out"
            )


def _need_class(folder: Path) -> None:
    """Raise ValueError for a folder of images/ and masks/, whose masks would pass for pictures."""
    if _masks_root(folder) and _pictures_root(folder) != folder:
        raise ValueError(
            f"read_data: {folder} has images and masks, and so is a data set of its own and no "
            "class; give this folder in place of the one above it"
        )


def _need_pictures(folder: Path, pictures: Sequence[str], others: Sequence[str]) -> None:
    if not pictures:
        inside = f"{len(others)} files like {others[0]} and no picture" if others else "no pictures"
        raise ValueError(
            f"read_data: the class folder {folder} has {inside}; needed are files that end in "
            f"{', '.join(ENDINGS)}: put some there, or remove the folder"
        )


def _need_known_masks(masks: Path | None, classes: set[str], root: Path) -> None:
    unknown = [] if masks is None else [n for n in _subfolders(masks) if n not in classes]
    if unknown:
        raise ValueError(
            f"read_data: {masks} has the class {unknown[0]!r}, which {root} lacks ({len(unknown)} "
            f"such); its classes are {some(sorted(classes))}: rename the folder, or take it out"
        )


def _with_same_classes(parts: Mapping[str, Listing]) -> dict[str, Listing]:
    classes = {name: None for part in parts.values() for name in part.classes}
    known = parts["train"].classes if "train" in parts else tuple(classes)
    return {name: part.relabelled(known) for name, part in parts.items()}


def _need_classes(parts: dict[str, Listing], least: int) -> dict[str, Listing]:
    first = next(iter(parts.values()))
    if len(first.classes) < least:
        raise ValueError(
            f"read_data: {first.name} has {len(first.classes)} class, {some(first.classes)}; "
            f"needed are at least {least}: give pictures of another class, such as of none of these"
        )
    return parts
