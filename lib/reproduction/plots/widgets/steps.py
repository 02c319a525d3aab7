"""One step of relevance finetuning by hand: the weights of the losses, and what they do."""

from __future__ import annotations

import copy
from functools import cache

import ipywidgets
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from relevit.data.batch import Batch
from relevit.finetune.settings import FinetuneSettings
from relevit.finetune.step import make_optimizer, step_losses
from relevit.models.spec import ModelSpec
from reproduction.plots.style import ORIGINAL, OURS
from reproduction.plots.widgets.explorer import Explorer, choice, show_image, slider, strip

TERMS = {"background": "background", "foreground": "foreground", "classification": "class term"}
FASTER = (1, 3, 10, 30)  # times the rate of a run
State = tuple[Tensor, dict[str, float]]  # heatmaps, and the value of each of TERMS


def step_explorer(
    model: nn.Module, spec: ModelSpec, batch: Batch, settings: FinetuneSettings
) -> Explorer:
    """A widget to weigh the three losses and take one step on a copy of the model.

    It begins with the weights and the rate of `settings`, which train a relevance map. With the
    presets `quick` and `workshop` that step lowers the background and the class term, and one at
    ten times the rate raises the class term. The losses are those of `batch`, a few images, in
    float32, before the step and after it; the model that is given stays as it is.
    """
    settings = settings.changed(precision="float32")
    device = next(model.parameters()).device
    masks = batch.masks.to(device).float()
    shown = spec.normalise(batch.images.to(device)), masks, batch.labels.to(device)

    def state(network: nn.Module) -> State:
        found = step_losses(network, *shown, settings, train=False)
        numbers = found.numbers()
        return found.heatmaps.detach(), {name: numbers[f"loss_{name}"] for name in TERMS}

    @cache
    def stepped(times: int, weights: tuple[float, ...]) -> State:
        """One step on a copy, then the losses of the copy."""
        own = settings.weights | dict(zip(TERMS, weights, strict=True))
        chosen = settings.changed(lr=settings.lr * times, weights=own)
        with torch.enable_grad():
            copied = copy.deepcopy(model)
            copied.zero_grad(set_to_none=True)
            step_losses(copied, *shown, chosen).total.backward()
            make_optimizer(copied, chosen).step()
        return state(copied)

    before = state(model)

    def draw(rate: int, image: int, **weights: float) -> tuple[Figure, str]:
        """The maps of one image before and after a step with these weights; each term's change."""
        after, place = stepped(rate, tuple(weights.values())), image - 1
        old, new = (heat[place, 0].cpu() for heat, _ in (before, after))
        change, pixels = new - old, batch.images[place]
        figure, axes = strip(1.9, *[(0.08, 1.9)] * 4, (0.15, 2.6))
        show_image(axes[0], pixels * batch.masks[place].bool(), "object")
        show_image(axes[1], pixels, "relevance before", heat=old)
        show_image(axes[2], pixels, "relevance after", heat=new)
        title = f"change (±{float(change.abs().max()):.2f}), blue: more"
        show_image(axes[3], pixels, title, heat=change, signed=True)
        _show_terms(axes[4], before[1], after[1])
        share = [100 * float((h * masks).sum() / h.sum().clamp_min(1e-12))
                 for h, _ in (before, after)]  # fmt: skip
        said = f"relevance on the object {share[0]:.1f} → {share[1]:.1f} %"
        return figure, f"one step: {_words(before[1], after[1])}; {said}"

    rates = [(f"{settings.lr * times:g} ({times} x the run's)", times) for times in FASTER]
    most = {"background": 4.0, "foreground": 4.0, "classification": 1.0}
    weights = {key: _weight(TERMS[key], settings.weights[key], most[key]) for key in TERMS}
    images = slider("image", 1, len(batch))
    return Explorer(draw, **weights, rate=choice("rate", rates), image=images)


def _show_terms(axis: Axes, before: dict[str, float], after: dict[str, float]) -> None:
    """Each term before and after, on its own scale; the change is written above."""
    for row, name in enumerate(reversed(TERMS)):
        pair = before[name], after[name]
        for part, (value, colour) in enumerate(zip(pair, (ORIGINAL, OURS), strict=True)):
            axis.barh(row - 0.22 * part, value / (max(pair) or 1.0), height=0.2, color=colour)
        axis.text(0, row + 0.17, f"{TERMS[name]}: {pair[0]:.4f} → {pair[1]:.4f}", fontsize=9.5)
    axis.set(xlim=(0, 1.05), ylim=(-0.5, 2.45))
    axis.set_title("losses, own scales; red: after", fontsize=9, pad=3)


def _words(before: dict[str, float], after: dict[str, float]) -> str:
    parts = []
    for name, title in TERMS.items():
        old, new = before[name], after[name]
        change = f"{100 * (new / old - 1):+z.0f} %" if old else "0 before"
        parts.append(f"{title} {old:.4f} → {new:.4f} ({change})")
    return ", ".join(parts)


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
