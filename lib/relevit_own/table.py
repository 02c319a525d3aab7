"""A data set of one's own: one table of its pictures, out of class folders or a CSV.

    birds/images/<class>/*.jpg  birds/masks/<class>/*.png   pictures, and masks of the same names
    birds/<class>/*.jpg                                     without masks
    birds.csv                   columns image and label, perhaps mask, split and group
    instances.json, data.yaml   outlines of COCO or YOLO; a folder of VOC's XML (`outlines`)

Folders may have the splits train, val and test: birds/train/<class>, birds/images/train/<class> or
birds/train/images/<class>, with masks alike. Classes are in the order of torchvision's
`ImageFolder`, by their names as texts, so that 10 comes before 2; whole numbers of a CSV, which are
a head's own, are by their value. Names are compared in one Unicode form. What is no picture, and
what this package has written, is left out by name.
"""

from __future__ import annotations

import os
import re
import unicodedata
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, SupportsInt

import pandas as pd
import torch
from jaxtyping import Int
from pandas.errors import ParserWarning
from PIL import Image
from torch import Tensor
from torchvision.datasets.folder import IMG_EXTENSIONS

from relevit.base.errors import one_line
from relevit.data.image_set import ImageSet, picture_set
from relevit.data.pictures import open_image
from relevit.models.spec import Mask, View
from relevit_own.outlines import SPLITS, MaskSource, fitting_mask, is_outlines, read_outlines

# `id` is a picture's name for people and files, `mask` where its object's mask comes from.
COLUMNS = ["id", "image", "label", "mask", "split", "group"]
GONE = ["id", "label", "split", "why"]
ENDINGS = (*IMG_EXTENSIONS, ".gif")
KINDS = "a folder of class folders, a .csv, or outlines of COCO (.json), YOLO (.yaml) or VOC"
LONGEST = 200  # bytes of a class's name, of which a file's has 255
TABLE = "list the pictures in a .csv with the columns image, label and mask (docs/your_own.md)"
REMEDY = "save it again as JPEG or PNG, or take it out"
SKIP = "or leave such pictures out (--skip-unreadable, or corrupted: skip)"
NO_PICTURE = "a mask without a picture"
NOT_READ = "no kind of picture that is read; save it as JPEG or PNG"
# What systems put beside data; hidden files and folders begin with a dot.
CLUTTER = (
    "thumbs.db", "desktop.ini", "ehthumbs.db",
    "__macosx", "@eadir", "#recycle", "$recycle.bin", "system volume information", "lost+found",
    "thumbnails", "__pycache__",
)  # fmt: skip
# What a file begins with that says what wrote its folder.
WRITTEN = {
    "run.json": ('{\n "record": {', '{\n "choices": {'),  # the latter of earlier versions
    "audit.json": '{\n "schema_version":',
    "manifest.csv": "file,model,method,target,",
}
# Names of folders that hold masks, and what a mask beside its picture is called.
OF_MASKS = re.compile(r"(labels?|annotations?|gts?|ground[ _-]?truths?|seg\w*|\w*masks?\w*)", re.I)
BESIDE = re.compile(r"(.+?)[ _.-]+(mask|matte|seg|segmentation)s?", re.I)
SEVERAL = re.compile(r"[;|]")  # what parts labels of one cell


@dataclass(frozen=True, eq=False)
class Table:
    """Pictures on disk with a class each, in a fixed order; none is opened yet.

    `rows` has COLUMNS: `mask` and `split` are None without, and of one `group` are pictures that
    belong together (one patient, one burst), "" of those that stand alone. `gone` has what was
    found and is not used, and why (GONE).
    """

    name: str
    classes: tuple[str, ...]
    rows: pd.DataFrame
    gone: pd.DataFrame

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self.rows["id"])

    @property
    def images(self) -> tuple[Path, ...]:
        return tuple(self.rows["image"])

    @property
    def masks(self) -> tuple[MaskSource | None, ...]:
        return tuple(self.rows["mask"])

    @property
    def labels(self) -> Int[Tensor, " images"]:
        """Places of the pictures' classes in `classes`."""
        places = {name: place for place, name in enumerate(self.classes)}
        return torch.tensor([places[name] for name in self.rows["label"]], dtype=torch.int64)

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that there are, in the order of SPLITS and then of the rows."""
        there = self.rows["split"].dropna().unique()
        return tuple(dict.fromkeys([*(s for s in SPLITS.values() if s in there), *there]))

    @property
    def has_masks(self) -> bool:
        """Whether every picture has a mask."""
        return len(self) > 0 and None not in self.masks

    def image_set(self, view: View) -> ImageSet:
        """The pictures upright and cut to the view; with masks when every picture has one."""
        return picture_set(
            self.name, self.classes, self.labels, self.ids, self.picture, view,
            masks=self.mask if self.has_masks else None, remedy=f"{REMEDY}, {SKIP}",
        )  # fmt: skip

    def picture(self, place: int) -> Image.Image:
        """One picture in its own size, upright and in RGB. Raises: ValueError."""
        return open_image(self.rows["image"].iloc[place])

    def mask(self, place: int) -> Mask:
        """One mask in the size of its upright picture, which has one. Raises: as `fitting_mask`."""
        row = self.rows.iloc[place]
        return fitting_mask(row["mask"], row["image"])

    def select(self, places: Iterable[SupportsInt]) -> Table:
        """The pictures at these places, in this order; the classes stay."""
        rows = self.rows.iloc[[int(place) for place in places]]
        return replace(self, rows=rows.reset_index(drop=True))

    def of(self, split: str | None) -> Table:
        """The pictures of one split, and what was left out of it; all of them for None."""
        if split is None:
            return self
        rows, gone = (each[each["split"] == split] for each in (self.rows, self.gone))
        return replace(
            self, name=f"{self.name}/{split}", rows=rows.reset_index(drop=True), gone=gone
        )

    def without(self, why: Mapping[int, str]) -> Table:
        """The others; those at the given places are gone, with the reason of each."""
        if not why:
            return self
        gone = self.rows.iloc[[*why]].assign(why=[*why.values()])[GONE]
        kept = self.select(place for place in range(len(self)) if place not in why)
        return replace(kept, gone=pd.concat([self.gone, gone], ignore_index=True))

    def relabelled(self, classes: Sequence[str]) -> Table:
        """The same pictures with labels that count `classes`: more of them, or in another order.

        Raises: ValueError when a picture's class is not among them, or a name is there twice.
        """
        classes = tuple(map(same_form, classes))
        if len(set(classes)) < len(classes):
            twice = next(name for name in classes if classes.count(name) > 1)
            raise ValueError(f"{self.name}: class {twice!r} is given twice; name each once")
        unknown = [name for name in self.rows["label"].unique() if name not in classes]
        if unknown:
            raise ValueError(
                f"{self.name}: class {unknown[0]!r} ({len(unknown)} such) is none of the "
                f"{len(classes)} that are known, {some(classes)}; rename it, or take it out"
            )
        return replace(self, classes=classes)


def read_table(
    path: Path | str,
    masks: Path | str | None = None,
    *,
    images: Path | str | None = None,
    least_classes: int = 2,
) -> Table:
    """A data set as this module has them, as one table; no picture is opened.

    `masks` is the folder of masks of class folders, where it is not masks/ beside images/; a mask
    is a PNG of its picture's name, and a picture may lack one, but not all may. `images` is the
    folder of the pictures of outlines. Classes are those of train, where there are splits. A set
    with fewer than `least_classes` is refused: give 1 for one to be tested alone.
    Raises: FileNotFoundError for a path that is missing, of a CSV also a picture's; ValueError for
    what is no set of classes, in a sentence that names the folder or file.
    """
    path, masks, images = (
        None if each is None else Path(each).expanduser() for each in (path, masks, images)
    )
    _need_there(path, masks, images)
    name = path.absolute().name if path.is_dir() else path.stem  # of "." too
    if is_outlines(path):
        rows, gone, classes = read_outlines(path, images)
        read = Table(name, classes, pd.DataFrame(rows, columns=COLUMNS), _gone(gone))
    else:
        read = _from_folders(path, masks, name) if path.is_dir() else _from_csv(path)
    if len(read.classes) < least_classes:
        raise ValueError(
            f"read_table: {path.name} has {len(read.classes)} class, {some(read.classes)}; needed "
            f"are at least {least_classes}: give pictures of another class, such as of none of "
            "these"
        )
    if long := next((c for c in read.classes if len(os.fsencode(c)) > LONGEST), None):
        raise ValueError(
            f"read_table: {path.name} has a class of {len(long)} letters, {long[:20]!r} ...; a "
            "class's name becomes that of a folder: give it a short one"
        )
    for split in read.splits:
        read.of(split).relabelled(read.classes)
    return read


def _gone(rows: Sequence[tuple[str, str, str | None, str]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=GONE)


def _need_there(path: Path, masks: Path | None, images: Path | None) -> None:
    if not path.exists():
        raise FileNotFoundError(f"read_table: {path} is missing; give {KINDS}")
    for what, folder in (("masks", masks), ("images", images)):
        if folder is not None and not folder.is_dir():
            raise FileNotFoundError(f"read_table: the folder of {what} {folder} is missing")
    outlined, kind = is_outlines(path), path.suffix.lower()
    if images is not None and not outlined:
        raise ValueError(
            f"read_table: images {images} is given beside {path}; only outlines need it"
        )
    if path.is_file() and not outlined and kind not in (".csv", ".tsv"):
        raise ValueError(f"read_table: {path} is a {kind or 'nameless'} file; give {KINDS}")
    if masks is not None and (outlined or path.is_file()):
        where = "the outlines in it" if outlined else "the column mask"
        raise ValueError(
            f"read_table: masks {masks} is given beside {path.name}, whose masks are {where}; "
            "leave one of both out"
        )


# A CSV


def _from_csv(path: Path) -> Table:
    table = _opened(path)
    if missing := [name for name in ("image", "label") if name not in table]:
        raise ValueError(
            f"read_table: {path} has no column {' and none '.join(missing)}; it has "
            f"{some(list(table.columns))}: needed are image and label, and mask, split and group "
            "may be"
        )
    if table.empty:
        raise ValueError(f"read_table: {path} has no rows; list at least one picture of each class")
    rows = [_row(path, number, row) for number, row in enumerate(table.to_dict("records"), 1)]
    names = sorted({row[2] for row in rows})
    classes = sorted(names, key=int) if all(map(str.isdecimal, names)) else names
    for number, row in enumerate(rows, 1):
        if several := _several(row[2], names):
            raise ValueError(
                f"read_table: {path}, row {number}, has the labels {' and '.join(several)}; a "
                "picture has one class: give it one, or take the row out"
            )
    return Table(path.stem, tuple(classes), pd.DataFrame(rows, columns=COLUMNS), _gone([]))


def _opened(path: Path) -> pd.DataFrame:
    try:
        with path.open(encoding="utf-8-sig") as file, warnings.catch_warnings():
            warnings.simplefilter("error", ParserWarning)  # which loses cells
            heading = file.readline()
            # Texts as they stand: a class may be called None, and 007 is not 7.
            table = pd.read_csv(
                path, sep=max((",", ";", "\t"), key=heading.count), dtype=str, index_col=False,
                keep_default_na=False, encoding="utf-8-sig", skipinitialspace=True,
            )  # fmt: skip
    except ParserWarning as error:
        raise ValueError(
            f"read_table: {path} has rows with more cells than its heading; name each column, and "
            "put a text with the separator in it into quotes"
        ) from error
    except (OSError, ValueError) as error:  # pandas' are ValueErrors
        raise ValueError(
            f"read_table: {path} cannot be read ({one_line(error)}); save it as a CSV in UTF-8"
        ) from error
    return table.rename(columns=str.strip).apply(lambda column: column.str.strip())


def _row(path: Path, number: int, row: Mapping[str, str]) -> tuple[Any, ...]:
    """A row of a CSV as one of a table. Raises: ValueError, FileNotFoundError, with its number."""
    where = f"read_table: {path}, row {number}"

    def file(column: str) -> Path:
        if not row[column]:
            raise ValueError(
                f"{where}, has no {column}; needed is a path relative to {path.parent}"
            )
        found = path.parent / row[column]
        if not found.is_file():  # it may be of Windows
            found = path.parent / row[column].replace("\\", "/")
        if not found.is_file():
            raise FileNotFoundError(
                f"{where}: the {column} {found} is missing; write paths relative to {path.parent}, "
                "or take the row out"
            )
        return found

    image, split = file("image"), row.get("split", "")
    if not row["label"]:
        raise ValueError(f"{where}, has no label; give each picture the name of its class")
    if "split" in row and split.lower() not in SPLITS:
        raise ValueError(f"{where}, has the split {split!r}; give one of train, val, test")
    inside = image.is_relative_to(path.parent)
    return (
        (image.relative_to(path.parent) if inside else image).as_posix(),
        image,
        same_form(row["label"]),
        file("mask") if row.get("mask") else None,
        SPLITS.get(split.lower()),
        row.get("group", ""),
    )


def _several(label: str, names: Sequence[str]) -> list[str]:
    """The labels of a cell that has more than one; commas part them where each is one elsewhere."""
    parts = [part.strip() for part in SEVERAL.split(label)]
    if len(parts) == 1:
        parts = [part.strip() for part in label.split(",")]
        parts = parts if set(parts) <= set(names) - {label} else [label]
    return parts if len(parts) > 1 else []


# Class folders


def _from_folders(path: Path, masks: Path | None, name: str) -> Table:
    """Rows of class folders, in splits or not."""
    path = _unwrapped(path)
    root = _pictures(path)
    shared = masks or _masks(path, root)
    splits = _splits(root, shared)
    if not splits:
        return _classes(path, shared, None, name)
    parts = []
    for split, folder in splits.items():
        inside = shared / folder.name if shared else None
        own = None if masks else _masks(folder, _pictures(folder))
        of = own or (inside if inside is not None and inside.is_dir() else shared)
        known = {c for each in splits.values() for c in _folders(_pictures(each))}
        parts.append(_classes(folder, of, split, name, known))
    rows, gone = (
        pd.concat([getattr(part, each) for part in parts], ignore_index=True)
        for each in ("rows", "gone")
    )
    lone = gone["why"] == NO_PICTURE  # masks that all splits share are not told of each
    gone = gone[~(lone & (gone["id"].isin(map(str, rows["mask"])) | gone["id"].duplicated()))]
    return Table(name, parts[[*splits].index("train")].classes, rows, gone)


def _classes(
    folder: Path, masks: Path | None, split: str | None, name: str, known: Iterable[str] = ()
) -> Table:
    """The pictures of the class folders; `known` are the classes that masks may have."""
    root = _pictures(folder)
    classes = {same_form(called): called for called in _folders(root) if root / called != masks}
    _need_classes(root, classes)
    masked = {} if masks is None else {same_form(called): called for called in _folders(masks)}
    if unknown := [each for each in masked if each not in (set(known) or classes)]:
        raise ValueError(
            f"read_table: {masks} has the class {unknown[0]!r}, which {root} lacks "
            f"({len(unknown)} such): rename the folder, or take it out"
        )
    rows: list[tuple[Any, ...]] = []
    gone: list[tuple[str, str, str | None, str]] = []
    for label, called in classes.items():
        pictures, others = pictures_in(root / called)
        _need_pictures(root / called, pictures, others)
        there = masks_in(masks / masked[label]) if label in masked else {}
        if there:
            _need_one_each(root / called, pictures)
        for each in pictures:
            mask = there.pop(stem_of(each), None)
            rows.append((f"{called}/{each}", root / called / each, label, mask, split, ""))
        gone += [(f"{called}/{each}", label, split, NOT_READ) for each in others]
        gone += [(str(mask), label, split, NO_PICTURE) for mask in there.values()]
    if masks is not None and not any(mask for *_, mask, _, _ in rows):
        raise ValueError(
            f"read_table: none of the {len(rows)} pictures has a mask in {masks}, the first would "
            f"be {masks / Path(rows[0][0]).with_suffix('.png')}; name each mask as its picture, or "
            "leave the masks out"
        )
    return Table(name, tuple(classes), pd.DataFrame(rows, columns=COLUMNS), _gone(gone))


def pictures_in(folder: Path) -> tuple[list[str], list[str]]:
    """Pictures at any depth, relative to `folder` and sorted, and what else is there to see."""
    pictures, others = [], []
    for place, folders, files in os.walk(folder, followlinks=True):
        kept = (name for name in folders if not _is_clutter(name))
        kept = (name for name in kept if not _is_written(Path(place) / name))
        folders[:] = sorted(name for name in kept if not _leads_back(Path(place, name)))
        for name in files:
            relative = (Path(place).relative_to(folder) / name).as_posix()
            if name.lower().endswith(ENDINGS) and not name.startswith("."):
                pictures.append(relative)
            elif not _is_clutter(name):
                others.append(relative)
    return sorted(pictures), sorted(others)


def _leads_back(folder: Path) -> bool:
    """Whether a folder is a link to one that it lies in, which would be read without end."""
    return folder.is_symlink() and folder.parent.resolve().is_relative_to(folder.resolve())


def masks_in(folder: Path) -> dict[str, Path]:
    """The PNG files of a class by the stem of their picture."""
    pictures, others = pictures_in(folder)
    if wrong := [name for name in pictures + others if not name.lower().endswith(".png")]:
        raise ValueError(
            f"read_table: {folder / wrong[0]} is no PNG file ({len(wrong)} such in {folder}); save "
            "masks as PNG, which keeps edges, and take other files out"
        )
    return {stem_of(name): folder / name for name in pictures}


def stem_of(name: str) -> str:
    return same_form(Path(name).with_suffix("").as_posix())


def _folders(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        names = sorted(e.name for e in entries if e.is_dir() and not _is_clutter(e.name))
    return [name for name in names if not _is_written(folder / name)]


def _is_written(folder: Path) -> bool:
    """Whether `relevit finetune` or `relevit explain` made a folder."""
    for name, begin in WRITTEN.items():
        if (folder / name).is_file():
            with (folder / name).open(encoding="utf-8", errors="replace") as file:
                if file.read(80).startswith(begin):
                    return True
    return False


def _is_clutter(name: str) -> bool:
    return name.startswith(".") or name.lower() in CLUTTER


def _unwrapped(folder: Path) -> Path:
    """The folder, or the one in it that holds everything: archives often add one."""
    inside = _folders(folder)
    if len(inside) != 1 or inside[0] in ("images", "masks", *SPLITS):
        return folder
    alone = not any(name.lower().endswith(ENDINGS) for name in os.listdir(folder))
    deeper = folder / inside[0]
    return _unwrapped(deeper) if alone and _folders(deeper) else folder


def _pictures(folder: Path) -> Path:
    inside = folder / "images"
    return inside if inside.is_dir() and _folders(inside) else folder


def _masks(folder: Path, root: Path) -> Path | None:
    """masks/ beside images/, or among class folders where it has folders of classes itself.

    Raises: ValueError for masks that are called otherwise or have no folder for each class.
    """
    inside = folder / "masks"
    if inside.is_dir() and _folders(inside):
        return inside
    if root == folder:
        return None
    named = [name for name in _folders(folder) if OF_MASKS.fullmatch(name)]
    if found := [n for n in named if any((folder / n).rglob("*.[pP][nN][gG]"))]:
        raise ValueError(
            f"read_table: {folder / found[0]} looks like the masks of {root}; put them into "
            "masks/<class>, as the pictures are in images/<class>, give their folder with --masks, "
            f"or {TABLE}"
        )
    return None


def _splits(root: Path, masks: Path | None) -> dict[str, Path]:
    """Folders by split, if all folders are splits and one is for training; else none."""
    names = [name for name in _folders(root) if root / name != masks]
    found = {name: SPLITS.get(name.lower()) for name in names}
    if None in found.values() or "train" not in found.values():
        return {}
    if len(set(found.values())) < len(found):
        raise ValueError(f"read_table: {root} has {some(names)}, two of one split; keep one")
    by_split = {split: root / name for name, split in found.items()}
    return {split: by_split[split] for split in SPLITS.values() if split in by_split}


# What is refused


def _need_pictures(folder: Path, pictures: Sequence[str], others: Sequence[str]) -> None:
    """Raise ValueError for a class without pictures, or with masks among them."""
    if not pictures:
        has = f"{len(others)} files like {others[0]} and no picture" if others else "no pictures"
        raise ValueError(
            f"read_table: the class folder {folder} has {has}; needed are files that end in "
            f"{', '.join(ENDINGS)}: put some there, or remove the folder"
        )
    stems = set(map(stem_of, pictures))
    for name in pictures:
        if (found := BESIDE.fullmatch(stem_of(name))) and found[1] in stems:
            raise ValueError(
                f"read_table: {folder / name} is called as the mask of {found[1]}; put masks into "
                f"masks/<class> beside images/<class>, with their pictures' names, or {TABLE}"
            )


def _need_one_each(folder: Path, names: Sequence[str]) -> None:
    """Raise ValueError where a mask may be that of two pictures."""
    seen: dict[str, str] = {}
    for name in names:
        if (first := seen.setdefault(stem_of(name), name)) != name:
            raise ValueError(
                f"read_table: {folder} has the pictures {first} and {name}, so that it is not "
                f"known whose the mask is; rename one, or {TABLE}"
            )


def _need_classes(root: Path, classes: Mapping[str, str]) -> None:
    """Raise ValueError where folders are no classes: splits, pictures and masks, or none at all."""
    if not classes:
        raise ValueError(
            f"read_table: {root} has no class folder; put the pictures of each class into a folder "
            f"of its name, or {TABLE}"
        )
    first: dict[str, str] = {}
    for called in classes.values():
        straight = any(name.lower().endswith(ENDINGS) for name in os.listdir(root / called))
        for inside in [] if straight else _folders(root / called):
            if (other := first.setdefault(same_form(inside), called)) != called:
                raise ValueError(
                    f"read_table: {root} has {other} and {called}, and both have a folder "
                    f"{inside}: so they are no classes. Are they splits? Then call them train, val "
                    "and test, with nothing beside. Pictures and their masks? Then call them "
                    f"images and masks. Else {TABLE}"
                )
    called = [name for name in classes.values() if OF_MASKS.fullmatch(name)]
    if called and (
        pictures := [n for n in classes.values() if re.fullmatch(r".*im(age|g)s?", n, re.I)]
    ):
        raise ValueError(
            f"read_table: {root} has {pictures[0]} and {called[0]}, which are called as pictures "
            "and their masks are, and no folder for each class; put the pictures of a class into "
            f"images/<class> and its masks into masks/<class>, or {TABLE}"
        )


# Names


def some(names: Sequence[str], most: int = 5) -> str:
    """The first of many names, for errors."""
    shown = ", ".join(repr(name) for name in names[:most])
    return f"{shown} ..." if len(names) > most else shown


def same_form(name: str) -> str:
    """A name as it is compared: macOS writes an accent as a letter of its own, others do not."""
    return unicodedata.normalize("NFC", name)


def places_of(name: str, classes: Sequence[str]) -> list[int]:
    """The classes that may be meant: those called so, or else those of whose names it is a part.

    Parts stand between commas, as in ImageNet's names; their capitals do not matter.
    """
    sought = same_form(name).strip()
    if whole := [place for place, each in enumerate(classes) if same_form(str(each)) == sought]:
        return whole
    parts = [{part.strip().casefold() for part in (n, *n.split(","))} for n in map(str, classes)]
    return [place for place, own in enumerate(parts) if sought.casefold() in own]


def natural(name: str) -> list[int | str]:
    """To sort by: 2.jpg comes before 10.jpg."""
    parts = re.split(r"(\d+)", name)
    return [int(part) if place % 2 else part for place, part in enumerate(parts)]


def order_note(classes: Sequence[str]) -> str:
    """A sentence on the order of classes where texts and the numbers in them have two."""
    if sorted(classes) == sorted(classes, key=natural):
        return ""
    return (
        f"numbered in the order {some(classes)}; a trained head that has another needs --set "
        "head_classes=[...]"
    )
