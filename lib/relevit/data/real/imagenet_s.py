"""ImageNet-S-919: ImageNet's photographs with the object outlined by people.

Source: Gao et al. 2022; RobustViT Sec. 4 trains on three pictures of each of 500 classes of
`train-semi`. A mask is a PNG whose pixels are numbers of classes, not colours: 1 to 919 in the
order of the sorted wnids, 0 for anything else, 1000 for what the annotators left open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Literal, get_args

import numpy as np
from jaxtyping import Int
from PIL import Image

from relevit.data.pictures import opened
from relevit.data.real.classes import IMAGENET_INDEX, IMAGENET_S_WNIDS, MERGED
from relevit.data.real.image_set import PAPER_VIEW, ImageSet, need_folder, read_class_folders
from relevit.models.spec import Mask, View

Part = Literal["train-semi", "validation"]
Merged = Literal["skip", "keep"]
NAME = "imagenet_s"
FOLDER = "ImageNetS919"
ARCHIVE = "ImageNetS919.zip"
LEFT_OPEN = 1000  # number of a pixel that may or may not be the object
CLASS_IDS: Mapping[str, int] = MappingProxyType(
    {wnid: number for number, wnid in enumerate(IMAGENET_S_WNIDS, start=1)}
)


def read_imagenet_s(
    data_root: Path, view: View = PAPER_VIEW, *, part: Part = "train-semi", merged: Merged = "skip"
) -> ImageSet:
    """The pictures of a part, with masks: 9,190 of `train-semi`, or 12,419 of `validation`.

    `data_root`/ImageNetS919 has the part's pictures and, in <part>-segmentation, a PNG for each.
    The archive has the PNGs alone; its authors' scripts copy the pictures from ImageNet.
    `merged="skip"` leaves out the classes that two of ImageNet's were merged to, as the published
    code does (differences B2): 914 stay. "keep" takes all 919, and both answers count as right.
    Pictures are sorted: the published choice depends on the disk (B1).
    A mask is the picture's own class. What was left open is background, as published (B3), and so
    is an object of another class, on which the published code stops. A mask may be full, but
    not empty. Masks that cannot be read, have numbers that are no class, are empty, or have
    another size than the picture raise UnreadableImage when they are asked for.
    Raises: FileNotFoundError when a folder, or the mask or picture of a pair, is missing;
    ValueError for another option; further as `read_class_folders`.
    """
    _check("part", part, get_args(Part))
    _check("merged", merged, get_args(Merged))
    folder, masks = data_root / FOLDER / part, data_root / FOLDER / f"{part}-segmentation"
    copied = f"copy the pictures from ImageNet, with datapreparation_{part.split('-')[0]}*.py"
    need_folder(NAME, folder, f"{copied} of ImageNet-S")
    need_folder(NAME, masks, f"unpack {ARCHIVE} there")
    index = {wnid: IMAGENET_INDEX[wnid] for wnid in IMAGENET_S_WNIDS}
    found = read_class_folders(NAME, folder, index, ARCHIVE, view)
    _need_pairs(folder, masks, found.ids)
    ids = found.ids
    whole = replace(
        found,
        accepted={
            IMAGENET_INDEX[kept]: (IMAGENET_INDEX[kept], IMAGENET_INDEX[gone])
            for gone, kept in MERGED.items()
        },
        masks=lambda place: _mask(folder / ids[place], masks / _mask_name(ids[place])),
    )
    if merged == "keep":
        return whole
    return whole.select([i for i, name in enumerate(ids) if _wnid(name) not in MERGED.values()])


def class_numbers(mask: Image.Image) -> Int[np.ndarray, "height width"]:
    """The number of the class of each pixel: R + 256 G (B3).

    The sum is in whole numbers of 64 bits. In those of the picture, 8 bits, 256 G is 0 and class
    256 + n becomes class n.
    Raises: ValueError for a mask that is not RGB, and for numbers that are no class.
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


def _need_pairs(folder: Path, masks: Path, ids: Sequence[str]) -> None:
    """Raise FileNotFoundError unless pictures and masks are the same, without their endings."""
    pictures = {str(PurePosixPath(name).with_suffix("")) for name in ids}
    outlined = {
        path.relative_to(masks).with_suffix("").as_posix()
        for path in masks.glob("*/*.png")
        if not path.name.startswith(".")  # macOS's `._` files
    }
    for lost, place, what in (
        (pictures - outlined, masks, f"the mask {{}}.png is missing; unpack {ARCHIVE} again"),
        (outlined - pictures, folder, "the picture {}.JPEG is missing; copy it from ImageNet"),
    ):
        if lost:
            raise FileNotFoundError(
                f"{NAME}: {what.format(place / min(lost))} ({len(lost)} are missing)"
            )


def _mask_name(picture: str) -> str:
    return str(PurePosixPath(picture).with_suffix(".png"))


def _wnid(picture: str) -> str:
    return picture.partition("/")[0]


def _check(what: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise ValueError(f"{NAME}: {what} is {given!r}; give one of {known}")
