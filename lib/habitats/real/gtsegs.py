"""ImageNet segmentation (Guillaumin et al. 2014): 4,276 pictures with outlines, in one MAT-file.

Source: the segmentation test of RobustViT (Tab. 3) and of Beyond Intuition (Sec. 4). The file is of
MATLAB 7.3, which is HDF5: `value` is a struct array, and each of its fields a column of references.
MATLAB counts the first axis fastest, so that HDF5 has all axes in reverse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import h5py
import numpy as np
from PIL import Image

from habitats.real.catalogue import Entry
from habitats.real.classes import IMAGENET_INDEX, SHORT_NAMES
from habitats.real.folders import need
from relevit.base.errors import one_line
from relevit.data.image_set import PAPER_VIEW, ImageSet, picture_set
from relevit.models.spec import Mask, View

IMAGES, MASKS, TARGETS = "value/img", "value/gt", "value/target"
UNKNOWN = -1  # label of a picture whose class is no class of ImageNet-1k, or is not given
DAMAGED = (OSError, KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError)
Item = TypeVar("Item")


def read_gtsegs(entry: Entry, data_root: Path, view: View = PAPER_VIEW) -> ImageSet:
    """The pictures of gtsegs_ijcv.mat, each with the mask of its object.

    `labels` are the ImageNet-1k indices of the wnids in `value/target`, and -1 where there is none:
    the set has classes that ImageNet-1k lacks, and the papers' code never reads that field. Use
    it with the predicted class. A picture's mask is the first of its cell, as in the papers' code;
    it is passed on also when it is empty or full. Picture and mask are resized to the square
    without their aspect, masks pixel by pixel (E4).
    The file is opened for each picture and closed again: reading is safe in threads and in
    processes, and nothing is left open.
    """
    path = need(entry, data_root / entry.folders[0])
    try:
        labels = _read(path, _labels)
    except ValueError as error:
        raise ValueError(
            f"{entry.key}: {path} has {path.stat().st_size} bytes and is not as published "
            f"({one_line(error)}); needed is a MATLAB 7.3 file with {IMAGES} and {MASKS}: it is "
            "half downloaded or another file, download it again"
        ) from error
    return picture_set(
        entry.key,
        SHORT_NAMES,
        labels,
        [f"{path.name}/{place:04d}" for place in range(len(labels))],
        lambda place: _read(path, lambda file: _picture(file, place)),
        replace(view, resize=view.crop, squash=True, mask_pixels="nearest"),
        masks=lambda place: _read(path, lambda file: _mask(file, place)),
    )


def _read(path: Path, take: Callable[[h5py.File], Item]) -> Item:
    """What `take` finds in the file; whatever h5py raises is one kind of error."""
    try:
        with h5py.File(path, "r") as file:
            return take(file)
    except DAMAGED as error:
        raise ValueError(f"{path} is damaged: {one_line(error)}") from error


def _labels(file: h5py.File) -> list[int]:
    count = len(_column(file, IMAGES))
    targets = [file[one] for one in _column(file, TARGETS)] if TARGETS in file else [None] * count
    if not count == len(_column(file, MASKS)) == len(targets) > 0:
        raise ValueError(
            f"{count} images, {len(_column(file, MASKS))} masks, {len(targets)} targets"
        )
    return [_index(text) for text in targets]


def _index(text: h5py.Dataset | None) -> int:
    """The label of a wnid, which MATLAB keeps as a column of UTF-16 numbers."""
    if text is None or text.dtype != np.uint16:
        return UNKNOWN
    return IMAGENET_INDEX.get("".join(map(chr, text[()].ravel())), UNKNOWN)


def _column(file: h5py.File, field: str) -> list[h5py.Reference]:
    return list(file[field][()].ravel())


def _picture(file: h5py.File, place: int) -> Image.Image:
    planes = file[_column(file, IMAGES)[place]][()]
    return Image.fromarray(np.ascontiguousarray(planes.transpose(2, 1, 0)))


def _mask(file: h5py.File, place: int) -> Mask:
    cell = file[_column(file, MASKS)[place]]
    mask = file[cell[()].ravel()[0]][()].T != 0
    size = file[_column(file, IMAGES)[place]].shape[:0:-1]
    if mask.shape != size:
        raise ValueError(f"the mask has (height, width) {mask.shape}, and the image {size}")
    return np.ascontiguousarray(mask)
