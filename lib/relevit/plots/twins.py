"""Pictures of what the relevance terms add, and of where models look before and after."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from relevit.evaluate.context import PARTS
from relevit.evaluate.paired import GROUPS, ORIGINAL
from relevit.plots.bars import stacked_bars
from relevit.plots.style import CLASS_COLOURS, CONTROL, OBJECT, OURS, PROPS, REST, panels, subplots

KINDS = {"with": ("with relevance", OURS), "without": ("without, same images and steps", CONTROL)}
NEAR_PTS = 4.0  # worlds whose gaps are closer share a name's place
PART_COLOURS = dict(zip(PARTS, (OBJECT, PROPS, REST), strict=True))


def added_bars(table: pd.DataFrame, title: str) -> Figure:
    """With and without relevance against the original, a panel an arm, with 95 % intervals.

    `table` is `paired.added_table` of one world.
    """
    arms = list(dict.fromkeys(table["arm"]))
    figure, axes = panels(len(arms), 1.2 + 2.6 * len(arms), 3.0, sharey=True)
    for axis, arm in zip(axes, arms, strict=True):
        rows = table[table["arm"] == arm].set_index("classes").reindex(list(GROUPS))
        for offset, (kind, (label, colour)) in zip((-0.19, 0.19), KINDS.items(), strict=True):
            middle = rows[f"{kind}_pts"]
            reach = [middle - rows[f"{kind}_low_pts"], rows[f"{kind}_high_pts"] - middle]
            places = np.arange(len(rows)) + offset
            style = {"capsize": 3, "color": colour, "label": label}
            axis.bar(places, middle, 0.36, yerr=np.clip(reach, 0, None), **style)
        axis.axhline(0, color="black", linewidth=0.8)
        axis.set_xticks(range(len(rows)), ["all", "classes A", "classes B"])
        axis.set(title=arm)
        axis.grid(visible=False, axis="x")
    axes[0].set_ylabel("change of top-1 (points)")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(title, fontsize=10)
    return figure


def share_bars(figures: pd.DataFrame, title: str) -> Figure:
    """Where relevance lies, stacked: a bar a model, mean over seeds. `figures` of one world."""
    means = figures.groupby(["arm", "relevance"], sort=False)[[f"on_{p}_pct" for p in PARTS]].mean()
    names = [
        arm if arm == ORIGINAL else f"{arm}, {'with' if on else 'without'}"
        for arm, on in means.index
    ]
    figure, axis = subplots(figsize=(7.5, 0.9 + 0.32 * len(means)))
    shares = means.set_axis(names).set_axis(list(PARTS), axis=1)
    stacked_bars(axis, shares, PART_COLOURS)
    axis.set(title=title, xlabel="share of the relevance (%)")
    figure.legend(loc="outside right center", frameon=False)
    return figure


def dose_response(table: pd.DataFrame, gaps_pts: pd.Series, title: str) -> Figure:
    """What relevance adds over how much the original leans on context, for A and for B.

    `table` is `paired.added_table` of one arm, a row a world and group; `gaps_pts` the
    background gap of each world's original.
    """
    figure, axis = subplots(figsize=(6.5, 3.2))
    for group, colour in CLASS_COLOURS.items():
        rows = table[table["classes"] == group].set_index("world")
        rows = rows.assign(gap=gaps_pts).sort_values("gap")
        reach = [rows["adds_pts"] - rows["adds_low_pts"], rows["adds_high_pts"] - rows["adds_pts"]]
        shift = 0.4 if group == "B" else -0.4  # so that intervals do not cover each other
        marker = "o" if group == "A" else "s"
        style = {"color": colour, "marker": marker, "capsize": 3, "label": f"classes {group}"}
        axis.errorbar(rows["gap"] + shift, rows["adds_pts"], np.clip(reach, 0, None), **style)
    axis.margins(y=0.2)
    foot = axis.get_xaxis_transform()
    ordered = gaps_pts.sort_values()
    for _, near in ordered.groupby((ordered.diff() > NEAR_PTS).cumsum()):
        axis.text(near.mean(), 0.02, "\n".join(near.index), transform=foot, ha="center", fontsize=7)
    axis.axhline(0, color="black", linewidth=0.8)
    axis.set(title=title, xlabel="background gap of the original (points)")
    axis.set_ylabel("relevance adds (points)")
    axis.legend(frameon=False)
    return figure
