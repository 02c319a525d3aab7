"""A small replica of SI-Score: the three folders, with the tables that lie beside the objects."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from relevit.data.real.shifted import SI_CLASSES, SI_FOLDER, UNPACKED_LOCATION, Factor
from replicas.pictures import picture, save_jpeg

OBJECTS = ("bagel", "jeans", "missile", "zebra")
HEADER = """
    image_id x_coord y_coord area rotation foreground_class foreground_instance background
    bg_resolution_width bg_resolution_height pct_inside_image
"""


def write_si_score(
    data_root: Path,
    *,
    per_class: int = 2,
    classes: Sequence[str] | None = None,
    seed: int = 0,
    as_unpacked: bool = False,
) -> Path:
    """Write `si-score` with `per_class` pictures of each class and factor; gives its folder.

    `classes` are names of SI-Score's objects; none: OBJECTS. Numbers of pictures go through all
    classes of a factor. `as_unpacked` gives `location` the name that is in its archive.
    """
    folder = data_root / SI_FOLDER
    for shift, factor in enumerate(get_args(Factor)):
        named = UNPACKED_LOCATION if as_unpacked and factor == "location" else factor
        _write_factor(folder / named, classes or OBJECTS, per_class, seed + 100 * shift)
    return folder


def _write_factor(folder: Path, classes: Sequence[str], per_class: int, seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pairs = [(place, number) for number in range(per_class) for place in range(len(classes))]
    with (folder / "metadata.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(HEADER.split())
        for image_id, (place, instance) in enumerate(pairs):
            drawn = picture(seed + instance, SI_CLASSES[classes[place]])
            save_jpeg(drawn, folder / classes[place] / f"{image_id}.jpg")
            size = (drawn.width, drawn.height)
            table.writerow([image_id, 0.5, 0.5, 0.2, 0, place, instance, 0, *size, 1.0])
    (folder / "backgrounds.csv").write_text("int,label\n0,beach2.jpg\n", encoding="utf-8")
    names = "".join(f"{place},{name}\n" for place, name in enumerate(classes))
    (folder / "foreground_classes.csv").write_text(f"int,label\n{names}", encoding="utf-8")
