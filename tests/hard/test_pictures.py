"""Pictures and masks: damaged in any way they are read or refused, by their name."""

from __future__ import annotations

import io
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from relevit.data.own.folder import read_data
from relevit.data.own.loose import open_image
from relevit.data.own.outlines import open_mask
from relevit.data.pictures import FORMATS
from relevit.data.real.catalogue import CATALOGUE
from relevit.models.spec import View, as_rgb
from relevit.pipeline.cli import check

from .inputs import many, tried

pytestmark = pytest.mark.wrong_types  # what checks types in tests is not there for users
VIEW = View(resize=32, crop=32)
MODES = ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I", "I;16", "F", "YCbCr", "HSV", "LAB"]
SIDES = st.sampled_from([1, 2, 3, 7, 16, 33, 64, 500])
TURNED = 0x0112  # EXIF's orientation


def picture(mode, width, height, seed):
    """Any numbers that a picture of this mode may hold, NaN among them."""
    draw = np.random.default_rng(seed)
    if mode in ("I", "I;16", "F"):
        kind = {"I": np.int32, "I;16": np.uint16, "F": np.float32}[mode]
        values = draw.integers(0, 2**32, (height, width), dtype=np.uint32)
        most = draw.choice([1, 255, 65535, 2**32])
        values = values.view(np.float32) if kind is np.float32 and most > 255 else values % most
        return Image.fromarray(values.astype(kind))
    depth = len(Image.new(mode, (1, 1)).getbands())
    if mode == "1":
        return Image.frombytes("L", (width, height), draw.bytes(width * height)).convert("1")
    made = Image.frombytes(mode, (width, height), draw.bytes(width * height * depth))
    if mode == "P":
        made.putpalette(draw.bytes(768))
    return made


def written(made, kind, **options):
    """The bytes of a picture in a format, nearest to it that can be saved; none where none can."""
    for image in (made, made.convert("RGB") if made.mode not in ("F", "I", "I;16") else made):
        content = io.BytesIO()
        try:
            image.save(content, kind, **options)
            return content.getvalue()
        except (OSError, ValueError, KeyError, SystemError, TypeError):
            continue
    return b""


def examples(kind):
    frames = [picture("RGB", 20, 14, seed) for seed in range(3)]
    exif = Image.Exif()
    exif[TURNED] = 6
    several = {"save_all": True, "append_images": frames[1:]}
    yield written(frames[0], kind, exif=exif)
    yield written(frames[0], kind, **several)
    for mode in MODES:
        yield written(picture(mode, 20, 14, 1), kind)


WHOLE = {kind: [made for made in examples(kind) if made] for kind in FORMATS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two classes, of which the first picture is the one that is tried, with a mask beside."""
    folder = tmp_path_factory.mktemp("pictures") / "birds"
    for name in ("images/ant", "images/bee", "masks/ant"):
        (folder / name).mkdir(parents=True)
    picture("RGB", 20, 14, 0).save(folder / "images/bee/right.png")
    return folder


def use(figures, folder, content, ending=".png"):
    """As the library reads them: `relevit check`, `relevit explain`, the papers' sets."""
    path = folder / "images" / "ant" / f"tried{ending}"
    path.write_bytes(content)
    (folder / "masks" / "ant" / "tried.png").write_bytes(content)
    plain = {"masks": None, "images": None, "object": [], "ignore": [], "picture": None}
    options = SimpleNamespace(data=folder, skip_unreadable=False, **plain)
    pictures = read_data(folder).image_set(VIEW)
    papers = CATALOGUE["inat2021_mini"].read(folder, VIEW, folder="images")
    ways = [
        lambda: check(options),
        lambda: pictures.read([0]),
        lambda: papers.read([0]),
        lambda: open_image(path),
    ]
    try:
        for way in ways:
            tried(figures, way, path.name)
    finally:
        path.unlink()


@pytest.mark.parametrize("kind", FORMATS)
def test_any_bytes_in_place_of_some(figures, folder, kind, capfd):
    @many(350)
    @given(data=st.data())
    def holds(data):
        content = bytearray(data.draw(st.sampled_from(WHOLE[kind])))
        for _ in range(data.draw(st.integers(0, 6))):
            # Often in the header, where sizes and kinds are.
            most = data.draw(st.sampled_from([40, len(content)]))
            content[data.draw(st.integers(0, min(most, len(content)) - 1))] = data.draw(
                st.sampled_from([0, 1, 255]) | st.integers(0, 255)
            )
        use(figures, folder, content[: data.draw(st.integers(0, 2 * len(content)))])

    holds()
    capfd.readouterr()  # of the C libraries


@many(350)
@given(
    st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"BM", b"II*\0", b"P6 ",
                     b"MM\0*", b"%!PS-Adobe-3.0 EPSF-3.0\n", b"RIFF\0\0\0\0WEBP", b"P1 ", b"PF "]),
    st.binary(max_size=200),
)  # fmt: skip
def test_any_bytes(figures, folder, start, content):
    use(figures, folder, start + content)


@many(500)
@given(
    st.sampled_from(MODES), SIDES, SIDES, st.integers(0, 2**31), st.sampled_from(FORMATS),
    st.sampled_from([".png", ".tiff", ".JPG"]),
)  # fmt: skip
def test_any_mode_and_size(figures, folder, mode, width, height, seed, kind, ending):
    use(figures, folder, written(picture(mode, width, height, seed), kind), ending)


@many(500)
@given(st.sampled_from(MODES), SIDES, SIDES, st.integers(0, 2**31))
def test_any_picture_is_rgb_or_refused(figures, mode, width, height, seed):
    made = []
    tried(figures, lambda: made.append(as_rgb(picture(mode, width, height, seed))), "the picture")
    assert not made or (made[0].mode, made[0].size) == ("RGB", (width, height))


@many(500)
@given(st.sampled_from(MODES), SIDES, SIDES, st.integers(0, 2**31), st.integers(1, 300))
def test_any_mask(figures, folder, mode, width, height, seed, values):
    """Of few and of many values; what is read has the mask's size."""
    made = picture(mode, width, height, seed)
    if mode == "L":
        made = made.point(lambda value: value % values)
    path, found = folder / "masks" / "ant" / "tried.png", []
    path.write_bytes(written(made, "PNG"))
    tried(figures, lambda: found.append(open_mask(path)))
    assert not found or (found[0].shape == (height, width) and found[0].dtype == bool)
