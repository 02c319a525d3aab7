"""Curves: of finetuning, of erasing, of attribution methods. Every function returns a figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import cycle
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import ScaledTranslation

from relevit.choices.finetuning import FinetuneChoices
from relevit.evaluate.sis import Subsets
from relevit.finetune.epochs import History
from relevit.finetune.learning_rate import RISE_NATS, class_loss_column, judge, kept_epoch
from reproduction.plots.style import (
    CHANCE,
    FAINT,
    GAIN,
    LOSS,
    OURS,
    PROTOCOLS,
    band,
    count_whole,
    families,
    legend_beside,
    mark_level,
    method_colour,
    panels,
    reach,
    subplots,
)
from reproduction.runs.in_words import METHOD_TITLES

ORDERS = {"positive": "most relevant first", "negative": "least relevant first"}
# Of methods of a family, in turn; the dashes of one let another be seen below it.
LOOKS = (("o", "-"), ("s", (0, (3, 1.5))), ("D", (0, (1.5, 1.5))))


# Training and finetuning


def rate_curves(
    histories: Mapping[float, History], limit_pts: float, params: FinetuneChoices
) -> Figure:
    """What the learning-rate rule looks at, one line a rate; the dotted lines are its limits.

    The rule judges the epoch whose weights `params` keep: a full dot where the rate passes, a
    cross where it does not.
    """
    figure, (left, right) = panels(2, 10, 2.9)
    shades = np.linspace(0.2, 1, len(histories))  # what is before is too pale
    colours = mpl.colormaps["viridis_r"](shades)
    column = class_loss_column(params)
    for colour, (lr, history) in zip(colours, histories.items(), strict=True):
        log = pd.DataFrame(history).dropna(subset=[column])  # epochs whose images were looked at
        verdict, kept = judge(lr, history, params), kept_epoch(history, params.keep)
        passes = verdict["drop_pts"] <= limit_pts and not verdict["rising"]
        left.plot(
            log["epoch"], log["validation_top1_pct"][0] - log["validation_top1_pct"], color=colour
        )
        right.plot(log["epoch"], log[column], color=colour, label=f"{lr:g}")
        end = {"color": colour, "marker": "o" if passes else "X", "markersize": 8, "zorder": 3}
        left.plot(kept, verdict["drop_pts"], **end)
        right.plot(kept, verdict["class_loss"], **end)
    mark_level(left, limit_pts)
    mark_level(right, log[column][0] + RISE_NATS)
    left.set(title="Fall of validation top-1", xlabel="epoch", ylabel="points")
    reach(left, -1, 1)
    count_whole(left)
    count_whole(right)
    right.set(title="Classification loss", xlabel="epoch", ylabel="nats")
    plain = {"color": "black", "linestyle": ""}
    handles = [
        *right.get_legend_handles_labels()[0],
        Line2D([], [], color="black", linestyle=":", label="limit"),
        Line2D([], [], marker="o", label="kept epoch, passes", **plain),
        Line2D([], [], marker="X", label="kept epoch, fails", **plain),
    ]
    figure.legend(handles=handles, loc="outside right center", frameon=False, title="learning rate")
    return figure


def sensitivity_curves(
    table: pd.DataFrame, x: str, title: str, label: str, *, log: bool = False
) -> Figure:
    """Change against one setting: the shifted sets' average with its 95 % interval, and `val`.

    `table` has the columns `x`, `val`, `change_pts`, `low_pts` and `high_pts`, in points.
    """
    figure, axis = subplots(figsize=(8, 2.8))
    shifted = {"marker": "o", "capsize": 3, "color": OURS, "label": "shifted sets, average"}
    ends = [table["change_pts"] - table["low_pts"], table["high_pts"] - table["change_pts"]]
    axis.errorbar(table[x], table["change_pts"], ends, **shifted)
    plain = {"marker": "s", "linestyle": "--", "color": OURS, "markerfacecolor": "white"}
    # A little to the right: where both changes are the same, one mark would hide the other.
    plain["transform"] = axis.transData + ScaledTranslation(1 / 16, 0, figure.dpi_scale_trans)
    axis.update_datalim(table[[x, "val"]].to_numpy())  # which a moved line does not
    axis.plot(table[x], table["val"], label="val, as in training", **plain)
    axis.axhline(0, color="black", linewidth=0.8)
    axis.set(title=title, xlabel=label, ylabel="change of top-1 (points)")
    axis.set_xscale("log" if log else "linear")
    axis.set_xticks(table[x].to_list(), [f"{value:g}" for value in table[x]])
    axis.minorticks_off()
    legend_beside(figure, axis)
    return figure


# GradMask and RRR


def gap_dots(gaps: Mapping[tuple[str, str], pd.DataFrame], floor: float = 1e-8) -> Figure:
    """How far each parameter's gradient is from that of the labels alone, relative to its norm.

    `gaps` holds a table of `gradient_gap` for each (method, protocol). A panel a method; the axis
    is logarithmic above `floor` and goes on to an exact zero below it.
    """
    methods = list(dict.fromkeys(method for method, _ in gaps))
    figure, axes = panels(len(methods), 10, 3.2, sharey=True)
    for (method, protocol), gap in gaps.items():
        ratio = gap["difference_norm"] / gap["alone_norm"].where(gap["alone_norm"] > 0)
        colour, marker = PROTOCOLS[protocol]
        style = {"color": colour, "marker": marker, "markersize": 4, "linestyle": ""}
        axes[methods.index(method)].plot(ratio, label=protocol, clip_on=False, **style)
    top = max(axis.dataLim.y1 for axis in axes)
    for axis, method in zip(axes, methods, strict=True):
        axis.set_yscale("symlog", linthresh=floor)
        axis.set(title=METHOD_TITLES[method], xlabel="parameter, from input to head")
        axis.set_ylim(-0.4 * floor, 10 * top)  # marks at zero are whole
        axis.set_yticks([0.0, *(10.0**n for n in range(-10, 12, 3) if floor <= 10.0**n <= top)])
    axes[0].set_ylabel("difference / gradient\nof the labels alone")
    legend_beside(figure, axes[0])
    return figure


# Erasing, rationales, subsets


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
    figure.suptitle(title, fontsize=10)
    return figure


def chance_curves(curves: pd.DataFrame, title: str) -> Figure:
    """Accuracy against the erased share, of a map in both orders and of an order by chance.

    `curves` has the column `method`, CHANCE among it, and those of `accuracy_curves`. What the map
    gains over chance is shaded. Of chance both orders say the same: their mean is drawn.
    """
    figure, (axis,) = panels(1, 7, 3)
    by_chance = curves["method"] == CHANCE
    chance = curves[by_chance].groupby("share_pct")["accuracy_pct"].mean()
    for name, rows in curves[~by_chance].groupby("method", sort=False):
        for (direction, order), (marker, line) in zip(ORDERS.items(), LOOKS, strict=False):
            of = rows[rows["direction"] == direction].set_index("share_pct")["accuracy_pct"]
            style = {"marker": marker, "linestyle": line, "label": f"{name}, {order}"}
            axis.plot(of.index, of, color=method_colour(name), **style)
            band(axis, of.index, of, chance, method_colour(name), 0.12)
    axis.plot(chance.index, chance, color="black", linestyle="-.", label="an order by chance")
    axis.set(title=title, xlabel="erased (%)", ylabel="top-1 (%)", ylim=(0, 102))
    legend_beside(figure, axis)
    return figure


def rationale_curves_figure(table: pd.DataFrame, title: str) -> Figure:
    """F1 against the number of tokens with its 95 % interval: `method`, `rationale_table`."""
    by = "share_pct" if "share_pct" in table else "k"

    def draw(axis: Axes, rows: pd.DataFrame, **style: Any) -> None:
        axis.plot(rows[by], rows["f1_pct"], **style)
        if "label" in style:
            error = 1.96 * rows["standard_error_pts"]
            band(axis, rows[by], rows["f1_pct"] - error, rows["f1_pct"] + error, style["color"])

    figure, axes = _by_family({"": table}, draw, (2.1, 2.4))
    axes[0, 0].set(ylabel="F1 (%)", ylim=(0, None))
    for axis in axes[0]:
        axis.set_xlabel("highest tokens\ntaken (k)" if by == "k" else "highest tokens\ntaken (%)")
    figure.suptitle(f"{title} (band: 95 % interval)", fontsize=10)
    return figure


def error_curves(errors: pd.DataFrame, title: str) -> Figure:
    """Squared error of each recurrence, its 95 % interval over images, block by block.

    Needs `approximation.error_table`.
    """
    figure, axis = subplots(figsize=(6.5, 3))
    by_method = errors.groupby("method", sort=False)
    for (marker, line), (method, rows) in zip(cycle(LOOKS), by_method, strict=False):
        mean = rows["mean_squared_error"]
        half = 1.96 * rows["std_squared_error"] / rows["images"] ** 0.5
        colour = method_colour(method)
        style = {"marker": marker, "linestyle": line, "markersize": 4, "label": method}
        axis.plot(rows["block"], mean, color=colour, **style)
        low = (mean - half).clip(lower=mean / 10)  # the axis has no 0
        band(axis, rows["block"], low, mean + half, colour)
    axis.set(title=title, xlabel="block", ylabel="squared error", yscale="log")
    count_whole(axis)
    axis.legend(frameon=False)
    return figure


def confidence_paths(subsets: Subsets, threshold_pct: float, title: str) -> Figure:
    """The target's confidence while pixels are removed, one line a pair."""
    figure, (axis,) = panels(1, 5.7, 2.8)
    # The few failures lie over the many that succeed, which let each other be seen.
    kinds = {
        True: {"label": "subset found", "color": GAIN, "alpha": 0.35, "zorder": 2},
        False: {"label": "none found", "color": LOSS, "linestyle": "--", "zorder": 3},
    }
    left = subsets.path_kept_pct.cpu()
    for path, found in zip(subsets.path_pct.T, subsets.found.tolist(), strict=True):
        axis.plot(left, path.cpu(), linewidth=1.2, **kinds[found])
    mark_level(axis, threshold_pct, linewidth=0.8)
    axis.invert_xaxis()  # removing goes to the right
    axis.set(title=title, xlabel="pixels left (%)", ylim=(-2, 102))
    axis.set_ylabel("confidence in the label (%)")
    handles = [Line2D([], [], **kind) for kind in kinds.values()]
    handles.append(Line2D([], [], color="black", linestyle=":", label="sure"))
    figure.legend(handles=handles, loc="outside right center", frameon=False)
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
