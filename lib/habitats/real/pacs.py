"""PACS: seven classes as photographs, art paintings, cartoons and sketches, to be had by anyone.

Source: Li, Yang, Song, Hospedales 2017, Deeper, Broader and Artier Domain Generalization (ICCV).
Class folders below `photo`, `art_painting`, `cartoon` and `sketch`; any part of their pictures.
"""

from __future__ import annotations

from pathlib import Path

from relevit.data.own.check import examine_parts, need_usable
from relevit.data.own.folder import read_data
from relevit.data.own.listing import Listing

PAGE = "https://domaingeneralization.github.io"
COUNTS = {"photo": 1670, "art_painting": 2048, "cartoon": 2344, "sketch": 3929}  # pictures
DOMAINS = tuple(COUNTS)
CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")


def read_pacs(folder: Path) -> dict[str, Listing]:
    """The pictures of each domain, all of which were opened.

    Raises: FileNotFoundError for a folder without the domains, which says where PACS is;
    ValueError for other classes, or a picture that cannot be read.
    """
    if lacking := [name for name in DOMAINS if not (folder / name).is_dir()]:
        raise FileNotFoundError(
            f"pacs: {folder} has no folder {', '.join(lacking)}; PACS (Li et al. 2017) is at "
            f"{PAGE}: give the folder that holds {', '.join(DOMAINS)}"
        )
    found = examine_parts({name: read_data(folder / name) for name in DOMAINS})
    for name, each in found.items():
        need_usable(each)
        if len(each.listing) > COUNTS[name]:
            raise ValueError(
                f"pacs: {folder / name} has {len(each.listing)} pictures, and PACS {COUNTS[name]}; "
                "give PACS itself, or a part of it"
            )
        if each.listing.classes != CLASSES:
            raise ValueError(
                f"pacs: {folder / name} has the classes {', '.join(each.listing.classes)}; those "
                f"of PACS are {', '.join(CLASSES)}"
            )
    return {name: each.listing for name, each in found.items()}
