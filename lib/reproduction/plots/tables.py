"""Tables as colours, with numbers on them where these are few. Every function returns a figure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from reproduction.plots.intervals import largest_but_one_far
from reproduction.plots.lines import model_styles
from reproduction.plots.style import CHANGE, SHADES, count_whole, subplots, write


def heat_table(axis: Axes, table: pd.DataFrame, title: str, **style: Any) -> None:
    """A cell a number, the names of rows at the left; `style` as of `seaborn.heatmap`."""
    sns.heatmap(table, ax=axis, yticklabels=1, **style)
    axis.set(title=title, xlabel="", ylabel="")
    axis.tick_params(length=0)
    axis.tick_params(axis="y", rotation=0)


def change_heatmap(changes: pd.DataFrame, title: str) -> Figure:
    """Mean change of top-1 in points: one row a kind of run, one column a set, signed numbers.

    Orange falls, blue rises; the colours end at the largest change, that of a row far beyond
    all others aside.
    """
    rows, columns = changes.shape
    figure, axis = subplots(figsize=(2.6 + 0.78 * columns, 0.9 + 0.34 * rows))
    largest = max(1.0, largest_but_one_far(changes.abs().max(axis=1)))
    numbers = {"annot": True, "fmt": "+.1f", "annot_kws": {"size": 8}, "linewidths": 1}
    colours = {"cmap": CHANGE, "center": 0, "vmin": -largest, "vmax": largest, "cbar": False}
    heat_table(axis, changes, title, **numbers, **colours)
    if (changes.abs().to_numpy() > largest).any():
        axis.set_xlabel(f"colours end at ±{largest:.1f}")
    axis.set_xticks(axis.get_xticks(), [str(c).replace("_", "\n") for c in changes], rotation=0)
    return figure


def attention_rows(
    rows: Float[Tensor, "blocks tokens"], words: Sequence[str], title: str
) -> Figure:
    """How much the class token attends to each token, one row a block, the first on top.

    `words` name the tokens; texts of up to about 40 can be read.
    """
    figure, axis = subplots(figsize=(9, 1.6 + 0.28 * len(rows)))
    blocks = pd.DataFrame(rows.numpy(), index=range(1, len(rows) + 1))
    heat_table(axis, blocks, title, vmin=0, cmap=SHADES, cbar_kws={"label": "attention"})
    axis.set(ylabel="block")
    write(partial(axis.set_xticks, np.arange(len(words)) + 0.5), words, rotation=60)
    return figure


def entropy_maps(epochs: pd.DataFrame) -> Figure:
    """Attention entropy of each layer over the epochs, and its change (IAV Fig. 6a).

    Means over images, heads and seeds, in nats; the change is taken from the first epoch of each
    model. All models share a scale of colours.
    """
    names = list(model_styles(epochs))
    means = epochs.pivot_table(index=["model", "layer"], columns="epoch", values="entropy")
    changes = means.sub(means.bfill(axis=1).iloc[:, 0], axis=0)  # its first epoch
    largest = max(1e-3, float(np.nanmax(np.abs(changes.to_numpy()))))
    size = (1.2 + 2.2 * len(names), 4.4)
    figure, axes = subplots(2, len(names), figsize=size, sharex=True, squeeze=False)
    heights = {"cmap": "viridis", "vmin": np.nanmin(means), "vmax": np.nanmax(means)}
    signed = {"cmap": CHANGE, "vmin": -largest, "vmax": largest}
    rows = ((means, "entropy (nats)", heights), (changes, "change (nats)", signed))
    for line, (values, label, colours) in zip(axes, rows, strict=True):
        for axis, name in zip(line, names, strict=True):
            part = values.loc[name].dropna(axis=1)  # another model may have more epochs
            drawn = axis.pcolormesh(part.columns, part.index, part, shading="nearest", **colours)
            axis.invert_yaxis()
            axis.grid(False)
        figure.colorbar(drawn, ax=line, label=label, pad=0.01)
        line[0].set_ylabel("layer")
    for name, top, bottom in zip(names, *axes, strict=True):
        top.set_title(name)
        bottom.set_xlabel("epoch")
        count_whole(bottom)
    return figure
