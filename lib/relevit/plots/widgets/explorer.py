"""What all widgets share: controls in a row, a sentence, a picture, and a page without a kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from io import BytesIO
from typing import Any

import ipywidgets
from IPython.display import Image, display
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from torch import Tensor

from relevit.plots.style import DPI, GREY, HEAT

LIVE = "relevit-live"
HEAD, EDGE = 0.34, 0.06  # inches above panels, for their titles, and below and beside them
# The first picture is an output of its own: stored notebooks and pages keep it and lose the widget.
# Where a widget is alive, it brings this rule with it, and the output just before it is not shown.
HIDE = f"<style>.jp-OutputArea-child:has(+ .jp-OutputArea-child .{LIVE}) {{display: none}}</style>"


class Explorer(ipywidgets.VBox):
    """Controls, the picture, and its state in words.

    A subclass makes its controls, hands them over, and says in `look` what belongs to them.
    `picture` is a JPEG and `state` the text, for those who cannot see the picture too.
    """

    def __init__(self, controls: Sequence[ipywidgets.Widget]) -> None:
        """Draw the first state. Raises: as `look`."""
        self.picture = ipywidgets.Image(format="jpeg", layout={"max_width": "100%"})
        self.state = ipywidgets.HTML()
        row = ipywidgets.HBox(list(controls), layout={"flex_flow": "row wrap"})
        hide = ipywidgets.HTML(HIDE, layout={"display": "none"})
        super().__init__([row, self.state, self.picture, hide])
        self.add_class(LIVE)
        self._waiting = False
        for control in controls:
            control.observe(self._change, names="value")
        self._first = self._draw()

    def look(self) -> tuple[Figure, str]:
        """The picture of what the controls say, and a sentence about it.

        Raises: ValueError for what cannot be shown, whose text is shown instead.
        """
        raise NotImplementedError

    @contextmanager
    def together(self) -> Iterator[None]:
        """Change several controls and draw once: in between, they may not go with each other."""
        self._waiting = True
        try:
            yield
        finally:
            self._waiting = False
        self._change()

    def _change(self, _change: Any = None) -> None:
        if self._waiting:
            return
        try:
            self._draw()
        except ValueError as error:  # of a phrase without a known word, say: the picture stays
            self.state.value = f'<span role="alert">✗ {escape(str(error))}</span>'

    def _draw(self) -> tuple[bytes, str]:
        figure, words = self.look()
        drawn = jpeg(figure)
        self.picture.value = drawn
        self.state.value = f'<span role="status">{escape(words)}</span>'
        return drawn, words

    def _ipython_display_(self) -> None:
        picture, words = self._first
        display(Image(picture, format="jpeg", alt=words))
        display(self._repr_mimebundle_(), raw=True)


def jpeg(figure: Figure) -> bytes:
    """The figure as a file: noise textures are several times smaller as JPEG."""
    file = BytesIO()
    FigureCanvasAgg(figure).print_jpg(file, pil_kwargs={"quality": 88})
    return file.getvalue()


def blank(width: float, height: float) -> Figure:
    """A figure of that size in inches, unknown to pyplot, which would show it a second time."""
    return Figure(figsize=(width, height), dpi=DPI)


def strip(height: float, *parts: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    """Panels side by side: of each the gap before it and its width, in inches like the height.

    Placed by hand, which is several times faster than a layout that is computed.
    """
    width = sum(map(sum, parts)) + EDGE
    figure, axes, left = blank(width, height + HEAD + EDGE), [], 0.0
    tall = height / (height + HEAD + EDGE)
    for gap, wide in parts:
        left += gap
        axes.append(
            figure.add_axes((left / width, EDGE / (height + HEAD + EDGE), wide / width, tall))
        )
        left += wide
    return figure, axes


def show_image(axis: Axes, image: Tensor, title: str = "", **style: Any) -> None:
    """An image [3, height, width] of bytes, without ticks or lines."""
    axis.imshow(image.permute(1, 2, 0).cpu().numpy())
    _bare(axis, title, **style)


def show_heat(axis: Axes, image: Tensor, heat: Tensor, title: str = "", **style: Any) -> None:
    """A heatmap [height, width] in [0, 1], laid over the grey image."""
    axis.imshow(image.permute(1, 2, 0).cpu().numpy().mean(axis=2), **GREY)
    axis.imshow(heat.detach().float().cpu().numpy(), **HEAT)
    _bare(axis, title, **style)


def slider(name: str, value: int, last: int) -> ipywidgets.IntSlider:
    """From 1 to `last`; draws when the hand lets go, not for each number on the way."""
    return ipywidgets.IntSlider(value, min=1, max=last, description=name, continuous_update=False)


def title_of(titles: Sequence[str] | None, image: int) -> str:
    """The caption of an image, counted from 1."""
    return f"image {image}" if titles is None else f"image {image}: {titles[image - 1]}"


def _bare(axis: Axes, title: str, **style: Any) -> None:
    axis.set(xticks=[], yticks=[])
    axis.grid(False)
    axis.spines[:].set_visible(False)
    axis.set_title(title, **({"fontsize": 9, "pad": 3} | style))
