"""Layers and heads: what a head looks at, and how far that is what decided.

A picture shows a head, the map beside it and how far they agree. Images, layers and heads are
counted from 1 in all that is shown or chosen, as in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float, UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from relevit.attribution import to_heatmap
from reproduction.heads.measure import Explanation
from reproduction.plots.style import INK
from reproduction.plots.widgets.explorer import Explorer, choice, show_image, slider, strip

SCALE = "cividis"  # of the scores; the heatmaps are in inferno on grey
Images = UInt8[Tensor, "images 3 size size"]


def head_explorer(
    images: Images,
    views: Mapping[str, Explanation],
    titles: Sequence[str] | None = None,
    *,
    layer: int | None = None,
    head: int = 1,
) -> Explorer:
    """A widget to choose a model's map, an image, a layer and a head, and to see what they share.

    `views` has one entry a model; `titles` names the images, for example by their class. It begins
    at a `layer`, by default the last, which is nearest to the answer, and a `head`. Of a model with
    fewer layers or heads the last one is shown.
    """
    seen = {
        f"{model}: {name}" if len(views) > 1 else name: (model, name)
        for model, view in views.items()
        for name in view.maps
    }

    def draw(view: str, image: int, layer: int, head: int) -> tuple[Figure, str]:
        model, name = seen[view]
        found, index = views[model], image - 1
        _, layers, heads, _ = found.attention.shape
        layer, head = min(layer, layers), min(head, heads)
        title = f"image {image}" + (f": {titles[index]}" if titles else "")
        pixels, place = images[index], f"layer {layer}, head {head}"
        pair = torch.stack([found.maps[name][index], found.attention[index, layer - 1, head - 1]])
        heats = to_heatmap(pair.detach().float().cpu(), tuple(pixels.shape[-2:]), found.grid)[:, 0]
        scores = found.scores(name)[index].detach().float().cpu()
        figure, axes = strip(2.3, *[(0.08, 2.3)] * 3, (0.5, 2.6))
        show_image(axes[0], pixels, title)
        show_image(axes[1], pixels, view, heat=heats[0])
        show_image(axes[2], pixels, f"attention, {place}", heat=heats[1])
        said = f"IA-score {float(scores[layer - 1, head - 1]):.2f}"
        _show_scores(axes[3], scores, layer, head, said)
        within = f"{float(scores[layer - 1].min()):.2f} to {float(scores[layer - 1].max()):.2f}"
        return figure, f"{model}, {title}, {name}: {place}, {said} (this layer: {within})"

    shapes = [view.attention.shape for view in views.values()]
    last = {"layer": max(shape[1] for shape in shapes), "head": max(shape[2] for shape in shapes)}
    return Explorer(
        draw,
        view=choice("map", list(seen)),
        image=slider("image", 1, len(images)),
        layer=slider("layer", layer or shapes[0][1], last["layer"]),
        head=slider("head", head, last["head"]),
    )


def _show_scores(
    axis: Axes, scores: Float[Tensor, "layers heads"], layer: int, head: int, title: str
) -> None:
    """The scores of all heads from 0 (dark) to 1 (yellow), this one marked."""
    layers, heads = scores.shape
    extent = (0.5, heads + 0.5, layers + 0.5, 0.5)
    axis.imshow(scores.numpy(), SCALE, vmin=0, vmax=1, aspect="auto", extent=extent)
    mark = Rectangle((head - 0.5, layer - 0.5), 1, 1, fill=False, color=INK, lw=2.5)
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
