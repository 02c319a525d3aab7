"""Masks of one's own: PNG files of two values, and outlines of COCO, YOLO and VOC made such.

A camera stores a picture as its sensor lies and notes in EXIF how to turn it; here pictures are set
upright, and a mask is that of the upright picture. Outlines are drawn by `supervision` (the extra
`own`). They have many objects in a picture, and a classifier answers with one class: a picture's is
that of its largest object, its mask the union of that class's outlines, or none where any object
has a box alone: it would be no part of the mask, or be drawn as one.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

import numpy as np
import yaml
from PIL import Image

from relevit.base.errors import need_packages, one_line
from relevit.data.pictures import READING, opened, orientation
from relevit.models.spec import Mask

ON_THEIR_SIDE = range(5, 9)  # EXIF orientations that swap width and height
NAMED = 6  # values that an error names
AT_ONCE = 50  # pictures whose outlines are in memory together
SPLITS = {
    "train": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "test": "test",
}
MaskSource = Path | bytes  # a PNG file, or what would be in one
SHORTEST = 7  # numbers of an outline in a line of YOLO's: a class and three points
PICTURES = (".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")  # that YOLO and VOC have
SAVE = "save it in grey, 255 on the object and 0 elsewhere (docs/your_own.md shows how)"
TURNED = "read_table: EXIF turns {}, and its outlines may lie otherwise; save it upright"
Size = tuple[int, int]  # width and height, pixels
Rows = list[tuple[Any, ...]]


class OtherSize(ValueError):
    """A mask of another size than its picture."""


def upright_size(image: Image.Image) -> Size:
    """Width and height that a picture will have upright, from its header alone."""
    width, height = image.size
    side = orientation(image) in ON_THEIR_SIDE
    # Pillow says the upright size of a TIFF, and turns it when it is read.
    return (height, width) if side and image.format != "TIFF" else (width, height)


def fitting_mask(source: MaskSource, picture: Path) -> Mask:
    """The object's pixels in the upright picture.

    Raises: OtherSize when the mask has another size; ValueError, OSError as `open_mask`.
    """
    mask = open_mask(source)
    with opened(picture) as image:  # its header alone
        size, stored = upright_size(image), image.size
    has = mask.shape[::-1]
    if has != size:
        turned = "; EXIF turns it: save it upright, and draw the mask on that" * (has == stored)
        raise OtherSize(
            f"the mask has {has[0]} x {has[1]} pixels, the upright picture {size[0]} x "
            f"{size[1]}{turned}"
        )
    return mask


def open_mask(source: MaskSource) -> Mask:
    """The object's pixels of a PNG: those that are not 0, of which all have one value.

    Raises: ValueError for what may mean anything else, with what to do; as `opened`.
    """
    if isinstance(source, bytes):
        return np.array(Image.open(BytesIO(source)))
    with opened(source) as image:
        if image.format != "PNG":
            raise ValueError(
                f"the mask is a {image.format} file; save it as PNG, which keeps edges"
            )
        kind, levels = image.mode, image.getextrema()
        if kind in ("RGBA", "LA") and levels[-1][0] == levels[-1][1]:  # opaque everywhere
            image = image.convert("RGB" if kind == "RGBA" else "L")
        greys = np.array(image)
    if greys.ndim == 3 and greys.shape[2] == 3 and (greys == greys[..., :1]).all():
        greys = greys[..., 0]
    if kind == "P" or greys.ndim == 3 or kind.startswith("I"):
        what = {"P": "a palette", "I": "more than 8 bits"}.get(kind[0], "colours or transparency")
        raise ValueError(f"the mask has {what}; {SAVE}")
    found = np.unique(greys)
    if len(found) > 2 or (len(found) == 2 and found[0] != 0):
        shown = ", ".join(map(str, found[:NAMED])) + (" ..." if len(found) > NAMED else "")
        raise ValueError(
            f"the mask has the values {shown}, of which each may be the object; {SAVE}"
        )
    return greys != 0


# Outlines


def is_outlines(path: Path) -> bool:
    """Whether a file or folder has outlines: COCO's .json, YOLO's .yaml, VOC's folder of .xml."""
    if path.is_dir():
        return any(name.lower().endswith(".xml") for name in os.listdir(path))
    return path.suffix.lower() in (".json", ".yaml", ".yml")


def read_outlines(
    path: Path, images: Path | None = None
) -> tuple[Rows, list[tuple[str, str, str | None, str]], tuple[str, ...]]:
    """Rows of a table, what is left out and why, and the classes, in the order of the file's ids.

    Pictures lie in `images`; without it beside a COCO file, in images/ there or in COCO's own
    layout, where YOLO's file says, and for VOC in JPEGImages/ beside the folder or in it.
    Raises: ImportError without supervision; ValueError for a file that is none of these, or does
    not fit its pictures; FileNotFoundError for a picture that is missing.
    """
    need_packages("read_table", "own", "supervision")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without OpenCV it does the same in NumPy
        import supervision  # noqa: F401  it reads them
    kind = _voc if path.is_dir() else _coco if path.suffix.lower() == ".json" else _yolo
    rows, gone, names = [], [], []
    try:
        for split, file, classes, found in kind(path, images):
            names = names + [name for name in classes if name not in names]
            name = _inside(file, path.parent)
            if found is None or not len(found):
                gone.append((name, "", split, "no outline in it, or it cannot be read"))
                continue
            areas = found.mask.sum(axis=(1, 2)) if found.mask is not None else found.box_area
            areas = np.where(areas > 0, areas, found.box_area)
            largest = int(found.class_id[areas.argmax()])
            union = (
                None if found.mask is None else found.mask[found.class_id == largest].any(axis=0)
            )
            mask = _as_png(union) if union is not None and union.any() else None
            rows.append((name, file, classes[largest], mask, split, ""))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, yaml.YAMLError) as error:
        if str(error).startswith("read_table"):
            raise
        raise ValueError(
            f"read_table: {path} cannot be read ({one_line(error)}); export it again as COCO, YOLO "
            "or VOC"
        ) from error
    if not rows:
        raise ValueError(f"read_table: {path} has no outline of an object; mark some")
    used = {label for _, _, label, *_ in rows}
    return rows, gone, tuple(name for name in names if name in used)


def _as_png(mask: Mask) -> bytes:
    file = BytesIO()
    Image.fromarray(mask).save(file, "PNG")
    return file.getvalue()


def _inside(path: Path, folder: Path) -> str:
    return (path.relative_to(folder) if path.is_relative_to(folder) else path).as_posix()


Found = Iterator[tuple[str | None, Path, Sequence[str], Any]]  # split, file, classes, detections


def _coco(path: Path, images: Path | None) -> Found:
    """Source: Lin et al. 2014. Crowds and ignored regions are no objects, as in COCO."""
    from supervision import DetectionDataset

    content = json.loads(path.read_text(encoding="utf-8"))
    by_picture: dict[Any, list[dict[str, Any]]] = {entry["id"]: [] for entry in content["images"]}
    if len(by_picture) < len(content["images"]):
        raise ValueError(f"read_table: {path}: two images have one id; export it again")
    known = {entry["id"]: str(entry["name"]) for entry in content["categories"]}
    if len(set(known.values())) < len(content["categories"]):
        raise ValueError(f"read_table: {path}: two categories have one id or name; rename one")
    for place, entry in enumerate(content["annotations"]):
        if entry["image_id"] not in by_picture or entry["category_id"] not in known:
            raise ValueError(
                f"read_table: {path}: annotations[{place}] has an image_id or category_id that the "
                "file does not describe; export it again"
            )
        if not _is_outline(entry.get("segmentation") or None):
            raise ValueError(
                f"read_table: {path}: annotations[{place}] has a segmentation that is no outline; "
                "needed are polygons of 3 points or more, x, y, x, y ..., or runs"
            )
        if all(entry.get(key) in (None, 0, "0") for key in ("iscrowd", "ignore")):
            by_picture[entry["image_id"]].append({"bbox": [0, 0, 0, 0], **entry})
    places = [images] if images else _beside(path)
    marked = []
    for entry in sorted(content["images"], key=lambda entry: entry["file_name"]):
        name, objects = entry["file_name"], by_picture[entry["id"]]
        file = next(filter(Path.is_file, (place / name for place in places)), None)
        if file is None and objects:
            raise FileNotFoundError(
                f"read_table: {path}: the picture {name} is missing; put it into {places[0]}, or "
                "give the folder of the pictures with --images"
            )
        if not objects:
            yield None, file or places[0] / name, [], None
            continue
        if size := _need_fitting(path, name, file, entry, objects):
            sized = entry | {"width": size[0], "height": size[1]}
            marked.append((sized, file, objects))
        else:  # its class is not known
            yield None, file, [], None
    for start in range(0, len(marked), AT_ONCE):
        some = marked[start : start + AT_ONCE]
        root = Path(os.path.commonpath([file.resolve().parent for _, file, _ in some]))
        named = [(e, file.resolve().relative_to(root).as_posix()) for e, file, _ in some]
        content |= {
            "images": [entry | {"file_name": name} for entry, name in named],
            "annotations": [each for *_, objects in some for each in objects],
        }
        with TemporaryDirectory() as folder:
            part = Path(folder, "part.json")
            part.write_text(json.dumps(content), encoding="utf-8")
            read = DetectionDataset.from_coco(str(root), str(part))
        for _, file, objects in some:
            found = read.annotations[str(file.resolve())]
            if not all(each.get("segmentation") for each in objects):
                found.mask = None  # a box's object would be no part of it
            yield None, file, read.classes, found


def _is_outline(told: Any) -> bool:
    """Whether an annotation has runs, polygons or none, as COCO has them."""
    if not isinstance(told, list):
        return told is None or (isinstance(told, dict) and {"counts", "size"} <= told.keys())
    polygons = told if isinstance(told[0], list) else [told]
    return all(isinstance(p, list) and len(p) >= 6 and len(p) % 2 == 0 for p in polygons)


def _need_fitting(
    path: Path,
    name: str,
    file: Path,
    entry: Mapping[str, Any],
    objects: Sequence[Mapping[str, Any]],
) -> Size | None:
    """The picture's size; None of one that cannot be read.

    Raises: ValueError for outlines that are of another picture.
    """
    try:
        with opened(file) as image:
            size, turn = image.size, orientation(image)
    except READING:
        return None
    sizes = [each["segmentation"]["size"][::-1] for each in objects
             if isinstance(each.get("segmentation"), dict)]  # fmt: skip
    sizes += [[entry["width"], entry["height"]]] if entry.get("width") else []
    if other := [each for each in sizes if tuple(int(float(side)) for side in each) != size]:
        raise ValueError(
            f"read_table: {path}: outlines of {name} are of {other[0][0]} x {other[0][1]} pixels, "
            f"the picture has {size[0]} x {size[1]}; export them of this picture"
        )
    if turn != 1:
        raise ValueError(TURNED.format(file))
    return size


def _is_readable(file: Path) -> bool:
    """Whether a picture can be opened. Raises: ValueError for one that EXIF turns."""
    try:
        with opened(file) as image:
            turn = orientation(image)
    except READING:
        return False
    if turn != 1:
        raise ValueError(TURNED.format(file))
    return True


def _beside(path: Path) -> list[Path]:
    """Where pictures lie beside a COCO file; x/ beside annotations/instances_x.json."""
    here, above, subset = path.parent, path.parent.parent, path.stem.removeprefix("instances_")
    places = [here, here / "images"]
    if here.name == "annotations":
        places += [above / subset, above / "images" / subset, above / "images", above]
    return places


def _yolo(path: Path, images: Path | None) -> Found:
    """Pictures where the file says, outlines in labels/ for images/, as ultralytics has it."""
    from supervision import DetectionDataset

    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    root = path.parent / (content.get("path") or "")
    for key, split in SPLITS.items():
        if not content.get(key):
            continue
        if not isinstance(content[key], str) or content[key].endswith(".txt"):
            raise ValueError(
                f"read_table: {path}: {key} is {content[key]!r:.80}; lists of pictures are not "
                "read, give a folder"
            )
        told = content[key].removeprefix("../")  # Roboflow's, which are of its own folder
        folder = images or next(filter(Path.is_dir, (root / told, path.parent / told)), root / told)
        if not folder.is_dir():
            raise FileNotFoundError(
                f"read_table: {path}: the folder {folder} of {key} is missing; mend the path in "
                "the file, or give the folder of the pictures with --images"
            )
        labels = folder.parent / "labels" if folder.name == "images" else folder
        if folder.parent.name == "images":
            labels = folder.parent.parent / "labels" / folder.name

        def read(of: str, at: Path = labels) -> Any:
            return DetectionDataset.from_yolo(of, str(at), str(path))

        def has_box(file: Path, at: Path = labels) -> bool:
            lines = (at / f"{file.stem}.txt").read_text(encoding="utf-8").splitlines()
            return any(0 < len(line.split()) < SHORTEST for line in lines)

        yield from _by_folder(split, folder, read, has_box)


def _voc(path: Path, images: Path | None) -> Found:
    """Source: Everingham et al. 2010."""
    from supervision import DetectionDataset

    boxed = set()  # pictures with an object that has a box alone
    for file in sorted(path.glob("[!.]*.xml")):
        try:
            objects = ElementTree.parse(file).findall("object")
        except ElementTree.ParseError as error:
            raise ValueError(
                f"read_table: {file} is damaged ({error}); export it again, or take it out"
            ) from error
        boxed |= {file.stem} if any(each.find("polygon") is None for each in objects) else set()
    beside = path.parent / "JPEGImages"
    folder = images or (beside if beside.is_dir() else path)

    def read(of: str) -> Any:
        return DetectionDataset.from_pascal_voc(of, str(path))

    yield from _by_folder(None, folder, read, lambda file: file.stem in boxed)


def _by_folder(
    split: str | None, folder: Path, read: Callable[[str], Any], has_box: Callable[[Path], bool]
) -> Found:
    """The pictures of a folder, some at once: `read` draws all outlines of a folder in memory.

    Where a picture `has_box`, which would be drawn as an outline or left out, its mask is none.
    """
    files = sorted(p for p in folder.iterdir() if p.suffix.lower() in PICTURES)
    for start in range(0, len(files), AT_ONCE):
        readable = {file: _is_readable(file) for file in files[start : start + AT_ONCE]}
        with TemporaryDirectory() as some:
            for file in filter(readable.get, readable):
                os.symlink(file.resolve(), Path(some, file.name))
            found = read(some) if any(readable.values()) else None
            for file, known in readable.items():
                if not known:  # nor is its class
                    yield split, file, [], None
                    continue
                one = found.annotations[str(Path(some, file.name))]
                if one.mask is not None and has_box(file):
                    one.mask = None
                yield split, file, found.classes, one
