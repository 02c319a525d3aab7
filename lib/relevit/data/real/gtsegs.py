"""ImageNet segmentation (Guillaumin et al. 2014): 4,276 pictures with outlines, in one MAT-file.

Source: the segmentation test of RobustViT (Tab. 3) and of Beyond Intuition (Sec. 4). The file is of
MATLAB 7.3, which is HDF5: `value` is a struct array, and each of its fields a column of references.
MATLAB counts the first axis fastest, so that HDF5 has all axes in reverse.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import h5py
import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image

from relevit.base.errors import one_line
from relevit.data.real.classes import IMAGENET_INDEX
from relevit.data.real.image_set import PAPER_VIEW, ImageSet, need_file
from relevit.models.spec import Mask, View

NAME = "gtsegs"
FILE = "gtsegs_ijcv.mat"
IMAGES, MASKS, TARGETS = "value/img", "value/gt", "value/target"
UNKNOWN = -1  # label of a picture whose class is no class of ImageNet-1k, or is not given
WNID_LENGTH = 9
Item = TypeVar("Item")


def read_gtsegs(data_root: Path, view: View = PAPER_VIEW) -> ImageSet:
    """The pictures of gtsegs_ijcv.mat, each with the mask of its object.

    `labels` are the ImageNet-1k indices of the wnids in `value/target`, and -1 where there is none:
    the set has classes that ImageNet-1k lacks, and the papers' code never reads that field. Use
    it with the predicted class. A picture's mask is the first of its cell, as in the papers' code;
    it is passed on also when it is empty or full.
    The file is opened for each picture and closed again: reading is safe in threads and in
    processes, and nothing is left open.
    Raises: FileNotFoundError when the file is missing; ValueError when it is damaged, half
    downloaded or another file.
    """
    path = data_root / FILE
    need_file(NAME, path, f"put {FILE} into {data_root}")
    labels = _labels(path)
    return ImageSet(
        name=NAME,
        ids=tuple(f"{FILE}/{place:04d}" for place in range(len(labels))),
        labels=torch.tensor(labels),
        open=lambda place: Image.fromarray(_read(path, lambda file: _pixels(file, place))),
        view=view,
        masks=lambda place: _read(path, lambda file: _mask(file, place)),
    )


def _labels(path: Path) -> list[int]:
    """The label of each picture, after a look at the file's fields."""
    try:
        with h5py.File(path, "r") as file:
            images, masks = (_references(file, field) for field in (IMAGES, MASKS))
            if not len(images) or len(images) != len(masks):
                raise ValueError(f"{len(images)} images and {len(masks)} masks")
            return _targets(file, len(images))
    except (OSError, KeyError, ValueError, RuntimeError) as error:  # all that h5py raises
        raise ValueError(
            f"{NAME}: {path} has {path.stat().st_size} bytes and is not as published "
            f"({one_line(error)}); needed is a MATLAB 7.3 file with {IMAGES} and {MASKS}: it is "
            "half downloaded or another file, download it again"
        ) from error


def _targets(file: h5py.File, count: int) -> list[int]:
    if TARGETS not in file:
        return [UNKNOWN] * count
    texts = [file[reference] for reference in _references(file, TARGETS)]
    if len(texts) != count:
        raise ValueError(f"{count} images and {len(texts)} targets")
    return [_index(text) for text in texts]


def _index(text: h5py.Dataset) -> int:
    """The label of a wnid, which MATLAB keeps as a column of UTF-16 numbers."""
    if text.size != WNID_LENGTH or text.dtype != np.uint16:
        return UNKNOWN
    return IMAGENET_INDEX.get("".join(map(chr, text[()].ravel())), UNKNOWN)


def _references(file: h5py.File, field: str) -> list[h5py.Reference]:
    column = file[field]
    if not isinstance(column, h5py.Dataset) or h5py.check_ref_dtype(column.dtype) is None:
        raise ValueError(f"{field} is no column of references")
    return list(column[()].ravel())


def _read(path: Path, take: Callable[[h5py.File], Item]) -> Item:
    """What `take` finds in the file. Raises: OSError or ValueError, whatever is wrong with it."""
    try:
        with h5py.File(path, "r") as file:
            return take(file)
    except (KeyError, IndexError, TypeError, RuntimeError) as error:
        raise ValueError(f"{path} is damaged: {one_line(error)}") from error


def _planes(file: h5py.File, place: int) -> h5py.Dataset:
    planes = file[_references(file, IMAGES)[place]]
    if planes.ndim != 3 or planes.shape[0] != 3 or planes.dtype != np.uint8:
        raise ValueError(
            f"the image is {planes.dtype} of shape {planes.shape}; needed is uint8 of (3, width, "
            "height)"
        )
    return planes


def _pixels(file: h5py.File, place: int) -> UInt8[np.ndarray, "height width 3"]:
    return np.ascontiguousarray(_planes(file, place)[()].transpose(2, 1, 0))


def _mask(file: h5py.File, place: int) -> Mask:
    cell = file[_references(file, MASKS)[place]]
    mask = file[cell[()].ravel()[0]]
    shape = _planes(file, place).shape[1:]
    if mask.shape != shape:
        raise ValueError(f"the mask has (width, height) {mask.shape}, and the image {shape}")
    return np.ascontiguousarray(mask[()].T != 0)
