"""ImageNet-S-919: ImageNet's photographs with the object outlined by people.

Source: Gao et al. 2022; RobustViT Sec. 4 trains on three pictures of each of 500 classes of
`train-semi`. A mask is a PNG whose pixels are numbers of classes, not colours: 1 to 919 in the
order of the sorted wnids, 0 for anything else, 1000 for what the annotators left open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Literal

import numpy as np
from jaxtyping import Int
from PIL import Image

from habitats.real.catalogue import Entry
from habitats.real.classes import IMAGENET_INDEX, IMAGENET_S_WNIDS, MERGED, SHORT_NAMES
from habitats.real.folders import list_pictures, need
from relevit.data.image_set import PAPER_VIEW, ImageSet, picture_set
from relevit.data.pictures import opened, read_picture
from relevit.models.spec import Mask, View

Part = Literal["train-semi", "validation"]
FOLDER = "ImageNetS919"
LEFT_OPEN = 1000  # number of a pixel that may or may not be the object
CLASS_IDS: Mapping[str, int] = MappingProxyType(
    {wnid: number for number, wnid in enumerate(IMAGENET_S_WNIDS, start=1)}
)


def read_imagenet_s(
    entry: Entry,
    data_root: Path,
    view: View = PAPER_VIEW,
    *,
    part: Part = "train-semi",
    merged: Literal["skip", "keep"] = "skip",
) -> ImageSet:
    """The pictures of a part, with masks: 9,190 of `train-semi`, or 12,419 of `validation`.

    `data_root`/ImageNetS919 has the part's pictures and, in <part>-segmentation, a PNG for each.
    The archive has the PNGs alone; its authors' scripts copy the pictures from ImageNet.
    `merged="skip"` leaves out the classes that two of ImageNet's were merged to, as the published
    code does (differences B2): 914 stay. "keep" takes all 919, and both answers count as right.
    Pictures are sorted: the published choice depends on the disk (B1).
    A mask is the picture's own class. What was left open is background, as published (B3), and so
    is an object of another class, on which the published code stops. A mask may be full, but
    not empty.
    """
    folder = data_root / FOLDER / part
    masks = need(entry, folder.with_name(f"{part}-segmentation"))
    ids = list_pictures(entry, folder, IMAGENET_S_WNIDS)
    _need_pairs(entry, folder, masks, ids)
    if merged == "skip":
        ids = [name for name in ids if _wnid(name) not in MERGED.values()]
    return picture_set(
        entry.key,
        SHORT_NAMES,
        [IMAGENET_INDEX[_wnid(name)] for name in ids],
        ids,
        lambda place: read_picture(folder / ids[place]),
        view,
        masks=lambda place: _mask(folder / ids[place], masks / _mask_name(ids[place])),
        accepted={
            IMAGENET_INDEX[kept]: (IMAGENET_INDEX[kept], IMAGENET_INDEX[gone])
            for gone, kept in MERGED.items()
        },
    )


def class_numbers(mask: Image.Image) -> Int[np.ndarray, "height width"]:
    """The number of the class of each pixel: R + 256 G (B3).

    The sum is in whole numbers of 64 bits. In those of the picture, 8 bits, 256 G is 0 and class
    256 + n becomes class n.
    """
    if mask.mode != "RGB":
        raise ValueError(f"the mask has mode {mask.mode}; needed are the numbers in RGB")
    red, green, blue = np.asarray(mask, dtype=np.int64).transpose(2, 0, 1)
    numbers = red + 256 * green
    wrong = numbers[((numbers > len(IMAGENET_S_WNIDS)) & (numbers != LEFT_OPEN)) | (blue > 0)]
    if wrong.size:
        raise ValueError(
            f"{wrong.size} pixels of the mask are no class, such as {wrong[0]}; needed are 0 to "
            f"{len(IMAGENET_S_WNIDS)} and {LEFT_OPEN}"
        )
    return numbers


def _mask(picture: Path, path: Path) -> Mask:
    own = CLASS_IDS[path.parent.name]
    with opened(path) as mask:
        numbers = class_numbers(mask)
    with opened(picture) as image:  # its size only: nothing is decoded
        width, height = image.size
    if numbers.shape != (height, width):
        raise ValueError(
            f"the mask has {numbers.shape[1]} x {numbers.shape[0]} pixels, the picture {width} x "
            f"{height}"
        )
    if not (numbers == own).any():
        others = [int(number) for number in np.unique(numbers)][:5]
        raise ValueError(f"the mask has no pixel of its class, {own}; it has {others}")
    return numbers == own


def _need_pairs(entry: Entry, folder: Path, masks: Path, ids: Sequence[str]) -> None:
    """Refuse a picture without its mask, or the other way round; hidden files do not count."""
    outlined = {
        path.relative_to(masks).as_posix() for path in masks.glob("*/*.png") if path.name[0] != "."
    }
    lost = sorted(outlined ^ {_mask_name(name) for name in ids})
    if lost:
        place, what = (folder, "the picture of") if lost[0] in outlined else (masks, "the mask")
        raise FileNotFoundError(
            f"{entry.key}: {what} {lost[0]} is missing in {place} ({len(lost)} lack one of both); "
            f"{entry.remedy} again, and copy the pictures from ImageNet"
        )


def _mask_name(picture: str) -> str:
    return str(PurePosixPath(picture).with_suffix(".png"))


def _wnid(picture: str) -> str:
    return picture.partition("/")[0]
