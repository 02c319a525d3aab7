"""Data sets as people have them are one table, whatever their form; what is wrong is a sentence."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import ExifTags, Image
from torchvision.datasets import ImageFolder

from relevit.models.spec import View
from relevit_own.outlines import open_mask
from relevit_own.table import read_table
from replicas.pictures import picture, save_jpeg
from unit.own.troubles import save_mask, write_plain

SPLITS = ("train", "val", "test")
CALLED = {"train": "train", "val": "validation", "test": "test"}
NAMES = ("ant", "bee", "Wald kauz")
SIZE = (20, 16)
BOX = (5, 4, 13, 12)  # left, top, right, bottom of the object of the first picture


def box(number: int) -> tuple[int, int, int, int]:
    left, top, right, bottom = BOX
    return left + number % 3, top, right + number % 3, bottom + number % 2


def mask_of(number: int) -> np.ndarray:
    left, top, right, bottom = box(number)
    mask = np.zeros(SIZE[::-1], dtype=bool)
    mask[top : bottom + 1, left : right + 1] = True  # as supervision fills a polygon
    return mask


def pictures(folder: Path, at: str, masks: str = "") -> list[tuple[str, str, int]]:
    """Split, class and number of pictures that are written to `at`, their masks to `masks`."""
    found, number = [], 0
    for split in SPLITS:
        for label in NAMES:
            for _ in range(2):
                how = {"split": split, "label": label, "number": number}
                save_mask(np.full(SIZE[::-1], 9 + number, np.uint8), folder / at.format(**how))
                if masks:
                    save_mask(mask_of(number) * np.uint8(200), folder / masks.format(**how))
                found.append((split, label, number))
                number += 1
    return found


def folders(folder, at, masks, *given):
    pictures(folder, at, masks)
    return (folder, *(folder / each for each in given))


def csv(folder, separator, windows=False):
    found = pictures(folder, "x/{number}.png", "y/{number}.png")
    rows = [(f"x/{n}.png", label, f"y/{n}.png", split) for split, label, n in found]
    table = pd.DataFrame(rows, columns=["image", "label", "mask", "split"])
    text = table.to_csv(index=False, sep=separator)
    if windows:
        text = text.replace("/", "\\").replace("\n", "\r\n")
    (folder / "set.csv").write_text("\ufeff" + text, encoding="utf-8")  # as Excel writes it
    return (folder / "set.csv",)


def corners(number):
    left, top, right, bottom = box(number)
    return [left, top, right, top, right, bottom, left, bottom]


def coco(folder, runs):
    """The largest object is of another class than the first, and a crowd is larger than all."""
    found, images, notes = pictures(folder, "images/{number}.png"), [], []
    ids = {name: 3 + 2 * place for place, name in enumerate(NAMES)}
    for _, label, number in found:
        images.append(
            {"id": number, "file_name": f"{number}.png", "width": SIZE[0], "height": SIZE[1]}
        )
        other = ids[next(name for name in NAMES if name != label)]
        outline = [corners(number)]
        if runs:
            flat = np.r_[0, mask_of(number).T.ravel(), 0]
            ends = np.flatnonzero(np.diff(flat.astype(int)))
            outline = {
                "size": SIZE[::-1],
                "counts": np.diff([0, *ends, SIZE[0] * SIZE[1]]).tolist(),
            }
        common = {"image_id": number, "bbox": [0, 0, 3, 3]}
        notes += [
            common | {"category_id": other, "segmentation": [[0, 0, 2, 0, 2, 2, 0, 2]]},
            common | {"category_id": ids[label], "segmentation": outline},
            common
            | {
                "category_id": other,
                "iscrowd": 1,
                "segmentation": {"size": SIZE[::-1], "counts": [0, SIZE[0] * SIZE[1]]},
            },
        ]
    categories = [{"id": number, "name": name} for name, number in ids.items()]
    content = {"images": images, "annotations": notes, "categories": categories}
    (folder / "set.json").write_text(json.dumps(content))
    return (folder / "set.json",)


def yolo(folder):
    for split, label, number in pictures(folder, "{split}/images/{number}.png"):
        points = np.array(corners(number)).reshape(-1, 2) / SIZE
        text = " ".join(f"{value:.6f}" for value in points.ravel())
        (folder / split / "labels").mkdir(exist_ok=True)
        (folder / split / "labels" / f"{number}.txt").write_text(f"{NAMES.index(label)} {text}\n")
    told = {split: f"../{split}/images" for split in SPLITS} | {"names": list(NAMES)}
    (folder / "data.yaml").write_text(json.dumps(told))
    return (folder / "data.yaml",)


def voc(folder):
    (folder / "Annotations").mkdir()
    for _, label, number in pictures(folder, "JPEGImages/{number}.png"):
        left, top, right, bottom = box(number)
        points = zip(*[iter(corners(number))] * 2, strict=True)
        polygon = "".join(
            f"<x{i}>{x + 1}</x{i}><y{i}>{y + 1}</y{i}>" for i, (x, y) in enumerate(points, 1)
        )
        (folder / "Annotations" / f"{number}.xml").write_text(
            f"<annotation><object><name>{label}</name><bndbox><xmin>{left + 1}</xmin>"
            f"<ymin>{top + 1}</ymin><xmax>{right + 1}</xmax><ymax>{bottom + 1}</ymax></bndbox>"
            f"<polygon>{polygon}</polygon></object></annotation>"
        )
    return (folder / "Annotations",)


FORMS = {
    "splits above": lambda f: folders(
        f, "{split}/images/{label}/{number}.png", "{split}/masks/{label}/{number}.png"
    ),
    "splits inside": lambda f: folders(
        f, "images/{split}/{label}/{number}.png", "masks/{split}/{label}/{number}.png"
    ),
    "masks of all": lambda f: folders(
        f, "{split}/{label}/{number}.png", "masks/{label}/{number}.png"
    ),
    "masks elsewhere": lambda f: folders(
        f, "set/{split}/{label}/{number}.png", "y/{label}/{number}.png", "y"
    ),
    "an archive's folder": lambda f: folders(
        f, "all/{split}/{label}/{number}.png", "all/masks/{label}/{number}.png"
    ),
    "no splits": lambda f: folders(f, "images/{label}/{number}.png", "masks/{label}/{number}.png"),
    "csv": lambda f: csv(f, ","),
    "csv of semicolons": lambda f: csv(f, ";"),
    "csv of Windows": lambda f: csv(f, ",", windows=True),
    "coco, polygons": lambda f: coco(f, False),
    "coco, runs": lambda f: coco(f, True),
    "yolo": yolo,
    "voc": voc,
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_the_same_table(tmp_path, form):
    if form.startswith(("coco", "yolo", "voc")):
        pytest.importorskip("supervision")
    path, *masks = FORMS[form](tmp_path)
    table = read_table(tmp_path / "set" if form == "masks elsewhere" else path, *masks)
    split = form not in ("no splits", "coco, polygons", "coco, runs", "voc")
    assert set(table.classes) == set(NAMES) and len(table) == 18 and not len(table.gone)
    numbers = [int(Path(image).stem) for image in table.images]
    for place, number in enumerate(numbers):
        assert table.classes[table.labels[place]] == NAMES[number // 2 % 3]
        assert np.array_equal(table.mask(place), mask_of(number)), number
        wanted = CALLED[SPLITS[number // 6]] if split else None
        assert table.rows["split"][place] == wanted
        with table.picture(place) as shown:
            assert shown.getpixel((0, 0)) == (9 + number,) * 3
    assert sorted(numbers) == list(range(18))
    assert table.image_set(View(16, 16)).read([3]).masks.any()


def test_classes_are_in_the_order_that_a_head_has(tmp_path):
    """Folders as torchvision numbers them, numbers of a CSV by their value."""
    write_plain(tmp_path, ("10", "2"), masks=False)
    assert list(read_table(tmp_path / "images").classes) == ["10", "2"]
    assert ImageFolder(tmp_path / "images").classes == ["10", "2"]
    rows = [(f"images/{n}/{i}.jpg", n) for n in ("10", "2") for i in range(2)]
    pd.DataFrame(rows, columns=["image", "label"]).to_csv(tmp_path / "a.csv", index=False)
    assert read_table(tmp_path / "a.csv").classes == ("2", "10")


def test_what_was_written_here_and_what_is_no_picture_is_left_out_by_name(tmp_path):
    write_plain(tmp_path, masks=False)
    told = {"manifest.csv": "file,model,method,target,class\n", "notes.heic": "?"}
    for folder, (name, text) in zip(("maps", "ant"), told.items(), strict=True):
        save_jpeg(picture(0, 0), tmp_path / "images" / folder / "x.jpg")
        (tmp_path / "images" / folder / name).write_text(text)
    (tmp_path / "images" / "ant" / "again").symlink_to(tmp_path / "images")
    table = read_table(tmp_path)
    assert table.classes == ("ant", "bee") and len(table) == 5
    assert table.gone["id"].tolist() == ["ant/notes.heic"]


TWO = {
    "255": lambda m: Image.fromarray(m * np.uint8(255)),
    "1": lambda m: Image.fromarray(m * np.uint8(1)),
    "bits": Image.fromarray,
    "grey in RGB": lambda m: Image.fromarray(m * np.uint8(90)).convert("RGB"),
    "opaque": lambda m: Image.fromarray(m * np.uint8(90)).convert("RGBA"),
}
MORE = {
    "soft edges": lambda m: Image.fromarray(m * np.uint8(255)).resize((40, 32), 2),
    "classes": lambda m: Image.fromarray(m * np.uint8(7) + np.eye(16, 20, dtype=np.uint8)),
    "no black": lambda m: Image.fromarray(m * np.uint8(7) + np.uint8(1)),
    "a palette": lambda m: Image.fromarray(m * np.uint8(1)).convert("P"),
    "more than 8 bits": lambda m: Image.fromarray(m * np.uint16(65535)),
    "transparency": lambda m: Image.fromarray(np.dstack([m * np.uint8(255)] * 4)),
    "colours": lambda m: Image.fromarray(np.dstack([m * np.uint8(255), m, m]).astype(np.uint8)),
}


@pytest.mark.parametrize("kind", [*TWO, *MORE])
def test_a_mask_has_two_values_or_is_refused_with_what_to_do(tmp_path, kind):
    (TWO | MORE)[kind](mask_of(0)).save(tmp_path / "m.png")
    if kind in TWO:
        assert np.array_equal(open_mask(tmp_path / "m.png"), mask_of(0))
        return
    with pytest.raises(ValueError, match=r"save it in grey, 255 on the object and 0 elsewhere"):
        open_mask(tmp_path / "m.png")


# Pictures and masks in two flat folders.
FLAT = """for f in images/*/*.jpg masks/*/*.png
do mv $f ${{f%%/*}}/$(basename ${{f%/*}})_${{f##*/}}; done
rmdir */*/; mv images x; mv masks {1}; mv x {0}"""


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        ("rm -r *", r"has no class folder; put the pictures of each class into a folder"),
        ("mkdir images/cat", r"the class folder .*cat has no pictures; needed are files that end"),
        ("mkdir images/cat; touch images/cat/0.heic", r"cat has 1 files like 0.heic and no pict"),
        ("mv masks/ant masks/aunt", r"masks has the class 'aunt', which .*images lacks \(1 such\)"),
        (
            "for f in masks/*/*.png; do mv $f ${f%.png}_mask.png; done",
            r"none of the 4 pictures has a mask in .* would be .*ant/0.png",
        ),
        ("cp images/ant/0.jpg images/ant/0.png", r"ant has the pictures 0.jpg and 0.png, so"),
        ("cp images/ant/0.jpg masks/ant/1.jpg", r"1.jpg is no PNG file \(1 such in .*\); save"),
        ("mv masks labels", r"labels looks like the masks of .*images; put them into masks/"),
        (
            "for f in 0 1; do cp masks/ant/$f.png images/ant/${f}_mask.png; done; rm -r masks",
            r"0_mask.png is called as the mask of 0; put masks into masks/<class>",
        ),
        (FLAT.format("image", "label"), r"image and label, .* into images/<class> and its masks"),
        ("mv images train_set; cp -r train_set test_set; rm -r masks", r"Are they splits\? Then"),
        ("mv images train; cp -r train test; mkdir test/wasp; cp test/ant/0.jpg test/wasp",
         r"test: class 'wasp' \(1 such\) is none of the 2"),
    ],
)  # fmt: skip
def test_wrong_folders_are_refused_in_a_sentence(tmp_path, spoil, text):
    subprocess.run(["bash", "-c", spoil], cwd=write_plain(tmp_path), check=True)
    with pytest.raises(ValueError, match=text) as caught:
        read_table(tmp_path)
    assert "\n" not in str(caught.value)


ROWS = [
    ("images/bee/0.jpg", "None", "masks/bee/0.png", "train", "a"),
    ("images/ant/0.jpg", "ant", "", "train", ""),
    ("images/bee/1.jpg", "None", "masks/bee/1.png", "val", "b"),
]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({}, ""),
        ({"image": None}, r"has no column image; it has 'label', 'mask', 'split'"),
        ({"label": ["a", "", "b"]}, r"birds.csv, row 2, has no label; give each picture"),
        ({"image": ["images/bee/0.jpg", "gone.jpg", "x"]}, r"row 2: the image .*gone.jpg is miss"),
        ({"mask": ["", "", "gone.png"]}, r"row 3: the mask .*gone.png is missing; write paths"),
        ({"split": ["train", "holdout", "val"]}, r"row 2, has the split 'holdout'; give one of"),
        ({"label": ["a"] * 3}, r"has 1 class, 'a'; needed are at least 2"),
        ({"label": ["a", "a;b", "b"]}, r"row 2, has the labels a and b; a picture has one"),
        ({"label": ["a", "a, b", "b"]}, r"row 2, has the labels a and b; a picture has one"),
        ({"label": ["a", "a, kind of b", "b"]}, ""),
        ({"label": ["a", "b" * 300, "c"]}, r"has a class of 300 letters, 'bbbb.*: give it a short"),
    ],
)
def test_a_wrong_row_is_named(tmp_path, change, text):
    table = pd.DataFrame(ROWS, columns=["image", "label", "mask", "split", "group"])
    for column, values in change.items():
        table = table.drop(columns=column) if values is None else table.assign(**{column: values})
    write_plain(tmp_path)
    table.to_csv(tmp_path / "birds.csv", index=False)
    if not text:
        found = read_table(tmp_path / "birds.csv").rows
        assert found["group"].tolist() == ["a", "", "b"] and found["mask"].isna().tolist()[1]
        return
    with pytest.raises((ValueError, FileNotFoundError), match=text):
        read_table(tmp_path / "birds.csv")


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("birds.csv", b"", r"birds.csv cannot be read"),
        ("birds.csv", b"image,label\n", r"birds.csv has no rows; list at least one"),
        ("birds.csv", b"image,label\nx,cat, tabby\n", r"has rows with more cells than its head"),
        ("birds.csv", "image,label\nx,Grünspecht\n".encode("latin-1"), r"be read \(.*UTF-8"),
        ("birds.parquet", b"PAR1", r"is a .parquet file; give a folder of class folders, a .csv"),
        ("birds.zip", b"PK", r"is a .zip file; give a folder"),
        ("birds.json", b"{", r"birds.json cannot be read"),
        ("birds.json", b"{}", r"birds.json cannot be read .* export it again as COCO"),
        ("birds.yaml", b"names: [a]", r"birds.yaml has no outline of an object"),
    ],
)
def test_files_that_are_no_tables(tmp_path, name, content, text):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=text):
        read_table(tmp_path / name)


def note(content, place, **changed):
    content["annotations"][place] |= changed


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda c: note(c, 1, category_id=8), r"annotations\[1\] has an image_id or category_id"),
        (lambda c: note(c, 1, segmentation={"size": [20, 16], "counts": [0, 320]}),
         r"outlines of 0.png are of 16 x 20 pixels, the picture has 20 x 16"),
        (lambda c: c["images"][0].update(width=30), r"outlines of 0.png are of 30 x 16 pixels"),
        (lambda c: c["categories"][0].update(name="bee"), r"two categories have one id or name"),
        (lambda c: c["images"][0].update(id=1), r"two images have one id"),
        (lambda c: c["images"][0].update(file_name="x.jpg"), r"the picture x.jpg is missing"),
        (lambda c: [note(c, i, iscrowd=1) for i in range(len(c["annotations"]))],
         r"set.json has no outline of an object; mark some"),
        (lambda c: c.pop("annotations"), r"set.json cannot be read .*'annotations'"),
        (lambda c: note(c, 1, segmentation="outline"), r"annotations\[1\] has a segmentation that"),
        (lambda c: note(c, 1, segmentation=[[1, 2]]), r"annotations\[1\] has a segmentation that"),
        (lambda c: note(c, 1, segmentation={"size": [16, 20], "counts": [0, 9]}), r"set.json"),
    ],
)  # fmt: skip
def test_what_is_no_coco_is_refused(tmp_path, spoil, text):
    pytest.importorskip("supervision")
    (path,) = coco(tmp_path, False)
    content = json.loads(path.read_text())
    spoil(content)
    path.write_text(json.dumps(content))
    with pytest.raises((ValueError, FileNotFoundError), match=text):
        read_table(path)


def test_outlines_and_masks_of_a_picture_that_exif_turns_are_refused(tmp_path):
    pytest.importorskip("supervision")
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    (path,) = coco(tmp_path, False)
    Image.new("L", SIZE).save(tmp_path / "images" / "0.png", exif=exif)
    with pytest.raises(ValueError, match=r"EXIF turns .*0.png, and its outlines may lie otherwise"):
        read_table(path)
    (path,) = csv(tmp_path, ",")
    Image.new("L", SIZE).save(tmp_path / "x" / "0.png", exif=exif)
    with pytest.raises(ValueError, match=r"20 x 16 pixels, the upright picture 16 x 20; EXIF turn"):
        read_table(path).mask(0)


def test_a_picture_with_a_box_among_outlines_has_no_mask(tmp_path):
    """A box would be no part of the object, or be drawn as one."""
    pytest.importorskip("supervision")
    (tmp_path / "coco").mkdir()
    (path,) = coco(tmp_path / "coco", False)
    content = json.loads(path.read_text())
    boxed = next(each for each in content["annotations"] if not each.get("iscrowd"))
    boxed["segmentation"], boxed["bbox"] = [], [0, 0, 2, 2]
    path.write_text(json.dumps(content))
    (file,) = yolo(tmp_path / "yolo")
    with (tmp_path / "yolo" / "train" / "labels" / "0.txt").open("a") as lines:
        lines.write("1 0.5 0.5 0.2 0.2\n")
    (tmp_path / "voc").mkdir()
    (notes,) = voc(tmp_path / "voc")
    text = (notes / "0.xml").read_text()
    box = "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>3</xmax><ymax>3</ymax></bndbox>"
    other = f"<object><name>{NAMES[0]}</name>{box}</object></annotation>"
    (notes / "0.xml").write_text(text.replace("</annotation>", other))
    (notes / "._0.xml").write_bytes(b"of a Mac")
    for table in map(read_table, (path, file, notes)):
        bare = [name for name, mask in zip(table.ids, table.masks, strict=True) if mask is None]
        assert [Path(name).stem for name in bare] == ["0"]


def test_a_damaged_picture_or_file_of_outlines_is_named(tmp_path):
    pytest.importorskip("supervision")
    (path,) = yolo(tmp_path / "yolo")
    (tmp_path / "yolo" / "train" / "images" / "0.png").write_bytes(b"none")
    table = read_table(path)
    assert len(table) == 17 and table.gone["id"].tolist() == ["train/images/0.png"]
    path.write_text(path.read_text().replace("../train/images", "train.txt"))
    with pytest.raises(ValueError, match=r"train is 'train.txt'; lists of pictures are not read"):
        read_table(path)
    (tmp_path / "voc").mkdir()
    (path,) = voc(tmp_path / "voc")
    (path / "3.xml").write_text("<annotation><object>")
    with pytest.raises(ValueError, match=r"3\.xml is damaged \(.*\); export it again, or take"):
        read_table(path)


def test_missing_paths_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere is missing; give a folder of class"):
        read_table(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"the folder of masks .*nowhere is missing"):
        read_table(write_plain(tmp_path), tmp_path / "nowhere")


def test_the_ten_lines_of_the_page_make_a_table(tmp_path, monkeypatch):
    """Of 12 bits and label maps beside their images."""
    page = (Path(__file__).parents[3] / "docs" / "your_own.md").read_text()
    code = page.split("become the table:\n\n```python\n")[1].split("```")[0]
    assert len(code.split("rows = []")[1].splitlines()) <= 10
    for number in range(4):
        image = tmp_path / "scans" / NAMES[number % 2] / f"p{number // 2}-{number}.tif"
        image.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full(SIZE[::-1], 1000 * number, np.uint16)).save(image)
        values = np.where(mask_of(number), 1, 2).astype(np.uint8)
        Image.fromarray(values).save(image.with_name(f"{image.stem}_mask.png"))
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    table = read_table("scans.csv")
    assert table.classes == ("ant", "bee") and table.has_masks
    assert np.array_equal(table.mask(0), mask_of(0))
    with table.picture(3) as shown:
        assert shown.getpixel((0, 0)) == (255 * 3000 // 4095,) * 3
