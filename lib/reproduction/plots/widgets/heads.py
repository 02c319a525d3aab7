"""Layers and heads: what a head looks at, and how far that is what decided.

A picture shows a head, the map beside it and how far they agree. With the maps of many methods, it
is a method that is chosen and held against a head. Images, layers and heads are counted from 1 in
all that is shown or chosen, as in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from torch import Tensor, nn

from relevit.attribution import patch_grid, to_heatmap
from relevit.iav.scores import class_attention
from relevit.models.spec import ModelSpec
from reproduction.heads.measure import Explanation
from reproduction.plots.style import INK
from reproduction.plots.widgets.explorer import Explorer, choice, show_image, slider, strip

SCALE = "cividis"  # of the scores; the heatmaps are in inferno on grey
Images = UInt8[Tensor, "images 3 size size"]


def method_explorer(
    model: nn.Module,
    spec: ModelSpec,
    images: Images,
    maps: Mapping[str, Float[Tensor, "images patches"]],
    titles: Sequence[str] | None = None,
) -> HeadExplorer:
    """A widget to choose an image, a method, a layer and a head, and to see the two maps.

    `maps` are those of each method, as `measures.shared_maps` gives them; a map that is NaN, as
    some methods publish it, is shown as empty. The number is the cosine of the head's attention
    with what is above 0 in the map. Runs the model once.
    """
    device = next(model.parameters()).device
    pixels = spec.normalise(images.to(device))
    attention = class_attention(model, pixels).float().cpu()
    whole = {name: values.float().nan_to_num().cpu() for name, values in maps.items()}
    view = Explanation(attention, whole, patch_grid(model, pixels))
    return HeadExplorer(images, {spec.name: view}, titles, score="cosine")


class HeadExplorer(Explorer):
    """A widget to choose model, map, image, layer and head, and to see what belongs to them.

    `views` has one entry a model; `titles` names the images, for example by their class; `score`
    says what the views' scores are. It begins at a `layer`, by default the last, which is nearest
    to the answer, and a `head`. `model`, `map_name`, `image`, `layer` and `head` are the controls.
    """

    def __init__(
        self,
        images: Images,
        views: Mapping[str, Explanation],
        titles: Sequence[str] | None = None,
        *,
        score: str = "IA-score",
        layer: int | None = None,
        head: int = 1,
    ) -> None:
        self._images, self._views, self._titles = images, dict(views), titles
        self._score = score
        view = next(iter(views.values()))
        _, layers, heads, _ = view.attention.shape
        self.model = choice("model", list(views))
        self.map_name = choice("map", list(view.maps))
        self.image = slider("image", 1, len(images))
        self.layer = slider("layer", layer or layers, layers)
        self.head = slider("head", head, heads)
        controls = [self.model, self.map_name, self.image, self.layer, self.head]
        super().__init__(controls[len(views) == 1 :])

    def look(self) -> tuple[Figure, str]:
        """The head that is chosen, and its score."""
        view, name = self._views[self.model.value], self.map_name.value
        index, layer, head = (c.value - 1 for c in (self.image, self.layer, self.head))
        title = f"image {index + 1}" + (f": {self._titles[index]}" if self._titles else "")
        image, place = self._images[index], f"layer {layer + 1}, head {head + 1}"
        pair = torch.stack([view.maps[name][index], view.attention[index, layer, head]])
        heats = to_heatmap(pair.detach().float().cpu(), tuple(image.shape[-2:]), view.grid)[:, 0]
        scores = view.scores(name)[index].detach().float().cpu()
        figure, axes = strip(2.3, *[(0.08, 2.3)] * 3, (0.5, 2.6))
        show_image(axes[0], image, title)
        show_image(axes[1], image, name, heat=heats[0])
        show_image(axes[2], image, f"attention, {place}", heat=heats[1])
        said = f"{self._score} {float(scores[layer, head]):.2f}"
        _show_scores(axes[3], scores, layer, head, said)
        within = f"{float(scores[layer].min()):.2f} to {float(scores[layer].max()):.2f}"
        words = f"{self.model.value}, {title}, {name}: {place}, {said} (this layer: {within})"
        return figure, words

    def _change(self, change: Any = None) -> None:
        """Let the controls follow another model's maps, layers and heads before all is drawn."""
        if change is None or change.owner is not self.model or self._waiting:
            return super()._change(change)
        view, before = self._views[self.model.value], self.map_name.value
        with self.together():
            self.map_name.options = list(view.maps)
            if before in view.maps:
                self.map_name.value = before
            _, self.layer.max, self.head.max, _ = view.attention.shape


def _show_scores(
    axis: Axes, scores: Float[Tensor, "layers heads"], layer: int, head: int, title: str
) -> None:
    """The scores of all heads from 0 (dark) to 1 (yellow), this one marked."""
    layers, heads = scores.shape
    extent = (0.5, heads + 0.5, layers + 0.5, 0.5)
    axis.imshow(scores.numpy(), SCALE, vmin=0, vmax=1, aspect="auto", extent=extent)
    mark = Rectangle((head + 0.5, layer + 0.5), 1, 1, fill=False, color=INK, lw=2.5)
    mark.set_path_effects([withStroke(linewidth=4.5, foreground="white")])
    axis.add_patch(mark)
    axis.set_title(f"{title} (dark 0, yellow 1)", fontsize=9, pad=3)
    axis.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axis.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axis.tick_params(labelsize=8, pad=1, length=0)
    box = axis.get_position()
    axis.set_position((box.x0, box.y0 + 0.13, box.width, box.height - 0.13))
    axis.set_xlabel("head", fontsize=8, labelpad=0)
    axis.set_ylabel("layer", fontsize=8, labelpad=1)
