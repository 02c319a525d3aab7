"""Pictures named one by one or by their folder, without classes, and masks of the same names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from relevit.data.pictures import READING, drawn_here, opened
from relevit_own.table import NOT_READ, masks_in, natural, pictures_in, stem_of


def find_pictures(
    given: Sequence[Path], but: Path | None = None
) -> tuple[dict[Path, str], list[str]]:
    """Each picture once, with its place in the folder that was given, of a file its name alone; and
    what is no picture that is read, and why.

    Folders are searched to any depth, in natural order, without masks (masks/ beside images/),
    without the folder `but`, to which earlier results were written, and without what was drawn
    here.
    Raises: FileNotFoundError for what is missing; ValueError for a folder without pictures.
    """
    found: dict[str, tuple[Path, str]] = {}
    others = []
    for one in given:
        if not one.exists():
            raise FileNotFoundError(f"the image {one} is missing; check its name")
        names, unread = pictures_in(one) if one.is_dir() else ([""], [])
        shown = [n for n in sorted(names, key=natural) if not n or not _is_none(one / n, but)]
        if not shown:
            but_these = " but masks, and what relevit wrote" if names else ""
            raise ValueError(f"the folder {one} has no pictures{but_these}; give another")
        for name in shown:
            found.setdefault(os.path.abspath(one / name), (one / name, name or one.name))
        others += [f"{name}: {NOT_READ}" for name in unread if not _written(one / name, but)]
    return dict(found.values()), others


def find_masks(found: Mapping[Path, str], masks: Path | None) -> dict[Path, Path]:
    """The mask of each of the found pictures that has one.

    It is the PNG in the same place of the folder `masks`, or of masks/ beside the images/ that a
    picture lies in.
    Raises: ValueError where none of the pictures has a mask in `masks`, or two have the same, and
    for what is no PNG.
    """
    there: dict[Path, dict[str, Path]] = {}
    taken: dict[Path, Path] = {}
    for path, name in found.items():
        place = _beside(path, "images", "masks") if masks is None else (masks, name)
        if place is None:
            continue
        folder, inside = place
        if folder not in there:
            there[folder] = masks_in(folder)
        mask = there[folder].get(stem_of(inside.removeprefix("images/")))
        if mask is not None and taken.setdefault(mask, path) != path:
            raise ValueError(
                f"{taken[mask]} and {path} have one name, so that it is not known whose the "
                f"mask {mask} is; rename one, or take it out"
            )
    if masks is not None and not taken:
        first = masks / Path(next(iter(found.values()))).with_suffix(".png")
        raise ValueError(
            f"none of the pictures has a mask in {masks}, the first would be {first}; name each "
            "mask as its picture, or leave the masks out"
        )
    return {path: mask for mask, path in taken.items()}


def _is_none(path: Path, but: Path | None) -> bool:
    """Whether a file is a mask, or was written here."""
    if _written(path, but) or _beside(path, "masks", "images"):
        return True
    try:
        with opened(path) as image:
            return drawn_here(image)
    except READING:  # it is refused when it is looked at
        return False


def _written(path: Path, but: Path | None) -> bool:
    return but is not None and Path(os.path.abspath(path)).is_relative_to(os.path.abspath(but))


def _beside(path: Path, folder: str, other: str) -> tuple[Path, str] | None:
    """Of a path inside `folder`, where `other` lies beside that: the latter, and the way inside."""
    path = path.absolute()
    for above in path.parents:
        if above.name == folder and (above.parent / other).is_dir():
            return above.parent / other, path.relative_to(above).as_posix()
    return None
