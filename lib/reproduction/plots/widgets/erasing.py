"""Erasing with a slider: what a map calls relevant goes first, and the answer is watched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from relevit.attribution import patch_grid, to_heatmap
from relevit.choices.words import Fill
from relevit.data.batch import Batch
from relevit.evaluate.perturbation import Direction, erase, erased_parts, erasing_ranks
from relevit.models.answers import probabilities
from relevit.models.spec import ModelSpec
from reproduction.plots.style import FAINT, INK, method_colour, write
from reproduction.plots.widgets.explorer import Explorer, choice, show_image, slider, strip

STEP = 5  # percent of the image, between two places of the slider
SHARES = tuple(range(0, 100, STEP))
FIRST = 20  # percent erased at the start
ORDERS: dict[str, Direction] = {
    "most relevant first": "positive",
    "least relevant first": "negative",
}


class ErasingExplorer(Explorer):
    """A widget to erase an image by a map, and to see the answer's probability fall.

    `maps` has one map an image for each method, GAE's being shown first where it is there. Patches
    become black or the mean colour (`fill`, as in `Erasing`). The answer that is watched is the one
    to the whole image. Both orders of an image are answered at once and kept, so that the slider
    only draws. `image`, `method`, `order` and `share` are the controls.
    Raises: ValueError without a method, or for other numbers of maps than of images.
    """

    def __init__(
        self,
        model: nn.Module,
        spec: ModelSpec,
        batch: Batch,
        maps: Mapping[str, Float[Tensor, "images patches"]],
        classes: tuple[str, ...],
        *,
        fill: Fill = "black",
    ) -> None:
        counts = {name: len(values) for name, values in maps.items()}
        if set(counts.values()) != {len(batch)}:
            raise ValueError(
                f"erasing_explorer: {len(batch)} images and maps {counts}; give one map an image "
                "for each method, at least one"
            )
        self._model, self._spec, self._batch, self._classes = model, spec, batch, classes
        self._maps, self._fill = dict(maps), fill
        self._grid = patch_grid(model, batch.images)
        self._answered: dict[tuple, Tensor] = {}
        self.image = slider("image", 1, len(batch))
        self.method = choice("method", list(maps), "gae" if "gae" in maps else None)
        self.order = choice("order", list(ORDERS))
        steps = {"min": 0, "step": STEP, "continuous_update": True}
        self.share = slider("erased (%)", FIRST, SHARES[-1], **steps)
        super().__init__([self.image, self.method, self.order, self.share])

    def look(self) -> tuple[Figure, str]:
        """The image with that much of it erased, and the answer's way down."""
        place, step = self.image.value - 1, SHARES.index(self.share.value)
        image = self._batch.images[place]
        curves = {name: self._answers(place, name) for name in ORDERS}
        shares = curves[self.order.value]
        watched = int(shares[0].argmax())
        relevance = self._maps[self.method.value][place : place + 1].float().nan_to_num().cpu()
        figure, axes = strip(2.1, *[(0.08, 2.1)] * 3, (0.4, 3.2))
        show_image(axes[0], image, f"image {place + 1}: {self._name(place)}")
        heat = to_heatmap(relevance, tuple(image.shape[-2:]), self._grid)[0, 0]
        show_image(axes[1], image, self.method.value, heat=heat)
        show_image(axes[2], self._shown(place, step), f"{SHARES[step]} % erased")
        self._show_curves(axes[3], curves, watched, step)
        return figure, self._words(shares, watched, step)

    def _erased(self, place: int, order: str, steps: list[int]) -> tuple[Tensor, Tensor]:
        """Which patches are hidden at each of the steps, on their grid, and as many images."""
        relevance = self._maps[self.method.value][place : place + 1].float().cpu()
        ranks = erasing_ranks(relevance, ORDERS[order])
        counts = [erased_parts(ranks.shape[1], SHARES[step]) for step in steps]
        hidden = (ranks < torch.tensor(counts)[:, None]).unflatten(1, self._grid)
        return hidden, self._batch.images[place : place + 1].expand(len(steps), -1, -1, -1)

    def _answers(self, place: int, order: str) -> Float[Tensor, "steps classes"]:
        """The softmax at every share, asked for once."""
        key = (place, self.method.value, order)
        if key not in self._answered:
            hidden, image = self._erased(place, order, list(range(len(SHARES))))
            pixels = self._spec.normalise(image)
            colour = torch.zeros_like(pixels[:1])
            if self._fill == "black":
                colour = self._spec.normalise(torch.zeros_like(image[:1]))
            device = next(self._model.parameters()).device
            with torch.no_grad():
                logits = self._model(erase(pixels, hidden, colour, self._grid).to(device))
            self._answered[key] = probabilities(logits.float()).cpu()
        return self._answered[key]

    def _shown(self, place: int, step: int) -> Tensor:
        """The image as bytes, with what is hidden in the colour that it gets."""
        hidden, image = self._erased(place, self.order.value, [step])
        colour = torch.zeros(image.shape)
        if self._fill != "black":
            colour += 255 * torch.tensor(self._spec.mean)[:, None, None]
        return erase(image.float(), hidden, colour, self._grid).round().to(torch.uint8)[0]

    def _show_curves(self, axis: Axes, curves: dict[str, Tensor], watched: int, step: int) -> None:
        """The watched answer's probability by share, in both orders; a dot where the slider is."""
        colour = method_colour(self.method.value)
        for order, shares in curves.items():
            chosen = order == self.order.value
            style: dict[str, Any] = {"color": colour if chosen else FAINT, "lw": 2}
            axis.plot(SHARES, 100 * shares[:, watched], label=order, **style)
        here = 100 * float(curves[self.order.value][step, watched])
        axis.plot([SHARES[step]], [here], "o", color=INK, markersize=8)
        axis.set(xlim=(-3, 100), ylim=(-4, 104), xlabel="erased (%)")
        axis.set(xticks=range(0, 101, 25), yticks=range(0, 101, 25))
        axis.grid(True)
        box = axis.get_position()
        axis.set_position((box.x0, box.y0 + 0.15, box.width - 0.015, box.height - 0.15))
        write(axis.set_title, f"probability of {self._classes[watched]} (%)", fontsize=9, pad=3)
        axis.tick_params(labelsize=8)
        axis.xaxis.label.set_fontsize(8)
        axis.legend(fontsize=7.5, frameon=False)

    def _words(self, shares: Tensor, watched: int, step: int) -> str:
        now = int(shares[step].argmax())
        changed = f"now {self._classes[now]} ({100 * float(shares[step, now]):.0f} %)"
        return (
            f"{self.method.value}, {self.order.value}, {SHARES[step]} % erased: "
            f"{self._classes[watched]} has {100 * float(shares[step, watched]):.0f} % "
            f"(whole image: {100 * float(shares[0, watched]):.0f} %); the answer "
            + ("stays." if now == watched else f"is {changed}.")
        )

    def _name(self, place: int) -> str:
        label = int(self._batch.labels[place])
        return self._classes[label] if label >= 0 else "unknown"
