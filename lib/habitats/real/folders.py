"""Sets whose archives unpack to a folder of class folders: most of them.

Source: the robustness tables of RobustViT (Tab. 1, 2) and its k-NN (supp. M). Disks list files in
an order of their own; here classes come by their label and pictures by name. An EXIF orientation
is ignored, as by the papers' loaders. Whether all classes of a set are there is not asked here: one
is enough to read it.

SI-Score pastes cut-out objects on backgrounds and varies one thing at a time. size.zip unpacks to
`area`, rotation.zip to `rotation` and location.zip to `location20_area02_min0pc`; in each, a
picture is <name of the object>/<number>.jpg, with tables about the pictures beside the folders.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from torchvision.datasets.folder import IMG_EXTENSIONS, make_dataset

from habitats.real.catalogue import Entry
from habitats.real.classes import (
    A_WNIDS,
    IMAGENET_INDEX,
    IMAGENET_WNIDS,
    R_WNIDS,
    SHORT_NAMES,
    SI_CLASSES,
)
from relevit.data.image_set import PAPER_VIEW, ImageSet, picture_set
from relevit.data.pictures import read_picture
from relevit.models.spec import View

# What a set may call its folders, with their labels: those of ImageNet-1k, or its own.
NAMES: Mapping[str, Mapping[str, int]] = {
    "imagenet": IMAGENET_INDEX,
    "a": {wnid: IMAGENET_INDEX[wnid] for wnid in A_WNIDS},
    "r": {wnid: IMAGENET_INDEX[wnid] for wnid in R_WNIDS},
    # Without leading zeros. Sorted as text, 10 comes before 2, and loaders that number folders in
    # that order give nearly all a wrong label.
    "v2": {str(index): index for index in range(len(IMAGENET_WNIDS))},
    "si_score": SI_CLASSES,
    "pneumonia": {"NORMAL": 0, "PNEUMONIA": 1},
}
OF_IMAGENET = ("imagenet", "a", "r", "v2", "si_score")  # whose labels are its own


def read_class_folders(
    entry: Entry,
    data_root: Path,
    view: View = PAPER_VIEW,
    *,
    names: str = "imagenet",
    folder: str = "",
    ways: int = 1000,
) -> ImageSet:
    """The pictures in <folder>/<class>, by default in the first of the entry's folders there is.

    `names` is a key of NAMES, or "own" for labels that count the folders' sorted names. `ways` are
    the classes among which the answer is sought: 1,000 as in RobustViT's published code (B6), or
    the set's own as by the authors of ImageNet-A and -R.
    """
    root = need(entry, _place(entry, data_root, folder))
    own = {name: label for label, name in enumerate(sorted(_class_folders(root)))}
    known = own if names == "own" else NAMES[names]
    pictures = list_pictures(entry, root, known)
    labels = [known[Path(name).parts[0]] for name in pictures]
    order = sorted(range(len(labels)), key=labels.__getitem__)
    ids = [pictures[place] for place in order]
    classes = SHORT_NAMES if names in OF_IMAGENET else tuple(known)
    return picture_set(
        entry.key,
        classes,
        [labels[place] for place in order],
        ids,
        lambda place: read_picture(root / ids[place]),
        view,
        file=lambda place: root / ids[place],
        candidates=sorted(known.values()) if ways == len(known) < len(classes) else (),
    )


def list_pictures(entry: Entry, folder: Path, known: Collection[str]) -> list[str]:
    """Pictures in class folders, as <class>/<name> and sorted so; `known` are all there may be.

    Left out are files beside the class folders, hidden ones, and what is no picture by its name.
    """
    found = _class_folders(need(entry, folder))
    wrong, like = sorted(found - set(known)), f"folders like {next(iter(known), 'cat')!r}"
    if wrong:
        raise ValueError(
            f"{entry.key}: {folder} has the folder {wrong[0]!r}, which is no class of this set "
            f"({len(wrong)} such folders); needed are {like} and no other: move it away, or "
            f"{entry.remedy} again"
        )
    if not found:
        raise ValueError(
            f"{entry.key}: {folder} has no class folder; needed are {like}: {entry.remedy} again, "
            "and sort what lies flat or packed in it (docs/paper_preset.md)"
        )
    try:
        pictures = make_dataset(folder, dict.fromkeys(found, 0), None, is_picture)
    except FileNotFoundError as error:  # torchvision names the classes without a picture
        raise ValueError(f"{entry.key}: {folder}: {error}{entry.remedy} again") from error
    return [Path(path).relative_to(folder).as_posix() for path, _ in pictures]


def need(entry: Entry, path: Path) -> Path:
    """The path, which a reader needs; FileNotFoundError when it is not there."""
    if not path.exists():
        raise FileNotFoundError(f"{entry.key}: {path} is missing; {entry.remedy}")
    return path


def is_picture(path: str) -> bool:
    """Whether a file is a picture by its name, and not one of macOS's `._` files."""
    name = Path(path).name
    return name.lower().endswith(IMG_EXTENSIONS) and name[0] != "."


def _place(entry: Entry, data_root: Path, folder: str) -> Path:
    places = [data_root / name for name in ([folder] if folder else entry.folders)]
    return next((place for place in places if place.is_dir()), places[0])


def _class_folders(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_dir() and path.name[0] != "."}
