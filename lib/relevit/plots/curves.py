"""Curves of training, finetuning, erasing and of the methods. Every function returns a figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from relevit.evaluate.sis import Subsets
from relevit.finetune.learning_rate import RISE_PCT
from relevit.plots.style import (
    BLUE,
    ORIGINAL,
    OURS,
    count_whole,
    heading,
    legend_beside,
    mark_level,
    panels,
    subplots,
)
from relevit.training.epochs import History

LINES = ("-", "--", ":", "-.")
METHOD_TITLES = {"gradmask": "GradMask", "rrr": "RRR", "relevance": "ours"}
METHOD_MARKERS = {"relevance": "D", "gradmask": "o", "rrr": "s"}
PROTOCOLS = {"published": (ORIGINAL, "o"), "mended": (BLUE, "s"), "described": (OURS, "^")}


# Training and finetuning


def training_curve(log: pd.DataFrame) -> Figure:
    """Loss within the epochs and validation top-1 after each, of the original model."""
    figure, (left, right) = panels(2, 8, 2.6)
    parts = [(row.epoch - 1, row.curve) for row in log.itertuples() if isinstance(row.curve, list)]
    for start, curve in parts:
        epochs = start + (np.arange(len(curve)) + 0.5) / len(curve)
        left.plot(epochs, curve, color=OURS, marker=".")
    left.set(xlabel="epoch", ylabel="training loss (nats)", yscale="log", title="Training")
    right.plot(log["epoch"], log["validation_top1_pct"], color=OURS, marker="o")
    right.set(xlabel="epoch", ylabel="top-1 (%)", ylim=(0, 102), title="Validation images")
    return figure


def loss_curves(log: pd.DataFrame) -> Figure:
    """The loss terms and top-1 on the validation images over a finetuning run."""
    terms = ("background", "foreground", "classification", "total")
    figure, axes = panels(5, 12, 2.3)
    for axis, term in zip(axes, terms, strict=False):
        axis.plot(log["epoch"], log[f"validation_loss_{term}"], marker=".", color=OURS)
        axis.set(title=term, xlabel="epoch")
        axis.ticklabel_format(axis="y", style="sci", scilimits=(-3, 4))
    axes[0].set_ylabel("validation loss")
    axes[4].plot(log["epoch"], log["validation_top1_pct"], marker=".", color=ORIGINAL)
    axes[4].set(title="top-1 (%)", xlabel="epoch")
    for axis in axes:
        count_whole(axis)
    return figure


def rate_curves(histories: dict[float, History], limit_pts: float, class_loss: str) -> Figure:
    """What the learning-rate rule looks at, one line a rate; the dotted lines are its limits.

    `class_loss` is the column of the log that has the classification loss (`class_loss_column`).
    """
    figure, (left, right) = panels(2, 9, 2.8)
    colours = sns.color_palette("flare", len(histories))
    for colour, (lr, history) in zip(colours, histories.items(), strict=True):
        log = pd.DataFrame(history)
        style = {"color": colour, "marker": ".", "label": f"{lr:.1e}"}
        left.plot(log["epoch"], log["validation_top1_pct"][0] - log["validation_top1_pct"], **style)
        right.plot(log["epoch"], log[class_loss], **style)
    mark_level(left, limit_pts)
    mark_level(right, log[class_loss][0])
    left.set(title="Loss of validation top-1", xlabel="epoch", ylabel="points")
    right.set(title="Classification loss", xlabel="epoch", ylabel="nats")
    right.legend(frameon=False, title="learning rate")
    return figure


def sensitivity_curves(
    table: pd.DataFrame, x: str, title: str, label: str, *, log: bool = False
) -> Figure:
    """Change against one setting: the shifted sets' average (with its spread) and `val`.

    `table` has the columns `x`, `val`, `shifted_average` and `shifted_average_std`, in points.
    """
    figure, axis = subplots(figsize=(5.2, 2.8))
    shifted = {"marker": "o", "capsize": 3, "color": OURS, "label": "shifted sets, average"}
    axis.errorbar(table[x], table["shifted_average"], table["shifted_average_std"], **shifted)
    axis.plot(table[x], table["val"], marker="s", color=BLUE, label="val")
    axis.axhline(0, color="black", linewidth=0.8)
    axis.set(title=title, xlabel=label, ylabel="change of top-1 (points)")
    if log:
        axis.set_xscale("log")
    axis.set_xticks(table[x].to_list(), [f"{value:g}" for value in table[x]])
    axis.minorticks_off()
    axis.legend(frameon=False)
    return figure


def joining_curves(histories: Mapping[int, pd.DataFrame], guess: float | None = None) -> Figure:
    """Loss and scale of the projections' training, one line a seed; needs `Joint.history`.

    `guess` is the loss of one who knows nothing, in nats.
    """
    figure, (left, right) = panels(2, 8, 2.6)
    colours = sns.color_palette("colorblind", len(histories))
    for (seed, rows), colour in zip(histories.items(), colours, strict=True):
        left.plot(rows["epoch"], rows["loss"], color=colour, label=f"seed {seed}")
        right.plot(rows["epoch"], rows["scale"], color=colour)
    if guess is not None:
        mark_level(left, guess, linewidth=0.8, label="guess")
    left.set(xlabel="epoch", ylabel="loss (nats)", ylim=(0, None), title="Whose caption is it?")
    right.set(xlabel="epoch", ylabel="scale of cosines", title="Learned scale")
    left.legend(frameon=False, fontsize=8)
    return figure


# GradMask and RRR


def gap_dots(gaps: Mapping[tuple[str, str], pd.DataFrame], floor: float = 1e-8) -> Figure:
    """How far each parameter's gradient is from that of the labels alone, relative to its norm.

    `gaps` holds a table of `gradient_gap` for each (method, protocol). The axis is logarithmic
    above `floor` and goes on to an exact zero below it.
    """

    def draw(axis: Axes, gap: pd.DataFrame, **style: Any) -> None:
        ratio = gap["difference_norm"] / gap["alone_norm"].where(gap["alone_norm"] > 0)
        axis.plot(ratio, linestyle="", markersize=4, **style)
        axis.set_xlabel("parameter, from input to head")

    return _by_method(gaps, draw, 3.2, floor, "difference / gradient\nof the labels alone")


def apart_curves(curves: Mapping[tuple[str, str], pd.DataFrame], floor: float = 1e-10) -> Figure:
    """Largest difference of a weight from plain finetuning, step by step, as `weights_apart`."""

    def draw(axis: Axes, rows: pd.DataFrame, **style: Any) -> None:
        axis.plot(rows["step"], rows["largest_difference"], **style)
        axis.set_xlabel("AdamW step")
        count_whole(axis)

    return _by_method(curves, draw, 2.9, floor, "largest difference\nof a weight")


def step_sizes(sizes: pd.Series, marked: Mapping[str, float]) -> Figure:
    """Size of AdamW's first step (index: factor of the loss) and the factors that are in use."""
    figure, axis = subplots(figsize=(7.5, 2.9))
    axis.plot(sizes.index, sizes, color=ORIGINAL, marker=".")
    above = {"color": OURS, "fontsize": 8, "ha": "center", "va": "bottom"}
    for name, factor in marked.items():
        axis.axvline(factor, color=OURS, linestyle=":")
        axis.text(factor, 1.02, name, transform=axis.get_xaxis_transform(), **above)
    axis.set(xscale="log", yscale="log", xlabel="weight of the cross-entropy")
    axis.set(ylabel="RMS of the step\n/ learning rate")
    return figure


def rate_dots(table: pd.DataFrame, limit_pts: float) -> Figure:
    """What the rule looks at and what became of the background term, a line a method.

    `table` as from `try_rates`; the dotted lines are the limits of the rule, and
    no change.
    """
    shown = table.assign(
        rise_pct=100 * (table["class_loss"] / table["class_loss_before"] - 1),
        fall_pct=100 * (table["background_after"] / table["background_before"] - 1),
    )
    columns = {  # title, unit, limit
        "drop_pts": ("Loss of validation top-1", "points", limit_pts),
        "rise_pct": ("Classification loss", "change (%)", RISE_PCT),
        "fall_pct": ("Background term", "change (%)", 0.0),
    }
    figure, axes = panels(3, 11, 3, sharex=True)
    for axis, (column, (title, unit, limit)) in zip(axes, columns.items(), strict=True):
        for (method, protocol), rows in shown.groupby(["method", "protocol"], sort=False):
            axis.plot(
                rows["rate"],
                rows[column],
                marker=METHOD_MARKERS[method],
                color=BLUE if method == "relevance" else PROTOCOLS[protocol][0],
                alpha=0.8,
                label=f"{METHOD_TITLES[method]}, {protocol}",
            )
        mark_level(axis, limit)
        axis.set(title=title, xscale="log", xlabel="rate, on the scale of ours", ylabel=unit)
    entries = axes[0].get_legend_handles_labels()
    figure.legend(*entries, frameon=False, ncols=5, fontsize=8, loc="outside lower center")
    return figure


# Methods


def perturbation_curves(curves: pd.DataFrame, title: str) -> Figure:
    """Accuracy against the erased share, one line a method: `method` and `accuracy_curves`."""
    figure, axes = panels(2, 10, 3.6, sharey=True)
    methods = _method_lines(curves)
    for axis, direction in zip(axes, ("positive", "negative"), strict=True):
        for method, style in methods.items():
            rows = curves[(curves["method"] == method) & (curves["direction"] == direction)]
            axis.plot(rows["share_pct"], rows["accuracy_pct"], **style)
        first = "most" if direction == "positive" else "least"
        axis.set(title=f"{direction}: {first} relevant first", xlabel="erased (%)", ylim=(0, 102))
    axes[0].set_ylabel("top-1 (%)")
    legend_beside(figure, axes[0])
    heading(figure, title)
    return figure


def token_curves_figure(
    curves: pd.DataFrame, title: str, chance_pct: float | None = None
) -> Figure:
    """Accuracy against the erased share of tokens: `perturbation_curves` and the guess.

    `curves` has the column `method` and those of `accuracy_curves`; `chance_pct` is the
    accuracy of a guess, where curves should end (BI-09).
    """
    figure = perturbation_curves(curves, title)
    below = {"textcoords": "offset points", "va": "top", "fontsize": 7}
    for axis in figure.axes:
        axis.set_xlabel("erased tokens (%)")
        if chance_pct is not None:
            mark_level(axis, chance_pct, linewidth=0.8)
            axis.annotate("guess", (0, chance_pct), (2, -3), **below)
    return figure


def rationale_curves_figure(table: pd.DataFrame, title: str) -> Figure:
    """F1 against the number of tokens, one line a method: `method` and `rationale_table`."""
    by = "share_pct" if "share_pct" in table else "k"
    figure, axis = subplots(figsize=(6.5, 3.4))
    for name, style in _method_lines(table).items():
        rows = table[table["method"] == name]
        axis.errorbar(rows[by], rows["f1_pct"], rows["standard_error_pts"], capsize=2, **style)
    label = "highest tokens taken (k)" if by == "k" else "highest tokens taken (%)"
    axis.set(xlabel=label, ylabel="F1 (%)", ylim=(0, None))
    legend_beside(figure, axis)
    heading(figure, title)
    return figure


def error_curves(errors: pd.DataFrame, title: str) -> Figure:
    """Squared error of each recurrence, block by block; needs `approximation.error_table`."""
    figure, axis = subplots(figsize=(6.5, 3))
    colours = {"rollout": ORIGINAL, "head_wise": BLUE, "token_wise": OURS}
    for method, rows in errors.groupby("method", sort=False):
        mean, spread = rows["mean_squared_error"], rows["std_squared_error"]
        low, high = (mean - spread).clip(lower=mean / 10), mean + spread
        axis.plot(rows["block"], mean, marker=".", color=colours[method], label=method)
        band = {"color": colours[method], "alpha": 0.15, "linewidth": 0}
        axis.fill_between(rows["block"], low, high, **band)
    axis.set(title=title, xlabel="block", ylabel="squared error", yscale="log")
    count_whole(axis)
    axis.legend(frameon=False)
    return figure


def confidence_paths(runs: dict[str, Subsets], threshold_pct: float) -> Figure:
    """The target's confidence while pixels are removed, one line a pair."""
    figure, axes = panels(len(runs), 4.4 * len(runs), 2.8, sharey=True)
    for axis, (name, subsets) in zip(axes, runs.items(), strict=True):
        left = subsets.path_kept_pct.cpu()
        for path, found in zip(subsets.path_pct.T, subsets.found.tolist(), strict=True):
            axis.plot(left, path.cpu(), linewidth=1.2, color=OURS if found else ORIGINAL)
        mark_level(axis, threshold_pct, linewidth=0.8)
        axis.invert_xaxis()  # removing goes to the right
        axis.set(title=name, xlabel="pixels left (%)", ylim=(-2, 102))
    axes[0].set_ylabel("confidence in the label (%)")
    return figure


def _method_lines(table: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Line, colour and label of every method, in the order of the table."""
    methods = list(dict.fromkeys(table["method"]))
    colours = sns.color_palette("colorblind", len(methods))
    return {
        name: {"linestyle": LINES[i // 4 % 4], "color": colours[i], "label": name}
        for i, name in enumerate(methods)
    }


def _by_method(
    tables: Mapping[tuple[str, str], pd.DataFrame],
    draw: Callable[..., None],
    height: float,
    floor: float,
    label: str,
) -> Figure:
    """A panel a method, a line a protocol; values from an exact zero, logarithmic above `floor`."""
    methods = list(dict.fromkeys(method for method, _ in tables))
    figure, axes = panels(len(methods), 10, height, sharey=True)
    for axis, method in zip(axes, methods, strict=True):
        for (owner, protocol), table in tables.items():
            if owner == method:
                colour, marker = PROTOCOLS[protocol]
                draw(axis, table, color=colour, marker=marker, label=protocol, clip_on=False)
        axis.set_yscale("symlog", linthresh=floor)
        axis.set_title(METHOD_TITLES[method])
    top = max(axis.dataLim.y1 for axis in axes)
    for axis in axes:
        axis.set_ylim(0, 10 * top)
        axis.set_yticks([0.0, *(10.0**n for n in range(-10, 12, 3) if floor <= 10.0**n <= top)])
    axes[0].set_ylabel(label)
    axes[-1].legend(frameon=False, loc="center right")
    return figure
