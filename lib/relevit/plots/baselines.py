"""Pictures of GradMask and RRR. Every function returns a matplotlib figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from relevit.finetune.learning_rate import RISE_PCT
from relevit.plots.basics import BLUE, ORIGINAL, OURS, subplots

METHOD_TITLES = {"gradmask": "GradMask", "rrr": "RRR", "relevance": "ours"}
COLOURS = {"published": ORIGINAL, "mended": BLUE, "described": OURS}
MARKERS = {"published": "o", "mended": "s", "described": "^"}


def gap_dots(gaps: Mapping[tuple[str, str], pd.DataFrame], floor: float = 1e-8) -> Figure:
    """How far each parameter's gradient is from that of the labels alone, relative to its norm.

    `gaps` holds a table of `gradient_gap` for each (method, protocol). The axis is logarithmic
    above `floor` and goes on to an exact zero below it.
    """
    methods = list(dict.fromkeys(method for method, _ in gaps))
    figure, axes = subplots(
        1, len(methods), figsize=(10, 3.2), sharey=True, squeeze=False, layout="constrained"
    )
    for axis, method in zip(axes[0], methods, strict=True):
        for (owner, protocol), gap in gaps.items():
            if owner == method:
                ratio = gap["difference_norm"] / gap["alone_norm"].where(gap["alone_norm"] > 0)
                axis.plot(
                    ratio,
                    MARKERS[protocol],
                    color=COLOURS[protocol],
                    markersize=4,
                    label=protocol,
                    clip_on=False,
                )
        axis.set_yscale("symlog", linthresh=floor)
        axis.set(title=METHOD_TITLES[method], xlabel="parameter, from input to head")
    _from_zero(axes[0], floor)
    axes[0, 0].set_ylabel("difference / gradient\nof the labels alone")
    axes[0, -1].legend(frameon=False, loc="center right")
    return figure


def apart_curves(curves: Mapping[tuple[str, str], pd.DataFrame], floor: float = 1e-10) -> Figure:
    """Largest difference of a weight from plain finetuning, step by step, as `weights_apart`."""
    methods = list(dict.fromkeys(method for method, _ in curves))
    figure, axes = subplots(
        1, len(methods), figsize=(10, 2.9), sharey=True, squeeze=False, layout="constrained"
    )
    for axis, method in zip(axes[0], methods, strict=True):
        for (owner, protocol), rows in curves.items():
            if owner == method:
                axis.plot(
                    rows["step"],
                    rows["largest_difference"],
                    marker=MARKERS[protocol],
                    color=COLOURS[protocol],
                    label=protocol,
                    clip_on=False,
                )
        axis.set_yscale("symlog", linthresh=floor)
        axis.set(title=METHOD_TITLES[method], xlabel="AdamW step")
        axis.xaxis.get_major_locator().set_params(integer=True)
    _from_zero(axes[0], floor)
    axes[0, 0].set_ylabel("largest difference\nof a weight")
    axes[0, -1].legend(frameon=False, loc="center right")
    return figure


def step_sizes(sizes: pd.Series, marked: Mapping[str, float]) -> Figure:
    """Size of AdamW's first step (index: factor of the loss) and the factors that are in use."""
    figure, axis = subplots(figsize=(7.5, 2.9), layout="constrained")
    axis.plot(sizes.index, sizes, color=ORIGINAL, marker=".")
    for name, factor in marked.items():
        axis.axvline(factor, color=OURS, linestyle=":")
        axis.text(
            factor,
            1.02,
            name,
            transform=axis.get_xaxis_transform(),
            color=OURS,
            fontsize=8,
            ha="center",
            va="bottom",
        )
    axis.set(xscale="log", yscale="log", xlabel="weight of the cross-entropy")
    axis.set(ylabel="RMS of the step\n/ learning rate")
    return figure


def rate_dots(table: pd.DataFrame, limit_pts: float) -> Figure:
    """What the rule looks at and what became of the background term, a line a method.

    `table` as from `try_rates`; the dotted lines are the limits of the rule, and
    no change.
    """
    figure, axes = subplots(1, 3, figsize=(11, 3), sharex=True, layout="constrained")
    shown = table.assign(
        rise_pct=100 * (table["confidence_loss"] / table["confidence_loss_before"] - 1),
        fall_pct=100 * (table["background_after"] / table["background_before"] - 1),
    )
    names = {
        "drop_pts": "Loss of validation top-1",
        "rise_pct": "Classification loss",
        "fall_pct": "Background term",
    }
    limits = {"drop_pts": limit_pts, "rise_pct": RISE_PCT, "fall_pct": 0.0}
    markers = {"relevance": "D", "gradmask": "o", "rrr": "s"}
    for (method, protocol), rows in shown.groupby(["method", "protocol"], sort=False):
        for axis, column in zip(axes, names, strict=True):
            colour = BLUE if method == "relevance" else COLOURS[protocol]
            axis.plot(
                rows["rate"],
                rows[column],
                marker=markers[method],
                color=colour,
                alpha=0.8,
                label=f"{METHOD_TITLES[method]}, {protocol}",
            )
    for axis, (column, title) in zip(axes, names.items(), strict=True):
        axis.axhline(limits[column], color="black", linestyle=":")
        unit = "points" if column == "drop_pts" else "change (%)"
        axis.set(title=title, xscale="log", xlabel="rate, on the scale of ours", ylabel=unit)
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        frameon=False,
        ncols=5,
        fontsize=8,
        loc="outside lower center",
    )
    return figure


def _from_zero(axes: Iterable[Axes], floor: float) -> None:
    """Let axes with shared values begin at an exact zero."""
    top = max(axis.dataLim.y1 for axis in axes)
    for axis in axes:
        axis.set_ylim(0, 10 * top)
        axis.set_yticks([0.0, *(10.0**n for n in range(-10, 12, 3) if floor <= 10.0**n <= top)])
