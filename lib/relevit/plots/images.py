"""Images, masks and heatmaps in rows. Every function returns a matplotlib figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped, UInt8
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from torch import Tensor

from relevit.attribution import to_heatmap
from relevit.data.batch import Batch
from relevit.evaluate.looking import Look
from relevit.evaluate.sis import Subsets
from relevit.models.spec import Mask
from relevit.plots.style import GAIN, GREY, HEAT, INK, LOSS, OBJECT, PALE_OBJECT, REST, subplots

DIMMED = 0.22  # brightness of what a mask leaves out
PIECES = {"other": REST, "dropped": PALE_OBJECT, "object": OBJECT}  # of a cut
Images = UInt8[Tensor, "count 3 height width"]


def image_grid(
    rows: Sequence[tuple[str, Images]],
    titles: Sequence[Sequence[str]] | None = None,
    side: float = 0.82,
    note: str = "",
) -> Figure:
    """Rows of images with a name at the left; `titles` gives a caption for each image.

    `note` stands below all: what marks in the captions or dimmed parts mean.
    """
    columns = max(len(images) for _, images in rows)
    lines = max([0, *(1 + text.count("\n") for row in titles or () for text in row)])
    figure, axes = _close_axes(len(rows), columns, side, titled=[lines] * len(rows))
    for r, (name, images) in enumerate(rows):
        for c, image in enumerate(images):
            axes[r, c].imshow(_pixels(image))
            if titles:
                axes[r, c].set_title(titles[r][c], fontsize=7, pad=2, parse_math=False)
        _name_row(axes[r, 0], name)
    if note:
        below = {"transform": axes[-1, 0].transAxes, "va": "top", "fontsize": 7.5}
        axes[-1, 0].text(0, -0.08, note, **below)
    return figure


def heatmap_grid(
    images: Images,
    rows: Sequence[tuple[str, Float[Tensor, "count 1 height width"]]],
    titles: Sequence[str] | None = None,
    colours: Sequence[str] | None = None,
    side: float = 0.95,
    ends: tuple[str, str] = ("lowest", "highest\nof its map"),
    masks: Bool[Tensor, "count 1 height width"] | None = None,
    answers: Sequence[tuple[Sequence[str], Sequence[str]]] = (),
) -> Figure:
    """The images, and below them one row of heatmaps for each model, laid over the image.

    `colours` are those of the titles, as of a `Look`: blue is right and orange is wrong, which
    is in italics too. `ends` says what 0 and 1 are, and `masks` are outlined on the heatmaps.
    `answers` are titles and colours of the heatmaps themselves, of each row.
    """
    lines = max([0, *(1 + text.count("\n") for text in titles or ())])
    titled = [lines] + [bool(answers)] * len(rows)
    figure, axes = _close_axes(len(rows) + 1, len(images), side, titled=titled)
    for c, image in enumerate(images):
        picture = _pixels(image)
        axes[0, c].imshow(picture)
        if titles:
            _title(axes[0, c], titles[c], colours[c] if colours else "black", 7)
        for r, (_, maps) in enumerate(rows, start=1):
            drawn = lay_over(axes[r, c], image, maps[c], None if masks is None else masks[c])
        for axis, (texts, of_texts) in zip(axes[1:, c], answers, strict=bool(answers)):
            _title(axis, texts[c], of_texts[c], 7)
    for axis, name in zip(axes[:, 0], ("image", *(name for name, _ in rows)), strict=True):
        _name_row(axis, name)
    bar = axes[1, -1].inset_axes((1.1, 0, 0.07, 1))
    bar.set_facecolor("0.5")  # as the grey image below a heatmap
    figure.colorbar(drawn, cax=bar).set_ticks([0, 1], labels=ends)
    bar.tick_params(labelsize=7, length=2)
    if masks is not None and masks.any():
        below = {"transform": axes[1, -1].transAxes, "va": "top", "fontsize": 7}
        axes[1, -1].text(1.1, -0.16, "white line:\nthe object", **below)
    if colours or answers:
        words = {"right": GAIN, "wrong": LOSS}
        for place, (word, colour) in enumerate(words.items()):
            shown = axes[0, -1].text(1.1, 1 - 0.16 * place, word, transform=axes[0, -1].transAxes)
            shown.set(fontsize=7.5, color=colour, va="top", style=_style(colour))
    return figure


def lay_over(
    axis: Axes,
    image: UInt8[Tensor, "3 height width"],
    heat: Float[Tensor, "1 height width"],
    mask: Bool[Tensor, "1 height width"] | None = None,
) -> AxesImage:
    """A heatmap over its image in grey, the object outlined; what a colour bar needs."""
    axis.imshow(_pixels(image).mean(axis=2), **GREY)
    drawn = axis.imshow(heat[0].detach().cpu().numpy(), **HEAT)
    if mask is not None:
        outline(axis, mask[0].cpu().numpy())
    return drawn


def outline(axis: Axes, mask: Mask, width: float = 0.6) -> None:
    """A white line around the object of a picture, with a dark edge that is seen on white."""
    if mask.any():  # an image of some sets has none
        axis.autoscale(False)
        rows, columns = (np.arange(-1, side + 1) for side in mask.shape)
        style = {"levels": [0.5], "colors": "white", "linewidths": width}
        line = axis.contour(columns, rows, np.pad(mask, 1), **style)  # closed at the border, too
        line.set_path_effects([withStroke(linewidth=2.5 * width, foreground="black")])


def looks_grid(
    images: Images,
    names: Sequence[str],
    looks: Mapping[str, Look],
    masks: Bool[Tensor, "count 1 height width"] | None = None,
) -> Figure:
    """The images under their `names`, and below them what each model sees in them and answers."""
    rows = [(name, seen.heatmaps) for name, seen in looks.items()]
    answers = [(seen.titles, seen.colours) for seen in looks.values()]
    return heatmap_grid(images, rows, names, masks=masks, answers=answers)


def phrase_figure(
    pairs: Batch,
    maps: Mapping[str, Float[Tensor, "pairs 2 patches"]],
    phrases: Sequence[str],
    grid: tuple[int, int],
) -> Figure:
    """Both phrases of each image side by side, one row of heatmaps for each method (Fig. 7).

    `phrases` has one for each class, `grid` says how many rows and columns of patches there are.
    Each heatmap is stretched over its own range.
    """
    size = tuple(pairs.images.shape[-2:])
    rows = [
        (name, to_heatmap(both.flatten(0, 1).float(), size, grid)) for name, both in maps.items()
    ]
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
    figure.set_label(f"Images with their captions: {'; '.join(captions)}")
    return figure


def cut_out(images: Images, masks: Bool[Tensor, "count 1 height width"]) -> Images:
    """The images with all that lies outside the masks dimmed."""
    return (images * masks + DIMMED * images * ~masks).to(images.dtype)


def cut_steps(
    images: Images,
    steps: Sequence[tuple[str, Shaped[Tensor, "count rows columns"]]],
    side: float = 0.85,
) -> Figure:
    """The images, and below them one row of maps for each step.

    A map of real numbers has its own scale of colours, symmetric about its mean; one of truth
    values or of 0, 1, 2 shows what is other, dropped and the object.
    """
    figure, axes = _close_axes(len(steps) + 1, len(images), side)
    pieces, names = ListedColormap(list(PIECES.values())), list(PIECES)
    for c, image in enumerate(images):
        axes[0, c].imshow(_pixels(image))
        for r, (_, maps) in enumerate(steps, start=1):
            values = maps[c].double().numpy()
            if maps.is_floating_point():
                middle, reach = values.mean(), np.abs(values - values.mean()).max() or 1.0
                style = {"cmap": "cividis", "vmin": middle - reach, "vmax": middle + reach}
                drawn = axes[r, c].imshow(values, interpolation="nearest", **style)
            else:
                numbers = 2 * values if maps.dtype == torch.bool else values
                style = {"cmap": pieces, "vmin": 0, "vmax": len(names) - 1}
                axes[r, c].imshow(numbers, interpolation="nearest", **style)
    for axis, name in zip(axes[:, 0], ("image", *(name for name, _ in steps)), strict=True):
        _name_row(axis, name)
    first = next((r for r, (_, m) in enumerate(steps, 1) if not m.is_floating_point()), None)
    if first != 1:
        bar = axes[1, -1].inset_axes((1.1, 0, 0.07, 1))
        ends = figure.colorbar(drawn, cax=bar)
        ends.set_ticks([drawn.norm.vmin, drawn.norm.vmax], labels=["below its mean", "above"])
        bar.tick_params(labelsize=7, length=2)
    if first:
        handles = [Patch(color=colour, label=name) for name, colour in PIECES.items()]
        beside = {"loc": "upper left", "bbox_to_anchor": (1.02, 1.05), "frameon": False}
        axes[first, -1].legend(handles=handles, fontsize=7, handlelength=1, **beside)
    return figure


def edge_matrix(
    similarity: Float[Tensor, "tokens tokens"], tau: float, object_first: Bool[Tensor, " tokens"]
) -> Figure:
    """Cosines of one image's tokens, and which pairs are joined; the object's tokens first."""
    order = (~object_first).int().argsort(stable=True)
    sorted_ = similarity[order][:, order].numpy()
    figure, (left, right) = subplots(1, 2, figsize=(7.4, 3.3))
    drawn = left.imshow(sorted_, cmap="cividis", vmin=-1, vmax=1)
    figure.colorbar(drawn, ax=left, shrink=0.85)
    joined = ListedColormap(["white", PALE_OBJECT])
    right.imshow(sorted_ > tau, cmap=joined, vmin=0, vmax=1, interpolation="nearest")
    border = int(object_first.sum())
    middles = [border / 2 - 0.5, (border + len(order)) / 2 - 0.5]
    for axis, title in ((left, "cosine of two patches"), (right, f"joined: cosine above {tau:g}")):
        axis.axhline(border - 0.5, color=INK, linewidth=1.5)
        axis.axvline(border - 0.5, color=INK, linewidth=1.5)
        axis.set_title(title)
        axis.set_xticks(middles, ["object", "rest"])
        axis.set_yticks(middles, ["object", "rest"], rotation=90, va="center")
        axis.tick_params(length=0)
        axis.grid(False)
    handles = [Patch(color=PALE_OBJECT, label="joined")]
    handles.append(Patch(facecolor="white", edgecolor=INK, label="not joined"))
    figure.legend(handles=handles, loc="outside right center", frameon=False)
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

    Blue full frames have the image's own class, orange dashed ones another, written above.
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
        _framed(axes[row, 0], image, classes[label], INK)
        for block, found in enumerate(neighbours):
            places = axes[row, 2 + block * (k + 1) :]
            for axis, near, its in zip(places, found.images[row], found.labels[row], strict=False):
                _framed(axis, near, classes[int(its)], GAIN if its == label else LOSS)
    for axis, found in zip(axes[0, 2 :: k + 1], neighbours, strict=True):
        axis.text(0, 1.22, found.model, transform=axis.transAxes, fontsize=9, parse_math=False)
    handles = [
        Patch(facecolor="white", edgecolor=GAIN, linewidth=2, label="right class"),
        Patch(facecolor="white", edgecolor=LOSS, linewidth=2, linestyle="--", label="another"),
    ]
    figure.legend(handles=handles, loc="outside lower right", ncols=2, fontsize=8, frameon=False)
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
        found, sure = bool(subsets.found[pair]), float(subsets.confidence_pct[pair])
        # What misses the threshold by little shall not be rounded up to it.
        written = f"{sure:.0f}" if found else f"{int(10 * sure) / 10:.1f}"
        text = (
            f"{targets[pair % len(targets)]} {written} %\n"
            f"{float(subsets.kept_pct[pair]):.0f} % of the pixels"
        )
        _sharp(axis, alone[pair], text, GAIN if found else LOSS)
    return figure


def _pixels(image: Shaped[Tensor, "3 height width"]) -> Shaped[np.ndarray, "height width 3"]:
    return image.permute(1, 2, 0).cpu().numpy()


def _framed(axis: Axes, image: Tensor, title: str, colour: str) -> None:
    axis.imshow(_pixels(image))
    _title(axis, title, colour, 6.5)
    dashes = "--" if colour == LOSS else "-"
    axis.spines[:].set(visible=True, color=colour, linewidth=2, linestyle=dashes)


def _sharp(axis: Axes, image: Tensor, title: str, colour: str) -> None:
    axis.imshow(_pixels(image), interpolation="nearest")
    _title(axis, title, colour, 7.5)


def _title(axis: Axes, title: str, colour: str, size: float) -> None:
    axis.set_title(
        title, fontsize=size, pad=2, color=colour, style=_style(colour), parse_math=False
    )


def _style(colour: str) -> str:
    """What is wrong is in italics, for print."""
    return "italic" if colour == LOSS else "normal"


def _close_axes(
    rows: int, columns: int, side: float, titled: Sequence[int] = ()
) -> tuple[Figure, np.ndarray]:
    """Bare square axes with no more between them than their titles need.

    `titled` is the number of lines above the images of each row. The names of rows stand outside
    the figure, which is stored whole (`savefig.bbox`).
    """
    above = [0.05 + 0.125 * lines for lines in titled or [0] * rows]  # inches
    size = (columns * (side + 0.05), rows * side + sum(above))
    figure, axes = _bare_axes(rows, columns, size, layout=None)
    top = size[1]
    for line, gap in zip(axes, above, strict=True):
        top -= gap + side
        for c, axis in enumerate(line):
            left = c * (side + 0.05) / size[0]
            axis.set_position((left, top / size[1], side / size[0], side / size[1]))
    return figure, axes


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
