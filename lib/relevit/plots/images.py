"""Images, masks and heatmaps in rows. Every function returns a matplotlib figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped, UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from relevit.data.pairs import Pairs
from relevit.evaluate.looking import RIGHT, WRONG
from relevit.evaluate.sis import Subsets
from relevit.plots.style import BLUE, GREY, HEAT, ORIGINAL, OURS, subplots
from relevit.relevance import to_pixels

DIMMED = 0.22  # brightness of what a mask leaves out
Images = UInt8[Tensor, "count 3 height width"]


def image_grid(
    rows: Sequence[tuple[str, Images]],
    titles: Sequence[Sequence[str]] | None = None,
    side: float = 1.05,
) -> Figure:
    """Rows of images with a name at the left; `titles` gives a caption for each image."""
    columns = max(len(images) for _, images in rows)
    figure, axes = _close_axes(len(rows), columns, side, 1.22 * side if titles else side)
    for r, (name, images) in enumerate(rows):
        for c, image in enumerate(images):
            axes[r, c].imshow(_pixels(image))
            if titles:
                axes[r, c].set_title(titles[r][c], fontsize=7, pad=2)
        _name_row(axes[r, 0], name)
    return figure


def heatmap_grid(
    images: Images,
    rows: Sequence[tuple[str, Float[Tensor, "count 1 height width"]]],
    titles: Sequence[str] | None = None,
    colours: Sequence[str] | None = None,
    side: float = 1.25,
) -> Figure:
    """The images, and below them one row of heatmaps for each model, laid over the image."""
    figure, axes = _close_axes(len(rows) + 1, len(images), side, side * 1.08)
    for c, image in enumerate(images):
        picture = _pixels(image)
        axes[0, c].imshow(picture)
        if titles:
            colour = colours[c] if colours else "black"
            axes[0, c].set_title(titles[c], fontsize=7, pad=2, color=colour)
        for r, (_, maps) in enumerate(rows, start=1):
            axes[r, c].imshow(picture.mean(axis=2), **GREY)
            axes[r, c].imshow(maps[c, 0].detach().cpu().numpy(), **HEAT)
    for axis, name in zip(axes[:, 0], ("image", *(name for name, _ in rows)), strict=True):
        _name_row(axis, name)
    return figure


def phrase_figure(
    pairs: Pairs, maps: Mapping[str, Float[Tensor, "pairs 2 patches"]], phrases: Sequence[str]
) -> Figure:
    """Both phrases of each image side by side, one row of heatmaps for each method (Fig. 7).

    `phrases` has one for each class. Each heatmap is stretched over its own range.
    """
    size = tuple(pairs.images.shape[-2:])
    rows = [(name, to_pixels(both.flatten(0, 1).float(), size)) for name, both in maps.items()]
    titles = [fill(phrases[label], 16) for label in pairs.labels.flatten().tolist()]
    return heatmap_grid(pairs.images.repeat_interleave(2, dim=0), rows, titles)


def captioned_images(images: Images, captions: Sequence[str], columns: int = 6) -> Figure:
    """Images with their captions below, broken into lines."""
    rows, columns = -(-len(images) // columns), min(columns, len(images))
    figure, axes = subplots(rows, columns, squeeze=False, figsize=(1.5 * columns, 2.0 * rows))
    for axis in axes.flat:
        axis.axis("off")
    below = {"fontsize": 8, "ha": "center", "va": "top"}
    for axis, image, text in zip(axes.flat, images, captions, strict=False):
        axis.imshow(_pixels(image))
        axis.text(0.5, -0.04, fill(text, 20), transform=axis.transAxes, **below)
    return figure


def cut_out(images: Images, masks: Bool[Tensor, "count 1 height width"]) -> Images:
    """The images with all that lies outside the masks dimmed."""
    return (images * masks + DIMMED * images * ~masks).to(images.dtype)


def cut_steps(
    images: Images,
    steps: Sequence[tuple[str, Shaped[Tensor, "count rows columns"]]],
    side: float = 1.25,
) -> Figure:
    """The images, and below them one row of maps for each step.

    A map of numbers has its own scale of colours, symmetric about its mean; one of truth values
    is dark where it is false.
    """
    rows, columns = len(steps) + 1, len(images)
    figure, axes = _bare_axes(
        rows,
        columns,
        (1.1 + side * columns, side * rows),
        layout=None,
        gridspec_kw={"wspace": 0.04, "hspace": 0.06},
    )
    for c, image in enumerate(images):
        axes[0, c].imshow(_pixels(image))
        for r, (_, maps) in enumerate(steps, start=1):
            values = maps[c].double().numpy()
            reach = np.abs(values - values.mean()).max() or 1.0
            scale = (values.mean() - reach, values.mean() + reach)
            low, high = scale if maps.is_floating_point() else (0, 1)
            axes[r, c].imshow(values, cmap="cividis", vmin=low, vmax=high, interpolation="nearest")
    for axis, name in zip(axes[:, 0], ("image", *(name for name, _ in steps)), strict=True):
        _name_row(axis, name)
    return figure


def edge_matrix(
    similarity: Float[Tensor, "tokens tokens"], tau: float, object_first: Bool[Tensor, " tokens"]
) -> Figure:
    """Cosines of one image's tokens, and which pairs are joined; the object's tokens first."""
    order = (~object_first).int().argsort(stable=True)
    sorted_ = similarity[order][:, order].numpy()
    figure, (left, right) = subplots(1, 2, figsize=(6.6, 3.1))
    drawn = left.imshow(sorted_, cmap="cividis", vmin=-1, vmax=1)
    figure.colorbar(drawn, ax=left, shrink=0.85)
    right.imshow(sorted_ > tau, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
    for axis, title in ((left, "cosine of two tokens"), (right, f"joined: cosine above {tau:g}")):
        border = int(object_first.sum()) - 0.5
        axis.axhline(border, color=OURS, linewidth=1)
        axis.axvline(border, color=OURS, linewidth=1)
        axis.set(title=title, xlabel="token", ylabel="token")
        axis.grid(False)
    return figure


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
    k, blocks = neighbours[0].images.shape[1], len(neighbours)
    widths = [1.0] + ([0.25] + [1.0] * k) * blocks  # a gap before each model
    figure, axes = _bare_axes(
        len(images),
        len(widths),
        (side * (1 + blocks * k + 0.25 * blocks), 1.28 * side * len(images) + 0.3),
        gridspec_kw={"width_ratios": widths},
    )
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02, wspace=0, hspace=0)
    for axis in axes[:, 1 :: k + 1].flat:
        axis.set_axis_off()
    for row, (image, label) in enumerate(zip(images, labels.tolist(), strict=True)):
        _framed(axes[row, 0], image, classes[label], ORIGINAL)
        for block, found in enumerate(neighbours):
            places = axes[row, 2 + block * (k + 1) :]
            for axis, near, its in zip(places, found.images[row], found.labels[row], strict=False):
                _framed(axis, near, classes[int(its)], BLUE if its == label else OURS)
    for axis, found in zip(axes[0, 2 :: k + 1], neighbours, strict=True):
        axis.text(0, 1.22, found.model, transform=axis.transAxes, fontsize=9)
    return figure


def subset_grid(
    images: Float[Tensor, "rows 3 height width"],
    alone: Float[Tensor, "pairs 3 height width"],
    subsets: Subsets,
    titles: Sequence[str],
    targets: Sequence[str],
    side: float = 1.45,
) -> Figure:
    """Each image and, beside it, its subset for each target; pairs come image by image.

    `images` are whole, `alone` what the model sees of them, both in [0, 1]; `titles` are
    those of the images, `targets` the names of the columns.
    """
    rows, columns = len(images), 1 + len(targets)
    figure, axes = _bare_axes(rows, columns, (columns * side, rows * side * 1.22))
    for axis, image, title in zip(axes[:, 0], images, titles, strict=True):
        _sharp(axis, image, title, "black")
    for pair, axis in enumerate(axes[:, 1:].flat):
        text = (
            f"{targets[pair % len(targets)]} {float(subsets.confidence_pct[pair]):.0f} %\n"
            f"{float(subsets.kept_pct[pair]):.0f} % of the pixels"
        )
        _sharp(axis, alone[pair], text, RIGHT if bool(subsets.found[pair]) else WRONG)
    return figure


def _pixels(image: Shaped[Tensor, "3 height width"]) -> Shaped[np.ndarray, "height width 3"]:
    return image.permute(1, 2, 0).cpu().numpy()


def _framed(axis: Axes, image: Tensor, title: str, colour: str) -> None:
    axis.imshow(_pixels(image))
    axis.set_title(title, fontsize=6.5, pad=2, color=colour)
    axis.spines[:].set(visible=True, color=colour, linewidth=2)


def _sharp(axis: Axes, image: Tensor, title: str, colour: str) -> None:
    axis.imshow(_pixels(image), interpolation="nearest")
    axis.set_title(title, fontsize=7.5, pad=2, color=colour)


def _close_axes(rows: int, columns: int, side: float, height: float) -> tuple[Figure, np.ndarray]:
    """Bare axes with no more between them than their titles need, and room for the rows' names."""
    return _bare_axes(
        rows,
        columns,
        (0.75 + columns * side, rows * height),
        layout=None,
        gridspec_kw={"wspace": 0.04, "hspace": 0.08 + height / side - 1},
    )


def _bare_axes(
    rows: int, columns: int, figsize: tuple[float, float], **options: Any
) -> tuple[Figure, np.ndarray]:
    """Axes without ticks, lines or frames."""
    figure, axes = subplots(rows, columns, figsize=figsize, squeeze=False, **options)
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
        axis.grid(False)
        axis.spines[:].set_visible(False)
    return figure, axes


def _name_row(axis: Axes, name: str) -> None:
    axis.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)
