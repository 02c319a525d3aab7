"""What is said of a folder before long work, and what stops it."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import ExifTags, Image

from relevit.data.pictures import mark
from relevit_own.check import examine, examine_parts, lines, need_usable, samples
from relevit_own.folder import read_data
from replicas.pictures import object_mask, picture, save_jpeg
from unit.own.troubles import BROKEN, FINE, ODD, PLAIN, save_mask, write_plain, write_troubled


@pytest.fixture(scope="module")
def troubled(tmp_path_factory):
    return read_data(write_troubled(tmp_path_factory.mktemp("troubled")))


def test_troubles_are_counted_and_named(troubled):
    found = examine(troubled, workers=2)
    refused = found.refused("picture")
    assert set(refused) == set(BROKEN) and found.counts == FINE
    assert refused[BROKEN[2]] == "no picture that Pillow knows"
    assert "truncated" in refused[BROKEN[0]] and "over 20 times" in refused[BROKEN[1]]
    assert found.rows["odd"].explode().value_counts().to_dict() == {
        "CMYK": 1, "more than 8 bits": 1, "turned by EXIF": 1, "animated or of pages": 2,
        "transparent": 1,
    }  # fmt: skip
    assert f"2 with a side below 32 px: {PLAIN}/line.png, {PLAIN}/small.PNG" in "\n".join(
        lines(found)
    )
    assert found.listing.ids == troubled.ids and not found.rows["mask"].notna().any()
    with pytest.raises(ValueError, match=r"broken.jpg cannot be used \(.*; 3 such in all\); save"):
        need_usable(found)
    left = examine(troubled, corrupted="skip").listing
    assert len(left) == sum(FINE.values()) and not set(left.ids) & set(BROKEN)
    assert [left.classes[label] for label in samples(left, 4).labels] == [ODD, ODD, PLAIN, PLAIN]


def test_masks_are_looked_at(tmp_path):
    write_plain(tmp_path, count=5)
    masks = tmp_path / "masks" / "ant"
    (masks / "0.png").unlink()
    shape = object_mask(1, 1).shape
    save_mask(np.zeros(shape, dtype=bool), masks / "1.png")
    save_mask(np.ones(object_mask(2, 1).shape, dtype=bool), masks / "2.png")
    save_mask(np.ones((7, 5), dtype=bool), masks / "3.png")
    (masks / "4.png").write_text("no picture")
    found = examine(read_data(tmp_path))
    assert found.rows["mask"].notna().sum() == 9 and 0 < found.rows["share"].median() < 0.5
    said = "\n".join(lines(found))
    for place, what in enumerate(("1 missing", "1 empty", "1 full")):
        assert f"{what}: ant/{place}.jpg" in said
    assert found.useless_masks == ("ant/1.jpg", "ant/2.jpg")
    assert list(found.refused("mask")) == ["ant/3.jpg", "ant/4.jpg"]
    with pytest.raises(ValueError, match=r"ant/3.jpg cannot be used \(the mask has 5 x 7 pixels"):
        need_usable(found)
    skipped = examine(read_data(tmp_path), corrupted="skip")
    need_usable(skipped)
    assert None not in samples(skipped.listing, 20).masks and len(skipped.listing) == 8


def deep(folder, **largest):
    """Two pictures a class of 16 bits; the largest number of each class as given."""
    for name, most in largest.items():
        for seed in range(2):
            greys = np.random.default_rng(seed).integers(0, most, (40, 36), endpoint=True)
            greys[0, :2] = most, seed
            (folder / name).mkdir(parents=True, exist_ok=True)
            Image.fromarray(greys.astype(np.uint16)).save(folder / name / f"{seed}.png")
    return read_data(folder)


@pytest.mark.parametrize(
    ("most", "white", "bits"),
    [(120, 255, 8), (900, 1023, 10), (4095, 4095, 12), (9000, 16383, 14), (65535, 65535, 16)],
)
def test_greys_of_a_set_are_scaled_alike_by_the_range_that_holds_them(tmp_path, most, white, bits):
    listing = deep(tmp_path, ant=most, bee=most // 3)
    found = examine(listing)
    need_usable(found)
    assert found.listing.white == white and (found.rows["fault"] == "").all()
    assert f"scaled to 8 bits from 0 to {white:,} ({bits} bits)" in "\n".join(lines(found))
    for place, top in ((0, most), (2, most // 3)):
        with found.listing.picture(place) as shown:
            assert abs(shown.getextrema()[0][1] - 255 * top / white) <= 0.5
    if most == 4095:
        assert (
            examine_parts({"train": listing, "test": deep(tmp_path / "more", ant=9, bee=65535)})[
                "train"
            ].listing.white
            == 65535
        )


def test_dark_pictures_are_named(tmp_path):
    """One picture of 16 bits leaves those of 12 black; some are black in 8 bits."""
    found = examine(deep(tmp_path, ant=4095, bee=65535))
    assert "2 without a pixel above 32 of 255: ant/0.png, ant/1.png" in "\n".join(lines(found))
    assert found.ids(found.rows["two_colours"]) == ()


def test_what_is_no_photograph_is_said_or_left_out(tmp_path):
    """Masks among the pictures, and a map that was drawn here."""
    write_plain(tmp_path)
    save_mask(object_mask(0, 0), tmp_path / "images" / "bee" / "lesion.png")
    for kind, name in (("png", "0_map.png"), ("jpeg", "1_map.jpg")):
        drawn = Figure(figsize=(1, 1))
        drawn.savefig(tmp_path / "images" / "ant" / name, **mark(kind))
    found = examine(read_data(tmp_path))
    said = "\n".join(lines(found))
    assert "1 have no third, as masks have; are they pictures?: bee/lesion.png" in said
    assert "2 left out: maps or samples of relevit: ant/0_map.png, ant/1_map.jpg" in said
    assert "1 missing: bee/lesion.png" in said
    assert found.counts == {"ant": 2, "bee": 3} and len(found.listing) == 5
    assert found.named()["why"].tolist() == ["drawn by relevit"] * 2


def test_outlines_that_may_lie_on_the_unturned_picture_are_refused(tmp_path):
    """Where one mask was drawn on a picture as it is stored, so may others whose size is silent."""
    write_plain(tmp_path)
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 3  # upside down
    picture(0, 0).save(tmp_path / "images" / "bee" / "0.jpg", exif=exif)
    assert "1 of them with masks that are taken as drawn upright: bee/0.jpg" in "\n".join(
        lines(examine(read_data(tmp_path)))
    )
    save_jpeg(picture(1, 1, kind="exif"), tmp_path / "images" / "ant" / "1.jpg")
    assert not examine(read_data(tmp_path)).refused("mask"), "drawn upright"
    save_mask(object_mask(1, 1, kind="exif"), tmp_path / "masks" / "ant" / "1.png")
    found = examine(read_data(tmp_path)).refused("mask")
    assert list(found) == ["bee/0.jpg"] and "save it upright" in found["bee/0.jpg"]


def test_all_refused_are_named_up_to_a_screen(tmp_path):
    write_plain(tmp_path, count=30, masks=False)
    for seed in range(25):
        (tmp_path / "images" / "bee" / f"{seed}.jpg").write_text("no picture")
    found = examine(read_data(tmp_path))
    assert sum("no picture that Pillow knows" in line for line in lines(found)) == 20
    assert any("and 5 more: --list FILE has all" in line for line in lines(found))
    assert len(found.named()) == 25


@pytest.mark.parametrize(
    ("classes", "said"),
    [(("1", "10", "2"), True), (("a 1", "a 10", "a 2"), True), (("1", "2"), False)],
)
def test_two_orders_of_classes_are_said(tmp_path, classes, said):
    write_plain(tmp_path, classes, masks=False)
    text = f"numbered in the order {', '.join(map(repr, classes))}; a trained head"
    assert (text in "\n".join(lines(examine(read_data(tmp_path))))) == said
