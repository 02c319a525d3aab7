"""Pictures on disk with ImageNet-1k labels: what every reader of a real data set gives.

A reader lists its set once, in a fixed order, and decodes nothing; a picture is opened when it
is asked for. Images are 8 bits a channel, normalised by the model's own spec.

Most published archives unpack to a folder of class folders. Disks list files in an order of their
own; here classes come by their ImageNet index and pictures by name. Whether all classes of a set
are there is not asked here: one is enough to read it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int, UInt8
from PIL import Image
from torch import Tensor
from torchvision.datasets.folder import IMG_EXTENSIONS

from relevit.base.errors import one_line
from relevit.data.pictures import READING, read_picture
from relevit.data.real.classes import IMAGENET_INDEX
from relevit.models.spec import Mask, View

PAPER_VIEW = View()  # 256 -> 224, bilinear (B5)


class UnreadableImage(ValueError):
    """A picture that cannot be decoded; `place` is its number in the set."""

    def __init__(self, message: str, place: int) -> None:
        super().__init__(message)
        self.place = place


@dataclass(frozen=True)
class ImageSet:
    """A real data set: labels at once, pictures when they are asked for.

    `ids` are names for people and files, relative to the set's folder. `accepted` gives, for a
    label, all indices that count as right (ObjectNet, merged classes); a label without an entry
    accepts itself. `candidates` are the classes among which the answer is sought; none: all
    1,000. `masks` opens the object mask of a picture, in the picture's own size. `remedy` is what
    errors say to do about a file that cannot be read, `without_masks` where there is no mask.
    """

    name: str
    ids: tuple[str, ...]
    labels: Int[Tensor, " images"]  # ImageNet-1k
    open: Callable[[int], Image.Image]
    view: View = field(default_factory=View)
    accepted: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    candidates: tuple[int, ...] = ()
    masks: Callable[[int], Mask] | None = None
    remedy: str = "unpack it again"
    without_masks: str = "use imagenet_s or gtsegs"

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, place: int) -> UInt8[Tensor, "3 size size"]:
        """One picture, cut to the view. Raises: UnreadableImage naming set, file and remedy."""
        try:
            with self.open(place) as image:
                return self.view.picture(image)
        except READING as error:
            raise UnreadableImage(
                f"{self.name}: {self.ids[place]} cannot be read ({one_line(error)}); "
                f"{self.remedy}, or give corrupted='skip' to leave such pictures out and count "
                "them",
                place,
            ) from error

    def mask(self, place: int, *, soft: bool = False) -> Float[Tensor, "1 size size"]:
        """The object's mask, cut to the view; `soft` as `View.soft_mask`.

        Raises: ValueError for a set without masks.
        """
        if self.masks is None:
            raise ValueError(f"{self.name}: has no masks; {self.without_masks}")
        try:
            cut = self.view.soft_mask if soft else self.view.mask
            return cut(self.masks(place))
        except READING as error:
            raise UnreadableImage(
                f"{self.name}: the mask of {self.ids[place]} cannot be read ({one_line(error)}); "
                f"{self.remedy}",
                place,
            ) from error

    def select(self, places: Sequence[int]) -> ImageSet:
        """The pictures at these places, in this order, as a set of their own."""
        places = [int(place) for place in places]
        masks = self.masks
        return replace(
            self,
            ids=tuple(self.ids[place] for place in places),
            labels=self.labels[places],
            open=lambda place: self.open(places[place]),
            masks=None if masks is None else lambda place: masks(places[place]),
        )

    def right(self, predictions: Int[Tensor, " images"]) -> Bool[Tensor, " images"]:
        """Which predictions (ImageNet-1k) are right, several indices a label allowed."""
        pairs = zip(self.labels.tolist(), predictions.tolist(), strict=True)
        return torch.tensor([guess in self.accepted.get(label, (label,)) for label, guess in pairs])


def read_class_folders(
    name: str,
    folder: Path,
    indices: Mapping[str, int],
    archive: str,
    view: View,
    candidates: Sequence[int] = (),
) -> ImageSet:
    """The pictures in `folder`/<class>, with the index that `indices` gives for the class.

    `name` is the set and `archive` where it comes from, for errors; `indices` has all folder
    names that may be there. Files beside the class folders and hidden ones are left out, and so is
    in a class folder what is no picture by its name.
    Raises: FileNotFoundError when the folder is missing; ValueError when it has no class folder,
    one that is no class of the set, or one without a picture.
    """
    need_folder(name, folder, f"unpack {archive} there")
    ids: list[str] = []
    labels: list[int] = []
    for found in class_folders(name, folder, indices, archive):
        pictures = picture_names(folder / found)
        if not pictures:
            raise ValueError(
                f"{name}: the class folder {folder / found} has no pictures; unpack {archive} "
                "again, or remove the folder to go without this class"
            )
        ids += [f"{found}/{picture}" for picture in pictures]
        labels += [indices[found]] * len(pictures)
    return picture_set(name, folder, ids, labels, view, candidates)


def class_folders(
    name: str, folder: Path, indices: Mapping[str, int], archive: str
) -> tuple[str, ...]:
    """The class folders that are there, by index (V2's 2 comes before 10) and then by name.

    Raises: ValueError when there is none, or one that is not in `indices`.
    """
    with os.scandir(folder) as entries:
        found = [e.name for e in entries if not e.name.startswith(".") and e.is_dir()]
    wrong = sorted(set(found) - set(indices))
    if wrong:
        what = "another class of ImageNet" if wrong[0] in IMAGENET_INDEX else "no class"
        raise ValueError(
            f"{name}: {folder} has the folder {wrong[0]!r}, which is {what} and none of this "
            f"set's {len(indices)} ({len(wrong)} such folders); needed are folders like "
            f"{next(iter(indices))!r} and no other: move it away, or unpack {archive} again"
        )
    if not found:
        packed = sorted(path.name for path in folder.glob("*.tar"))
        inside = f"{len(packed)} archives like {packed[0]}" if packed else "no class folder"
        remedy = "unpack each into a folder of its name" if packed else f"unpack {archive} again"
        raise ValueError(
            f"{name}: {folder} has {inside}; needed are folders like {next(iter(indices))!r}: "
            f"{remedy}"
        )
    return tuple(sorted(found, key=lambda wanted: (indices[wanted], wanted)))


def picture_names(folder: Path) -> list[str]:
    """The names of the pictures in a folder, sorted as text; hidden files are left out."""
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if is_picture(entry.name))


def is_picture(name: str) -> bool:
    """Whether a file is a picture by its name, and not one of macOS's `._` files."""
    return name.lower().endswith(IMG_EXTENSIONS) and not name.startswith(".")


def picture_set(
    name: str,
    folder: Path,
    ids: Sequence[str],
    labels: Sequence[int],
    view: View,
    candidates: Sequence[int] = (),
) -> ImageSet:
    """Pictures at `folder`/<id>. An EXIF orientation is ignored, as by the papers' loaders."""
    ids = tuple(ids)
    return ImageSet(
        name=name,
        ids=ids,
        labels=torch.tensor(labels, dtype=torch.int64),
        open=lambda place: read_picture(folder / ids[place]),
        view=view,
        candidates=tuple(candidates),
    )


def need_folder(name: str, folder: Path, remedy: str) -> None:
    """Raise FileNotFoundError when a folder is not there."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{name}: folder {folder} is missing; {remedy}")


def need_file(name: str, path: Path, remedy: str) -> None:
    """Raise FileNotFoundError when a file is not there."""
    if not path.is_file():
        raise FileNotFoundError(f"{name}: file {path} is missing; {remedy}")
