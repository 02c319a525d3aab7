"""A small replica of ImageNet-S-919: pictures of two parts, and masks whose pixels are numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import numpy as np
from jaxtyping import Int
from PIL import Image

from relevit.data.real.classes import MERGED, index_of
from relevit.data.real.image_set import Mask
from relevit.data.real.imagenet_s import CLASS_IDS, FOLDER, LEFT_OPEN, Part
from replicas.pictures import Kind, object_mask, picture, save_jpeg

# Numbers 1, 256 and 512 (their R is 0), 918; and two merged classes, 783 and 919.
WNIDS = ("n01440764", "n02111129", "n03223299", "n13133613", "n04355933", "n15075141")
KINDS: tuple[Kind, ...] = ("rgb", "grey", "cmyk", "exif")
RIM = 2  # pixels around the object that are left open


def write_imagenet_s(
    data_root: Path, *, per_class: int = 2, classes: Sequence[str] | None = None, seed: int = 0
) -> Path:
    """Write `ImageNetS919` with both parts, `per_class` pictures of each class; gives its folder.

    `classes` are wnids of the 919; none: WNIDS. In the folder of a merged class, every second
    picture of `train-semi` has the name of the class that was merged into it. Kinds of pictures
    take turns.
    """
    folder = data_root / FOLDER
    for part_number, part in enumerate(get_args(Part)):
        for place, wnid in enumerate(classes or WNIDS):
            for number in range(per_class):
                count = place * per_class + number
                kind = KINDS[count % len(KINDS)]
                which = seed + 1000 * part_number + number
                label = index_of(wnid)
                name = _name(part, wnid, count)
                save_jpeg(picture(which, label, kind=kind), folder / part / wnid / f"{name}.JPEG")
                path = folder / f"{part}-segmentation" / wnid / f"{name}.png"
                write_numbers(class_numbers(object_mask(which, label, kind=kind), wnid), path)
    return folder


def class_numbers(mask: Mask, wnid: str) -> Int[np.ndarray, "height width"]:
    """The object's number where the mask is, and a rim that is left open around it."""
    around = np.zeros_like(mask)
    for axis in (0, 1):
        for shift in (-RIM, RIM):
            around |= np.roll(mask, shift, axis)
    return np.where(mask, CLASS_IDS[wnid], np.where(around, LEFT_OPEN, 0))


def write_numbers(numbers: Int[np.ndarray, "height width"], path: Path) -> Path:
    """Write a mask as published: R and G are the low and the high byte of the number."""
    path.parent.mkdir(parents=True, exist_ok=True)
    planes = (numbers % 256, numbers // 256, np.zeros_like(numbers))
    Image.fromarray(np.stack(planes, axis=-1).astype(np.uint8)).save(path)
    return path


def _name(part: Part, wnid: str, count: int) -> str:
    if part == "validation":
        return f"ILSVRC2012_val_{count + 1:08d}"
    source = {kept: gone for gone, kept in MERGED.items()}.get(wnid, wnid) if count % 2 else wnid
    return f"{source}_{1000 + count}"
