"""One step of relevance finetuning by hand: the weights of the losses, and what they do."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import fields, replace

import ipywidgets
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import nn

from relevit.data.batch import Batch
from relevit.finetune.settings import FinetuneSettings
from relevit.finetune.step import StepLosses, make_optimizer, step_losses
from relevit.models.spec import ModelSpec
from reproduction.plots.style import ORIGINAL, OURS
from reproduction.plots.widgets.explorer import Explorer, choice, show_image, slider, strip

TERMS = {"background": "background", "foreground": "foreground", "classification": "class term"}
FASTER = (1, 3, 10, 30)  # times the rate of a run
MOST = 3  # images, so that a step takes a moment


class StepExplorer(Explorer):
    """A widget to weigh the three losses and take one step on a copy of the model.

    It begins with the weights and the rate of `settings`. With the presets `quick` and `workshop`
    that step lowers the background and the class term, and one at ten times the rate raises the
    class term. The losses are those of `batch`, in float32, before the step and after it; the model
    that is given stays as it is. A slider for each of TERMS, `rate` and `image` are the controls.
    Raises: ValueError for a baseline, which has no map, or more than MOST images.
    """

    def __init__(
        self, model: nn.Module, spec: ModelSpec, batch: Batch, settings: FinetuneSettings
    ) -> None:
        if settings.method != "relevance":
            raise ValueError(
                f"step_explorer: {settings.method} trains no relevance map; use method 'relevance'"
            )
        if not 0 < len(batch) <= MOST:
            raise ValueError(
                f"step_explorer: {len(batch)} images; a step shall take a moment: give 1 to {MOST}"
            )
        self._model, self._batch = model, batch
        self._settings = settings.changed(precision="float32")
        device = next(model.parameters()).device
        self._pixels = spec.normalise(batch.images.to(device))
        self._masks = batch.masks.to(device).float()
        self._labels = batch.labels.to(device)
        self._before = _detached(self._losses(model))
        weights = settings.weights
        self.background = _weight("background", weights["background"], 4.0)
        self.foreground = _weight("foreground", weights["foreground"], 4.0)
        self.classification = _weight("class term", weights["classification"], 1.0)
        self.image, self._after = slider("image", 1, len(batch)), {}
        rates = [(f"{settings.lr * times:g} ({times} x the run's)", times) for times in FASTER]
        self.rate = choice("rate", rates)
        controls = [getattr(self, name) for name in (*TERMS, "rate", "image")]
        super().__init__(controls)

    def look(self) -> tuple[Figure, str]:
        """The maps of one image before and after a step with these weights; each term's change."""
        weights = {name: getattr(self, name).value for name in TERMS}
        key = (*weights.values(), self.rate.value)
        if key not in self._after:  # another image is another view of the same step
            self._after = {key: self._step(weights)}
        after, place = self._after[key], self.image.value - 1
        maps = [seen.heatmaps[place, 0].detach().cpu() for seen in (self._before, after)]
        change = maps[1] - maps[0]
        image, mask = self._batch.images[place], self._batch.masks[place].bool()
        figure, axes = strip(1.9, *[(0.08, 1.9)] * 4, (0.15, 2.6))
        show_image(axes[0], image * mask, "object")
        show_image(axes[1], image, "relevance before", heat=maps[0])
        show_image(axes[2], image, "relevance after", heat=maps[1])
        title = f"change (±{float(change.abs().max()):.2f}), blue: more"
        show_image(axes[3], image, title, heat=change, signed=True)
        self._show_terms(axes[4], after)
        return figure, self._words(after)

    def _losses(self, model: nn.Module, settings: FinetuneSettings | None = None) -> StepLosses:
        chosen = settings or self._settings
        train = settings is not None
        return step_losses(model, self._pixels, self._masks, self._labels, chosen, train=train)

    def _step(self, weights: Mapping[str, float]) -> StepLosses:
        """One step on a copy, then the losses of the copy."""
        settings = self._settings.changed(
            lr=self._settings.lr * self.rate.value, weights=self._settings.weights | weights
        )
        with torch.enable_grad():
            copied = copy.deepcopy(self._model)
            copied.zero_grad(set_to_none=True)
            self._losses(copied, settings).total.backward()
            make_optimizer(copied, settings).step()
        return self._losses(copied)

    def _show_terms(self, axis: Axes, after: StepLosses) -> None:
        """Each term before and after, on its own scale; the change is written above."""
        names = list(TERMS)[::-1]
        for row, name in enumerate(names):
            pair = self._pair(name, after)
            larger = max(pair) or 1.0
            for part, (value, colour) in enumerate(zip(pair, (ORIGINAL, OURS), strict=True)):
                axis.barh(row - 0.22 * part, value / larger, height=0.2, color=colour)
            text = f"{TERMS[name]}: {pair[0]:.4f} → {pair[1]:.4f}"
            axis.text(0, row + 0.17, text, fontsize=9.5)
        axis.set(xlim=(0, 1.05), ylim=(-0.5, 2.45))
        axis.set_title("losses, own scales; red: after", fontsize=9, pad=3)

    def _pair(self, name: str, after: StepLosses) -> tuple[float, float]:
        return tuple(seen.numbers()[f"loss_{name}"] for seen in (self._before, after))

    def _words(self, after: StepLosses) -> str:
        parts = []
        for name, title in TERMS.items():
            old, new = self._pair(name, after)
            parts.append(f"{title} {old:.4f} → {new:.4f} ({_percent(old, new)})")
        share = [
            100 * float((heat * self._masks).sum() / heat.sum().clamp_min(1e-12))
            for heat in (self._before.heatmaps.detach(), after.heatmaps.detach())
        ]
        text = f"one step: {', '.join(parts)}"
        return f"{text}; relevance on the object {share[0]:.1f} → {share[1]:.1f} %"


def _detached(losses: StepLosses) -> StepLosses:
    """The numbers without the graph, which would stay as long as the widget."""
    values = {field.name: getattr(losses, field.name) for field in fields(losses)}
    terms = {name: value.detach() for name, value in values.pop("terms").items()}
    kept = {name: value.detach() for name, value in values.items() if value is not None}
    return replace(losses, terms=terms, **kept)


def _percent(old: float, new: float) -> str:
    return f"{100 * (new / old - 1):+.0f} %" if old else "0 before"


def _weight(name: str, value: float, most: float) -> ipywidgets.FloatSlider:
    """A weight from 0 up; draws when the hand lets go, as each step takes a moment."""
    return ipywidgets.FloatSlider(
        value,
        min=0.0,
        max=max(most, value),
        step=0.05,
        description=name,
        readout_format=".2f",
        continuous_update=False,
    )
