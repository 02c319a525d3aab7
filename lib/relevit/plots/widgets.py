"""An explorer of layers and heads: what a head looks at, and how far that is what decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import ipywidgets
from jaxtyping import UInt8
from torch import Tensor

from relevit.plots.heads import (
    Choice,
    HeadPicture,
    HeadView,
    check_views,
    explorer_picture,
    title_of,
)

__all__ = ["HeadExplorer", "HeadView", "explorer_picture", "head_explorer"]


def head_explorer(
    images: UInt8[Tensor, "images 3 size size"],
    views: Mapping[str, HeadView],
    titles: Sequence[str] | None = None,
) -> HeadExplorer:
    """A widget to choose model, map, image, layer and head, and to see what belongs to them.

    `views` has one entry a model; `titles` names the images, for example by their class.
    Raises: ValueError for no view, images that are not uint8 [images, 3, size, size], or
    numbers of images that differ.
    """
    check_views("head_explorer", images, views, titles)
    return HeadExplorer(images, views, titles)


class HeadExplorer(ipywidgets.VBox):
    """Controls, the picture, and its state in words; made by `head_explorer`.

    `model`, `map_name`, `image`, `layer` and `head` are the controls, `picture` is the PNG and
    `state` the text, for those who cannot see the picture too.
    """

    def __init__(
        self,
        images: UInt8[Tensor, "images 3 size size"],
        views: Mapping[str, HeadView],
        titles: Sequence[str] | None,
    ) -> None:
        self._images, self._views, self._titles = images, dict(views), titles
        self._painter = HeadPicture(images.shape[-1])
        view = next(iter(views.values()))
        _, layers, heads, _ = view.attention.shape
        self.model = ipywidgets.Dropdown(options=list(views), description="model")
        self.map_name = ipywidgets.Dropdown(options=list(view.scores), description="map")
        self.image = _slider("image", 1, len(images))
        self.layer = _slider("layer", layers, layers)  # the last one is nearest to the answer
        self.head = _slider("head", 1, heads)
        self.picture = ipywidgets.Image(format="png", layout={"max_width": "100%"})
        self.state = ipywidgets.HTML()
        chosen = [self.map_name, self.image, self.layer, self.head]
        shown = [self.model, *chosen] if len(views) > 1 else chosen
        row = ipywidgets.HBox(shown, layout={"flex_flow": "row wrap"})
        super().__init__([row, self.state, self.picture])
        self.model.observe(self._change_model, names="value")
        for control in chosen:
            control.observe(self._draw, names="value")
        self._settled = True
        self._draw()

    @property
    def choice(self) -> Choice:
        """What the controls say."""
        numbers = (self.image.value, self.layer.value, self.head.value)
        return Choice(self.model.value, self.map_name.value, *numbers)

    def _change_model(self, _change: Any) -> None:
        """Let the controls follow the model's maps, layers and heads, then draw once."""
        view, before = self._views[self.model.value], self.map_name.value
        self._settled = False  # in between, the controls may name a head that does not exist
        self.map_name.options = list(view.scores)
        if before in view.scores:
            self.map_name.value = before
        _, self.layer.max, self.head.max, _ = view.attention.shape
        self._settled = True
        self._draw()

    def _draw(self, _change: Any = None) -> None:
        """Picture and text for what is chosen."""
        if not self._settled:
            return
        choice = self.choice
        view, title = self._views[choice.model], title_of(self._titles, choice.image)
        self._painter.show(self._images, view, choice, title)
        self.picture.value = self._painter.png()
        text = _in_words(view, choice, title)
        self.state.value = f'<span role="status">{escape(text)}</span>'


def _in_words(view: HeadView, choice: Choice, title: str) -> str:
    """The state of the explorer as a sentence."""
    index, layer, head = choice.place
    scores = view.scores[choice.map_name][index, layer].detach()
    return (
        f"{choice.model}, {title}, {choice.map_name}: layer {choice.layer}, head {choice.head}, "
        f"IA-score {float(scores[head]):.2f} "
        f"(heads of this layer: {float(scores.min()):.2f} to {float(scores.max()):.2f})"
    )


def _slider(name: str, value: int, last: int) -> ipywidgets.IntSlider:
    """From 1 to `last`; draws when the hand lets go, not for each number on the way."""
    return ipywidgets.IntSlider(value, min=1, max=last, description=name, continuous_update=False)
