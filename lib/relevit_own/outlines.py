"""Masks as people draw and export them: PNG files, and outlines of COCO; pictures set upright.

A camera stores a picture as its sensor lies and notes in EXIF how to turn it. Tools that people
draw masks with show it turned, so that pictures of one's own are turned here too; a mask whose size
says that it was drawn on the picture as it is stored is turned with it. (The papers' sets are read
as their loaders read them, without.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy
from jaxtyping import Shaped
from PIL import ExifTags, Image

from relevit.base.errors import one_line
from relevit.data.pictures import opened, upright
from relevit.models.spec import Mask

TURNED = range(2, 9)  # EXIF orientations but for upright
ON_THEIR_SIDE = range(5, 9)  # those that swap width and height
GREY16 = ("I;16", "I;16B", "I;16L", "I;16N")
GREYS = ("1", "L", "I", *GREY16)
OPAQUE = 127  # the largest alpha of what is no object
NAMED = 6  # values that an error names
DRAWING = (ValueError, TypeError, KeyError, OverflowError)  # what raises for what is no outline
SAY = "say which values are the object (--object) and which are none (--ignore)"
Size = tuple[int, int]  # width and height, pixels


@dataclass(frozen=True)
class MaskValues:
    """What the maker of label maps knows: values of the object, and such as are to be left out.

    Values are greys, or places in a palette. What is ignored counts as background.
    """

    object: tuple[int, ...] = ()
    ignore: tuple[int, ...] = ()


AS_SEEN = MaskValues()


@dataclass(frozen=True)
class CocoMask:
    """The object of one picture as COCO has it: polygons or runs, of which the union counts."""

    outlines: tuple[tuple[str, Any], ...]  # name of each for people; polygons or {"counts", "size"}
    size: Size | None  # in the file

    @property
    def drawn_on(self) -> Size | None:
        """Size of the picture by the file or by its runs; None of polygons alone."""
        try:
            sizes = (_size_of_runs(outline) for _, outline in self.outlines)
            return self.size or next(filter(None, sizes), None)
        except ValueError:  # which is told by name when they are drawn
            return None

    def drawn(self, size: Size) -> Mask:
        """The pixels in a picture of this size. Raises: ValueError for an outline that has none."""
        mask = np.zeros(size[::-1], dtype=bool)
        for name, outline in self.outlines:
            try:
                one = (_runs if isinstance(outline, Mapping) else _polygons)(outline, *size)
                if not one.any():
                    raise ValueError("it has no pixel in the picture; are its units pixels?")
            except DRAWING as error:
                raise ValueError(f"{name}: {one_line(error)}") from error
            mask |= one
        return mask


MaskSource = Path | CocoMask
Drawn = Literal["upright", "as stored", "unknown"]


class OtherSize(ValueError):
    """A mask of another size than its picture."""


def turned(image: Image.Image) -> bool:
    """Whether a picture that was opened and not yet read asks to be turned or mirrored."""
    return _orientation(image) in TURNED


def _orientation(image: Image.Image) -> int:
    return image.getexif().get(ExifTags.Base.Orientation, 1)


def upright_size(image: Image.Image) -> Size:
    """Width and height that a picture will have upright, from its header alone."""
    width, height = image.size
    side = _orientation(image) in ON_THEIR_SIDE
    # Pillow says the upright size of a TIFF, and turns it when it is read.
    return (height, width) if side and image.format != "TIFF" else (width, height)


def fitting_mask(
    source: MaskSource, picture: Path, values: MaskValues = AS_SEEN
) -> tuple[Mask, Drawn | None]:
    """The object's pixels in the upright picture, and how they were drawn where EXIF turns it.

    A mask of the size that the picture has in its file, on its side, is turned with it.
    Raises: OtherSize when the mask has another; ValueError, OSError as `open_mask`.
    """
    with opened(picture) as image:  # its header alone
        size, orientation = upright_size(image), _orientation(image)
    told = _drawn_on(source)
    has, on_its_side = told or size, size[::-1]
    tells = told is not None and orientation in ON_THEIR_SIDE and size != on_its_side
    as_stored = tells and has == on_its_side
    if has != size and not as_stored:
        raise OtherSize(
            f"the mask has {has[0]} x {has[1]} pixels, the upright picture {size[0]} x {size[1]}"
        )
    mask = source.drawn(has) if isinstance(source, CocoMask) else open_mask(source, values)
    if as_stored:
        lying = Image.fromarray(mask)
        lying.getexif()[ExifTags.Base.Orientation] = orientation
        return np.array(upright(lying)), "as stored"
    return mask, ("upright" if tells else "unknown") if orientation in TURNED else None


def _drawn_on(source: MaskSource) -> Size | None:
    if isinstance(source, CocoMask):
        return source.drawn_on
    with opened(source) as image:
        return upright_size(image)


# PNG files


def open_mask(path: Path, values: MaskValues = AS_SEEN) -> Mask:
    """The object's pixels of a PNG, in the size of the mask.

    With values told, those of a label map. Else the one of two that is not black, transparent or 0;
    with soft edges between black and one grey, what is nearer to the grey.
    Raises: ValueError for what may mean anything, such as numbers of classes; as `opened`.
    """
    with opened(path) as image:
        if image.format != "PNG":
            raise ValueError(
                f"the mask is a {image.format} file; save it as PNG, which keeps edges"
            )
        upright(image)
        if image.mode == "P":
            return _of_labels(np.array(image), values, _background(image))
        if "transparency" in image.info or image.mode in ("RGBA", "LA", "PA"):
            alpha = np.array(image.convert("RGBA"))[..., 3]
            if np.ptp(alpha):
                _need_numbers("is transparent", values)
                return alpha > OPAQUE
        greys = np.array(image if image.mode in GREYS else image.convert("RGB")).astype(np.int64)
    if greys.ndim == 3 and (greys != greys[..., :1]).any():
        _need_numbers("has colours", values)
        seen = greys.any(axis=-1)
        if len(np.unique(greys[seen], axis=0)) > 1:
            raise ValueError("the mask is a picture of many colours; save it in black and white")
        return seen
    greys = greys if greys.ndim == 2 else greys[..., 0]
    if values == AS_SEEN and _soft_edged(greys):
        return greys > greys.max() / 2
    return _of_labels(greys, values)


def _of_labels(
    numbers: Shaped[np.ndarray, "height width"], values: MaskValues, background: int = 0
) -> Mask:
    if values.object:
        return np.isin(numbers, values.object)
    kept = ~np.isin(numbers, values.ignore)
    found = np.unique(numbers[kept])
    if len(found) > 2 or (len(found) == 2 and background not in found):
        shown = ", ".join(map(str, found[:NAMED])) + (" ..." if len(found) > NAMED else "")
        raise ValueError(f"the mask has the values {shown}, of which each may be the object; {SAY}")
    return kept & (numbers != background)


def _background(image: Image.Image) -> int:
    """The place of a palette that is no object: where there are two, the clear or the black one."""
    used = [number for _, number in image.getcolors()]
    if len(used) == 2:
        colours = np.array(image.convert("RGBA"))
        places = np.array(image)
        for is_none in (colours[..., 3] == 0, ~colours[..., :3].any(axis=-1)):
            none = np.unique(places[is_none])
            if len(none) == 1:
                return int(none[0])
    return 0


def _soft_edged(greys: Shaped[np.ndarray, "height width"]) -> bool:
    """Whether all greys between black and the lightest are edges: few, and nowhere an area.

    Numbers of classes have areas, in which a pixel is as all of its neighbours.
    """
    most = greys.max()
    between = (greys > 0) & (greys < most)
    lowest = scipy.ndimage.minimum_filter(greys, 3, mode="nearest")
    level = lowest == scipy.ndimage.maximum_filter(greys, 3, mode="nearest")
    return bool((greys == 0).any() and between.mean() < 0.5 and not (between & level).any())


def _need_numbers(what: str, values: MaskValues) -> None:
    """Raise ValueError where values are told of a mask that has none."""
    if values != AS_SEEN:
        raise ValueError(
            f"the mask {what}, and so none of the values of --object and --ignore; save it in grey"
        )


# COCO


def _runs(outline: Mapping[str, Any], width: int, height: int) -> Mask:
    """The pixels of runs, packed or not. They are counted here: pycocotools fills what lacks."""
    of, counts = _size_of_runs(outline), outline["counts"]
    if of != (width, height):
        raise ValueError(
            f"its runs are of a picture of {of[0]} x {of[1]} pixels, this one has {width} x "
            f"{height}"
        )
    counts = counts if isinstance(counts, list) else _unpacked(counts)
    if sum(counts) != width * height or min(counts) < 0:
        raise ValueError(f"its runs have {sum(counts)} pixels, the picture {width * height}")
    return np.repeat(np.arange(len(counts)) % 2 == 1, counts).reshape(width, height).T


def _polygons(outline: Any, width: int, height: int) -> Mask:
    """The pixels of lists x, y, x, y of corners."""
    from pycocotools import mask as tools

    polygons = [np.array(polygon, dtype=float) for polygon in outline]
    for points in polygons:
        few = points.ndim != 1 or points.size < 6 or points.size % 2
        if few or not np.isfinite(points).all():
            raise ValueError(
                f"it has a polygon of {points.size / 2:g} points; needed are 3: x, y, x, y ..."
            )
    runs = tools.merge(tools.frPyObjects([p.tolist() for p in polygons], height, width))
    return tools.decode(runs).astype(bool)


def _size_of_runs(outline: Any) -> Size | None:
    """Width and height that runs are of, None of polygons."""
    if not isinstance(outline, Mapping):
        return None
    try:
        height, width = map(int, outline["size"])
    except DRAWING:
        raise ValueError("its runs have no size, [height, width] in pixels") from None
    return width, height


def _unpacked(text: str | bytes) -> list[int]:
    """Runs of pixels out of COCO's text: five bits a letter, from the third on as differences."""
    letters = text.encode() if isinstance(text, str) else text
    counts: list[int] = []
    value = shift = 0
    for letter in letters:
        bits = letter - 48
        value |= (bits & 31) << shift
        shift += 5
        if not bits & 32:
            if bits & 16:
                value -= 1 << shift
            counts.append(value + (counts[-2] if len(counts) > 2 else 0))
            value = shift = 0
    return counts
