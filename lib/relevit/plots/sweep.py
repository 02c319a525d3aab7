"""Pictures that compare many finetuned runs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from relevit.plots.basics import BLUE, OURS, subplots


def change_heatmap(changes: pd.DataFrame, title: str) -> Figure:
    """Mean change of top-1 in points: one row a kind of run, one column a set, signed numbers.

    Red falls, blue rises; the colours end at the largest change.
    """
    rows, columns = changes.shape
    figure, axis = subplots(figsize=(2.6 + 0.78 * columns, 0.9 + 0.34 * rows), layout="constrained")
    largest = max(1.0, float(np.nanmax(np.abs(changes.to_numpy()))))
    sns.heatmap(
        changes,
        annot=True,
        fmt="+.1f",
        cmap="RdBu",
        center=0,
        vmin=-largest,
        vmax=largest,
        cbar=False,
        linewidths=1,
        annot_kws={"size": 8},
        ax=axis,
    )
    axis.set(title=title, xlabel="", ylabel="")
    axis.tick_params(length=0)
    axis.set_xticks(axis.get_xticks(), [str(c).replace("_", "\n") for c in changes], rotation=0)
    axis.set_yticks(axis.get_yticks(), axis.get_yticklabels(), rotation=0)
    return figure


def average_bars(means: pd.Series, spread: pd.Series, title: str, label: str) -> Figure:
    """One bar a kind of run, from the top in the order given, with its spread over the runs."""
    figure, axis = subplots(figsize=(7, 0.8 + 0.3 * len(means)), layout="constrained")
    places = np.arange(len(means))[::-1]
    colours = [BLUE if value >= 0 else OURS for value in means]  # as in change_heatmap
    axis.barh(places, means, xerr=spread, color=colours, capsize=3, height=0.65)
    axis.axvline(0, color="black", linewidth=0.8)
    axis.set_yticks(places, means.index)
    axis.set(title=title, xlabel=label)
    return figure


def sensitivity_curves(
    table: pd.DataFrame, x: str, title: str, label: str, *, log: bool = False
) -> Figure:
    """Change against one setting: the shifted sets' average (with its spread) and `val`.

    `table` has the columns `x`, `val`, `shifted_average` and `shifted_average_std`, in points.
    """
    figure, axis = subplots(figsize=(5.2, 2.8), layout="constrained")
    axis.errorbar(
        table[x],
        table["shifted_average"],
        table["shifted_average_std"],
        marker="o",
        capsize=3,
        color=OURS,
        label="shifted sets, average",
    )
    axis.plot(table[x], table["val"], marker="s", color=BLUE, label="val")
    axis.axhline(0, color="black", linewidth=0.8)
    axis.set(title=title, xlabel=label, ylabel="change of top-1 (points)")
    if log:
        axis.set_xscale("log")
    axis.set_xticks(table[x].to_list(), [f"{value:g}" for value in table[x]])
    axis.minorticks_off()
    axis.legend(frameon=False)
    return figure
