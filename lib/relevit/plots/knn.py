"""Pictures of the notebook on nearest neighbours. Every function returns a matplotlib figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from jaxtyping import Int, UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from relevit.plots.basics import BLUE, ORIGINAL, OURS, subplots


@dataclass(frozen=True)
class Neighbours:
    """The nearest known images of some images, the nearest first, as one model sees them."""

    model: str
    images: UInt8[Tensor, "asked k 3 height width"]
    labels: Int[Tensor, "asked k"]


def neighbour_grid(
    images: UInt8[Tensor, "asked 3 height width"],
    labels: Int[Tensor, " asked"],
    neighbours: Sequence[Neighbours],
    classes: Sequence[str],
    side: float = 0.95,
) -> Figure:
    """One row an image: itself, then its neighbours by each model, whose name is above.

    Blue frames have the image's own class, red ones another, which is written above.
    """
    k = neighbours[0].images.shape[1]
    blocks = len(neighbours)
    columns = 1 + blocks * k
    widths = [1.0] + ([0.25] + [1.0] * k) * blocks  # a gap before each model
    figure, axes = subplots(
        len(images),
        len(widths),
        squeeze=False,
        gridspec_kw={"width_ratios": widths},
        figsize=(side * (columns + 0.25 * blocks), 1.28 * side * len(images) + 0.3),
        layout="constrained",
    )
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02, wspace=0, hspace=0)
    for axis in axes.flat:
        axis.set_axis_off()
    for row, (image, label) in enumerate(zip(images, labels.tolist(), strict=True)):
        _show(axes[row, 0], image, classes[label], ORIGINAL)
        for block, found in enumerate(neighbours):
            first = 2 + block * (k + 1)
            for place in range(k):
                own = int(found.labels[row, place]) == label
                title = classes[int(found.labels[row, place])]
                _show(
                    axes[row, first + place], found.images[row, place], title, BLUE if own else OURS
                )
    for block, found in enumerate(neighbours):
        top = axes[0, 2 + block * (k + 1)]
        top.text(0, 1.22, found.model, transform=top.transAxes, fontsize=9)
    return figure


def _show(axis: Axes, image: UInt8[Tensor, "3 height width"], title: str, colour: str) -> None:
    axis.set_axis_on()
    axis.grid(False)
    axis.set(xticks=[], yticks=[])
    axis.imshow(image.permute(1, 2, 0).numpy())
    axis.set_title(title, fontsize=6.5, pad=2, color=colour)
    for spine in axis.spines.values():
        spine.set(visible=True, color=colour, linewidth=2)


def accuracy_dots(table: pd.DataFrame, original: str, title: str) -> Figure:
    """Accuracy of the original and of every finetuned run; needs `knn_table`."""
    names = [f"{data}\nk = {k}" for data, k in table[["data", "k"]].drop_duplicates().to_numpy()]
    figure, axis = subplots(figsize=(7.5, 2.8), layout="constrained")
    for place, (_, rows) in enumerate(table.groupby(["data", "k"], sort=False)):
        before = rows["model_run"] == original
        value = rows.loc[before, "accuracy_pct"].iloc[0]
        images = rows["images"].iloc[0]
        share = value / 100
        axis.errorbar(
            place - 0.1,
            value,
            yerr=196 * (share * (1 - share) / images) ** 0.5,
            fmt="o",
            color=ORIGINAL,
            capsize=3,
            label="original, 95 % interval over images" if not place else None,
        )
        after = rows.loc[~before, "accuracy_pct"]
        axis.plot(
            [place + 0.1] * len(after),
            after,
            "_",
            color=OURS,
            markersize=14,
            markeredgewidth=2,
            label=None if place else "ours, one dash a seed",
        )
    axis.set_xticks(range(len(names)), names)
    axis.set(ylabel="accuracy (%)", ylim=(0, 102), xlim=(-0.5, len(names) - 0.5), title=title)
    axis.legend(frameon=False, loc="lower left")
    return figure
