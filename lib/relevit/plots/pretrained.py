"""Models of several kinds of pretraining: their colours, bands and panels, and how they learn.

Supervised models are blue with dashed lines, self-supervised ones green with full lines. A line is
the mean over seeds, its band goes from the lowest to the highest seed. The tables are those of
07_pretraining and 07_iav. Every picture is a matplotlib figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from relevit.plots.style import CHANGE, INK, METHODS, count_whole, legend_beside, panels, subplots

# Dark and light, so that models of one kind differ in print too.
COLOURS = {
    "mini-supervised": "#27406b",
    "mini-deit": "#7d9fc4",
    "mini-mae": "#2f7d4f",
    "mini-dino": "#8fc46a",
    "dinov2-s": "#0c3b24",
}
MARKERS = dict(zip(COLOURS, "sDo^v", strict=True))
SPARE = {  # for models that are not the suite's own, in turn
    "supervised": (("#3d4f66", "P"), ("#93b7be", "X")),
    "self-supervised": (("#4a6b2a", "P"), ("#bcd6a0", "X")),
}
LINES = {"supervised": "--", "self-supervised": "-"}
BAND = "line: mean over seeds\nband: all seeds"
ORDERS = {
    "smoothgrad": ("SmoothGrad", METHODS["smoothgrad"], "o"),
    "attention": ("attention", METHODS["raw_attention"], "s"),
    "random": ("chance", INK, "^"),
}
SHIFTS = {
    "blur": ("Blur", "sigma (pixels)"),
    "jigsaw": ("Jigsaw, 2 x 2 parts", "swaps"),
    "patch_jigsaw": ("Jigsaw, patches", "swaps"),
}
LOSSES = {  # what a pretraining minimises
    "mini-supervised": "cross-entropy",
    "mini-deit": "cross-entropy, mixed names",
    "mini-mae": "squared error, hidden patches",
    "mini-dino": "cross-entropy of two views",
}
QUANTITIES = {"smoothgrad": "SmoothGrad", "attention": "Attention"}


# What they share


def model_styles(table: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Colour, marker and line of every model of a table, supervised models first.

    The suite's own models have their colours; others take those of their kind in turn.
    Raises: ValueError for a kind of pretraining that has no colours.
    """
    kinds = dict(zip(table["model"], table["kind"], strict=True))
    if unknown := set(kinds.values()) - set(LINES):
        raise ValueError(
            f"model_styles: kinds {sorted(unknown)}; only {sorted(LINES)} have colours; "
            "name one of them for each model"
        )
    names = [name for name in COLOURS if name in kinds]
    others = [name for name in kinds if name not in COLOURS]
    spare = {kind: cycle(looks) for kind, looks in SPARE.items()}
    styles = {}
    for name in sorted(names + others, key=lambda name: list(LINES).index(kinds[name])):
        known = name in COLOURS
        colour, marker = (COLOURS[name], MARKERS[name]) if known else next(spare[kinds[name]])
        styles[name] = {"color": colour, "marker": marker, "linestyle": LINES[kinds[name]]}
    return styles


def seed_band(axis: Axes, rows: pd.DataFrame, x: str, y: str, **style: Any) -> None:
    """Mean of `y` over seeds against `x`, and a band from the lowest to the highest seed.

    Several rows of one seed and one `x` are averaged first, so that seeds weigh the same.
    """
    seeds = rows.groupby([x, "seed"])[y].mean().groupby(level=0)
    mean = seeds.mean()
    axis.plot(mean.index, mean, markersize=4, linewidth=1.6, **style)
    axis.fill_between(
        mean.index, seeds.min(), seeds.max(), color=style["color"], alpha=0.18, linewidth=0
    )


def model_bands(axis: Axes, table: pd.DataFrame, x: str, y: str) -> None:
    """A line with its band for each model of a table."""
    for name, style in model_styles(table).items():
        seed_band(axis, table[table["model"] == name], x, y, label=name, **style)


def model_panels(
    table: pd.DataFrame, side: tuple[float, float], labels: tuple[str, str] = ("", ""), **options
) -> tuple[Figure, dict[str, Axes]]:
    """A panel with its name above for each model, up to three in a row.

    `labels` are those of x and y; a panel has one where there is none below it, or at its left.
    """
    names = list(model_styles(table))
    columns = 2 if len(names) == 4 else min(len(names), 3)  # three would leave one alone
    rows = -(-len(names) // columns)
    size = (side[0] * columns, side[1] * rows + 0.2)
    figure, axes = subplots(rows, columns, figsize=size, squeeze=False, **options)
    for axis in axes.flat[len(names) :]:
        axis.set_axis_off()
    for axis in axes.flat[max(0, len(names) - columns) : len(names)]:
        axis.tick_params(labelbottom=True)  # nothing may be below it in the last row
        axis.set_xlabel(labels[0])
    for axis in axes[:, 0]:
        axis.set_ylabel(labels[1])
    found = dict(zip(names, axes.flat, strict=False))
    for name, axis in found.items():
        axis.set_title(name)
    return figure, found


def need_present(table: pd.DataFrame, column: str, wanted: Sequence, where: str) -> None:
    """Raises: ValueError, named after `where`, for a wanted value that a column lacks."""
    held = sorted(set(table[column]))
    if missing := [value for value in wanted if value not in held]:
        raise ValueError(
            f"{where}: {column} {missing} is not in the table; it holds {held}; take from these"
        )


def one_seed(table: pd.DataFrame, seed: int | None, where: str) -> pd.DataFrame:
    """Rows of one seed, or of each model's first."""
    if seed is not None:
        need_present(table, "seed", [seed], where)
        return table[table["seed"] == seed]
    return table[table["seed"] == table.groupby("model")["seed"].transform("min")]


def mark_layers(axis: Axes, table: pd.DataFrame) -> None:
    """Ticks at the first layer, and at every second of a deep model."""
    last = int(table["layer"].max())
    axis.set_xticks(range(1, last + 1) if last < 8 else [1, *range(2, last + 1, 2)])


# Pictures


def shift_curves(models: pd.DataFrame, shift: pd.DataFrame) -> Figure:
    """Validation accuracy over finetuning, then accuracy under blur and jigsaw (IAV Fig. 3).

    `models` and `shift` are tables of 07_pretraining; images without a change are level 0.
    """
    figure, axes = panels(4, 12, 3, sharey=True)
    model_bands(axes[0], models, "epoch", "validation_top1_pct")
    axes[0].set(title="Validation images", xlabel="epoch", ylabel="top-1 (%)", ylim=(0, 102))
    count_whole(axes[0])
    for axis, (corruption, (title, label)) in zip(axes[1:], SHIFTS.items(), strict=True):
        rows = shift[shift["corruption"].isin(["none", corruption])]
        model_bands(axis, rows, "level", "top1_pct")
        axis.set(title=title, xlabel=label)
    legend_beside(figure, axes[0], BAND)
    return figure


def finetuning_curves(models: pd.DataFrame) -> Figure:
    """Training loss and validation accuracy of each model, epoch by epoch of its finetuning."""
    figure, (left, right) = panels(2, 9.5, 3)
    trained = models[models["train_loss"].notna()]  # there is none before the first epoch
    model_bands(left, trained, "epoch", "train_loss")
    model_bands(right, models, "epoch", "validation_top1_pct")
    left.set(title="Training loss", xlabel="epoch", ylabel="nats", ylim=(0, None))
    right.set(title="Validation images", xlabel="epoch", ylabel="top-1 (%)", ylim=(0, 102))
    for axis in (left, right):
        count_whole(axis)
    legend_beside(figure, right, BAND)
    return figure


def pretraining_curves(
    logs: Mapping[str, pd.DataFrame], column: str = "train_loss", label: str = "loss"
) -> Figure:
    """What each pretraining minimised, a panel each: their scales have nothing in common.

    `logs` holds a table with `epoch` and `column` under each model's name.
    """
    figure, axes = panels(len(logs), 2.9 * len(logs), 2.5)
    for axis, (name, log) in zip(axes, logs.items(), strict=True):
        axis.plot(log["epoch"], log[column], color=COLOURS.get(name, INK), marker=".")
        what = f"\n{LOSSES[name]}" if name in LOSSES and column == "train_loss" else ""
        axis.set(title=f"{name}{what}", xlabel="epoch")
        count_whole(axis)
    axes[0].set_ylabel(label)
    return figure


def drift_curves(drift: pd.DataFrame) -> Figure:
    """How far maps are from those of the last epoch (IAV Fig. 4), a panel a quantity."""
    present = [name for name in QUANTITIES if name in set(drift["quantity"])]
    figure, axes = panels(len(present), 0.8 + 4 * len(present), 3)
    for axis, name in zip(axes, present, strict=True):
        model_bands(axis, drift[drift["quantity"] == name], "epoch", "difference")
        axis.set(title=f"{QUANTITIES[name]} maps", xlabel="epoch")
        axis.set_ylim(bottom=0)
        count_whole(axis)
    axes[0].set_ylabel("mean absolute difference\nfrom the last epoch")
    legend_beside(figure, axes[0], BAND)
    return figure


def masking_curves(masking: pd.DataFrame) -> Figure:
    """Accuracy when patches are masked in three orders, a panel a model (IAV Fig. 5)."""
    labels = ("masked patches (%)", "top-1 (%)")
    figure, by_model = model_panels(masking, (3.3, 2.5), labels, sharex=True, sharey=True)
    for name, axis in by_model.items():
        rows = masking[masking["model"] == name]
        for order, (label, colour, marker) in ORDERS.items():
            style = {"label": label, "color": colour, "marker": marker}
            seed_band(axis, rows[rows["order"] == order], "ratio_pct", "top1_pct", **style)
        axis.set_ylim(0, 102)
    legend_beside(figure, axis, f"{BAND}\n\nmasked first by")
    return figure


def entropy_maps(epochs: pd.DataFrame) -> Figure:
    """Attention entropy of each layer over the epochs, and its change (IAV Fig. 6a).

    Means over images, heads and seeds, in nats. `epochs` is the table of 07_iav; the change is
    taken from the first epoch of each model. All models share a scale of colours.
    """
    names = list(model_styles(epochs))
    means = epochs.pivot_table(index=["model", "layer"], columns="epoch", values="entropy")
    changes = means.sub(means.bfill(axis=1).iloc[:, 0], axis=0)  # its first epoch
    largest = max(1e-3, float(np.nanmax(np.abs(changes.to_numpy()))))
    size = (1.2 + 2.2 * len(names), 4.4)
    figure, axes = subplots(2, len(names), figsize=size, sharex=True, squeeze=False)
    heights = {"cmap": "viridis", "vmin": np.nanmin(means), "vmax": np.nanmax(means)}
    signed = {"cmap": CHANGE, "vmin": -largest, "vmax": largest}
    rows = ((means, "entropy (nats)", heights), (changes, "change (nats)", signed))
    for line, (values, label, colours) in zip(axes, rows, strict=True):
        for axis, name in zip(line, names, strict=True):
            part = values.loc[name].dropna(axis=1)  # another model may have more epochs
            drawn = axis.pcolormesh(part.columns, part.index, part, shading="nearest", **colours)
            axis.invert_yaxis()
            axis.grid(False)
        figure.colorbar(drawn, ax=line, label=label, pad=0.01)
        line[0].set_ylabel("layer")
    for name, top, bottom in zip(names, *axes, strict=True):
        top.set_title(name)
        bottom.set_xlabel("epoch")
        count_whole(bottom)
    return figure
