"""A small replica of ImageNet-S-919: pictures of two parts, and masks whose pixels are numbers."""

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import numpy as np
from jaxtyping import Int
from PIL import Image

from habitats.real.classes import IMAGENET_INDEX, MERGED
from habitats.real.imagenet_s import CLASS_IDS, FOLDER, LEFT_OPEN, Part
from relevit.models.spec import Mask
from replicas.pictures import Kind, Written, object_mask, picture, stored_jpeg

# Numbers 1, 256 and 512 (their R is 0), 918; and two merged classes, 783 and 919.
WNIDS = ("n01440764", "n02111129", "n03223299", "n13133613", "n04355933", "n15075141")
KINDS: tuple[Kind, ...] = ("rgb", "grey", "cmyk", "exif")
RIM = 2  # pixels around the object that are left open


def write_imagenet_s(
    data_root: Path, *, per_class: int = 2, classes: Sequence[str] | None = None, seed: int = 0
) -> list[list[Written]]:
    """Write `ImageNetS919` with both parts, `per_class` pictures of each class.

    `classes` are wnids of the 919; none: WNIDS. In the folder of a merged class, every second
    picture of `train-semi` has the name of the class that was merged into it. Kinds of pictures
    take turns.
    """
    folder = data_root / FOLDER
    parts = []
    for part_number, part in enumerate(get_args(Part)):
        parts.append([])
        for place, wnid in enumerate(classes or WNIDS):
            for number in range(per_class):
                count, label = place * per_class + number, IMAGENET_INDEX[wnid]
                which, kind = seed + 1000 * part_number + number, KINDS[count % len(KINDS)]
                name, mask = _name(part, wnid, count), object_mask(which, label, kind=kind)
                path = folder / part / wnid / f"{name}.JPEG"
                stored = stored_jpeg(picture(which, label, kind=kind), path)
                parts[-1].append(Written(f"{wnid}/{path.name}", label, stored, mask))
                outline = folder / f"{part}-segmentation" / wnid / f"{name}.png"
                write_numbers(class_numbers(mask, wnid), outline)
        outline.with_name("._hidden.png").touch()
    return parts


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
