"""Masks as people draw and export them: PNG files, and outlines of COCO; pictures set upright.

A camera stores a picture as its sensor lies and notes in EXIF how to turn it. Tools that people
draw masks with show it turned, so that pictures of one's own are turned here too. (The papers' sets
are read as their loaders read them, without.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped
from PIL import ExifTags, Image, ImageOps

from relevit.base.errors import one_line
from relevit.data.pictures import opened
from relevit.models.spec import Mask

ON_THEIR_SIDE = (5, 6, 7, 8)  # EXIF orientations that swap width and height
MIDDLE = {np.dtype(np.uint8): 127, np.dtype(np.uint16): 32767}  # the last value of no object
GREY16 = ("I;16", "I;16B", "I;16L", "I;16N")


@dataclass(frozen=True)
class CocoMask:
    """The object of one picture as COCO has it: polygons or runs, of which the union counts."""

    outlines: tuple[Any, ...]  # of pycocotools: lists of polygons, or runs as {"counts", "size"}
    height: int  # pixels
    width: int


MaskSource = Path | CocoMask


def need_pycocotools() -> Any:
    """pycocotools' functions on masks. Raises: ImportError that says what to install."""
    try:
        from pycocotools import mask
    except ImportError as error:
        raise ImportError(
            "read_data: a COCO file of annotations needs the package pycocotools, which is not "
            "installed: pip install pycocotools"
        ) from error
    return mask


def upright(image: Image.Image) -> Image.Image:
    """The picture, turned in place as its EXIF orientation asks."""
    ImageOps.exif_transpose(image, in_place=True)
    return image


def turned(image: Image.Image) -> bool:
    """Whether a picture that was opened and not yet read asks to be turned or mirrored."""
    return image.getexif().get(ExifTags.Base.Orientation, 1) in (2, 3, 4, *ON_THEIR_SIDE)


def upright_size(image: Image.Image) -> tuple[int, int]:
    """Width and height that a picture will have upright, from its header alone."""
    width, height = image.size
    side = image.getexif().get(ExifTags.Base.Orientation, 1) in ON_THEIR_SIDE
    # Pillow says the upright size of a TIFF, and turns it when it is read.
    return (height, width) if side and image.format != "TIFF" else (width, height)


def open_mask(source: MaskSource) -> Mask:
    """The object's pixels, in the size of the mask.

    Of a PNG: in black and white or with two values, what is not 0; with more grey values, the
    upper half (above 127, or 32767 of 16 bits); of colours in a palette, or of two colours, what is
    not black; of a transparent picture, the opaque half, if its alpha differs between pixels.
    Raises: ValueError for other kinds of pictures, and for more than two grey values of which
    none is in the upper half, as numbers of classes have; further as `pictures.opened`.
    """
    if isinstance(source, CocoMask):
        return _coco_mask(source)
    with opened(source) as image:
        if image.format != "PNG":
            raise ValueError(
                f"the mask is a {image.format} file; save it as PNG, which keeps edges"
            )
        return _object(upright(image))


def fitting_mask(source: MaskSource, size: tuple[int, int]) -> Mask:
    """`open_mask`, for a picture of this width and height. Raises: also ValueError when unequal."""
    mask = open_mask(source)
    height, width = mask.shape
    if (width, height) != size:
        raise OtherSize(
            f"the mask has {width} x {height} pixels, the upright picture {size[0]} x {size[1]}"
        )
    return mask


class OtherSize(ValueError):
    """A mask of another size than its picture."""


def _object(image: Image.Image) -> Mask:
    if image.mode == "1":
        return np.array(image)
    if "transparency" in image.info or image.mode in ("RGBA", "LA", "PA"):
        colours = np.array(image.convert("RGBA"))
        if np.ptp(colours[..., 3]):
            return _upper_half(colours[..., 3])
        return _not_black(colours[..., :3], painted=image.mode in ("P", "PA"))
    if image.mode == "L" or image.mode in GREY16:
        return _upper_half(np.array(image).astype(np.uint8 if image.mode == "L" else np.uint16))
    if image.mode in ("P", "RGB"):
        return _not_black(np.array(image.convert("RGB")), painted=image.mode == "P")
    raise ValueError(f"the mask has mode {image.mode}; save it in black and white")


def _upper_half(values: Shaped[np.ndarray, "height width"]) -> Mask:
    found = np.unique(values)
    if len(found) <= 2:
        return values > 0
    middle = MIDDLE[values.dtype]
    if found[-1] <= middle:
        raise ValueError(
            f"the mask has {len(found)} grey values and none above {middle}, the largest "
            f"{found[-1]}; save the object in white, or each picture's own class alone"
        )
    return values > middle


def _not_black(colours: Shaped[np.ndarray, "height width 3"], *, painted: bool) -> Mask:
    """`painted`: the colours are those of a palette, which stand for whatever one likes."""
    if (colours == colours[..., :1]).all():
        return _upper_half(np.ascontiguousarray(colours[..., 0]))
    seen = colours.any(axis=-1)
    if not painted and len(np.unique(colours[seen], axis=0)) > 1:
        raise ValueError("the mask is a picture of many colours; save it in black and white")
    return seen


def _coco_mask(source: CocoMask) -> Mask:
    tools = need_pycocotools()
    runs = []
    for outline in source.outlines:
        try:
            if isinstance(outline, Mapping) and not isinstance(outline["counts"], list):
                runs.append(outline)
            else:
                made = tools.frPyObjects(outline, source.height, source.width)
                runs += made if isinstance(made, list) else [made]
        except Exception as error:  # of pycocotools' own, of many kinds
            raise ValueError(f"no outline of COCO: {one_line(error)}") from error
    sizes = {tuple(run["size"]) for run in runs}
    if sizes != {(source.height, source.width)}:
        raise OtherSize(
            f"its outlines are for {sorted(sizes)} pixels (height, width), the picture has "
            f"{source.height} x {source.width} in the file"
        )
    return tools.decode(tools.merge(runs)).astype(bool)
