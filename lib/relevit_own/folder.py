"""A data set of one's own, found: class folders with masks beside, a table, or a COCO file.

    birds/images/<class>/*.jpg  birds/masks/<class>/*.png  pictures, and masks of the same names
    birds/<class>/*.jpg, *_mask.png            folders as torchvision and Hugging Face have them
    birds.csv, birds.parquet                   columns image, label, perhaps mask and split
    annotations.json                           COCO, with pictures beside it or in images/

Any of the folders may have parts, as in birds/train/<class> and birds/val/<class>, with masks in
birds/masks/train/<class> or birds/masks/<class>, and a folder that holds one other alone is passed
through. Classes are in the order of torchvision's `ImageFolder`, by their names as texts, so that
10 comes before 2; names are compared in one Unicode form. What this package has written is left
out: a run, maps with their manifest.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from torchvision.datasets.folder import IMG_EXTENSIONS

from relevit_own.listing import COLUMNS, PARTS, WHOLE, Listing, part_of, same_form, some
from relevit_own.outlines import AS_SEEN, MaskValues
from relevit_own.tables import TABLES, Found, read_coco, read_table

ENDINGS = (*IMG_EXTENSIONS, ".gif")
KINDS = "a folder of class folders, a .csv or .parquet table, or a COCO .json"
# What systems put beside data; hidden files and folders begin with a dot.
CLUTTER = (
    "thumbs.db", "desktop.ini", "ehthumbs.db",
    "__macosx", "@eadir", "#recycle", "$recycle.bin", "system volume information", "lost+found",
    "thumbnails", "__pycache__",
)  # fmt: skip
# What a folder is called beside others, and what a mask beside its picture.
OF_PICTURES = re.compile(
    r"(jpe?g|png|rgb|raw|original|input)?[ _-]?(images?|imgs?|photos?|pictures?)", re.I
)
OF_MASKS = re.compile(
    r"(png|gt|binary)?[ _-]?(masks?|labels?|annotations?|gts?|ground[ _-]?truths?|mattes?|trimaps?"
    r"|seg(mentation)?s?([ _-]?(class|object|masks?|labels?))?)",
    re.I,
)
BESIDE = re.compile(
    r"(.+?)[ _.-]+(mask|matte|seg|segmentation|ground[ _-]?truth)s?([ _-]?[0-9]+)?", re.I | re.S
)
# What a file begins with that says what wrote its folder.
WRITTEN = {
    "run.json": '{\n "choices": {',
    "audit.json": '{\n "schema_version":',
    "manifest.csv": "file,model,method,target,",
}


def read_data(path: Path | str, masks: Path | str | None = None, **options: Any) -> Listing:
    """All pictures at `path` as one listing. Options and errors: as `read_splits`.

    Raises: ValueError also for a set of several parts.
    """
    found = read_splits(path, masks, **options)
    if set(found) != {WHOLE}:
        raise ValueError(
            f"read_data: {path} has the parts {', '.join(found)}; read it with read_splits, or "
            "give the path of one part"
        )
    return found[WHOLE]


def read_splits(
    path: Path | str,
    masks: Path | str | None = None,
    *,
    values: MaskValues = AS_SEEN,
    images: Path | str | None = None,
    least_classes: int = 2,
) -> dict[str, Listing]:
    """The parts of a data set: "train", "validation" and "test", or "all" without; none is opened.

    `path` is a folder or file as this module has them; `masks` is the folder of masks of class
    folders, where it is not masks/ beside them, and `values` what their numbers mean; `images` is
    the folder of a COCO file's pictures, where they are not beside it. A mask is a PNG of its
    picture's name; a picture may lack one, but not all may. What is no picture is named by the
    listing. All parts have the classes of "train" (of a table those of any part), so that their
    labels mean the same; a part may lack some. A set with fewer than `least_classes` is refused:
    give 1 for one to be tested alone.
    Raises: FileNotFoundError for a path that is missing, of a table or COCO file also a picture's;
    ValueError for what is no set of classes, in a sentence that names the folder or file.
    """
    path, masks, images = (
        None if each is None else Path(each).expanduser() for each in (path, masks, images)
    )
    _need_there(path, masks, images)
    kind = path.suffix.lower()
    if path.is_dir():
        rows, classes, left_out = _folders(path, masks)
    else:
        rows, classes, left_out = read_coco(path, images) if kind == ".json" else read_table(path)
    if len(classes) < least_classes:
        raise ValueError(
            f"read_data: {path.name} has {len(classes)} class, {some(classes)}; needed are at "
            f"least {least_classes}: give pictures of another class, such as of none of these"
        )
    name = path.absolute().name if path.is_dir() else path.stem  # of "." too
    if rows["split"].isna().all():
        return {WHOLE: Listing(name, classes, rows, left_out, values)}
    of, found = rows["split"].map(_part), {}
    for part in (part for part in PARTS if (of == part).any()):
        mine = rows[of == part].reset_index(drop=True)
        listing = Listing(f"{name}/{mine['split'][0]}", classes, mine, left_out, values)
        found[part], left_out = listing.relabelled(classes), ()
    return found


def _need_there(path: Path, masks: Path | None, images: Path | None) -> None:
    if not path.exists():
        raise FileNotFoundError(f"read_data: {path} is missing; give {KINDS}")
    for what, folder in (("masks", masks), ("images", images)):
        if folder is not None and not folder.is_dir():
            raise FileNotFoundError(f"read_data: the folder of {what} {folder} is missing")
    kind = path.suffix.lower()
    if images is not None and kind != ".json":
        raise ValueError(
            f"read_data: images {images} is given beside {path}; only a COCO file needs it"
        )
    if path.is_file() and kind not in (*TABLES, ".json"):
        raise ValueError(f"read_data: {path} is a {kind or 'nameless'} file; give {KINDS}")
    if path.is_file() and masks is not None:
        where = "the outlines in it" if kind == ".json" else "the column mask"
        raise ValueError(
            f"read_data: masks {masks} is given beside {path.name}, whose masks are {where}; leave "
            "one of both out"
        )


# Files and folders


def pictures_in(folder: Path) -> tuple[list[str], list[str]]:
    """Pictures at any depth, relative to `folder` and sorted, and what else is there to see."""
    pictures, others = [], []
    for place, folders, files in os.walk(folder, followlinks=True):
        kept = (name for name in folders if not _is_clutter(name))
        folders[:] = sorted(name for name in kept if not _is_written(Path(place) / name))
        for name in files:
            relative = (Path(place).relative_to(folder) / name).as_posix()
            if _is_picture(name):
                pictures.append(relative)
            elif not _is_clutter(name):
                others.append(relative)
    return sorted(pictures), sorted(others)


def _subfolders(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        names = sorted(e.name for e in entries if e.is_dir() and not _is_clutter(e.name))
    return [name for name in names if not _is_written(folder / name)]


def _is_written(folder: Path) -> bool:
    """Whether `relevit finetune` or `relevit explain` made a folder."""
    for name, begin in WRITTEN.items():
        if (folder / name).is_file():
            with (folder / name).open(encoding="utf-8", errors="replace") as file:
                if file.read(len(begin)) == begin:
                    return True
    return False


def _is_clutter(name: str) -> bool:
    return name.startswith(".") or name.lower() in CLUTTER


def _is_picture(name: str) -> bool:
    """Whether a file is a picture by its name, and not one of macOS's `._` files."""
    return name.lower().endswith(ENDINGS) and not name.startswith(".")


def _is_png(name: str) -> bool:
    return name.lower().endswith(".png")


def _has_pictures(folder: Path) -> bool:
    return any(map(_is_picture, os.listdir(folder)))


def stem_of(name: str) -> str:
    return same_form(Path(name).with_suffix("").as_posix())


def _unwrapped(folder: Path) -> Path:
    """The folder, or the one in it that holds everything: archives often add one."""
    inside = _subfolders(folder)
    if len(inside) != 1 or inside[0] in ("images", "masks"):
        return folder
    if part_of(inside[0]) not in (None, part_of(folder.name)):  # it has a meaning by its name
        return folder
    if _has_pictures(folder) or not _subfolders(folder / inside[0]):
        return folder
    return _unwrapped(folder / inside[0])


# Class folders


def _folders(path: Path, masks: Path | None) -> Found:
    """Rows, classes (those of train, where there are parts) and what is left out of a folder."""
    path = _unwrapped(path)
    root, of_masks = _pictures_root(path), masks or _masks_root(path)
    parts = _parts(root, of_masks)
    if not parts:
        return _classes(path, of_masks)
    read = {}
    for part, called in parts.items():
        folder = _unwrapped(root / called)
        own = _masks_root(folder) if masks is None else None
        read[part] = (folder, called, own or _part_of_masks(of_masks, called))
    known = {same_form(n) for f, *_ in read.values() for n in _class_folders(_pictures_root(f))}
    found = [_classes(folder, of, called, known) for folder, called, of in read.values()]
    rows = pd.concat([rows for rows, *_ in found], ignore_index=True)
    return rows, found[list(read).index("train")][1], sum((left for *_, left in found), ())


def _pictures_root(folder: Path) -> Path:
    inside = folder / "images"
    return inside if inside.is_dir() and _subfolders(inside) else folder


def _masks_root(folder: Path) -> Path | None:
    """The folder `masks`, or beside images/ one of PNG files that is called labels/ or the like.

    One that has pictures of its own and no folders is a class.
    Raises: ValueError for several, and for masks without class folders: beside images/, or of
    others' names.
    """
    root, inside = _pictures_root(folder), folder / "masks"
    if not inside.is_dir():
        names = [] if root == folder else filter(OF_MASKS.fullmatch, _subfolders(folder))
        found = [folder / name for name in names if any((folder / name).rglob("*.[pP][nN][gG]"))]
        if len(found) > 1:
            raise ValueError(
                f"read_data: {folder} has {' and '.join(path.name for path in found)}, and each "
                "may be the masks; call one of them masks, or give it with --masks"
            )
        return found[0] if found else None
    if _subfolders(inside):
        return inside
    names = {stem_of(name) for name in os.listdir(inside) if _is_picture(name)}
    others = (p for p in pictures_in(folder)[0] if not p.startswith("masks/"))
    if names and (root != folder or names <= {Path(stem_of(p)).name for p in others}):
        raise ValueError(
            f"read_data: {inside} has masks of pictures in {folder} and no folder for each class; "
            "put the masks of a class into a folder of its name"
        )
    return None


def _part_of_masks(masks: Path | None, called: str) -> Path | None:
    """The masks of one part, or those of all, where these have no folders of parts."""
    if masks is not None and (masks / called).is_dir():
        return _unwrapped(masks / called)
    return None if masks is not None and _parts(masks, None) else masks


def _parts(folder: Path, masks: Path | None) -> dict[str, str]:
    """Folder names by part, if all folders are parts and one is for training; else none.

    Words that all names begin with count for nothing, as in seg_train and seg_test.
    """
    names = [name for name in _subfolders(folder) if folder / name != masks]
    heads = {re.match(".*[ _-]|", name)[0] for name in names}
    shared = heads.pop() if len(names) > 1 and len(heads) == 1 else ""
    found = {name: part_of(name) or part_of(name.removeprefix(shared)) for name in names}
    if None in found.values():
        return {}
    if twice := _of_one(names, found.get):
        raise ValueError(
            f"read_splits: {folder} has {twice[0]} and {twice[1]}, both for {found[twice[0]]}; "
            "keep one"
        )
    called = {part: name for name, part in found.items()}
    return {part: called[part] for part in PARTS if part in called} if "train" in called else {}


def _part(split: str) -> str | None:
    """The part that a value of the column `split` means, whatever word it begins with."""
    tails = (split[found.end() :] for found in re.finditer("^|[ _-]", split))
    return next(filter(None, map(part_of, tails)), None)


def _class_folders(root: Path) -> dict[str, str]:
    """Folder names by class, in the order of classes, which is that of the names as they stand."""
    masks = _masks_root(root)
    names = [name for name in _subfolders(root) if root / name != masks]
    if twice := _of_one(names, same_form):
        raise ValueError(
            f"read_data: {root} has two folders called {same_form(twice[0])}, written in two ways; "
            "put their pictures into one"
        )
    return {same_form(name): name for name in names}


def _classes(
    folder: Path, masks: Path | None, split: str | None = None, known: Iterable[str] = ()
) -> Found:
    """The pictures of the class folders; `known` are the classes that masks may have."""
    root = _pictures_root(folder)
    classes = _class_folders(root)
    _need_classes(root, classes)
    masked = {} if masks is None else {same_form(name): name for name in _subfolders(masks)}
    known = set(known) or set(classes)
    if unknown := [name for name in masked if name not in known]:
        raise ValueError(
            f"read_data: {masks} has the class {unknown[0]!r}, which {root} lacks ({len(unknown)} "
            f"such); its classes are {some(sorted(known))}: rename the folder, or take it out"
        )
    read = (root, folder / "masks", masks)
    beside = [] if root == folder else sorted(folder.iterdir())
    left_out = [path for path in beside if not (path in read or _is_clutter(path.name))]
    left_out += filter(_is_written, root.iterdir())
    rows: list[tuple[Any, ...]] = []
    for label, called in classes.items():
        inside = root / called
        pictures, others = pictures_in(inside)
        there = masks_beside(inside, pictures)
        pictures = [name for name in pictures if inside / name not in there.values()]
        if not pictures:
            has = f"{len(others)} files like {others[0]} and no picture" if others else ""
            raise ValueError(
                f"read_data: the class folder {inside} has {has or 'no pictures'}; needed are "
                f"files that end in {', '.join(ENDINGS)}: put some there, or remove the folder"
            )
        if label in masked:
            left_out += there.values()
            there = masks_in(masks / masked[label])
        if there:
            _need_one_each(inside, pictures, "pictures", "their mask is")
        for name in pictures:
            mask = there.pop(stem_of(name), None)
            rows.append((f"{called}/{name}", inside / name, label, mask, split))
        left_out += [inside / other for other in others] + list(there.values())
    if masks is not None and not any(mask for *_, mask, _ in rows):
        raise ValueError(
            f"read_data: none of the {len(rows)} pictures has a mask in {masks}, the first would "
            f"be {masks / Path(rows[0][0]).with_suffix('.png')}; name each mask as its picture, or "
            "leave the masks out"
        )
    return pd.DataFrame(rows, columns=COLUMNS), tuple(classes), tuple(left_out)


def masks_in(folder: Path) -> dict[str, Path]:
    """The PNG files of a class by the stem of their picture."""
    pictures, others = pictures_in(folder)
    wrong = [name for name in pictures + others if not _is_png(name)]
    if wrong:
        raise ValueError(
            f"read_data: {folder / wrong[0]} is no PNG file ({len(wrong)} such in {folder}); save "
            "masks as PNG, which keeps edges, and take other files out"
        )
    _need_one_each(folder, pictures, "masks", "their picture is")
    return {stem_of(name): folder / name for name in pictures}


def masks_beside(folder: Path, names: Iterable[str]) -> dict[str, Path]:
    """The masks among these files of a folder, as x_mask.png beside x.jpg, by the stem of x.

    Raises: ValueError for two of one picture, and what is no PNG.
    """
    pictures = sorted(filter(_is_picture, names))
    stems = set(map(stem_of, pictures))
    called = {name: found[1] for name in pictures if (found := BESIDE.fullmatch(stem_of(name)))}
    called = {name: stem for name, stem in called.items() if stem in stems}
    if wrong := [name for name in called if not _is_png(name)]:
        raise ValueError(
            f"read_data: {folder / wrong[0]} is called as the mask of {called[wrong[0]]} and is no "
            "PNG file; save it as PNG, which keeps edges, or rename what is a picture"
        )
    if twice := _of_one(called, called.get):
        raise ValueError(
            f"read_data: {folder} has {Path(twice[0]).name} and {Path(twice[1]).name}, both masks "
            f"of {called[twice[0]]}; join them into one PNG"
        )
    return {stem: folder / name for name, stem in called.items()}


def _of_one(names: Iterable[str], key: Callable[[str], Any]) -> tuple[str, str] | None:
    """The first two names that are of one thing."""
    seen: dict[Any, str] = {}
    pairs = ((seen.setdefault(key(name), name), name) for name in names)
    return next((pair for pair in pairs if pair[0] != pair[1]), None)


# What is refused


def _need_one_each(folder: Path, names: Sequence[str], what: str, whose: str) -> None:
    """Raise ValueError when two files differ in their ending alone."""
    if twice := _of_one(names, stem_of):
        raise ValueError(
            f"read_data: {folder} has the {what} {' and '.join(twice)}, so that it is not known "
            f"which {whose} {stem_of(twice[1])}; rename one, or take it out"
        )


def _need_classes(root: Path, classes: dict[str, str]) -> None:
    """Raise ValueError where folders are no classes: parts, pictures and masks, or none at all."""
    if not classes:
        straight = sum(map(_is_picture, os.listdir(root)))
        inside = f"{straight} pictures and no class folder" if straight else "no class folder"
        raise ValueError(
            f"read_data: {root} has {inside}; put the pictures of each class into a folder of its "
            "name, or list them in a .csv with the columns image and label"
        )
    first: dict[str, str] = {}
    for called in classes.values():
        folder = _unwrapped(root / called)
        if _masks_root(folder) and _pictures_root(folder) != folder:
            raise ValueError(
                f"read_data: {folder} has images and masks, and so is a data set of its own and no "
                "class; give this folder in place of the one above it"
            )
        for inside in [] if _has_pictures(folder) else _subfolders(folder):
            other = first.setdefault(same_form(inside), called)
            if other != called:
                raise ValueError(
                    f"read_data: {root} has {other} and {called}, and both have a folder "
                    f"{inside}: so they are no classes. Are they parts? Then call them train, "
                    "validation and test, with nothing beside. Pictures and their masks? Then call "
                    "them images and masks. Else list the pictures in a .csv"
                )
    pictures, masks = (
        [n for n in classes.values() if kind.fullmatch(n)] for kind in (OF_PICTURES, OF_MASKS)
    )
    if pictures and masks:
        raise ValueError(
            f"read_data: {root} has {pictures[0]} and {masks[0]}, which are called as pictures and "
            "their masks are, and no folder for each class; put the pictures of a class into "
            "images/<class> and its masks into masks/<class>, or list them in a .csv with the "
            "columns image, label and mask"
        )
