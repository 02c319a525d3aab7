"""A data set of one's own, listed: one table of its pictures, their classes and their masks."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import SupportsInt

import pandas as pd
import torch
from jaxtyping import Int
from PIL import Image
from torch import Tensor

from relevit.data.image_set import ImageSet, picture_set
from relevit.data.pictures import opened, upright
from relevit.models.spec import Mask, View, as_rgb
from relevit_own.outlines import AS_SEEN, MaskSource, MaskValues, fitting_mask

COLUMNS = ["id", "image", "label", "mask", "split"]
WHOLE = "all"  # the one part of a set without
PARTS = {"train": "train(ing)?", "validation": "val(id(ation)?)?|dev", "test": "test(ing)?"}
REMEDY = "save it again as JPEG or PNG, or take it out"
SKIP = "or leave such pictures out (--skip-unreadable, or corrupted: skip)"


@dataclass(frozen=True, eq=False)
class Listing:
    """Pictures on disk with a class each, in a fixed order; none is opened yet.

    `rows` has one row a picture: `id` (its name for people and files), `image` (its path), `label`
    (its class), `mask` (where the object's mask comes from, None without one), and `pixels`, which
    are alike for copies of a photograph, once `check.examine` has seen them. `values` is what the
    numbers of masks mean, and `left_out` are files that were found and are not among the pictures.
    `white` is what greys of more than 8 bits are scaled by, once they have been seen; before, each
    picture has a range of its own.
    """

    name: str
    classes: tuple[str, ...]
    rows: pd.DataFrame
    left_out: tuple[Path, ...] = ()
    values: MaskValues = AS_SEEN
    white: int | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self.rows["id"])

    @property
    def images(self) -> tuple[Path, ...]:
        return tuple(self.rows["image"])

    @property
    def masks(self) -> tuple[MaskSource | None, ...]:
        return tuple(self.rows["mask"])

    @property
    def labels(self) -> Int[Tensor, " images"]:
        """Places of the pictures' classes in `classes`."""
        places = {name: place for place, name in enumerate(self.classes)}
        return torch.tensor([places[name] for name in self.rows["label"]], dtype=torch.int64)

    @property
    def has_masks(self) -> bool:
        """Whether every picture has a mask."""
        return len(self) > 0 and None not in self.masks

    def image_set(self, view: View) -> ImageSet:
        """The pictures upright and cut to the view; with masks when every picture has one.

        A mask of another size than its upright picture raises UnreadableImage when asked for.
        """
        return picture_set(
            self.name,
            self.classes,
            self.labels,
            self.ids,
            self.picture,
            view,
            masks=self.mask if self.has_masks else None,
            remedy=f"{REMEDY}, {SKIP}",
        )

    def picture(self, place: int) -> Image.Image:
        """One picture in its own size, upright and in RGB. Raises: OSError, ValueError."""
        with opened(self.rows["image"].iloc[place]) as image:
            return as_rgb(upright(image), self.white)

    def mask(self, place: int) -> Mask:
        """One mask in the size of its upright picture, which has one. Raises: as `fitting_mask`."""
        row = self.rows.iloc[place]
        return fitting_mask(row["mask"], row["image"], self.values)[0]

    def select(self, places: Iterable[SupportsInt]) -> Listing:
        """The pictures at these places, in this order; the classes stay."""
        rows = self.rows.iloc[[int(place) for place in places]]
        return replace(self, rows=rows.reset_index(drop=True))

    def relabelled(self, classes: Sequence[str]) -> Listing:
        """The same pictures with labels that count `classes`: more of them, or in another order.

        Raises: ValueError when a picture's class is not among them, or a name is there twice.
        """
        classes = tuple(map(same_form, classes))
        if len(set(classes)) < len(classes):
            twice = next(name for name in classes if classes.count(name) > 1)
            raise ValueError(f"{self.name}: class {twice!r} is given twice; name each once")
        unknown = [name for name in self.rows["label"].unique() if name not in classes]
        if unknown:
            raise ValueError(
                f"{self.name}: class {unknown[0]!r} ({len(unknown)} such) is none of the "
                f"{len(classes)} that are known, {some(classes)}; rename it, or take it out"
            )
        return replace(self, classes=classes)


def some(names: Sequence[str], most: int = 5) -> str:
    """The first of many names, for errors."""
    shown = ", ".join(repr(name) for name in names[:most])
    return f"{shown} ..." if len(names) > most else shown


def part_of(name: str) -> str | None:
    """The part that a folder or a value of `split` names, as in val, training_set, test-images."""
    kinds = "([ _-]?(set|split|data|images))?"
    found = (part for part, p in PARTS.items() if re.fullmatch(f"({p}){kinds}", name, re.I))
    return next(found, None)


def same_form(name: str) -> str:
    """A name as it is compared: macOS writes an accent as a letter of its own, others do not."""
    return unicodedata.normalize("NFC", name)


def places_of(name: str, classes: Sequence[str]) -> list[int]:
    """The classes that may be meant: those called so, or else those of whose names it is a part.

    Parts stand between commas, as in ImageNet's names; their capitals do not matter.
    """
    sought = same_form(name).strip()
    if whole := [place for place, each in enumerate(classes) if same_form(str(each)) == sought]:
        return whole
    parts = [{part.strip().casefold() for part in (n, *n.split(","))} for n in map(str, classes)]
    return [place for place, own in enumerate(parts) if sought.casefold() in own]


def natural(name: str) -> list[int | str]:
    """To sort by: 2.jpg comes before 10.jpg."""
    parts = re.split(r"(\d+)", name)
    return [int(part) if place % 2 else part for place, part in enumerate(parts)]


def order_note(classes: Sequence[str]) -> str:
    """A sentence on the order of classes where texts and the numbers in them have two."""
    if sorted(classes) == sorted(classes, key=natural):
        return ""
    return (
        f"numbered in the order {some(classes)}; a trained head that has another needs --set "
        "head_classes=[...]"
    )
