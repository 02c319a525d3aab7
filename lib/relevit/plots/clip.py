"""Pictures of images with text. Every function returns a matplotlib figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill

import numpy as np
import pandas as pd
import seaborn as sns
from jaxtyping import Float, UInt8
from matplotlib.figure import Figure
from torch import Tensor

from relevit.evaluate.pointing import Pairs
from relevit.plots.basics import BLUE, ORIGINAL, OURS, heatmap_grid, subplots
from relevit.relevance import to_pixels

GROUP_COLOURS = {"seen": ORIGINAL, "unseen": OURS, "all": BLUE}


def captioned_images(
    images: UInt8[Tensor, "count 3 height width"], captions: Sequence[str], columns: int = 6
) -> Figure:
    """Images with their captions below, broken into lines."""
    rows = -(-len(images) // columns)
    figure, axes = subplots(
        rows,
        min(columns, len(images)),
        squeeze=False,
        layout="constrained",
        figsize=(1.5 * min(columns, len(images)), 2.0 * rows),
    )
    for axis in axes.flat:
        axis.axis("off")
    for axis, image, text in zip(axes.flat, images, captions, strict=False):
        axis.imshow(image.permute(1, 2, 0).numpy())
        axis.text(
            0.5, -0.04, fill(text, 20), fontsize=8, ha="center", va="top", transform=axis.transAxes
        )
    return figure


def joining_curves(histories: Mapping[int, pd.DataFrame], guess: float | None = None) -> Figure:
    """Loss and scale of the projections' training, one line a seed; needs `Joint.history`.

    `guess` is the loss of one who knows nothing, in nats.
    """
    figure, (left, right) = subplots(1, 2, figsize=(8, 2.6), layout="constrained")
    for (seed, rows), colour in zip(
        histories.items(), sns.color_palette("colorblind", len(histories)), strict=True
    ):
        left.plot(rows["epoch"], rows["loss"], color=colour, label=f"seed {seed}")
        right.plot(rows["epoch"], rows["scale"], color=colour)
    if guess is not None:
        left.axhline(guess, color="black", linewidth=0.8, linestyle=":", label="guess")
    left.set(xlabel="epoch", ylabel="loss (nats)", ylim=(0, None), title="Whose caption is it?")
    right.set(xlabel="epoch", ylabel="scale of cosines", title="Learned scale")
    left.legend(frameon=False, fontsize=8)
    return figure


def zero_shot_bars(table: pd.DataFrame, title: str) -> Figure:
    """Accuracy of each seed and group with its interval, and chance as a line.

    Needs seed, classes, accuracy_pct, low_pct, high_pct, chance_pct.
    """
    groups = list(dict.fromkeys(table["classes"]))
    seeds = list(dict.fromkeys(table["seed"]))
    figure, axis = subplots(
        figsize=(1.8 + 1.1 * len(groups) * max(1, len(seeds) / 2), 2.8), layout="constrained"
    )
    width = 0.8 / len(seeds)
    for i, seed in enumerate(seeds):
        rows = table[table["seed"] == seed].set_index("classes").loc[groups]
        at = np.arange(len(groups)) + (i - (len(seeds) - 1) / 2) * width
        error = (rows["accuracy_pct"] - rows["low_pct"], rows["high_pct"] - rows["accuracy_pct"])
        axis.bar(
            at,
            rows["accuracy_pct"],
            0.9 * width,
            yerr=np.clip(error, 0, None),
            capsize=2,
            color=[GROUP_COLOURS.get(name, BLUE) for name in groups],
        )
    chance = table.groupby("classes")["chance_pct"].mean()
    for place, name in enumerate(groups):
        axis.plot(
            [place - 0.45, place + 0.45],
            [chance[name]] * 2,
            ":",
            color="black",
            linewidth=1,
            label=None if place else "chance",
        )
    axis.set_xticks(range(len(groups)), [f"{name} classes" for name in groups])
    axis.set(ylabel="zero-shot top-1 (%)", ylim=(0, 102), title=title)
    axis.grid(axis="x", visible=False)
    axis.legend(frameon=False, fontsize=8)
    return figure


def phrase_figure(
    pairs: Pairs, maps: Mapping[str, Float[Tensor, "pairs 2 patches"]], phrases: Sequence[str]
) -> Figure:
    """Both phrases of each image side by side, one row of heatmaps for each method (Fig. 7).

    `phrases` has one for each class. Each heatmap is stretched over its own range.
    """
    size = tuple(pairs.images.shape[-2:])
    rows = [(name, to_pixels(both.flatten(0, 1).float(), size)) for name, both in maps.items()]
    titles = [fill(phrases[label], 16) for label in pairs.labels.flatten().tolist()]
    return heatmap_grid(pairs.images.repeat_interleave(2, dim=0), rows, titles)


def pointing_bars(table: pd.DataFrame, title: str) -> Figure:
    """Share of maps that point at their own object, with its standard error; needs `pointing`."""
    groups = list(dict.fromkeys(table["classes"]))
    methods = list(dict.fromkeys(table["method"]))[::-1]
    figure, axis = subplots(figsize=(6.5, 0.7 + 0.42 * len(methods)), layout="constrained")
    height = 0.8 / len(groups)
    for i, name in enumerate(groups):
        rows = table[table["classes"] == name].groupby("method")
        share, error = (rows[c].mean()[methods] for c in ("own_object_pct", "standard_error_pts"))
        at = np.arange(len(methods)) + ((len(groups) - 1) / 2 - i) * height
        axis.barh(
            at,
            share,
            0.9 * height,
            xerr=error,
            capsize=2,
            label=f"{name} classes",
            color=GROUP_COLOURS.get(name, BLUE),
        )
    axis.axvline(50, color="black", linewidth=1, linestyle=":", label="chance")
    axis.set_yticks(range(len(methods)), methods)
    axis.set(xlabel="points at its own object (%)", xlim=(0, 102), title=title)
    axis.grid(axis="y", visible=False)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside right", frameon=False)
    return figure


def word_bars(table: pd.DataFrame, title: str) -> Figure:
    """What each kind of word has of a caption's relevance, stacked; needs `word_shares`.

    A method without any positive value has no bar and is marked.
    """
    wide = table.pivot(index="method", columns="kind", values="share_pct")
    wide = wide.loc[list(dict.fromkeys(table["method"]))[::-1], list(dict.fromkeys(table["kind"]))]
    figure, axis = subplots(figsize=(7, 0.8 + 0.32 * len(wide)), layout="constrained")
    left = np.zeros(len(wide))
    for (kind, values), colour in zip(
        wide.items(), (OURS, "#e0a030", BLUE, "#c8c8c8"), strict=False
    ):
        axis.barh(wide.index, values, left=left, color=colour, label=kind)
        left += values.to_numpy()
    for place in np.flatnonzero(left == 0):
        axis.text(1, place, "no map", va="center", fontsize=8)
    axis.set(xlabel="share of the caption's relevance (%)", xlim=(0, 100), title=title)
    axis.grid(axis="y", visible=False)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside right", frameon=False)
    return figure
