"""Pictures on disk: opened here and nowhere else, so that each is refused in the same words."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import ExifTags, Image, UnidentifiedImageError

from relevit.base.errors import one_line
from relevit.models.spec import DEEP_COLOURS, as_rgb

READING = (OSError, ValueError)  # what a picture that cannot be read raises
DRAWN_HERE = "relevit"  # in a PNG's text Software, or a JPEG's comment
# Kinds that Pillow reads itself; for others, such as EPS, it starts programs. MPO is a JPEG, too.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
# What Pillow raises besides for damaged files.
DAMAGED = (SyntaxError, IndexError, EOFError, struct.error)


# What sets a picture upright, by EXIF's orientations from 2 on.
_TURNS = "FLIP_LEFT_RIGHT ROTATE_180 FLIP_TOP_BOTTOM TRANSPOSE ROTATE_270 TRANSVERSE ROTATE_90"
TURNS = {turn: Image.Transpose[name] for turn, name in enumerate(_TURNS.split(), 2)}
TURNED_BY = ("exif", "xmp", "XML:com.adobe.xmp", "Raw profile type exif")  # in a picture's info


@contextmanager
def opened(path: Path) -> Iterator[Image.Image]:
    """A picture of a file for the block that reads it; only its header is read before.

    Raises: OSError and ValueError alone, whatever is wrong with the file: also for kinds other than
    FORMATS, and for more pixels than `PIL.Image.MAX_IMAGE_PIXELS`, of which Pillow would warn, and
    open up to twice as many.
    """
    try:
        with Image.open(path, formats=FORMATS) as image:
            _need_few_pixels(path, image.width * image.height)
            if ";16" in repr(image.tile):  # known of its header alone
                image.info[DEEP_COLOURS] = True
            yield image
    except UnidentifiedImageError:  # whose text is the whole path
        raise OSError("no picture that Pillow knows") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        _need_few_pixels(path, None)
    except DAMAGED as error:
        raise OSError("the file is damaged") from error
    except OSError as error:  # a link to nothing, no right to read; who asks names the file
        raise OSError(error.strerror) if error.filename else error from None


def orientation(image: Image.Image) -> int:
    """How EXIF asks to turn a picture; 1 is upright, and what is no orientation counts as such."""
    turn = image.getexif().get(ExifTags.Base.Orientation, 1)
    return turn if turn in TURNS else 1


def upright(image: Image.Image) -> Image.Image:
    """The picture, turned as its EXIF orientation asks, which then is gone.

    EXIF is not written anew: of a damaged one Pillow could not.
    """
    image.load()  # of a TIFF this turns it
    if (turn := orientation(image)) == 1:
        return image
    turned = image.transpose(TURNS[turn])
    for name in TURNED_BY:
        turned.info.pop(name, None)
    return turned


def open_image(path: Path) -> Image.Image:
    """An image upright and in RGB, greys of more than 8 bits as of `as_rgb`. Raises: ValueError."""
    try:
        with opened(path) as found:
            return as_rgb(upright(found))
    except READING as error:
        raise ValueError(f"{path} cannot be read as an image ({one_line(error)})") from error


def mark(kind: str) -> dict[str, object]:
    """What makes `savefig` say in a PNG or JPEG who drew it, so that `drawn_here` knows."""
    kinds = {
        "png": {"metadata": {"Software": DRAWN_HERE}},
        "jpeg": {"pil_kwargs": {"comment": DRAWN_HERE}},
    }
    return kinds.get(kind, {})


def drawn_here(image: Image.Image) -> bool:
    """Whether an opened picture is a map or page of samples that this package drew."""
    said = (image.info.get("Software"), image.info.get("comment"))
    return DRAWN_HERE in said or DRAWN_HERE.encode() in said


def read_picture(path: Path) -> Image.Image:
    """A picture as it is in its file. Raises: as `opened`."""
    with opened(path) as image:
        image.load()
        return image


def _need_few_pixels(path: Path, pixels: int | None) -> None:
    most = Image.MAX_IMAGE_PIXELS
    if most is not None and (pixels is None or pixels > most):
        raise ValueError(
            f"{path.name} has more than the {most:,} pixels that are opened; scale it down"
        )
