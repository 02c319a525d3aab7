"""The explorer of layers and heads: what a head looks at, and how far that is what decided.

One figure shows a head, the map beside it and how far they agree; a widget chooses the head. With
the maps of many methods, it is a method that is chosen and held against a head.

Images, layers and heads are counted from 1 in all that is shown or chosen, as in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ipywidgets
import numpy as np
import torch
from jaxtyping import Float, UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from torch import Tensor, nn

from relevit.attribution import patch_grid, to_heatmap
from relevit.iav.measure import Explanation
from relevit.iav.scores import class_attention
from relevit.models.spec import ModelSpec
from relevit.plots.style import DPI, GREY, HEAT, INK
from relevit.plots.widgets.explorer import Explorer, slider, title_of

SCALE = "cividis"  # of the scores; the heatmaps are in inferno on grey


@dataclass(frozen=True)
class Choice:
    """What is shown: one head for one image, held against one map. Numbers count from 1."""

    model: str
    map_name: str
    image: int
    layer: int
    head: int

    @property
    def place(self) -> tuple[int, int, int]:
        """Image, layer and head as indices of a tensor."""
        return self.image - 1, self.layer - 1, self.head - 1


def head_explorer(
    images: UInt8[Tensor, "images 3 size size"],
    views: Mapping[str, Explanation],
    titles: Sequence[str] | None = None,
    *,
    score: str = "IA-score",
) -> HeadExplorer:
    """A widget to choose model, map, image, layer and head, and to see what belongs to them.

    `views` has one entry a model; `titles` names the images, for example by their class; `score`
    says what the views' scores are.
    Raises: ValueError for no view, images that are not uint8 [images, 3, size, size], or
    numbers of images that differ.
    """
    check_views("head_explorer", images, views, titles)
    return HeadExplorer(images, views, titles, score)


def method_explorer(
    model: nn.Module,
    spec: ModelSpec,
    images: UInt8[Tensor, "images 3 size size"],
    maps: Mapping[str, Float[Tensor, "images patches"]],
    titles: Sequence[str] | None = None,
) -> HeadExplorer:
    """A widget to choose an image, a method, a layer and a head, and to see the two maps.

    `maps` are those of each method, as `evaluate.shared_maps` gives them; a map that is NaN, as
    some methods publish it, is shown as empty. The number is the cosine of the head's attention
    with what is above 0 in the map. Runs the model once.
    Raises: ValueError as `head_explorer`.
    """
    device = next(model.parameters()).device
    pixels = spec.normalise(images.to(device))
    attention = class_attention(model, pixels).float().cpu()
    whole = {name: values.float().nan_to_num().cpu() for name, values in maps.items()}
    view = Explanation(attention, whole, patch_grid(model, pixels))
    return head_explorer(images, {spec.name: view}, titles, score="cosine")


class HeadExplorer(Explorer):
    """Controls, the picture, and its state in words; made by `head_explorer`.

    `model`, `map_name`, `image`, `layer` and `head` are the controls.
    """

    def __init__(
        self,
        images: UInt8[Tensor, "images 3 size size"],
        views: Mapping[str, Explanation],
        titles: Sequence[str] | None,
        score: str,
    ) -> None:
        self._images, self._views, self._titles = images, dict(views), titles
        self._painter, self._score = HeadPicture(images.shape[-1], score), score
        view = next(iter(views.values()))
        _, layers, heads, _ = view.attention.shape
        self.model = ipywidgets.Dropdown(options=list(views), description="model")
        self.map_name = ipywidgets.Dropdown(options=list(view.maps), description="map")
        self.image = slider("image", 1, len(images))
        self.layer = slider("layer", layers, layers)  # the last one is nearest to the answer
        self.head = slider("head", 1, heads)
        chosen = [self.map_name, self.image, self.layer, self.head]
        super().__init__([self.model, *chosen] if len(views) > 1 else chosen)

    @property
    def choice(self) -> Choice:
        """What the controls say."""
        numbers = (self.image.value, self.layer.value, self.head.value)
        return Choice(self.model.value, self.map_name.value, *numbers)

    def look(self) -> tuple[Figure, str]:
        """The head that is chosen, and its score."""
        choice = self.choice
        view, title = self._views[choice.model], title_of(self._titles, choice.image)
        self._painter.show(self._images, view, choice, title)
        return self._painter.figure, _in_words(view, choice, title, self._score)

    def _change(self, change: Any = None) -> None:
        """Let the controls follow another model's maps, layers and heads before all is drawn."""
        if change is None or change.owner is not self.model:
            return super()._change(change)
        view, before = self._views[self.model.value], self.map_name.value
        with self.together():
            self.map_name.options = list(view.maps)
            if before in view.maps:
                self.map_name.value = before
            _, self.layer.max, self.head.max, _ = view.attention.shape


def explorer_picture(
    images: UInt8[Tensor, "images 3 size size"],
    views: Mapping[str, Explanation],
    titles: Sequence[str] | None = None,
    *,
    layer: int,
    head: int,
    image: int = 1,
    model: str | None = None,
    map_name: str | None = None,
) -> Figure:
    """What the explorer shows for one choice, as a figure: for pages where no widget runs.

    Without a name, the first model and its first map are taken.
    Raises: ValueError as `head_explorer`, and for a choice that does not exist.
    """
    check_views("explorer_picture", images, views, titles)
    model = next(iter(views)) if model is None else model
    _need("model", model, list(views))
    view = views[model]
    map_name = next(iter(view.maps)) if map_name is None else map_name
    _need("map", map_name, list(view.maps))
    choice = Choice(model, map_name, image, layer, head)
    for name, value, last in zip(
        ("image", "layer", "head"), (image, layer, head), view.attention.shape[:3], strict=True
    ):
        _need(name, value, range(1, last + 1))
    picture = HeadPicture(images.shape[-1])
    picture.show(images, view, choice, title_of(titles, image))
    return picture.figure


class HeadPicture:
    """One figure whose contents are exchanged: several times faster than to draw it anew.

    From left to right: the image, the map and the attention laid over it, the score on the
    scale of colours, and the scores of all heads with this one marked.
    """

    def __init__(self, size: int, score: str = "IA-score") -> None:
        """Lay out the parts for square images of `size` pixels a side; `score` names the number."""
        self._score = score
        # Not by pyplot, which would keep the figure and show it a second time.
        self.figure = Figure(figsize=(11.2, 2.8), dpi=DPI)
        lefts = (0.008, 0.218, 0.428)
        self.pictures = [self.figure.add_axes((x, 0.03, 0.2, 0.8)) for x in lefts]
        blank = np.zeros((size, size))
        for axis in self.pictures:
            axis.set_axis_off()
        self._image = self.pictures[0].imshow(np.zeros((size, size, 3), np.uint8))
        self._grey = [axis.imshow(blank, **GREY) for axis in self.pictures[1:]]
        self._heat = [axis.imshow(blank, **HEAT) for axis in self.pictures[1:]]
        self.scale = self.figure.add_axes((0.683, 0.16, 0.016, 0.6))
        self._draw_scale()
        self.grid = self.figure.add_axes((0.777, 0.16, 0.215, 0.67))
        self._cells = self.grid.imshow(np.zeros((1, 1)), SCALE, vmin=0, vmax=1, aspect="auto")
        self.mark = self.grid.add_patch(Rectangle((0, 0), 1, 1, fill=False, color=INK, lw=2.5))
        self.mark.set_path_effects([withStroke(linewidth=4.5, foreground="white")])
        _plain(self.grid)
        self.grid.set_xlabel("head", fontsize=9, labelpad=1)
        self.grid.set_ylabel("layer", fontsize=9, labelpad=2)

    def show(
        self,
        images: UInt8[Tensor, "images 3 size size"],
        view: Explanation,
        choice: Choice,
        title: str,
    ) -> None:
        """Exchange the contents for those of `choice`; `title` names the image."""
        index, layer, head = choice.place
        picture = images[index].permute(1, 2, 0).cpu().numpy()
        self._image.set_data(picture)
        pair = (view.maps[choice.map_name][index], view.attention[index, layer, head])
        maps = torch.stack([values.detach().float().cpu() for values in pair])
        heatmaps = to_heatmap(maps, picture.shape[:2], view.grid)[:, 0].numpy()
        for grey, heat, heatmap in zip(self._grey, self._heat, heatmaps, strict=True):
            grey.set_data(picture.mean(axis=2))
            heat.set_data(heatmap)
        names = (title, choice.map_name, f"attention, layer {choice.layer}, head {choice.head}")
        for axis, name in zip(self.pictures, names, strict=True):
            axis.set_title(name, fontsize=10, pad=5)
        scores = view.scores(choice.map_name)[index].detach().float().cpu().numpy()
        self._show_scores(scores, choice)

    def _draw_scale(self) -> None:
        """The scale of colours of the grid, and on it the line for this head's score."""
        _plain(self.scale)
        steps = np.linspace(0, 1, 128)[:, None]
        options = {"origin": "lower", "extent": (0, 1, 0, 1), "aspect": "auto"}
        self.scale.imshow(steps, SCALE, vmin=0, vmax=1, **options)
        self.scale.set(xticks=[], yticks=[0, 0.5, 1])
        (self._pointer,) = self.scale.plot(
            [1.35], [0], marker="<", markersize=9, color=INK, clip_on=False
        )
        self.scale.set(xlim=(0, 1), ylim=(0, 1))

    def _show_scores(self, scores: Float[np.ndarray, "layers heads"], choice: Choice) -> None:
        """The grid of all scores, one of them marked and written at the scale."""
        layers, heads = scores.shape
        self._cells.set_data(scores)
        self._cells.set_extent((0.5, heads + 0.5, layers + 0.5, 0.5))
        self.grid.set(xticks=_ticks(heads), yticks=_ticks(layers))
        self.mark.set_xy((choice.head - 0.5, choice.layer - 0.5))
        self.grid.set_title(f"{self._score}, {choice.model}", fontsize=10, pad=5)
        score = float(scores[choice.layer - 1, choice.head - 1])
        self._pointer.set_ydata([score])
        self.scale.set_title(f"{self._score}\n{score:.2f}", fontsize=11, pad=6, fontweight="bold")


def check_views(
    where: str, images: Tensor, views: Mapping[str, Explanation], titles: Sequence[str] | None
) -> None:
    """Raises: ValueError, named after `where`, as `head_explorer` says."""
    if not views:
        raise ValueError(f"{where}: no view; one model at least is needed; give its Explanation")
    square = images.ndim == 4 and images.shape[1] == 3 and images.shape[2] == images.shape[3]
    if images.dtype != torch.uint8 or not square:
        raise ValueError(
            f"{where}: images of {images.dtype} and shape {list(images.shape)}; uint8 "
            "[images, 3, size, size] is needed; give them as they are before normalisation"
        )
    counts = {f"view of {name!r}": len(view.attention) for name, view in views.items()}
    if titles is not None:
        counts["titles"] = len(titles)
    for name, count in counts.items():
        if count != len(images):
            raise ValueError(f"{where}: {len(images)} images, but {name}: {count}; give one each")


def _need(name: str, value: Any, known: Sequence[Any]) -> None:
    if value not in known:
        text = f"{known[0]} to {known[-1]}" if isinstance(known, range) else f"one of {known}"
        raise ValueError(f"explorer_picture: {name} {value!r} is not there; give {text}")


def _ticks(count: int) -> list[int]:
    """The first number and about six more, so that a small grid has room for them."""
    step = -(-count // 6)
    return sorted({1, *range(step, count + 1, step)})


def _plain(axis: Axes) -> None:
    """No lines across a picture, whatever style the notebook has set."""
    axis.grid(False)
    axis.tick_params(length=0, labelsize=8, pad=2)


def _in_words(view: Explanation, choice: Choice, title: str, score: str) -> str:
    """The state of the explorer as a sentence."""
    index, layer, head = choice.place
    scores = view.scores(choice.map_name)[index, layer].detach()
    return (
        f"{choice.model}, {title}, {choice.map_name}: layer {choice.layer}, head {choice.head}, "
        f"{score} {float(scores[head]):.2f} "
        f"(heads of this layer: {float(scores.min()):.2f} to {float(scores.max()):.2f})"
    )
