"""A folder of class folders, as most published archives unpack to: listed once, in a fixed order.

Disks list files in an order of their own; here classes come by their ImageNet index and pictures by
name. Whether all classes of a set are there is not asked here: one is enough to read it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from PIL import Image
from torchvision.datasets.folder import IMG_EXTENSIONS

from relevit.data.real.classes import IMAGENET_INDEX
from relevit.data.real.image_set import ImageSet, View

PAPER_VIEW = View()  # 256 -> 224, bilinear (B5)


def read_class_folders(
    name: str,
    folder: Path,
    indices: Mapping[str, int],
    archive: str,
    view: View,
    candidates: Sequence[int] = (),
) -> ImageSet:
    """The pictures in `folder`/<class>, with the index that `indices` gives for the class.

    `name` is the set and `archive` where it comes from, for errors; `indices` has all folder
    names that may be there. Files beside the class folders and hidden ones are left out, and so is
    in a class folder what is no picture by its name.
    Raises: FileNotFoundError when the folder is missing; ValueError when it has no class folder,
    one that is no class of the set, or one without a picture.
    """
    need_folder(name, folder, f"unpack {archive} there")
    ids: list[str] = []
    labels: list[int] = []
    for found in class_folders(name, folder, indices, archive):
        pictures = picture_names(folder / found)
        if not pictures:
            raise ValueError(
                f"{name}: the class folder {folder / found} has no pictures; unpack {archive} "
                "again, or remove the folder to go without this class"
            )
        ids += [f"{found}/{picture}" for picture in pictures]
        labels += [indices[found]] * len(pictures)
    return picture_set(name, folder, ids, labels, view, candidates)


def class_folders(
    name: str, folder: Path, indices: Mapping[str, int], archive: str
) -> tuple[str, ...]:
    """The class folders that are there, by index (V2's 2 comes before 10) and then by name.

    Raises: ValueError when there is none, or one that is not in `indices`.
    """
    with os.scandir(folder) as entries:
        found = [e.name for e in entries if not e.name.startswith(".") and e.is_dir()]
    wrong = sorted(set(found) - set(indices))
    if wrong:
        what = "another class of ImageNet" if wrong[0] in IMAGENET_INDEX else "no class"
        raise ValueError(
            f"{name}: {folder} has the folder {wrong[0]!r}, which is {what} and none of this "
            f"set's {len(indices)} ({len(wrong)} such folders); needed are folders like "
            f"{next(iter(indices))!r} and no other: move it away, or unpack {archive} again"
        )
    if not found:
        packed = sorted(path.name for path in folder.glob("*.tar"))
        inside = f"{len(packed)} archives like {packed[0]}" if packed else "no class folder"
        remedy = "unpack each into a folder of its name" if packed else f"unpack {archive} again"
        raise ValueError(
            f"{name}: {folder} has {inside}; needed are folders like {next(iter(indices))!r}: "
            f"{remedy}"
        )
    return tuple(sorted(found, key=lambda wanted: (indices[wanted], wanted)))


def picture_names(folder: Path) -> list[str]:
    """The names of the pictures in a folder, sorted as text; hidden files are left out."""
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if is_picture(entry.name))


def is_picture(name: str) -> bool:
    """Whether a file is a picture by its name, and not one of macOS's `._` files."""
    return name.lower().endswith(IMG_EXTENSIONS) and not name.startswith(".")


def picture_set(
    name: str,
    folder: Path,
    ids: Sequence[str],
    labels: Sequence[int],
    view: View,
    candidates: Sequence[int] = (),
) -> ImageSet:
    """Pictures at `folder`/<id>. An EXIF orientation is ignored, as by the papers' loaders."""
    ids = tuple(ids)
    return ImageSet(
        name=name,
        ids=ids,
        labels=torch.tensor(labels, dtype=torch.int64),
        open=lambda place: Image.open(folder / ids[place]),
        view=view,
        candidates=tuple(candidates),
    )


def need_folder(name: str, folder: Path, remedy: str) -> None:
    """Raise FileNotFoundError when a folder is not there."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{name}: folder {folder} is missing; {remedy}")
