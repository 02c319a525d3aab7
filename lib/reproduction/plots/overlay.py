"""Relevance maps over a picture in its own size and proportions, what the model sees framed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from PIL import Image
from torch import Tensor

from reproduction.plots.images import HEAT_TICKS, scale_bar
from reproduction.plots.style import GREY, HEAT, SIGNED_HEAT, SIGNED_TICKS, subplots, write

LONGEST, SHORTEST = 2000, 480  # pixels of a picture's longer side, as it is drawn
SIDE, LEAST = 4.0, 1.5  # inches of the same; of a panel's shorter side, at least
GAP, LINE = 0.08, 0.16  # inches between panels; of a line of text above one
WIDEST = 10_000  # pixels of a figure
LETTERS = 13  # of a title, an inch


@dataclass(frozen=True)
class Overlay:
    """A map as a model has it of the part `box` of a picture: left, top, right, bottom in pixels.

    `heat` is from 0 to 1, of a `signed` map from -1 to 1.
    """

    heat: Float[Tensor, "height width"]
    box: tuple[float, float, float, float]
    title: str
    signed: bool = False


def overlay_figure(picture: Image.Image, name: str, rows: Sequence[Sequence[Overlay]]) -> Figure:
    """The picture under its name, and beside it rows of maps laid over it.

    At the figure's own dpi a pixel of the picture is one of the figure, but that a picture is drawn
    at most 2,000 pixels long, a small one enlarged to 480, and a figure of many is at most 10,000.
    What lies outside of a box is grey.
    """
    width, height = (max(LEAST, SIDE * side / max(picture.size)) for side in picture.size)
    letters = int(LETTERS * width)
    shown = [[_wrapped(one.title, letters) for one in row] for row in rows]
    boxes = list(dict.fromkeys(o.box for row in rows for o in row if _inside(o.box, picture.size)))
    first = _wrapped(name + "\nframed: what the model sees" * bool(boxes), letters)
    lines = 1 + max(text.count("\n") for text in (first, *(text for row in shown for text in row)))
    figure, axes = _panels(len(rows), 1 + max(map(len, rows)), width, height, 0.06 + LINE * lines)
    pixels = min(max(max(picture.size), SHORTEST), LONGEST)
    figure.set_dpi(min(pixels / SIDE, WIDEST / max(figure.get_size_inches())))
    extent = (0, picture.width, picture.height, 0)
    small = picture.copy()
    small.thumbnail((LONGEST, LONGEST))
    grey = np.asarray(small.convert("L"))
    _begun(axes[0, 0], first).imshow(small, extent=extent)
    _frame(axes[0, 0], boxes)
    drawn = {}
    for line, row, texts in zip(axes[:, 1:], rows, shown, strict=True):
        for axis, one, text in zip(line, row, texts, strict=False):
            _begun(axis, text).imshow(grey, extent=extent, **GREY)
            left, top, right, bottom = one.box
            style = {"interpolation": "bilinear"} | (SIGNED_HEAT if one.signed else HEAT)
            drawn[one.signed] = axis.imshow(
                one.heat.numpy(), extent=(left, right, bottom, top), **style
            )
            axis.set(xlim=extent[:2], ylim=extent[2:])
            _frame(axis, [one.box] if one.box in boxes else [])
    cell = axes[0, -1].get_position(original=True)
    share, inch = cell.height / len(drawn), 1 / figure.get_figwidth()
    for place, (signed, heat) in enumerate(sorted(drawn.items())):
        low = cell.y1 - share * (place + 0.9)
        at = (cell.x1 + 0.15 * inch, low, 0.13 * inch, 0.8 * share)
        scale_bar(figure, at, heat, SIGNED_TICKS if signed else HEAT_TICKS)
    return figure


def _wrapped(text: str, letters: int) -> str:
    return "\n".join(fill(line, letters) for line in text.splitlines())


def _inside(box: tuple[float, ...], size: tuple[int, int]) -> bool:
    """Whether a box leaves anything of the picture out."""
    return any(abs(edge - end) >= 1 for edge, end in zip(box, (0, 0, *size), strict=True))


def _panels(
    rows: int, columns: int, width: float, height: float, above: float
) -> tuple[Figure, np.ndarray]:
    """Axes of just this size in inches, with room for titles above; none is to be seen yet."""
    size = (columns * (width + GAP), rows * (height + above))
    edges = {"left": 0, "right": 1 - GAP / size[0], "bottom": 0, "top": 1 - above / size[1]}
    gaps = {"wspace": GAP / width, "hspace": above / height}
    figure, axes = subplots(
        rows, columns, layout=None, figsize=size, squeeze=False, gridspec_kw=edges | gaps
    )
    for axis in axes.flat:
        axis.set_axis_off()
    return figure, axes


def _begun(axis: Axes, title: str) -> Axes:
    write(axis.set_title, title, fontsize=9, pad=4)
    return axis


def _frame(axis: Axes, boxes: Sequence[tuple[float, float, float, float]]) -> None:
    dark = [withStroke(linewidth=2.6, foreground="black")]  # to be seen on white, too
    for left, top, right, bottom in boxes:
        place = ((left, top), right - left, bottom - top)
        style = {"fill": False, "edgecolor": "white", "linewidth": 1.2, "path_effects": dark}
        axis.add_patch(Rectangle(*place, **style, clip_on=False))
