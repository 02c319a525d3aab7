"""Drawn pictures that stand in for photographs: a texture, and one coloured shape on it; and what
broken and harmful files are made with.

Every writer gives what it wrote, part by part, so that readers can be held to it.

A picture is made from (seed, label, kind) alone. Its sides are 120 to 200 pixels and differ, so
that a resize which loses the aspect, or swaps the sides, shows.
"""

import colorsys
import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, UInt8
from PIL import Image, ImageDraw, ImageOps

Kind = Literal["rgb", "grey", "cmyk", "exif", "border"]
KINDS: tuple[Kind, ...] = ("rgb", "grey", "cmyk", "exif", "border")
RED = (255, 0, 0)
BORDER = 1  # pixels, as around ObjectNet's pictures
ORIENTATION = 0x0112  # EXIF tag
TURNED = 6  # EXIF: a viewer has to turn the picture by a quarter, clockwise
SIDES = (120, 200)  # pixels, the least and the most
LEAST_DIFFERENCE = 16  # pixels between the two sides
GOLDEN = 0.618034  # turns of hue between labels: neighbours differ much


class Shape(NamedTuple):
    """Where the object is: its picture's size and its box, in pixels, and its outline."""

    size: tuple[int, int]  # width, height
    box: tuple[int, int, int, int]  # left, top, right, bottom
    outline: int  # 0 ellipse, 1 rectangle, 2 triangle


class Written(NamedTuple):
    """A picture of a replica: its name in the set, its label, what is stored, and the object."""

    id: str
    label: int
    image: Image.Image
    mask: Bool[np.ndarray, "height width"] | None = None


def picture(seed: int, label: int, *, kind: Kind = "rgb") -> Image.Image:
    """A picture of a class, the same for the same arguments.

    `grey` is in mode L, `cmyk` in mode CMYK. `exif` lies on its side and has the orientation tag
    that asks viewers to turn it back. `border` is the `rgb` picture in a frame of one red pixel.
    """
    shape, random = _shape(seed, label)
    image = Image.fromarray(_texture(shape.size, random))
    _draw(ImageDraw.Draw(image), shape, _colour(label))
    if kind == "exif":
        turned = image.transpose(Image.Transpose.ROTATE_90)
        turned.getexif()[ORIENTATION] = TURNED
        return turned
    if kind == "border":
        return ImageOps.expand(image, BORDER, RED)
    return image.convert({"rgb": "RGB", "grey": "L", "cmyk": "CMYK"}[kind])


def object_mask(seed: int, label: int, *, kind: Kind = "rgb") -> Bool[np.ndarray, "height width"]:
    """The pixels of the shape in `picture` of the same arguments, in its stored size.

    That of `exif` lies on its side as the picture does: readers do not turn pictures.
    """
    shape, _ = _shape(seed, label)
    mask = Image.new("L", shape.size)
    _draw(ImageDraw.Draw(mask), shape, 255)
    if kind == "exif":
        mask = mask.transpose(Image.Transpose.ROTATE_90)
    if kind == "border":
        mask = ImageOps.expand(mask, BORDER, 0)
    return np.array(mask) > 0


def save_jpeg(image: Image.Image, path: Path) -> Path:
    """Write a JPEG, whatever the path ends in; the folder is made. EXIF data are kept."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, format="JPEG", quality=90, exif=image.getexif())
    return path


def stored_jpeg(image: Image.Image, path: Path) -> Image.Image:
    """The picture as it comes back from a JPEG, which loses a little."""
    with Image.open(save_jpeg(image, path)) as stored:
        stored.load()
        return stored


def truncate(path: Path) -> Path:
    """Cut a file in half, as a broken download or copy does."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    return path


class Harmful:
    """A pickle that makes a folder when it is opened, so that running it would be seen."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.folder),)


def _shape(seed: int, label: int) -> tuple[Shape, np.random.Generator]:
    """The object of a picture, and the generator that draws what is around it."""
    random = np.random.default_rng([seed, label])
    least, most = SIDES
    short = int(random.integers(least, most - LEAST_DIFFERENCE + 1))
    long = int(random.integers(short + LEAST_DIFFERENCE, most + 1))
    size = (long, short) if random.random() < 0.5 else (short, long)
    # A third to a half of the shorter side: inside a middle square, and more than its edge.
    extent = int(short * random.uniform(0.35, 0.5))
    left, top = (
        (side - extent) // 2 + int(random.integers(-extent // 4, extent // 4 + 1)) for side in size
    )
    return Shape(size, (left, top, left + extent, top + extent), label % 3), random


def _texture(
    size: tuple[int, int], random: np.random.Generator
) -> UInt8[np.ndarray, "height width 3"]:
    """Coarse blotches of pale colour with fine noise."""
    width, height = size
    coarse = random.integers(90, 190, size=(6, 6, 3), dtype=np.uint8)
    blotches = Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)
    noise = random.integers(-12, 13, size=(height, width, 1))
    return np.clip(np.asarray(blotches, dtype=int) + noise, 0, 255).astype(np.uint8)


def _colour(label: int) -> tuple[int, int, int]:
    red, green, blue = colorsys.hsv_to_rgb(label * GOLDEN % 1.0, 0.95, 0.95)
    return round(255 * red), round(255 * green), round(255 * blue)


def _draw(pen: ImageDraw.ImageDraw, shape: Shape, colour: int | tuple[int, int, int]) -> None:
    left, top, right, bottom = shape.box
    if shape.outline == 0:
        pen.ellipse(shape.box, fill=colour)
    elif shape.outline == 1:
        pen.rectangle(shape.box, fill=colour)
    else:
        pen.polygon([(left, bottom), (right, bottom), ((left + right) // 2, top)], fill=colour)
