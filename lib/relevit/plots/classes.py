"""Pictures of changes by class. Every function returns a matplotlib figure."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from relevit.plots.basics import BLUE, ORIGINAL, OURS, subplots

COLUMNS = 3
CORNERS = {"A": OURS, "B": BLUE}


def class_grid(table: pd.DataFrame, classes_a: Collection[int], title: str) -> Figure:
    """Each class's change of top-1 on each set, sorted; compare RobustViT Figs. 8-14.

    `table` is that of `class_changes.class_table`; the classes of `classes_a` have one colour,
    the others another. The name of the first and of the last class is written.
    """
    sets = list(dict.fromkeys(table["dataset"]))
    line = 0.12 * np.ptp(table["change_top1_pts"])  # height of a line of text, in points
    rows = -(-len(sets) // COLUMNS)
    figure, axes = subplots(
        rows,
        COLUMNS,
        figsize=(10.5, 2.05 * rows + 0.5),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for axis, name in zip(axes.flat, sets, strict=False):
        part = table[table["dataset"] == name].sort_values(["change_top1_pts", "label"])
        colours = [CORNERS["A" if label in classes_a else "B"] for label in part["label"]]
        # A class without change gets a stub, or its colour would be lost.
        axis.bar(range(len(part)), part["change_top1_pts"], color=colours, width=0.85)
        axis.scatter(range(len(part)), np.zeros(len(part)), color=colours, s=5, zorder=3)
        axis.axhline(0, color="black", linewidth=0.6)
        axis.set(title=name, xticks=[])
        axis.grid(False, axis="x")
        _name_ends(axis, part, line)
    for axis in axes.flat[len(sets) :]:
        axis.set_axis_off()
    for axis in axes[:, 0]:
        axis.set_ylabel("points")
    handles = [Patch(color=colour, label=f"classes {kind}") for kind, colour in CORNERS.items()]
    figure.legend(handles=handles, loc="outside upper right", ncols=2, frameon=False)
    figure.suptitle(title, fontsize=10, x=0.02, ha="left")
    return figure


def size_pictures(
    classes: pd.DataFrame, images: pd.DataFrame, bins: int = 5, named: int = 3
) -> Figure:
    """Change against the object's size: a point a class, and a mean for each fifth of images.

    Both tables hold `size_pct` and `change_pts`; the index of `classes` is their names, and the
    `named` classes with the largest and with the lowest change get theirs written. The bars
    are standard errors over images.
    """
    figure, (left, right) = subplots(1, 2, figsize=(9.5, 3.2), layout="constrained")
    left.scatter(classes["size_pct"], classes["change_pts"], s=16, color=OURS)
    order = classes.sort_values("change_pts")
    for end in (order.head(named), order.tail(named)):
        for i, (name, row) in enumerate(end.sort_values("size_pct").iterrows()):
            # The name of the leftmost goes to the left, so that it does not meet the others.
            place, align = ((4, 2), "left") if i else ((-4, 2), "right")
            left.annotate(
                name,
                (row["size_pct"], row["change_pts"]),
                xytext=place,
                ha=align,
                textcoords="offset points",
                fontsize=7,
            )
    left.set(
        title="classes, shifted sets",
        xlabel="square covered by the drawing (%)",
        ylabel="change of top-1 (points)",
    )
    fifth = pd.qcut(images["size_pct"], bins, duplicates="drop")
    groups = images.groupby(fifth, observed=True)
    right.errorbar(
        groups["size_pct"].mean(),
        groups["change_pts"].mean(),
        yerr=groups["change_pts"].sem(),
        color=BLUE,
        marker="o",
        capsize=3,
    )
    right.set(title="images of si_size, by fifths", xlabel="image covered by the object (%)")
    for axis in (left, right):
        axis.axhline(0, color=ORIGINAL, linewidth=0.8)
    return figure


def _name_ends(axis, part: pd.DataFrame, line: float) -> None:
    """Write the first class beside the bars that fall as far, the last beside its like."""
    change, name = part["change_top1_pts"], part["name"]
    low, high = change.iloc[0], change.iloc[-1]
    if low < 0:
        x = (change < min(0, low + line)).sum()
        axis.text(x, low, name.iloc[0], fontsize=7.5, va="bottom")
    if high > 0:
        x = len(part) - 1 - (change > max(0, high - line)).sum()
        axis.text(x, high, name.iloc[-1], fontsize=7.5, ha="right", va="top")
