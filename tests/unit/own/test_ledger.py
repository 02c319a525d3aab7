"""Every file of a data set is used in one part, or left out with a reason, and all doors say so."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import ExifTags, Image

from relevit_own import images
from relevit_own.check import Ledger, examine, ledger, lines, need_usable, samples
from relevit_own.choices import OwnChoices
from relevit_own.images import HELD_OUT, divide
from relevit_own.table import read_table
from unit.own.troubles import save_mask

SIDES = (120, 90)


def photo(seed: int) -> Image.Image:
    """Colours that go over into each other, and noise: no two are alike."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 255, (9, 12, 3), dtype=np.uint8)
    smooth = np.array(Image.fromarray(small).resize(SIDES, Image.Resampling.BICUBIC)).astype(int)
    noisy = smooth + rng.integers(-6, 7, smooth.shape)
    return Image.fromarray(noisy.clip(0, 255).astype(np.uint8))


def fixed(seed: int) -> Image.Image:
    """A fixed camera's: the same thing in the same place, and another noise."""
    pixels = np.random.default_rng(seed).integers(0, 60, (90, 120, 3), dtype=np.uint8)
    pixels[20:70, 30:90] = 200, 40, 40
    return Image.fromarray(pixels)


def line(seed: int) -> Image.Image:
    """A drawing of one thing, a thin one on white, now longer and now shorter."""
    pixels = np.full((90, 120, 3), 255, dtype=np.uint8)
    top, bottom, at, wide = np.random.default_rng(seed).integers((2, 60, 54, 8), (30, 88, 66, 24))
    pixels[top:bottom, at : at + 3] = seed
    pixels[bottom - 20 : bottom, at - wide : at + wide] = 40
    return Image.fromarray(pixels)


def write(folder: Path, count: int = 10, of=photo, classes=("cat", "dog")) -> Path:
    for place, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for i in range(count):
            of(100 * place + i).save(folder / name / f"{i}.jpg", quality=95)
    return folder


COPIES = {
    "the same file": lambda p, f: f.write_bytes(p.read_bytes()),
    "the same pixels": lambda p, f: Image.open(p).save(f.with_suffix(".png")),
    "saved again": lambda p, f: Image.open(p).save(f, quality=70),
    "half as large": lambda p, f: Image.open(p).reduce(2).save(f, quality=95),
    "mirrored": lambda p, f: Image.open(p).transpose(0).save(f, quality=95),
    "stretched": lambda p, f: Image.open(p).resize((100, 100)).save(f, quality=95),
}


@pytest.mark.parametrize("kind", COPIES)
@pytest.mark.parametrize("split", [False, True])
def test_no_copy_of_what_is_trained_on_is_tested_on(tmp_path, kind, split):
    """Drawn parts keep copies together; given ones keep the first. All of it is said."""
    if split:
        for part in ("train", "val", "test"):
            write(tmp_path / part, 4, lambda seed, of=part: photo(1000 * ord(of[1]) + seed))
        for name in ("cat", "dog"):
            for i in range(3):
                COPIES[kind](tmp_path / f"train/{name}/{i}.jpg", tmp_path / f"test/{name}/c{i}.jpg")
    else:
        write(tmp_path)
        for path in sorted(tmp_path.glob("*/*.jpg")):
            COPIES[kind](path, path.with_name(f"c{path.name}"))
    data = divide(OwnChoices(data=str(tmp_path), new_head=True))
    parts = [
        {(path.parent.name, path.stem.removeprefix("c")) for path in part.images}
        for part in data.parts.values()
    ]
    if split:
        assert not any(path.stem.startswith("c") for path in data.test[HELD_OUT].images)
        assert "6 of 30 files are left out: a " in data.notes[0]
    else:
        assert not (parts[0] & parts[1] or parts[0] & parts[2] or parts[1] & parts[2])
        assert all(len(part) >= 4 for part in data.parts.values())
        assert any("cop" in note for note in data.notes)


@pytest.mark.parametrize("of", [fixed, line])
def test_pictures_of_a_fixed_camera_or_a_thin_thing_are_no_copies(tmp_path, of):
    found = examine(read_table(write(tmp_path, 12, of)))
    assert (found.table.rows["group"] == "").all()


def test_a_photograph_under_two_classes_is_refused_or_said(tmp_path):
    write(tmp_path, 6)
    Image.open(tmp_path / "cat/0.jpg").save(tmp_path / "dog/x.jpg", quality=80)
    said = "\n".join(lines(examine(read_table(tmp_path))))
    assert "photographs under two classes, as near copies: 1; cat/0.jpg (cat) and dog/x.jpg" in said
    (tmp_path / "dog/x.jpg").write_bytes((tmp_path / "cat/0.jpg").read_bytes())
    found = examine(read_table(tmp_path))
    told = r"cat/0.jpg .* of another class, too: it is dog/x.jpg; 2 such in all\); take one of both"
    with pytest.raises(ValueError, match=told):
        need_usable(found)
    assert "near copies" not in "\n".join(lines(found)), "it is said once"


def test_groups_stay_together_also_with_near_copies(tmp_path):
    write(tmp_path, 12)
    rows = [(f"{name}/{i}.jpg", name, f"{name}{i // 3}") for name in ("cat", "dog") for i in
            range(12)]  # fmt: skip
    Image.open(tmp_path / "cat/0.jpg").save(tmp_path / "cat/x.jpg", quality=80)
    rows += [("cat/x.jpg", "cat", "")]
    table = pd.DataFrame(rows, columns=["image", "label", "group"])
    table.to_csv(tmp_path / "set.csv", index=False)
    data = divide(OwnChoices(data=str(tmp_path / "set.csv"), new_head=True))
    files = data.ledger.files
    assert (files.groupby("group")["part"].nunique() == 1).all()
    of = files.set_index("file")
    assert of.loc["cat/x.jpg", "part"] == of.loc["cat/0.jpg", "part"]
    assert set(files["part"]) == {"train", "validation", HELD_OUT}
    table.assign(split=["train", "test"] * 12 + ["val"]).to_csv(tmp_path / "set.csv", index=False)
    told = r"13 of 25 files are left out: of one group with a picture of train; .*\(cat0\)"
    with pytest.raises(ValueError, match=told):
        divide(OwnChoices(data=str(tmp_path / "set.csv"), new_head=True))


def heic(folder):
    for i in range(7):
        (folder / "cat" / f"{i}.HEIC").write_bytes(b"ftypheic")


def broken(folder):
    (folder / "cat" / "0.jpg").write_text("no picture")


def deep(folder):
    Image.fromarray(np.full((40, 40), 900, np.uint16)).save(folder / "cat" / "deep.png")


def stretched(folder):
    Image.new("RGB", (3, 900)).save(folder / "cat" / "line.png")


def capitals(folder):
    write(folder.parent / "more", 5, lambda seed: photo(seed + 777), ("Cat",))
    (folder.parent / "more" / "Cat").rename(folder / "Cat")


def drawn(folder):
    from matplotlib.figure import Figure

    from relevit.data.pictures import mark

    Figure(figsize=(1, 1)).savefig(folder / "cat" / "map.png", **mark("png"))


def few(folder):
    for path in list((folder / "cat").iterdir())[1:]:
        path.unlink()


KINDS = {
    heic: "7 of 27 files are left out: no kind of picture that is read; save it as JPEG or PNG; "
    "7 of 17 cat; cat/0.HEIC the first",
    broken: "1 of 20 files are left out: no picture that Pillow knows; 1 of 10 cat; cat/0.jpg the",
    deep: "1 of 21 files are left out: more than 8 bits; scale it to 8 by the range that you know",
    stretched: "3 x 900 pixels; one side is over 20 times the other; 1 of 11 cat; cat/line.png",
    capitals: "classes that differ in capitals alone: 'Cat', 'cat'; are they one?",
    drawn: "1 of 21 files are left out: drawn by relevit; 1 of 11 cat; cat/map.png the first",
    few: "held_out has no picture of 'cat'",
}


@pytest.mark.parametrize("spoil", KINDS)
def test_each_file_is_told_of_once_and_in_the_same_words(tmp_path, spoil):
    """By check and in the notes of runs, and the same for programs. Nothing is left to chance."""
    folder = write(tmp_path / "set")
    spoil(folder)
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*"))
    data = divide(OwnChoices(data=str(folder), new_head=True, corrupted="skip"))
    assert any(KINDS[spoil] in note for note in data.notes), data.notes
    files = data.ledger.files
    assert sorted(files["file"]) == names
    assert ((files["part"] == "") == (files["why"] != "")).all()
    for name, part in data.parts.items():
        assert files.loc[files["part"] == name, "file"].tolist() == list(part.ids)
    facts = data.ledger.facts()
    used = sum(sum(counts.values()) for counts in facts["used"].values())
    assert used + len(facts["left_out"]) == len(names)
    if spoil is not few:
        said = "\n".join(lines(examine(read_table(folder), corrupted="skip")))
        assert KINDS[spoil] in said
    if spoil in (broken, deep, stretched):
        with pytest.raises(ValueError, match=r"cannot be used .*; 1 such in all\); save it again"):
            divide(OwnChoices(data=str(folder), new_head=True))


def test_check_says_what_is_odd_in_pictures_and_masks(tmp_path):
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 3
    for place, name in enumerate(("cat", "dog")):
        for i in range(5):
            path = tmp_path / "images" / name / f"{i}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            how = {"exif": exif} if i == 4 and place else {}
            photo(100 * place + i).convert("CMYK" if i == 3 else "RGB").save(path, **how)
            mask = np.zeros(SIDES[::-1], dtype=bool)
            mask[20:60, 30 : 60 + i] = True
            save_mask(mask, tmp_path / "masks" / name / f"{i}.png")
    save_mask(np.zeros(SIDES[::-1], dtype=bool), tmp_path / "masks/cat/1.png")
    save_mask(np.ones(SIDES[::-1], dtype=bool), tmp_path / "masks/cat/2.png")
    (tmp_path / "masks/dog/0.png").unlink()
    save_mask(np.random.default_rng(0).random((31, 90)) > 0.5, tmp_path / "images/dog/5.png")
    found = examine(read_table(tmp_path), workers=2)
    said = "\n".join(lines(found))
    for text in (
        "CMYK", "turned by EXIF", "1 have no third, as masks have", "1 with a side below",
        "2 missing: dog/0.jpg, dog/5.png", "1 empty: cat/1.jpg", "1 full: cat/2.jpg",
        "EXIF turns 1 pictures whose masks fit either way, dog/4.jpg the first",
    ):  # fmt: skip
        assert text in said, said
    assert found.useless_masks == ("cat/1.jpg", "cat/2.jpg")
    assert None not in samples(found.table, 20).masks and len(samples(found.table, 20)) == 7
    save_mask(np.ones((7, 5), dtype=bool), tmp_path / "masks/cat/3.png")
    found = examine(read_table(tmp_path))
    with pytest.raises(ValueError, match=r"cat/3.jpg cannot be used \(the mask has 5 x 7 pixels"):
        need_usable(found)
    assert Ledger.of({"all": found.table}).told() == []


def test_a_split_of_which_nothing_is_left_is_told(tmp_path, monkeypatch):
    """All its pictures are copies of those of train."""
    for place, (split, first) in enumerate({"train": 0, "val": 40, "test": 0}.items()):
        for label, name in enumerate(("cat", "dog")):
            for i in range(8):
                path = tmp_path / split / name / f"{i}{place}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                photo(first + 100 * label + i).save(path)
    whole = examine(read_table(tmp_path))
    files = ledger(whole).files
    lost = files[files["file"].str.startswith("test/")]
    assert len(lost) == 16 and lost["why"].str.startswith("a copy of another").all()
    with pytest.raises(ValueError, match=r"held_out has none; .*16 of 48 files are left out: a c"):
        divide(OwnChoices(data=str(tmp_path), new_head=True))
    # Outlines can be such that nothing of a split is read.
    shutil.rmtree(tmp_path / "test")
    table = read_table(tmp_path)
    unread = pd.DataFrame([("0.png", "", "test", "no outline in it")], columns=table.gone.columns)
    monkeypatch.setattr(images, "table_of", lambda _: replace(table, gone=unread))
    told = divide(OwnChoices(data=str(tmp_path), new_head=True)).ledger
    assert told.files.set_index("file").loc["test/0.png", "why"] == "no outline in it"
