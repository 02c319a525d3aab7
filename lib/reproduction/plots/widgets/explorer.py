"""What all widgets share: controls in a row, a sentence, a picture, and a page without a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from io import BytesIO
from typing import Any

import ipywidgets
from IPython.display import Image, display
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from torch import Tensor

from reproduction.plots.images import Tile, bare, draw_tile, pixels_of
from reproduction.plots.style import DPI, SHARP

LIVE = "relevit-live"
HEAD, EDGE = 0.34, 0.06  # inches above panels, for their titles, and below and beside them
# The first picture is an output of its own: stored notebooks and pages keep it and lose the widget.
# Where a widget is alive, it brings this rule with it, and the output just before it is not shown.
HIDE = f"<style>.jp-OutputArea-child:has(+ .jp-OutputArea-child .{LIVE}) {{display: none}}</style>"


class Explorer(ipywidgets.VBox):
    """Controls, the picture, and its state in words.

    `draw` makes a figure and a sentence of the controls' values, which it takes by their names.
    `picture` is a JPEG and `state` the text, for those who cannot see the picture too.
    """

    def __init__(
        self, draw: Callable[..., tuple[Figure, str]], **controls: ipywidgets.Widget
    ) -> None:
        """Draw the first state."""
        self.control, self._of = controls, draw
        self.picture = ipywidgets.Image(format="jpeg", layout={"max_width": "100%"})
        self.state = ipywidgets.HTML()
        row = ipywidgets.HBox(list(controls.values()), layout={"flex_flow": "row wrap"})
        hide = ipywidgets.HTML(HIDE, layout={"display": "none"})
        super().__init__([row, self.state, self.picture, hide])
        self.add_class(LIVE)
        for control in controls.values():
            control.observe(self._draw, names="value")
        self._first = self._draw()

    def look(self) -> tuple[Figure, str]:
        """The picture of what the controls say, and a sentence about it."""
        return self._of(**{name: control.value for name, control in self.control.items()})

    def _draw(self, _change: Any = None) -> dict[str, Any]:
        figure, words = self.look()
        file = BytesIO()
        figure.set_dpi(SHARP * DPI)
        FigureCanvasAgg(figure).print_jpg(file, pil_kwargs={"quality": 82})
        width = round(DPI * figure.get_figwidth())
        self.picture.value, self.picture.width = file.getvalue(), str(width)
        self.state.value = f'<span role="status">{escape(words)}</span>'
        return {"data": file.getvalue(), "width": width, "alt": words}

    def _ipython_display_(self) -> None:
        display(Image(format="jpeg", **self._first))
        display(self._repr_mimebundle_(), raw=True)


def strip(height: float, *parts: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    """Panels side by side: of each the gap before it and its width, in inches like the height.

    Placed by hand, which is several times faster than a layout that is computed; the figure is
    unknown to pyplot, which would show it a second time.
    """
    width, whole = sum(map(sum, parts)) + EDGE, height + HEAD + EDGE
    figure, axes, left = Figure(figsize=(width, whole), dpi=DPI), [], 0.0
    for gap, wide in parts:
        left += gap
        place = (left / width, EDGE / whole, wide / width, height / whole)
        axes.append(bare(figure.add_axes(place)))
        left += wide
    return figure, axes


def show_image(axis: Axes, image: Tensor, title: str = "", **options: Any) -> None:
    """An image [3, height, width] of bytes, with what else a `Tile` has laid over it."""
    draw_tile(axis, Tile(pixels_of(image), title, **options))


def slider(name: str, value: int, last: int, **options: Any) -> ipywidgets.IntSlider:
    """From 1 to `last`; draws when the hand lets go, not for each number on the way."""
    limits = {"min": 1, "max": last, "description": name, "continuous_update": False}
    return ipywidgets.IntSlider(value, **limits | options)


def choice(name: str, options: Sequence, value: Any = None) -> ipywidgets.Dropdown:
    """A list to choose from, the first by default."""
    return ipywidgets.Dropdown(
        options=options, description=name, **{} if value is None else {"value": value}
    )
