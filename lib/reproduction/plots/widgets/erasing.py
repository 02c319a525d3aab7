"""Erasing with a slider: what a map calls relevant goes first, and the answer is watched."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import torch
from jaxtyping import Float, UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from relevit.attribution import patch_grid, to_heatmap
from relevit.choices.words import Fill
from relevit.data.batch import Batch
from relevit.evaluate.perturbation import Direction, erase, erased_parts, erasing_ranks
from relevit.models.answers import probabilities
from relevit.models.spec import ModelSpec
from reproduction.plots.style import FAINT, INK, method_colour, named, write
from reproduction.plots.widgets.explorer import Explorer, choice, show_image, slider, strip

STEP = 5  # percent of the image, between two places of the slider
SHARES = tuple(range(0, 100, STEP))
BEGIN = 20  # percent erased at the start
ORDERS: dict[str, Direction] = {
    "most relevant first": "positive",
    "least relevant first": "negative",
}


def erasing_explorer(
    model: nn.Module,
    spec: ModelSpec,
    batch: Batch,
    maps: Mapping[str, Float[Tensor, "images patches"]],
    classes: tuple[str, ...],
    *,
    fill: Fill = "black",
) -> Explorer:
    """A widget to erase an image by a map, and to see the answer's probability fall.

    `maps` has one map an image for each method, GAE's being shown first where it is there. Patches
    become black or the mean colour (`fill`, as in `Erasing`). The answer that is watched is the one
    to the whole image. Both orders of an image are answered at once and kept, so that the slider
    only draws.
    """
    grid = patch_grid(model, batch.images)
    mean = 255 * torch.tensor(spec.mean)[:, None, None] * (fill != "black")

    def erased(place: int, method: str, order: str) -> UInt8[Tensor, "steps 3 height width"]:
        """The image at every share."""
        ranks = erasing_ranks(maps[method][place : place + 1].float().cpu(), ORDERS[order])
        counts = torch.tensor([erased_parts(ranks.shape[1], share) for share in SHARES])
        hidden = (ranks < counts[:, None]).unflatten(1, grid)
        image = batch.images[place].float().expand(len(SHARES), -1, -1, -1)
        return erase(image, hidden, mean.expand_as(image[:1]), grid).round().to(torch.uint8)

    @cache
    def answers(place: int, method: str, order: str) -> Float[Tensor, "steps classes"]:
        pixels = spec.normalise(erased(place, method, order))
        with torch.no_grad():
            logits = model(pixels.to(next(model.parameters()).device))
        return probabilities(logits.float()).cpu()

    def draw(image: int, method: str, order: str, share: int) -> tuple[Figure, str]:
        place, step = image - 1, SHARES.index(share)
        curves = {name: answers(place, method, name) for name in ORDERS}
        watched, pixels = int(curves[order][0].argmax()), batch.images[place]
        relevance = maps[method][place : place + 1].float().nan_to_num().cpu()
        heat = to_heatmap(relevance, tuple(pixels.shape[-2:]), grid)[0, 0]
        label = int(batch.labels[place])
        figure, axes = strip(2.1, *[(0.08, 2.1)] * 3, (0.4, 3.2))
        name = classes[label] if label >= 0 else "unknown"
        show_image(axes[0], pixels, f"image {image}: {name}")
        show_image(axes[1], pixels, named(method), heat=heat)
        show_image(axes[2], erased(place, method, order)[step], f"{share} % erased")
        shown = {name: 100 * found[:, watched] for name, found in curves.items()}
        _show_curves(axes[3], shown, order, step, method_colour(method))
        write(axes[3].set_title, f"probability of {classes[watched]} (%)", fontsize=9, pad=3)
        there = f"{named(method)}, {order}, {share} % erased: "
        return figure, there + _words(curves[order], watched, step, classes)

    return Explorer(
        draw,
        image=slider("image", 1, len(batch)),
        method=choice("method", list(maps), "gae" if "gae" in maps else None),
        order=choice("order", list(ORDERS)),
        share=slider("erased (%)", BEGIN, SHARES[-1], min=0, step=STEP, continuous_update=True),
    )


def _show_curves(
    axis: Axes, curves: Mapping[str, Tensor], order: str, step: int, colour: str
) -> None:
    """The watched answer's probability by share, in both orders; a dot where the slider is."""
    for name, values in curves.items():
        axis.plot(SHARES, values, label=name, color=colour if name == order else FAINT, lw=2)
    axis.plot([SHARES[step]], [float(curves[order][step])], "o", color=INK, markersize=8)
    axis.set(xlim=(-3, 100), ylim=(-4, 104))
    axis.set(xticks=range(0, 101, 25), yticks=range(0, 101, 25))
    axis.grid(True)
    box = axis.get_position()
    axis.set_position((box.x0, box.y0 + 0.15, box.width - 0.015, box.height - 0.15))
    axis.tick_params(labelsize=8)
    axis.set_xlabel("erased (%)", fontsize=8)
    axis.legend(fontsize=7.5, frameon=False)


def _words(shares: Tensor, watched: int, step: int, classes: tuple[str, ...]) -> str:
    now = int(shares[step].argmax())
    changed = f"is now {classes[now]} ({100 * float(shares[step, now]):.0f} %)."
    return (
        f"{classes[watched]} has {100 * float(shares[step, watched]):.0f} % "
        f"(whole image: {100 * float(shares[0, watched]):.0f} %); the answer "
        + ("stays." if now == watched else changed)
    )
