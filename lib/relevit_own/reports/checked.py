"""What is in a data set: said, listed, and some of its pictures on one sheet with their masks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from PIL import Image

from relevit.base.files import write_atomically
from relevit.choices.words import Corrupted
from relevit.data.pictures import mark
from relevit_own.check import examine, ledger, lines, need_usable, samples
from relevit_own.table import Table, read_table
from reproduction.plots.images import DIMMED, Tile, shortened, tile_grid
from reproduction.plots.style import readable

SAMPLES, SAMPLE_PIXELS, LONGEST_NAME = 8, 640, 30  # of a folder; of one; letters of a title


def check_data(
    data: Path,
    masks: Path | None = None,
    images: Path | None = None,
    *,
    corrupted: Corrupted = "error",
    picture: Path | None = None,
    listed: Path | None = None,
    say: Callable[..., object] = lambda *lines: None,
) -> None:
    """Say what is in a data set; draw samples to the file `picture`, and write to the CSV `listed`
    what each file is used for, or why not (`Ledger`).

    Raises: as `read_table` and `need_usable`; ValueError for a file to write that is of the data.
    """
    table = read_table(data, masks, images=images)
    there = {path.resolve() for path in (data, *table.images)}
    for name, path in {"picture": picture, "list": listed}.items():
        if path and path.resolve() in there:
            raise ValueError(f"check: {path} is of the data; give another file for --{name}")
    found = examine(table, corrupted=corrupted)
    say(*lines(found))
    if listed:
        listed.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(listed, ledger(found).files.to_csv(index=False))
        say(f"written: {listed}")
    need_usable(found)
    if picture:
        kind = picture.suffix.lower().removeprefix(".").replace("jpg", "jpeg")
        picture.parent.mkdir(parents=True, exist_ok=True)
        sample_grid(found.table).savefig(picture, bbox_inches="tight", dpi=160, **mark(kind))
        say(f"written: {picture}")


def sample_grid(listing: Table, seed: int = 0) -> Figure:
    """Whole images of a folder drawn by the seed, under their classes and names.

    Where they have masks, objects are outlined, and stand below their image without the rest.
    """
    shown, whole, objects = samples(listing, SAMPLES, seed), [], []
    for place, name in enumerate(shown.ids):
        image = shown.picture(place)
        image.thumbnail((SAMPLE_PIXELS, SAMPLE_PIXELS))
        pixels, mask = np.array(image), None
        if shown.masks[place] is not None:
            small = Image.fromarray(shown.mask(place)).convert("L").resize(image.size)
            mask = torch.from_numpy(np.array(small) > 127)
        label = shown.labels[place]
        lines = (readable(shown.classes[label], f"class {label}"), readable(name))
        whole.append(Tile(pixels, "\n".join(shortened(t, LONGEST_NAME) for t in lines), mask=mask))
        kept = np.ones(1) if mask is None else np.where(mask[..., None], 1, DIMMED)
        objects.append(Tile((pixels * kept).astype(np.uint8)))
    masked = any(tile.mask is not None for tile in whole)
    return tile_grid([("", whole), *[("object", objects)] * masked], columns=4)
