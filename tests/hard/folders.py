"""Data sets as people have them, made up by a seed; what each is in truth is known."""

import json
import random
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import ExifTags, Image
from pycocotools import mask as coco

NAMES = ("cat", "Café", "Grünspecht", "no", "yes", "01", "10", "2", "$5_$10", "two words")
ENDINGS = ("png", "bmp", "tiff", "PNG", "gif", "jpg", "jpeg", "webp")
PARTS = (("train", "val", "test"), ("training_set", "test_set"), ("Train", "Valid"),
         ("seg_train", "seg_test"))  # fmt: skip
SPLITS = {"train": "training", "validation": "dev", "test": "Test"}  # as a table may call them
KNOWN = {"train": "train", "training_set": "train", "val": "validation", "valid": "validation",
         "test": "test", "test_set": "test", "seg_train": "train", "seg_test": "test"}  # fmt: skip


@dataclass
class Photograph:
    number: int  # told by its colour
    label: str
    part: str
    size: tuple[int, int]  # upright
    mask: np.ndarray | None
    path: Path = Path()
    turned: bool = False


@dataclass
class Case:
    """A data set on disk, and what reading it must give."""

    path: Path
    photographs: list[Photograph]
    options: dict = field(default_factory=dict)
    refused: str = ""  # what the refusal must name; empty: it must be read
    what: list[str] = field(default_factory=list)

    @property
    def truth(self) -> dict[int, tuple[str, str, bytes | None]]:
        """Part, class and mask of each photograph."""
        return {
            p.number: (p.part, p.label, None if p.mask is None else np.packbits(p.mask).tobytes())
            for p in self.photographs
        }


def colour(number: int) -> tuple[int, int, int]:
    return 20 + 40 * (number % 6), 20 + 40 * (number // 6 % 6), 20 + 40 * (number // 36)


def number_of(image: Image.Image) -> int:
    red, green, blue = np.asarray(image.convert("RGB")).reshape(-1, 3).mean(axis=0)
    places = [round((value - 20) / 40) for value in (red, green, blue)]
    return places[0] + 6 * places[1] + 36 * places[2]


def _ring(mask: np.ndarray) -> np.ndarray:
    grown = np.zeros_like(mask)
    rows, columns = np.nonzero(mask)
    grown[rows.min() - 1 : rows.max() + 2, columns.min() - 1 : columns.max() + 2] = True
    return grown & ~mask


def _palette(numbers: np.ndarray, *colours: tuple[int, int, int]) -> Image.Image:
    image = Image.fromarray(numbers.astype(np.uint8)).convert("P")
    image.putdata(numbers.astype(np.uint8).ravel().tolist())
    image.putpalette([value for each in colours for value in each])
    return image


def _labels(mask: np.ndarray, object: int, ring: int, rest: int = 0) -> Image.Image:
    values = np.where(mask, object, np.where(_ring(mask), ring, rest))
    return Image.fromarray(values.astype(np.uint8))


def _classes(mask: np.ndarray) -> Image.Image:
    """Class 15 with a border of class 2, each with a colour, as VOC has them."""
    values = np.where(mask, 15, np.where(_ring(mask), 2, 0))
    return _palette(values, *[(9 * n, n, 0) for n in range(16)])


MASKS: dict[str, tuple[Callable[[np.ndarray], Image.Image], dict]] = {
    "0 and 255": (lambda m: Image.fromarray(m * np.uint8(255)), {}),
    "0 and 1": (lambda m: Image.fromarray(m * np.uint8(1)), {}),
    "0 and 17": (lambda m: Image.fromarray(m * np.uint8(17)), {}),
    "bits": (Image.fromarray, {}),
    "16 bits": (lambda m: Image.fromarray(m * np.uint16(65535)), {}),
    "palette": (lambda m: _palette(m, (0, 0, 0), (200, 0, 9)), {}),
    "palette, black second": (lambda m: _palette(~m, (250, 250, 250), (0, 0, 0)), {}),
    "transparent": (lambda m: Image.fromarray(np.dstack([m * np.uint8(255)] * 4)), {}),
    "one colour": (lambda m: Image.fromarray(np.dstack([m * np.uint8(n) for n in (9, 0, 99)])), {}),
    "grey in three": (lambda m: Image.fromarray(np.dstack([m * np.uint8(255)] * 3)), {}),
    "soft": (lambda m: _labels(m, 255, 90), {}),
    "border ignored": (lambda m: _labels(m, 8, 255), {"ignore": (255,)}),
    "border ignored, 1": (lambda m: _labels(m, 1, 255), {"ignore": (255,)}),
    "trimap told": (lambda m: _labels(m, 1, 3, 2), {"object": (1,)}),
    "inverted, told": (lambda m: Image.fromarray(~m * np.uint8(255)), {"object": (0,)}),
    "palette of classes, told": (
        _classes, {"object": (15,)},
    ),
}  # fmt: skip
UNTOLD = {
    "border": lambda m: _labels(m, 8, 255),
    "trimap": lambda m: _labels(m, 1, 3, 2),
    "palette of classes": _classes,
    "no black": lambda m: Image.fromarray(np.where(m, 1, 2).astype(np.uint8)),
    "a picture": lambda m: Image.fromarray(
        np.random.default_rng(0).integers(0, 255, (*m.shape, 3), dtype=np.uint8)
    ),
}


def _save(photo: Photograph, path: Path, chance: random.Random) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    photo.path = path
    size, options = photo.size, {}
    if photo.turned:
        exif = Image.Exif()
        size, exif[ExifTags.Base.Orientation] = size[::-1], chance.choice((6, 8))
        options["exif"] = exif
    image = Image.new("RGB", size, colour(photo.number))
    if path.suffix.lower() in (".png", ".tiff", ".gif") and chance.random() < 0.5:
        image = image.quantize(2)  # all have the same numbers, and another palette each
    image.save(path, **options)
    return path


def _form(name: str, chance: random.Random) -> str:
    return unicodedata.normalize(chance.choice(("NFC", "NFD")), name)


def make(folder: Path, seed: int) -> Case:
    """One data set: its layout, names, masks, copies and damage are drawn by the seed."""
    chance = random.Random(seed)
    layout = chance.choice(("beside", "beside", "plain", "parts", "table", "coco", "coco"))
    classes = chance.sample(NAMES, chance.randint(2, 3))
    parts = chance.choice(PARTS) if layout == "parts" else ("",)
    photographs, number = [], 0
    for part in parts:
        for label in classes:
            for _ in range(chance.randint(3, 4)):
                size = (chance.randint(24, 40), chance.randint(24, 40))
                use, mask = KNOWN.get(part.lower(), "all"), _object(size, chance)
                photographs.append(Photograph(number, label, use, size, mask))
                number += 1
    case = Case(folder, photographs, what=[layout])
    WRITERS[layout](case, parts, chance)
    return case


def _object(size: tuple[int, int], chance: random.Random) -> np.ndarray:
    mask = np.zeros(size[::-1], dtype=bool)
    left, top = chance.randint(2, 8), chance.randint(2, 8)
    mask[top : top + chance.randint(5, 11), left : left + chance.randint(5, 11)] = True
    return mask


def _class_folders(case: Case, parts: tuple[str, ...], chance: random.Random) -> None:
    layout, kind = case.what[0], chance.choice(list(MASKS))
    of_masks = ("split",) if layout == "plain" else ("untold", "mask", "size", "format", "flat")
    damage = chance.choice(("", "", "picture", "two classes", "copy", *of_masks))
    case.what += [kind, damage]
    write, told = MASKS[kind]
    if damage == "untold":
        kind = chance.choice(list(UNTOLD))
        write, told = UNTOLD[kind], {}
    if told:
        case.options["values"] = told
    images = case.path if layout == "plain" else case.path / "images"
    by_part = {KNOWN.get(part.lower(), "all"): part for part in parts}
    places = ("images", "masks", *parts)
    forms = {(name, place): _form(name, chance) for name in NAMES for place in places}
    for place, photo in enumerate(case.photographs):
        part, stem = by_part[photo.part], _form(f"é{photo.number}", chance)
        root = images / part if layout == "parts" else images
        photo.turned = chance.random() < 0.2
        ending = "jpg" if photo.turned else chance.choice(ENDINGS)
        _save(photo, root / forms[photo.label, part or "images"] / f"{stem}.{ending}", chance)
        if layout == "plain":
            photo.mask = None
            continue
        masks = case.path / "masks" / (part if layout == "parts" else "")
        mask = masks / forms[photo.label, "masks"] / f"{_form(stem, chance)}.png"
        mask.parent.mkdir(parents=True, exist_ok=True)
        image = write(photo.mask)
        if place == 1 and damage == "size":
            image = image.resize((image.width + 1, image.height))
        image.save(mask)
        if place == 1 and damage == "format":
            image.convert("RGB").save(mask, "JPEG")
        if place == 1 and damage == "mask":
            mask.write_text("no picture")
    if damage == "untold":
        case.refused = "many colours" if kind == "a picture" else "of which each may be"
    elif damage == "flat" and layout == "beside":  # no folder for each class any more
        for place, mask in enumerate(sorted((case.path / "masks").glob("*/*"))):
            mask.rename(case.path / "masks" / f"{place}_mask.png")
        for folder in [each for each in (case.path / "masks").iterdir() if each.is_dir()]:
            folder.rmdir()
        case.refused = "no folder for each class"
    elif damage in ("mask", "size", "format"):
        case.refused = case.photographs[1].path.name
    _damage(case, damage, chance)
    _clutter(images / (parts[0] if layout == "parts" else ""), chance)


def _damage(case: Case, damage: str, chance: random.Random) -> None:
    first, last = case.photographs[0], case.photographs[-1]
    if damage == "picture":
        first.path.write_bytes(first.path.read_bytes()[: chance.choice((30, 50))])
        case.refused = first.path.name
    if damage == "two classes":  # the same pixels in another file
        Image.open(first.path).convert("RGB").save(last.path.with_name("again.png"))
        if not first.turned:
            case.refused = "again.png"
        else:  # it lies on its side without its note, so that it is another picture
            last.path.with_name("again.png").unlink()
    if damage == "copy" and not first.turned:
        Image.open(first.path).convert("RGB").save(first.path.with_name("zz.png"))
    if damage == "split":  # what is a class? Folders of the same names in each
        for label in {photo.path.parent for photo in case.photographs}:
            for number, file in enumerate(sorted(label.iterdir())):
                inside = label / f"camera {number % 2}"
                inside.mkdir(exist_ok=True)
                file.rename(inside / file.name)
        case.refused = "camera 0"


def _clutter(root: Path, chance: random.Random) -> None:
    label = next(path for path in sorted(root.iterdir()) if path.is_dir())
    for name in chance.sample(("@eaDir", "__MACOSX", ".thumbnails", "Thumbnails"), 2):
        for place in (root / name, label / name):
            place.mkdir()
            Image.new("RGB", (5, 5), (9, 9, 200)).save(place / "0.jpg")
    (label / "._0.jpg").write_text("clutter")
    (label / "Thumbs.db").write_text("clutter")


def _table(case: Case, parts: tuple[str, ...], chance: random.Random) -> None:
    damage = chance.choice(("", "", "picture", "missing", "label", "two classes", "twice"))
    kind = chance.choice(list(MASKS))
    ending, (write, told) = chance.choice(("csv", "tsv", "parquet")), MASKS[kind]
    case.what += [ending, kind, damage]
    case.options |= {"values": told} if told else {}
    rows = []
    for photo in case.photographs:
        _save(photo, case.path / f"photos/{photo.number}.{chance.choice(ENDINGS)}", chance)
        mask = case.path / f"masks/{photo.number}.png"
        mask.parent.mkdir(exist_ok=True)
        photo.mask = photo.mask if chance.random() < 0.8 else None
        if photo.mask is not None:
            write(photo.mask).save(mask)
        name = mask.relative_to(case.path).as_posix() if photo.mask is not None else None
        image = photo.path.relative_to(case.path).as_posix()
        photo.part, split = chance.choice(list(SPLITS.items()))
        rows.append(
            {"image": image, "label": _form(photo.label, chance), "mask": name, "split": split}
        )
    if damage == "missing":
        rows[1]["image"] = "photos/gone.jpg"
        case.refused = "gone.jpg"
    if damage == "label":
        rows[1]["label"] = None
        case.refused = "row 2"
    table = pd.DataFrame(rows)
    if damage == "two classes":
        other = next(p for p in case.photographs if p.label != case.photographs[0].label)
        table.loc[len(table)] = rows[0] | {"label": other.label}
        case.refused = case.photographs[0].path.name
    if damage == "twice":
        table = pd.concat([table, table[:3]], ignore_index=True)
    if damage == "picture":
        _damage(case, damage, chance)
    case.path /= f"set.{ending}"
    if ending == "parquet":
        table.to_parquet(case.path)
    else:
        table.to_csv(case.path, index=False, sep="\t" if ending == "tsv" else chance.choice(",;"))


def _coco(case: Case, parts: tuple[str, ...], chance: random.Random) -> None:
    root, sizes = case.path, chance.choice(("int", "float", "text", "none"))
    layout = chance.choice(("beside", "images", "standard", "given"))
    damages = ("picture", "points", "runs", "category", "missing", "size", "twice", "ids", "words")
    damage = chance.choice(("", "", "", *damages))
    case.what += [layout, sizes, damage]
    places = {"beside": "", "images": "images", "standard": "val2017", "given": "far"}
    folder, names = root / places[layout], {"standard": "annotations/instances_val2017.json"}
    case.path = root / names.get(layout, "set.json")
    case.path.parent.mkdir(parents=True, exist_ok=True)
    if layout == "given":
        case.options["images"] = folder
    labels = sorted({photo.label for photo in case.photographs})
    ids = {label: 3 + 2 * place for place, label in enumerate(labels)}
    images, notes = [], []
    for place, photo in enumerate(case.photographs):
        _save(photo, folder / f"{photo.number}.{chance.choice(ENDINGS)}", chance)
        entry = {"id": 100 + photo.number, "file_name": photo.path.name}
        kinds = {"int": int, "float": float, "text": str}
        if sizes != "none":
            width, height = map(kinds[sizes], photo.size)
            entry |= {"width": width, "height": height}
        images.append(entry)
        outline = _outline(photo.mask, chance)
        note = {"image_id": entry["id"], "category_id": ids[photo.label], "segmentation": outline,
                "area": chance.choice((1.0, 0, 99999)), "iscrowd": 0}  # fmt: skip
        small = next(label for label in ids if label != photo.label)  # beside it, and listed first
        other = note | {"category_id": ids[small], "segmentation": [[0, 0, 2, 0, 2, 2, 0, 2]]}
        notes += [other, note] if chance.random() < 0.5 else [note]
        if chance.random() < 0.5:  # larger than all, and no object
            around = {"size": list(photo.mask.shape), "counts": [0, photo.mask.size]}
            crowd = {"category_id": ids[small], "segmentation": around, "iscrowd": 1}
            notes.append(note | crowd)
        if place == 0 and damage == "points":
            few, good = [1, 1, 9, 9], [2, 2, 9, 2, 9, 9]
            note["segmentation"] = chance.choice(([few], [few, good], [good, few]))
        if place == 0 and damage == "runs":
            counts = chance.choice(([9, 9], _packed(photo.mask)[:-2]))
            size = photo.mask.shape
            if chance.random() < 0.5:  # as many pixels, of another picture
                size, counts = (1, photo.mask.size), [0, 9, photo.mask.size - 9]
            note["segmentation"] = {"size": size, "counts": counts}
        if place == 0 and damage == "category":
            note["category_id"] = 999
        if place == 0 and damage == "missing":
            photo.path.unlink()
        if place == 0 and damage == "size":
            entry |= {"width": photo.size[0] + 5, "height": photo.size[1]}
        if place == 0 and damage == "words":
            odd = ("1,2,3", ["1,2,3"], [["a", "b"] * 3], [1, 2, 3, 4, 5, 6])
            note["segmentation"] = chance.choice(odd)
        if place == 0 and damage == "twice":  # the same file under another number
            images.append(entry | {"id": 9000})
            notes.append(note | {"image_id": 9000})
    if damage == "ids":
        images[1]["id"] = images[0]["id"]
    named = {"category": "999", "ids": "two images have the id", "twice": ""}
    if damage == "picture":
        _damage(case, damage, chance)
    elif damage:
        case.refused = named.get(damage, case.photographs[0].path.name)
    categories = [{"id": number, "name": _form(label, chance)} for label, number in ids.items()]
    content = {"images": images, "annotations": notes, "categories": categories}
    case.path.write_text(json.dumps(content))


def _packed(mask: np.ndarray) -> str:
    return coco.encode(np.asfortranarray(mask.astype(np.uint8)))["counts"].decode()


def _outline(mask: np.ndarray, chance: random.Random) -> object:
    rows, columns = np.nonzero(mask)
    left, right, top, bottom = columns.min(), columns.max() + 1, rows.min(), rows.max() + 1
    corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
    flat = [int(value) for corner in corners for value in corner]
    counts = np.diff(np.flatnonzero(np.diff(np.r_[-1, mask.T.ravel(), -1]))).tolist()
    size = list(mask.shape)
    return chance.choice((
        [flat], {"size": size, "counts": counts}, {"size": size, "counts": _packed(mask)},
    ))  # fmt: skip


WRITERS = {"table": _table, "coco": _coco} | dict.fromkeys(
    ("beside", "plain", "parts"), _class_folders
)
