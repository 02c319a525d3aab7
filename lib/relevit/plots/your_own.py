"""Pictures of a run on one's own images: samples with their masks, and what finetuning changed."""

from __future__ import annotations

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, UInt8
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor

from relevit.data.own.check import samples
from relevit.data.own.listing import Listing
from relevit.models.spec import Mask, as_rgb
from relevit.plots.images import DIMMED, lay_over, outline
from relevit.plots.style import CONTROL, INK, OURS, reach, subplots

SHOWN, COLUMNS = 8, 4
SIDE = 4.0  # inches of a sample: 320 pixels or more
PIXELS = 640  # of a sample's longer side, from which it is drawn
LONGEST_NAME = 34  # characters of a title
TILE = 3.0  # inches
# Against the original; what the relevance terms add has the ink.
PAIRS = {"with relevance - original": (OURS, "o"), "without - original": (CONTROL, "s")}


def sample_grid(listing: Listing, seed: int = 0) -> Figure:
    """Whole images of a folder drawn by the seed, under their classes and names.

    Where they have masks, objects are outlined, and stand below their image without the rest.
    """
    shown = samples(listing, SHOWN, seed)
    each = 1 + any(mask is not None for mask in shown.masks)  # rows
    rows, columns = each * -(-len(shown) // COLUMNS), min(COLUMNS, len(shown))
    figure, axes = subplots(rows, columns, squeeze=False, figsize=(SIDE * columns, SIDE * rows))
    figure.set_label("Samples" + ", and below them their objects" * (each == 2))
    for axis in axes.flat:
        axis.set_axis_off()
    for place, name in enumerate(shown.ids):
        row, column = divmod(place, COLUMNS)
        image, mask = _sample(shown, place)
        axis, title = axes[each * row, column], shown.classes[shown.labels[place]]
        axis.imshow(image)
        title = f"{shortened(title, LONGEST_NAME)}\n{shortened(name, LONGEST_NAME)}"
        axis.set_title(title, fontsize=13, parse_math=False)
        if mask is not None:
            outline(axis, mask, width=1.5)
            alone = np.where(mask[..., None], image, DIMMED * image).astype(np.uint8)
            axes[each * row + 1, column].imshow(alone)
    return figure


def _sample(
    listing: Listing, place: int
) -> tuple[UInt8[np.ndarray, "height width 3"], Mask | None]:
    """One image and its mask, no larger than is drawn."""
    image = as_rgb(listing.picture(place))
    image.thumbnail((PIXELS, PIXELS))
    if listing.masks[place] is None:
        return np.array(image), None
    mask = Image.fromarray(listing.mask(place)).convert("L").resize(image.size)
    return np.array(image), np.array(mask) > 127


def shortened(name: str, most: int) -> str:
    """A name of at most so many characters; what is too much is left out of its middle."""
    half = (most - 1) // 2
    return name if len(name) <= most else f"{name[: most - 1 - half]}…{name[-half:]}"


def map_tile(
    image: UInt8[Tensor, "3 height width"],
    heat: Float[Tensor, "1 height width"] | None = None,
    mask: Bool[Tensor, "1 height width"] | None = None,
) -> Figure:
    """An image, or a map laid over it with the object outlined, and nothing around it."""
    figure, axis = subplots(figsize=(TILE, TILE), layout=None)
    axis.set_position((0, 0, 1, 1))
    axis.set_axis_off()
    figure.set_label("An image" if heat is None else "A relevance map over its image")
    if heat is None:
        axis.imshow(image.permute(1, 2, 0).numpy())
    else:
        lay_over(axis, image, heat, mask)
    return figure


def paired_changes(changes: pd.DataFrame, title: str) -> Figure:
    """Change of top-1 on each set, a mark a pair of models, with its 95 % interval.

    `changes` as from `finetune.your_own.changes`.
    """
    sets, pairs = (list(dict.fromkeys(changes[name])) for name in ("dataset", "change"))
    figure, axis = subplots(figsize=(7.5, 2.8))
    offsets = 0.2 * (np.arange(len(pairs)) - (len(pairs) - 1) / 2)
    for offset, pair in zip(offsets, pairs, strict=True):
        rows = changes[changes["change"] == pair].set_index("dataset").reindex(sets)
        middle, (colour, mark) = rows["change_pts"], PAIRS.get(pair, (INK, "D"))
        interval = [middle - rows["low_pts"], rows["high_pts"] - middle]
        style = {"fmt": mark, "color": colour, "capsize": 3, "label": pair}
        axis.errorbar(np.arange(len(sets)) + offset, middle, np.clip(interval, 0, None), **style)
    axis.axhline(0, color="black", linewidth=0.8)
    names = [shortened(name, max(5, 70 // len(sets))) for name in sets]
    axis.set_xticks(range(len(sets)), names, parse_math=False)
    axis.set(title=title, ylabel="change of top-1 (points)", xlim=(-0.5, len(sets) - 0.5))
    reach(axis, -1, 1)
    axis.grid(visible=False, axis="x")
    figure.legend(loc="outside lower center", ncols=len(pairs), frameon=False)
    return figure
