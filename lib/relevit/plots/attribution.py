"""Pictures of the attribution notebooks. Every function returns a matplotlib figure."""

from __future__ import annotations

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from relevit.evaluate.segmentation import METRICS
from relevit.plots.basics import BLUE, ORIGINAL, OURS, subplots

METRIC_TITLES = dict(zip(METRICS, ("pixel accuracy", "mIoU", "mAP", "mF1"), strict=True))
LINES = ("-", "--", ":", "-.")


def segmentation_bars(table: pd.DataFrame, title: str) -> Figure:
    """The four numbers of each method with their intervals; needs `segmentation_table`."""
    figure, axes = subplots(1, 4, figsize=(11, 3.4), sharey=True, layout="constrained")
    for axis, (metric, name) in zip(axes, METRIC_TITLES.items(), strict=True):
        rows = table[table["metric"] == metric].iloc[::-1]
        error = (rows["value_pct"] - rows["low_pct"], rows["high_pct"] - rows["value_pct"])
        axis.barh(rows["method"], rows["value_pct"], xerr=error, color=BLUE, capsize=2)
        axis.set(title=name, xlabel="%")
    figure.suptitle(title, fontsize=10)
    return figure


def perturbation_curves(curves: pd.DataFrame, title: str) -> Figure:
    """Accuracy against the erased share, one line a method: `method` and `accuracy_curves`."""
    figure, axes = subplots(1, 2, figsize=(10, 3.6), sharey=True, layout="constrained")
    methods = list(dict.fromkeys(curves["method"]))
    colours = sns.color_palette("colorblind", len(methods))
    for axis, direction in zip(axes, ("positive", "negative"), strict=True):
        for i, method in enumerate(methods):
            rows = curves[(curves["method"] == method) & (curves["direction"] == direction)]
            axis.plot(
                rows["share_pct"],
                rows["accuracy_pct"],
                LINES[i // 4 % 4],
                color=colours[i],
                label=method,
            )
        first = "most" if direction == "positive" else "least"
        axis.set(title=f"{direction}: {first} relevant first", xlabel="erased (%)", ylim=(0, 102))
    axes[0].set_ylabel("top-1 (%)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right", frameon=False)
    figure.suptitle(title, fontsize=10)
    return figure


def area_bars(areas: pd.DataFrame, title: str) -> Figure:
    """Area under both curves with its standard error; needs `area_table`."""
    figure, axes = subplots(1, 2, figsize=(8, 3.4), sharey=True, layout="constrained")
    better = {"positive": "lower is better", "negative": "higher is better"}
    for axis, (direction, note) in zip(axes, better.items(), strict=True):
        rows = areas[areas["direction"] == direction].iloc[::-1]
        axis.barh(
            rows["method"], rows["auc_pct"], xerr=rows["standard_error_pts"], color=BLUE, capsize=2
        )
        axis.set(title=f"{direction} ({note})", xlabel="AUC (%)")
    figure.suptitle(title, fontsize=10)
    return figure


def error_curves(errors: pd.DataFrame, title: str) -> Figure:
    """Squared error of each recurrence, block by block; needs `approximation.error_table`."""
    figure, axis = subplots(figsize=(6.5, 3), layout="constrained")
    colours = {"rollout": ORIGINAL, "head_wise": BLUE, "token_wise": OURS}
    for method, rows in errors.groupby("method", sort=False):
        mean, spread = rows["mean_squared_error"], rows["std_squared_error"]
        axis.plot(rows["block"], mean, marker=".", color=colours[method], label=method)
        axis.fill_between(
            rows["block"],
            (mean - spread).clip(lower=mean / 10),
            mean + spread,
            color=colours[method],
            alpha=0.15,
            linewidth=0,
        )
    axis.set(title=title, xlabel="block", ylabel="squared error", yscale="log")
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.legend(frameon=False)
    return figure


def seconds_bars(seconds: dict[str, float], title: str) -> Figure:
    """What a map of each method costs."""
    figure, axis = subplots(figsize=(6.5, 2.8), layout="constrained")
    names = list(seconds)[::-1]
    axis.barh(names, [1000 * seconds[name] for name in names], color=ORIGINAL)
    axis.set(title=title, xlabel="milliseconds an image", xscale="log")
    return figure
