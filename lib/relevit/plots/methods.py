"""Attribution methods side by side: each has its colour, and families stand in panels of their own.

Every function returns a figure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from relevit.evaluate.segmentation import METRICS
from relevit.plots.bars import reaches
from relevit.plots.style import (
    CHANCE,
    FAINT,
    count_whole,
    families,
    heading,
    mark_level,
    method_colour,
    panels,
    subplots,
)

METRIC_TITLES = dict(zip(METRICS, ("pixel accuracy", "mIoU", "mAP", "mF1"), strict=True))
ORDERS = {"positive": "most relevant first", "negative": "least relevant first"}
# Within a family, in turn; the dashes of one let another be seen below it.
LOOKS = (("o", "-"), ("s", (0, (3, 1.5))), ("D", (0, (1.5, 1.5))))


# Bars


def segmentation_bars(table: pd.DataFrame, title: str) -> Figure:
    """The four numbers of each method with their intervals; needs `segmentation_table`."""
    names = {metric: f"{name} (%)" for metric, name in METRIC_TITLES.items()}
    return _bars(table.rename(columns={"metric": "part"}), names, title)


def score_bars(table: pd.DataFrame, higher: Mapping[str, bool], title: str) -> Figure:
    """Each score of each method with its interval.

    `table` has method, score, value_pct, low_pct, high_pct; `higher` says of each score whether
    more is better.
    """
    names = {
        score: f"{score} (%)\n{'higher' if more else 'lower'} is better"
        for score, more in higher.items()
        if score in set(table["score"])
    }
    return _bars(table.rename(columns={"score": "part"}), names, title)


def area_bars(areas: pd.DataFrame, title: str) -> Figure:
    """Area under both curves with its standard error; needs `area_table`."""
    value, error = areas["auc_pct"], areas["standard_error_pts"]
    ends = {"value_pct": value, "low_pct": value - error, "high_pct": value + error}
    names = {
        "positive": "positive: AUC (%)\nlower is better",
        "negative": "negative: AUC (%)\nhigher is better",
    }
    return _bars(areas.assign(part=areas["direction"], **ends), names, title)


def seconds_bars(seconds: dict[str, float], title: str) -> Figure:
    """What a map of each method costs."""
    figure, axis = subplots(figsize=(6.5, 2.8))
    names = list(seconds)[::-1]
    colours = [method_colour(name) for name in names]
    bars = axis.barh(names, [1000 * seconds[name] for name in names], color=colours)
    axis.bar_label(bars, fmt="{:,.1f}", fontsize=7.5, padding=2)
    axis.set(title=title, xlabel="milliseconds an image", xscale="log")
    axis.grid(visible=False, axis="y")
    axis.margins(x=0.1)
    return figure


def _bars(table: pd.DataFrame, names: Mapping[str, str], title: str) -> Figure:
    """A panel a `part` of the table, a bar a method from low_pct to high_pct around value_pct."""
    size = (1.6 + 2.2 * len(names), 1.2 + 0.2 * table["method"].nunique())
    figure, axes = panels(len(names), *size, sharey=True)
    for axis, (part, name) in zip(axes, names.items(), strict=True):
        rows = table[table["part"] == part].iloc[::-1]
        error = np.clip(reaches(rows, "value"), 0, None)
        # Few images of one value: a cap would say that it is sure.
        error[:, (error == 0).all(axis=0)] = np.nan
        colours = [method_colour(method) for method in rows["method"]]
        axis.barh(rows["method"], rows["value_pct"], xerr=error, color=colours, capsize=2)
        axis.set_title(name)
        axis.grid(visible=False, axis="y")
        axis.xaxis.set_major_locator(MaxNLocator(4, prune="upper"))
    heading(figure, title)
    return figure


# Curves


def perturbation_curves(
    curves: pd.DataFrame, title: str, erased: str = "erased (%)", chance_pct: float | None = None
) -> Figure:
    """Accuracy against the erased share: a row an order, a column a family of methods.

    `curves` has the column `method` and those of `accuracy_curves`. In each panel all other
    methods are faint. `chance_pct` is the accuracy of a guess, which is dotted.
    """

    def draw(axis: Axes, rows: pd.DataFrame, **style: Any) -> None:
        axis.plot(rows["share_pct"], rows["accuracy_pct"], **style)

    parts = {direction: curves[curves["direction"] == direction] for direction in ORDERS}
    figure, axes = _by_family(parts, draw, (2.1, 2.1))
    for line, (direction, order) in zip(axes, ORDERS.items(), strict=True):
        line[0].set_ylabel(f"{direction}:\n{order}\ntop-1 (%)")
        for axis in line:
            axis.set_ylim(0, 102)
            if chance_pct is not None:
                mark_level(axis, chance_pct, linewidth=0.8)
        if chance_pct is not None:
            below = {"textcoords": "offset points", "va": "top", "fontsize": 7}
            line[0].annotate("guess", (0, chance_pct), (2, -3), **below)
    for axis in axes[-1]:
        axis.set_xlabel(erased)
    heading(figure, title)
    return figure


def token_curves_figure(
    curves: pd.DataFrame, title: str, chance_pct: float | None = None
) -> Figure:
    """`perturbation_curves` of texts; `chance_pct` is where curves should end (BI-09)."""
    return perturbation_curves(curves, title, "erased tokens (%)", chance_pct)


def rationale_curves_figure(table: pd.DataFrame, title: str) -> Figure:
    """F1 against the number of tokens with its standard error: `method`, `rationale_table`."""
    by = "share_pct" if "share_pct" in table else "k"

    def draw(axis: Axes, rows: pd.DataFrame, **style: Any) -> None:
        axis.plot(rows[by], rows["f1_pct"], **style)
        if "label" in style:
            error = rows["standard_error_pts"]
            band = {"color": style["color"], "alpha": 0.2, "linewidth": 0}
            axis.fill_between(rows[by], rows["f1_pct"] - error, rows["f1_pct"] + error, **band)

    figure, axes = _by_family({"": table}, draw, (2.1, 2.4))
    axes[0, 0].set(ylabel="F1 (%)", ylim=(0, None))
    for axis in axes[0]:
        axis.set_xlabel("highest tokens\ntaken (k)" if by == "k" else "highest tokens\ntaken (%)")
    heading(figure, f"{title} (band: standard error)")
    return figure


def error_curves(errors: pd.DataFrame, title: str) -> Figure:
    """Squared error of each recurrence, block by block; needs `approximation.error_table`."""
    figure, axis = subplots(figsize=(6.5, 3))
    by_method = errors.groupby("method", sort=False)
    for (marker, line), (method, rows) in zip(cycle(LOOKS), by_method, strict=False):
        mean, spread = rows["mean_squared_error"], rows["std_squared_error"]
        low, high = (mean - spread).clip(lower=mean / 10), mean + spread
        colour = method_colour(method)
        style = {"marker": marker, "linestyle": line, "markersize": 4, "label": method}
        axis.plot(rows["block"], mean, color=colour, **style)
        axis.fill_between(rows["block"], low, high, color=colour, alpha=0.15, linewidth=0)
    axis.set(title=title, xlabel="block", ylabel="squared error", yscale="log")
    count_whole(axis)
    axis.legend(frameon=False)
    return figure


def _by_family(
    parts: Mapping[str, pd.DataFrame], draw: Callable[..., None], side: tuple[float, float]
) -> tuple[Figure, np.ndarray]:
    """A row a part, a column a family; `draw` adds one method's rows to a panel in a style."""
    names = list(dict.fromkeys(next(iter(parts.values()))["method"]))
    found = families(names)
    shape = (len(parts), len(found))
    size = (0.8 + side[0] * len(found), 0.9 + side[1] * len(parts))
    figure, axes = subplots(*shape, figsize=size, sharex=True, sharey=True, squeeze=False)
    for across, table in zip(axes, parts.values(), strict=True):
        rows = dict(list(table.groupby("method")))
        for axis, members in zip(across, found.values(), strict=True):
            for name in names:
                if name not in (*members, CHANCE):
                    draw(axis, rows[name], color=FAINT, linewidth=0.8, zorder=1)
            for (marker, line), name in zip(cycle(LOOKS), members, strict=False):
                style = {"marker": marker, "linestyle": line, "markersize": 3.5, "label": name}
                draw(axis, rows[name], color=method_colour(name), **style)
            if CHANCE in names:
                chance = {"color": "black", "linestyle": "-.", "linewidth": 1, "zorder": 1}
                draw(axis, rows[CHANCE], **chance)
    for axis, family in zip(axes[0], found, strict=True):
        handles, labels = axis.get_legend_handles_labels()
        over = {"loc": "lower center", "bbox_to_anchor": (0.5, 1), "frameon": False}
        axis.legend(handles, labels, title=family, fontsize=7.5, title_fontsize=8.5, **over)
    if CHANCE in names:
        line = Line2D(
            [], [], color="black", linestyle="-.", linewidth=1, label="an order by chance"
        )
        figure.legend(handles=[line], loc="outside lower right", frameon=False)
    return figure, axes
