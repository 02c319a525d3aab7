"""What is said of a folder before long work, and what stops it."""

from __future__ import annotations

import numpy as np
import pytest

from relevit.data.own.check import examine, lines, need_usable, samples
from relevit.data.own.folder import read_data
from replicas.pictures import object_mask
from unit.data.own.troubles import BROKEN, FINE, ODD, PLAIN, save_mask, write_plain, write_troubled


@pytest.fixture(scope="module")
def troubled(tmp_path_factory):
    return read_data(write_troubled(tmp_path_factory.mktemp("troubled")))


def test_troubles_are_counted_and_named(troubled):
    found = examine(troubled, workers=2)
    refused = found.reasons("refused")
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
    assert found.listing.ids == troubled.ids and not found.rows["masked"].any()
    with pytest.raises(ValueError, match=r"broken.jpg cannot be used \(.*; 3 such in all\); save"):
        need_usable(found)


def test_skipped_pictures_are_left_out_and_the_rest_can_be_used(troubled):
    found = examine(troubled, corrupted="skip")
    need_usable(found)
    left = found.listing
    assert len(left) == sum(FINE.values()) and not set(left.ids) & set(BROKEN)
    shown = samples(left, 4, seed=1)
    assert [shown.classes[label] for label in shown.labels] == [ODD, ODD, PLAIN, PLAIN]
    assert set(shown.ids) <= set(left.ids) and len(samples(left, 99)) == len(left)


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
    assert found.rows["masked"].sum() == 9 and 0 < found.rows["share"].median() < 0.5
    said = "\n".join(lines(found))
    for place, what in enumerate(("1 missing", "1 empty", "1 full")):
        assert f"{what}: ant/{place}.jpg" in said
    assert found.useless_masks == ("ant/1.jpg", "ant/2.jpg")
    assert list(found.reasons("mask_refused")) == ["ant/3.jpg", "ant/4.jpg"]
    with pytest.raises(ValueError, match=r"ant/3.jpg cannot be used \(the mask has 5 x 7 pixels"):
        need_usable(found)
    skipped = examine(read_data(tmp_path), corrupted="skip")
    need_usable(skipped)
    assert None not in samples(skipped.listing, 20).masks and len(skipped.listing) == 8


@pytest.mark.wrong_types
def test_wrong_options_are_refused(troubled):
    with pytest.raises(ValueError, match=r"corrupted 'drop' is unknown; use 'error' or 'skip'"):
        examine(troubled, corrupted="drop")
    with pytest.raises(ValueError, match=r"has no pictures; select at least one"):
        examine(troubled.select([]))
