"""Pictures of finetuning after several kinds of pretraining. Every function returns a figure.

The tables are those of 07_pretraining and 07_iav. Colours, lines and bands: `plots_models`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from relevit.plots.basics import BLUE, ORIGINAL, OURS, subplots
from relevit.plots.models import (
    BAND,
    COLOURS,
    count_whole,
    edge,
    legend_beside,
    model_bands,
    model_panels,
    model_styles,
    seed_band,
)

ORDERS = {
    "smoothgrad": ("SmoothGrad", OURS, "o"),
    "attention": ("attention", BLUE, "s"),
    "random": ("chance", ORIGINAL, "^"),
}
SHIFTS = {
    "blur": ("Blur", "sigma (pixels)"),
    "jigsaw": ("Jigsaw, 2 x 2 parts", "swaps"),
    "patch_jigsaw": ("Jigsaw, patches", "swaps"),
}
QUANTITIES = {"smoothgrad": "SmoothGrad", "attention": "Attention"}


def shift_curves(models: pd.DataFrame, shift: pd.DataFrame) -> Figure:
    """Validation accuracy over finetuning, then accuracy under blur and jigsaw (IAV Fig. 3).

    `models` and `shift` are tables of 07_pretraining; images without a change are level 0.
    """
    figure, axes = subplots(1, 4, figsize=(12, 3), sharey=True, layout="constrained")
    model_bands(axes[0], models, "epoch", "validation_top1_pct")
    axes[0].set(title="Validation images", xlabel="epoch", ylabel="top-1 (%)", ylim=(0, 102))
    count_whole(axes[0])
    for axis, (corruption, (title, label)) in zip(axes[1:], SHIFTS.items(), strict=True):
        model_bands(
            axis, shift[shift["corruption"].isin(["none", corruption])], "level", "top1_pct"
        )
        axis.set(title=title, xlabel=label)
    legend_beside(figure, axes[0])
    return figure


def finetuning_curves(models: pd.DataFrame) -> Figure:
    """Training loss and validation accuracy of each model, epoch by epoch of its finetuning."""
    figure, (left, right) = subplots(1, 2, figsize=(9.5, 3), layout="constrained")
    trained = models[models["train_loss"].notna()]  # there is none before the first epoch
    model_bands(left, trained, "epoch", "train_loss")
    model_bands(right, models, "epoch", "validation_top1_pct")
    left.set(title="Training loss", xlabel="epoch", ylabel="nats", ylim=(0, None))
    right.set(title="Validation images", xlabel="epoch", ylabel="top-1 (%)", ylim=(0, 102))
    for axis in (left, right):
        count_whole(axis)
    legend_beside(figure, right)
    return figure


def pretraining_curves(
    logs: Mapping[str, pd.DataFrame], column: str = "train_loss", label: str = "loss"
) -> Figure:
    """What each pretraining minimised, a panel each: their scales have nothing in common.

    `logs` holds a table with `epoch` and `column` under each model's name.
    """
    figure, axes = subplots(
        1, len(logs), figsize=(2.9 * len(logs), 2.5), squeeze=False, layout="constrained"
    )
    for axis, (name, log) in zip(axes[0], logs.items(), strict=True):
        axis.plot(log["epoch"], log[column], color=COLOURS.get(name, ORIGINAL), marker=".")
        axis.set(title=name, xlabel="epoch")
        count_whole(axis)
    axes[0, 0].set_ylabel(label)
    return figure


def drift_curves(drift: pd.DataFrame) -> Figure:
    """How far maps are from those of the last epoch (IAV Fig. 4), a panel a quantity."""
    present = [name for name in QUANTITIES if name in set(drift["quantity"])]
    figure, axes = subplots(
        1, len(present), figsize=(0.8 + 4 * len(present), 3), squeeze=False, layout="constrained"
    )
    for axis, name in zip(axes[0], present, strict=True):
        model_bands(axis, drift[drift["quantity"] == name], "epoch", "difference")
        axis.set(title=f"{QUANTITIES[name]} maps", xlabel="epoch")
        axis.set_ylim(bottom=0)
        count_whole(axis)
    axes[0, 0].set_ylabel("mean absolute difference\nfrom the last epoch")
    legend_beside(figure, axes[0, 0])
    return figure


def masking_curves(masking: pd.DataFrame) -> Figure:
    """Accuracy when patches are masked in three orders, a panel a model (IAV Fig. 5)."""
    figure, panels = model_panels(masking, (3.3, 2.5), sharex=True, sharey=True)
    for name, axis in panels.items():
        rows = masking[masking["model"] == name]
        for order, (label, colour, marker) in ORDERS.items():
            seed_band(
                axis,
                rows[rows["order"] == order],
                "ratio_pct",
                "top1_pct",
                label=label,
                color=colour,
                marker=marker,
            )
    for axis in edge(panels.values(), "x"):
        axis.set_xlabel("masked patches (%)")
    for axis in edge(panels.values(), "y"):
        axis.set(ylabel="top-1 (%)", ylim=(0, 102))
    legend_beside(figure, next(iter(panels.values())), f"{BAND}\n\nmasked first by")
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
    figure, axes = subplots(
        2,
        len(names),
        figsize=(1.2 + 2.2 * len(names), 4.4),
        sharex=True,
        squeeze=False,
        layout="constrained",
    )
    rows = (
        (
            means,
            "entropy (nats)",
            {"cmap": "viridis", "vmin": np.nanmin(means), "vmax": np.nanmax(means)},
        ),
        (
            changes,
            "change over the epochs (nats)",
            {"cmap": "RdBu_r", "vmin": -largest, "vmax": largest},
        ),
    )
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
