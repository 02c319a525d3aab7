"""Masks as drawing tools save them."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from relevit.data.own.outlines import open_mask

OBJECT = np.zeros((6, 9), dtype=bool)
OBJECT[1:4, 2:7] = True
GREY = OBJECT * np.uint8(200)
GREY[0] = 90  # a soft edge: below one half


def painted(colours):
    image = Image.fromarray(OBJECT.astype(np.uint8)).convert("P")
    image.putpalette([value for colour in colours for value in colour])
    image.putdata(OBJECT.astype(np.uint8).ravel().tolist())
    return image


def transparent(alpha):
    return Image.fromarray(np.dstack([OBJECT * np.uint8(255)] * 3 + [alpha]).astype(np.uint8))


IMAGES = {
    "black and white": Image.fromarray(OBJECT),
    "0 and 255": Image.fromarray(OBJECT * np.uint8(255)),
    "0 and 1": Image.fromarray(OBJECT.astype(np.uint8)),
    "soft edges": Image.fromarray(GREY),
    "16 bits": Image.fromarray(OBJECT * np.uint16(65535)),
    "16 bits, soft": Image.fromarray(GREY * np.uint16(256)),
    "palette": painted([(0, 0, 0), (128, 0, 0)]),
    "grey RGB": Image.fromarray(np.dstack([GREY] * 3)),
    "one colour": Image.fromarray(np.dstack([OBJECT * np.uint8(n) for n in (9, 0, 250)])),
    "opaque object": transparent(255 * OBJECT),
    "all opaque": transparent(np.full(OBJECT.shape, 255)),
}


@pytest.mark.parametrize("kind", IMAGES)
def test_object_is_found_in_each_kind(tmp_path, kind):
    IMAGES[kind].save(tmp_path / "mask.png")
    found = open_mask(tmp_path / "mask.png")
    assert found.dtype == bool and np.array_equal(found, OBJECT)


@pytest.mark.parametrize(
    ("image", "text"),
    [
        (
            Image.fromarray(np.arange(54, dtype=np.uint8).reshape(6, 9)),
            r"values 0, 1, 2, 3, 4, 5 .* may be",
        ),
        (Image.linear_gradient("L").convert("RGB").rotate(9, fillcolor=(9, 0, 0)), r"many colours"),
    ],
)
def test_what_may_mean_anything_is_refused(tmp_path, image, text):
    image.save(tmp_path / "mask.png")
    with pytest.raises(ValueError, match=text):
        open_mask(tmp_path / "mask.png")
