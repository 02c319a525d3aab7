"""Bars, dots and boxes, tables as colours, the chart of the stages. All functions give figures."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import networkx as nx
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from relevit.plots.style import (
    CHANGE,
    CLASS_COLOURS,
    GAIN,
    INK,
    LOSS,
    MEANINGS,
    OBJECT,
    ORIGINAL,
    OURS,
    PALE_OBJECT,
    PROPS,
    REST,
    legend_beside,
    name_sets,
    panels,
    subplots,
)

WORD_COLOURS = (OBJECT, PALE_OBJECT, PROPS, REST)  # class, colour, background, other
COLUMNS = 3
Passing = tuple[str, str, int]  # of an arrow: from, to, and the column that it passes


# Sets and classes


def accuracy_bars(accuracy: pd.DataFrame, title: str) -> Figure:
    """Top-1 of one model on each set, with the 95 % interval over images."""
    figure, axis = subplots(figsize=(7.5, 2.6))
    error = _reach_pct(accuracy["top1_pct"], accuracy["images"])
    axis.bar(range(len(accuracy)), accuracy["top1_pct"], yerr=error, color=ORIGINAL, capsize=3)
    name_sets(axis, accuracy["dataset"])
    axis.set(ylabel="top-1 (%)", ylim=(0, 105), title=title)
    axis.grid(visible=False, axis="x")
    return figure


def accuracy_dots(table: pd.DataFrame, original: str, title: str) -> Figure:
    """Accuracy of the original and of every finetuned run; needs `knn_table`."""
    groups = table.groupby(["data", "k"], sort=False)
    figure, axis = subplots(figsize=(7.5, 2.8))
    for place, (_, rows) in enumerate(groups):
        before = rows[rows["model_run"] == original].iloc[0]
        axis.errorbar(
            place - 0.1,
            before["accuracy_pct"],
            yerr=_reach_pct(before["accuracy_pct"], before["images"]),
            fmt="o",
            color=ORIGINAL,
            capsize=3,
            label=None if place else "original, 95 % interval over images",
        )
        after = rows.loc[rows["model_run"] != original, "accuracy_pct"]
        axis.plot(
            place + 0.12 + 0.07 * np.arange(len(after)),  # side by side: seeds may agree
            after,
            "_",
            color=OURS,
            markersize=7,
            markeredgewidth=2,
            label=None if place else "ours, one dash a seed",
        )
    axis.set_xticks(range(len(groups)), [f"{data}\nk = {k}" for data, k in groups.groups])
    axis.set(ylabel="accuracy (%)", ylim=(0, 102), xlim=(-0.5, len(groups) - 0.5), title=title)
    axis.legend(frameon=False, loc="lower left")
    return figure


def relevance_bars(where: pd.DataFrame, title: str) -> Figure:
    """Mean IoU and share of the relevance on the object, for each set."""
    figure, axis = subplots(figsize=(7.5, 2.8))
    measures = {
        "on_object_pct": ("relevance on the object", OBJECT),
        "iou_pct": ("IoU with the mask", PALE_OBJECT),
    }
    offsets, width = _side_by_side(len(measures))
    for (column, (label, colour)), offset in zip(measures.items(), offsets, strict=True):
        axis.bar(np.arange(len(where)) + offset, where[column], width, color=colour, label=label)
    name_sets(axis, where["dataset"])
    axis.set(title=title, ylabel="%", ylim=(0, 100))
    axis.grid(visible=False, axis="x")
    axis.legend(frameon=False, ncols=2)
    return figure


def change_bars(changes: pd.DataFrame, title: str) -> Figure:
    """Mean change of top-1 over seeds with its standard deviation, one bar a set.

    `changes` holds `dataset`, `change` and `std`, and optionally `group` for bars side by side.
    """
    figure, axis = subplots(figsize=(7.5, 2.8))
    draw_changes(axis, changes, title)
    return figure


def draw_changes(axis: Axes, changes: pd.DataFrame, title: str) -> None:
    """The bars of `change_bars` on a given axis; a group's name says its colour (MEANINGS).

    A missing spread, as of one seed, leaves its bar without a cap.
    """
    sets = list(dict.fromkeys(changes["dataset"]))
    parts = dict(list(changes.groupby("group", sort=False))) if "group" in changes else {}
    offsets, width = _side_by_side(max(1, len(parts)))
    for (group, part), offset in zip((parts or {"ours": changes}).items(), offsets, strict=True):
        places = np.array([sets.index(name) for name in part["dataset"]]) + offset
        style = {"capsize": 3, "color": MEANINGS.get(group, OURS), "label": group}
        axis.bar(places, part["change"], width, yerr=part["std"], **style)
    axis.axhline(0, color="black", linewidth=0.8)
    name_sets(axis, sets)
    axis.grid(visible=False, axis="x")
    axis.set(ylabel="change of top-1 (points)", title=title)
    if parts:  # beside the bars: there is no corner that no set's error bar reaches
        axis.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))


def class_bars(changes: pd.Series, title: str) -> Figure:
    """One bar a class, in the order given; `changes` maps class names to points."""
    figure, axis = subplots(figsize=(9, 2.8))
    axis.bar(changes.index, changes.to_numpy(), color=_signs(changes))
    axis.axhline(0, color="black", linewidth=0.8)
    axis.set(ylabel="change (points)", title=title)
    axis.tick_params(axis="x", rotation=90, labelsize=7)
    axis.grid(visible=False, axis="x")
    axis.margins(x=0.01)
    return figure


def class_grid(table: pd.DataFrame, classes_a: Collection[int], title: str) -> Figure:
    """Each class's change of top-1 on each set, sorted; compare RobustViT Figs. 8-14.

    `table` is that of `class_changes.class_table`; the classes of `classes_a` have one colour,
    the others another. The name of the first and of the last class is written.
    """
    sets = list(dict.fromkeys(table["dataset"]))
    line = 0.12 * np.ptp(table["change_top1_pts"])  # height of a line of text, in points
    rows = -(-len(sets) // COLUMNS)
    figure, axes = subplots(
        rows, COLUMNS, figsize=(10.5, 2.05 * rows + 0.5), sharey=True, squeeze=False
    )
    for axis, name in zip(axes.flat, sets, strict=False):
        part = table[table["dataset"] == name].sort_values(["change_top1_pts", "label"])
        colours = [CLASS_COLOURS["A" if label in classes_a else "B"] for label in part["label"]]
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
    present = ["A"] if set(table["label"]) <= set(classes_a) else list(CLASS_COLOURS)
    handles = [Patch(color=CLASS_COLOURS[kind], label=f"classes {kind}") for kind in present]
    figure.legend(handles=handles, loc="outside upper right", ncols=2, frameon=False)
    figure.suptitle(title, fontsize=10, x=0.02, ha="left")
    return figure


def size_pictures(
    classes: pd.DataFrame, images: pd.DataFrame, bins: int = 5, named: int = 3
) -> Figure:
    """Change against the object's size: a point a class, and a mean for each fifth of images.

    Both tables hold `size_pct` and `change_pts`; the index of `classes` is their names, and the
    `named` classes with the largest and with the lowest change get theirs written. The errors
    are over images.
    """
    figure, (left, right) = panels(2, 9.5, 3.2)
    left.scatter(classes["size_pct"], classes["change_pts"], s=16, color=OURS)
    order = classes.sort_values("change_pts")
    text = {"textcoords": "offset points", "fontsize": 7}
    for end in (order.head(named), order.tail(named)):
        for i, (name, row) in enumerate(end.sort_values("size_pct").iterrows()):
            # To the left, to the right, below: names of neighbours must not meet.
            place, align = (((-4, 2), "right"), ((4, 2), "left"), ((4, -8), "left"))[i % 3]
            left.annotate(
                name, (row["size_pct"], row["change_pts"]), xytext=place, ha=align, **text
            )
    left.set(title="classes, shifted sets", xlabel="square covered by the drawing (%)")
    left.set_ylabel("change of top-1 (points)")
    fifth = pd.qcut(images["size_pct"], bins, duplicates="drop")
    groups = images.groupby(fifth, observed=True)
    change, style = groups["change_pts"], {"color": OURS, "marker": "o", "capsize": 3}
    right.errorbar(groups["size_pct"].mean(), change.mean(), yerr=change.sem(), **style)
    right.set(title="si_size: mean of each fifth of images, ± standard error")
    right.set(xlabel="image covered by the object (%)", ylabel="change of top-1 (points)")
    for axis in (left, right):
        axis.axhline(0, color="black", linewidth=0.8)
        axis.margins(x=0.12)
    return figure


# Images with text


def zero_shot_bars(table: pd.DataFrame, title: str) -> Figure:
    """Accuracy of each seed and group with its interval, and chance as a line.

    Needs seed, classes, accuracy_pct, low_pct, high_pct, chance_pct.
    """
    groups, seeds = (list(dict.fromkeys(table[name])) for name in ("classes", "seed"))
    figure, axis = subplots(figsize=(1.8 + 1.1 * len(groups) * max(1, len(seeds) / 2), 2.8))
    colours = [MEANINGS.get(f"{name} classes", INK) for name in groups]
    offsets, width = _side_by_side(len(seeds))
    for seed, offset in zip(seeds, offsets, strict=True):
        rows = table[table["seed"] == seed].set_index("classes").loc[groups]
        axis.bar(
            np.arange(len(groups)) + offset,
            rows["accuracy_pct"],
            0.9 * width,
            yerr=np.clip(reaches(rows, "accuracy"), 0, None),
            capsize=2,
            color=colours,
        )
    chance = table.groupby("classes")["chance_pct"].mean()[groups]
    for place, height in enumerate(chance):
        ends, label = [place - 0.45, place + 0.45], None if place else "chance"
        axis.plot(ends, [height] * 2, ":", color="black", linewidth=1.4, label=label)
    axis.set_xticks(range(len(groups)), [f"{name} classes" for name in groups])
    axis.set(xlabel="one bar a seed", ylabel="zero-shot top-1 (%)", ylim=(0, 102), title=title)
    axis.grid(axis="x", visible=False)
    axis.legend(frameon=False, fontsize=8)
    return figure


def pointing_bars(table: pd.DataFrame, title: str) -> Figure:
    """Share of maps that point at their own object, with its standard error; needs `pointing`."""
    groups = list(dict.fromkeys(table["classes"]))
    methods = list(dict.fromkeys(table["method"]))[::-1]
    figure, axis = subplots(figsize=(6.5, 0.7 + 0.42 * len(methods)))
    offsets, height = _side_by_side(len(groups))
    for name, offset in zip(groups, offsets, strict=True):
        rows = table[table["classes"] == name].groupby("method")
        share, error = (rows[c].mean()[methods] for c in ("own_object_pct", "standard_error_pts"))
        axis.barh(
            np.arange(len(methods)) - offset,
            share,
            0.9 * height,
            xerr=[np.minimum(error, share), np.minimum(error, 100 - share)],  # of what can be
            capsize=2,
            label=f"{name} classes",
            color=MEANINGS.get(f"{name} classes", INK),
        )
    axis.axvline(50, color="black", linewidth=1.4, linestyle=":", label="chance")
    axis.set_yticks(range(len(methods)), methods)
    axis.set(xlabel="points at its own object (%), ± standard error", xlim=(0, 102), title=title)
    axis.grid(axis="y", visible=False)
    legend_beside(figure, axis)
    return figure


def word_bars(table: pd.DataFrame, title: str) -> Figure:
    """What each kind of word has of a caption's relevance, stacked; needs `word_shares`.

    A method without any positive value has no bar and is marked.
    """
    wide = table.pivot(index="method", columns="kind", values="share_pct")
    wide = wide.loc[list(dict.fromkeys(table["method"])), list(dict.fromkeys(table["kind"]))]
    figure, axis = subplots(figsize=(7, 0.8 + 0.32 * len(wide)))
    stacked_bars(axis, wide, dict(zip(wide, WORD_COLOURS, strict=False)))
    for place in np.flatnonzero(wide.sum(axis=1) == 0):
        axis.text(1, place, "no map", va="center", fontsize=8)
    axis.set(xlabel="share of the caption's relevance (%)", title=title)
    legend_beside(figure, axis)
    return figure


def stacked_bars(axis: Axes, shares_pct: pd.DataFrame, colours: Mapping[str, str]) -> None:
    """Rows as bars from the top, columns as their parts with the numbers on them."""
    left = np.zeros(len(shares_pct))
    for part, colour in colours.items():
        values = shares_pct[part].to_numpy()
        bars = axis.barh(shares_pct.index, values, left=left, color=colour, label=part)
        labels = [f"{value:.0f}" if value >= 3 else "" for value in values]
        ink = "white" if colour == OBJECT else "black"
        axis.bar_label(bars, labels, label_type="center", fontsize=8, color=ink)
        left += values
    axis.invert_yaxis()
    axis.set_xlim(0, 100)
    axis.grid(visible=False, axis="y")


# Many runs, masks, stages


def change_heatmap(changes: pd.DataFrame, title: str) -> Figure:
    """Mean change of top-1 in points: one row a kind of run, one column a set, signed numbers.

    Orange falls, blue rises; the colours end at the largest change, that of a row far beyond
    all others aside.
    """
    rows, columns = changes.shape
    figure, axis = subplots(figsize=(2.6 + 0.78 * columns, 0.9 + 0.34 * rows))
    largest = max(1.0, _largest_but_one_far(changes.abs().max(axis=1)))
    numbers = {"annot": True, "fmt": "+.1f", "annot_kws": {"size": 8}}
    colours = {"cmap": CHANGE, "center": 0, "vmin": -largest, "vmax": largest, "cbar": False}
    sns.heatmap(changes, linewidths=1, ax=axis, **numbers, **colours)
    beyond = changes.abs().to_numpy() > largest
    axis.set(
        title=title, xlabel=f"colours end at ±{largest:.1f}" if beyond.any() else "", ylabel=""
    )
    axis.tick_params(length=0)
    axis.set_xticks(axis.get_xticks(), [str(c).replace("_", "\n") for c in changes], rotation=0)
    axis.set_yticks(axis.get_yticks(), axis.get_yticklabels(), rotation=0)
    return figure


def average_bars(means: pd.Series, spread: pd.Series, title: str, label: str) -> Figure:
    """One bar a kind of run, from the top in the order given, with its spread over the runs.

    A bar far beyond all others is cut, and its number written: it would hide their differences.
    """
    figure, axis = subplots(figsize=(7, 0.8 + 0.3 * len(means)))
    places = np.arange(len(means))[::-1]
    axis.barh(places, means, xerr=spread, color=_signs(means), capsize=3, height=0.65)
    axis.axvline(0, color="black", linewidth=0.8)
    axis.set_yticks(places, means.index)
    axis.set(title=title, xlabel=label)
    axis.grid(visible=False, axis="y")
    ends = means.abs() + np.nan_to_num(spread.to_numpy())
    end = 1.15 * _largest_but_one_far(ends)
    for place, value in zip(places[ends > end], means[ends > end], strict=True):
        inside = {"va": "center", "fontsize": 8, "color": "white", "weight": "bold"}
        if value < 0:
            axis.set_xlim(left=-end)
            axis.text(-end, place, f" ◂ {value:.1f}", ha="left", **inside)
        else:
            axis.set_xlim(right=end)
            axis.text(end, place, f"{value:+.1f} ▸ ", ha="right", **inside)
    return figure


def share_table(shares_pct: pd.DataFrame, title: str) -> Figure:
    """A table of percentages as colours, the names of its rows at the left."""
    figure, axis = subplots(figsize=(5, 0.9 + 0.14 * len(shares_pct)))
    bar = {"label": "%", "shrink": 0.5}
    sns.heatmap(shares_pct, cmap="mako_r", vmin=0, vmax=100, ax=axis, cbar_kws=bar, yticklabels=1)
    axis.set(title=title, xlabel="", ylabel="")
    axis.tick_params(axis="y", labelsize=7, length=0, rotation=0)
    return figure


def quality_plot(quality: pd.DataFrame) -> Figure:
    """IoU of each image before and after refinement, the boxes found, and what is kept.

    `quality` holds `images`, `seed`, `stage`, `iou_pct`, `located` and `kept`. Bars are means
    over images.
    """
    figure, (left, right) = panels(2, 9, 3.2, width_ratios=(3, 2))
    colours = {"coarse": PALE_OBJECT, "refined": OBJECT}
    shared = {"data": quality, "x": "images", "y": "iou_pct", "hue": "stage", "palette": colours}
    sns.boxplot(**shared, ax=left, showfliers=False, width=0.7, boxprops={"alpha": 0.35})
    sns.stripplot(**shared, ax=left, dodge=True, size=2.5, alpha=0.5, jitter=False, legend=False)
    random = np.random.default_rng(0)  # seaborn's own jitter is another one each time
    for dots in left.collections:
        x, y = dots.get_offsets().T
        dots.set_offsets(np.column_stack([x + random.uniform(-0.11, 0.11, len(x)), y]))
    left.set(title="Overlap with the exact mask", xlabel="", ylabel="IoU (%)", ylim=(-3, 103))
    left.get_legend().remove()
    located = 100 * quality.pivot_table(index="images", columns="stage", values="located")
    kept = quality[quality["stage"] == "refined"].groupby("images")["kept"].mean()
    shares = located[list(colours)].assign(kept=100 * kept)
    shares.plot.bar(ax=right, color=[*colours.values(), INK], rot=0, width=0.75, legend=False)
    right.set(title="Boxes found (CorLoc), and kept", xlabel="", ylabel="images (%)", ylim=(0, 100))
    right.grid(visible=False, axis="x")
    legend_beside(figure, right)
    return figure


def flow_chart(graph: nx.DiGraph, title: str) -> Figure:
    """The stages as boxes, each in the column after the last of those it needs.

    An arrow that passes a column has a place of its own there, so that it meets no box.
    """
    graph = _by_columns(graph)
    places: dict[str | Passing, tuple[float, float]] = {}

    def height(name: str | Passing) -> tuple[float, int, str]:
        """Beside what it needs, so that few arrows cross."""
        needed = [places[before][1] for before in graph.predecessors(name)]
        return float(np.mean(needed or 0)), -graph.out_degree(name), str(name)

    for column, names in enumerate(nx.topological_generations(graph)):
        ordered = sorted(names, key=height)
        places |= {name: (column, row - len(names) / 2) for row, name in enumerate(ordered)}
    figure, axis = subplots(figsize=(9, 3.5))
    box = {"boxstyle": "round,pad=0.4", "facecolor": "#eef1f5", "edgecolor": ORIGINAL}
    middle = {"ha": "center", "va": "center", "fontsize": 9, "bbox": box}
    stages = {name: at for name, at in places.items() if isinstance(name, str)}
    boxes = {name: axis.text(*at, name, **middle).get_bbox_patch() for name, at in stages.items()}
    # From box to box, wherever these are drawn; level beside them, so that none meets another.
    level = {"connectionstyle": "arc,angleA=0,angleB=180,armA=38,armB=38,rad=8"}
    for start, end in sorted(graph.edges, key=str):  # networkx may have them in another order
        line = {"color": ORIGINAL, "arrowstyle": "-|>" if end in boxes else "-"} | level
        line |= {"patchA": boxes.get(start), "patchB": boxes.get(end)}
        line |= {"shrinkA": 2 if start in boxes else 0, "shrinkB": 2 if end in boxes else 0}
        axis.annotate("", places[end], places[start], arrowprops=line)
    for name, place in stages.items():  # over the arrows that come near
        axis.text(*place, name, **middle, zorder=4)
    axis.update_datalim(list(places.values()))  # which texts do not
    axis.invert_yaxis()
    axis.set_title(title)
    axis.set_axis_off()
    axis.margins(x=0.1, y=0.1)
    return figure


def _by_columns(graph: nx.DiGraph) -> nx.DiGraph:
    """The graph with a passing place in each column that an edge would skip."""
    columns = {
        name: column
        for column, names in enumerate(nx.topological_generations(graph))
        for name in names
    }
    longer = nx.DiGraph()
    longer.add_nodes_from(graph)
    for start, end in graph.edges:
        between = range(columns[start] + 1, columns[end])
        nx.add_path(longer, [start, *((start, end, column) for column in between), end])
    return longer


def _largest_but_one_far(sizes: pd.Series) -> float:
    """The largest, or the second if that is less than half of it: a scale for the others."""
    *_, second, first = (0.0, *sorted(sizes.dropna()))
    return second if 0 < 2 * second < first else first


def _signs(changes: pd.Series) -> list[str]:
    """The colour of a gain or a loss for each change."""
    return [GAIN if value >= 0 else LOSS for value in changes]


def _reach_pct(share_pct: pd.Series | float, images: pd.Series | int) -> pd.Series | float:
    """Half the width of the 95 % interval of an accuracy over so many images."""
    share = share_pct / 100
    return 196 * (share * (1 - share) / images) ** 0.5


def reaches(rows: pd.DataFrame, name: str) -> tuple[pd.Series, pd.Series]:
    """How far each interval reaches below and above its value."""
    value = rows[f"{name}_pct"]
    return value - rows["low_pct"], rows["high_pct"] - value


def _side_by_side(bars: int) -> tuple[np.ndarray, float]:
    """Where so many bars stand around their common place, and how wide each is."""
    width = 0.8 / bars
    return (np.arange(bars) - (bars - 1) / 2) * width, width


def _name_ends(axis: Axes, part: pd.DataFrame, line: float) -> None:
    """Write the first class beside the bars that fall as far, the last beside its like."""
    change, name = part["change_top1_pts"], part["name"]
    low, high = change.iloc[0], change.iloc[-1]
    if low < 0:
        x = (change < min(0, low + line)).sum()
        axis.text(x, low, name.iloc[0], fontsize=7.5, va="bottom")
    if high > 0:
        x = len(part) - 1 - (change > max(0, high - line)).sum()
        axis.text(x, high, name.iloc[-1], fontsize=7.5, ha="right", va="top")
