"""PACS: seven classes as photographs, art paintings, cartoons and sketches, to be had by anyone.

Source: Li, Yang, Song, Hospedales 2017, Deeper, Broader and Artier Domain Generalization (ICCV).
Class folders below `photo`, `art_painting`, `cartoon` and `sketch`; any part of their pictures.
"""

from __future__ import annotations

import hashlib
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from torchvision.datasets.folder import make_dataset

from habitats.real.folders import is_picture
from relevit.base.device import cores
from relevit.base.files import file_fingerprint
from relevit.data.image_set import ImageSet, picture_set, read_ahead
from relevit.data.pictures import open_image
from relevit.models.spec import View

PAGE = "https://domaingeneralization.github.io"
COUNTS = {"photo": 1670, "art_painting": 2048, "cartoon": 2344, "sketch": 3929}  # pictures
DOMAINS = tuple(COUNTS)
CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")


@dataclass(frozen=True)
class Domain:
    """The pictures of a domain, class after class, each once; `labels` are places in CLASSES."""

    name: str
    images: tuple[Path, ...]
    labels: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.images)

    def image_set(self, view: View) -> ImageSet:
        """The pictures upright and cut to the view."""
        ids = [f"{path.parent.name}/{path.name}" for path in self.images]
        return picture_set(
            self.name, CLASSES, self.labels, ids, lambda p: open_image(self.images[p]), view
        )

    @property
    def fingerprint(self) -> str:
        """Tells sets of files apart by name, label and content."""
        rows = zip(self.images, self.labels, strict=True)
        # The last word once was the mask: runs are named after this.
        lines = [f"{path.name} {file_fingerprint(path)} {label} None" for path, label in rows]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def read_pacs(folder: Path) -> dict[str, Domain]:
    """The pictures of each domain, all of which were opened; copies are left out.

    Raises: FileNotFoundError for a folder without the domains, which says where PACS is;
    ValueError for other classes, or a picture that cannot be read.
    """
    if lacking := [name for name in DOMAINS if not (folder / name).is_dir()]:
        raise FileNotFoundError(
            f"pacs: {folder} has no folder {', '.join(lacking)}; PACS (Li et al. 2017) is at "
            f"{PAGE}: give the folder that holds {', '.join(DOMAINS)}"
        )
    return {name: _domain(folder / name) for name in DOMAINS}


def _domain(folder: Path) -> Domain:
    classes = tuple(sorted(path.name for path in folder.iterdir() if path.is_dir()))
    if classes != CLASSES:
        raise ValueError(
            f"pacs: {folder} has the classes {', '.join(classes)}; those of PACS are "
            f"{', '.join(CLASSES)}"
        )
    places = {name: place for place, name in enumerate(CLASSES)}
    try:
        found = make_dataset(folder, places, None, is_picture)
    except FileNotFoundError as error:  # torchvision names the classes without a picture
        raise ValueError(f"pacs: {folder}: {error}give PACS itself, or a part of it") from error
    with closing(read_ahead(lambda pair: _pixels(Path(pair[0])), found, 4 * cores())) as seen:
        first = dict(zip(reversed(list(seen)), reversed(found), strict=True))
    if len(first) > COUNTS[folder.name]:
        raise ValueError(
            f"pacs: {folder} has {len(first)} pictures, and PACS {COUNTS[folder.name]}; give PACS "
            "itself, or a part of it"
        )
    kept = sorted((Path(path), label) for path, label in first.values())
    return Domain(folder.name, *map(tuple, zip(*kept, strict=True)))


def _pixels(path: Path) -> bytes:
    """Alike for copies of a picture, whatever their files."""
    try:
        with open_image(path) as image:
            told = hashlib.blake2b(repr(image.size).encode(), digest_size=16)
            told.update(image.tobytes())
    except ValueError as error:
        raise ValueError(f"pacs: {error}; unpack PACS again, or take it out") from error
    return told.digest()
