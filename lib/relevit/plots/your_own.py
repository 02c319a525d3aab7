"""Pictures of a run on one's own images: samples with their masks, and what finetuning changed."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from relevit.data.own.check import samples
from relevit.data.own.folder import Listing
from relevit.models.spec import View
from relevit.plots.images import cut_out, image_grid
from relevit.plots.style import CONTROL, INK, OURS, subplots

SHOWN = 8
SAMPLES = View(112, 112)
# Against the original; what the relevance terms add has the ink.
PAIRS = {"with relevance - original": (OURS, "o"), "without - original": (CONTROL, "s")}


def sample_grid(listing: Listing, seed: int = 0) -> Figure:
    """Images of a folder drawn by the seed, and below them their objects, where they have masks."""
    images, masks, titles = samples(listing, SAMPLES, min(SHOWN, len(listing)), seed)
    rows = [("image", images)]
    if masks is not None:
        rows.append(("object", cut_out(images, masks)))
    return image_grid(rows, [titles, *[[""] * len(titles)] * (len(rows) - 1)])


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
        reach = [middle - rows["low_pts"], rows["high_pts"] - middle]
        style = {"fmt": mark, "color": colour, "capsize": 3, "label": pair}
        axis.errorbar(np.arange(len(sets)) + offset, middle, np.clip(reach, 0, None), **style)
    axis.axhline(0, color="black", linewidth=0.8)
    axis.set_xticks(range(len(sets)), sets, parse_math=False)
    axis.set(title=title, ylabel="change of top-1 (points)", xlim=(-0.5, len(sets) - 0.5))
    axis.grid(visible=False, axis="x")
    figure.legend(loc="outside lower center", ncols=len(pairs), frameon=False)
    return figure
