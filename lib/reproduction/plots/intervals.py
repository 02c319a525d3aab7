"""Bars and points with their intervals, and bars that stack. All functions give figures.

`intervals` draws nearly all of them: what a table's columns are is told by the function's name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.transforms import Bbox

from relevit.evaluate.segmentation import METRICS
from reproduction.measures.context import PARTS
from reproduction.measures.paired import GROUPS
from reproduction.measures.paired import ORIGINAL as ORIGINAL_ARM
from reproduction.plots.style import (
    CLASS_COLOURS,
    FAINT,
    GAIN,
    INK,
    LOSS,
    MEANINGS,
    METHODS,
    OBJECT,
    OURS,
    PALE_OBJECT,
    PROPS,
    REST,
    legend_beside,
    method_colour,
    name_sets,
    panel_grid,
    panels,
    reach,
    subplots,
    write,
)
from reproduction.runs.in_words import ARMS

WORD_COLOURS = (OBJECT, PALE_OBJECT, PROPS, REST)  # class, colour, background, other
PART_COLOURS = {"object": OBJECT, "things": PROPS, "texture": REST}
TITLES = {  # of numbers of methods
    **dict(zip(METRICS, ("pixel accuracy (%)", "mIoU (%)", "mAP (%)", "mF1 (%)"), strict=True)),
    "positive": "positive: AUC (%)\nlower is better",
    "negative": "negative: AUC (%)\nhigher is better",
}
TESTS = {
    "rank_correlation": "worth of parts:\nrank correlation",
    "miou_pct": "outline:\nmIoU (%)",
    "erasing_pts": "erasing: least relevant first\nminus most (points)",
}
KINDS = {"with": "with relevance", "without": "without, same images and steps"}
FROM_ZERO = {"own": "from a map's own zero", "least": "from its least value"}
COLUMNS = 3  # of panels
NEAR_PTS = 4.0  # worlds whose gaps are closer share a name's place
CHANGE_PTS = "change of top-1 (points)"


def intervals(
    table: pd.DataFrame,
    place: str,
    value: str,
    *,
    group: str | None = None,
    panel: tuple[str, Mapping[str, str]] | None = None,
    title: str = "",
    label: str = "",
    limits: tuple[float, float] | None = None,
    level: float | None = 0.0,
    across: bool = False,
    points: bool = False,
    colours: Mapping[str, str] | Sequence[str] | str | None = None,
) -> Figure:
    """A bar or point for each row of a table, with its interval, at the place that it names.

    `place`, `value` and `group` (bars side by side) are columns; `panel` is a column and, of each
    of its values that is shown, a title. An interval goes from the column low, low_pct or low_pts
    to that of high; without length, as of one value, it has no cap, which would say that it is
    sure. `across` draws from the left, the first place on top. Colours are those of the groups;
    without groups of the rows, by default their method's. The colours of MEANINGS are known.
    """
    name, titles = panel or ("", {"": ""})
    places, groups = table[place].nunique(), table[group].nunique() if group else 1
    length = 1.0 + 0.2 * places * max(1, 0.7 * groups)
    beside = 2.4 if group else 0  # room for the legend
    size = (1.8 + 2.2 * len(titles) + beside, length)
    if not across:
        size = (max(8, 3 * len(titles), 0.75 * places + beside), 2.8)
    if across and len(titles) == 1:
        size = (8, length)
    rows = len(titles) if not across and places * len(titles) > 16 else 1  # names need their room
    shape = {"nrows": rows, "ncols": len(titles) // rows, "squeeze": False}
    figure, axes = subplots(figsize=(size[0], size[1] * rows), sharey=True, **shape)
    for axis, (part, heading) in zip(axes.flat, titles.items(), strict=True):
        shown = table[table[name] == part] if name else table
        _draw(axis, shown, (place, value, group), across, points, colours)
        mark = axis.axvline if across else axis.axhline
        if level is not None:
            mark(level, color="black", linewidth=1, linestyle=":" if level else "-")
        axis.set(title=heading, **{"xlabel" if across else "ylabel": label})
        if limits:
            axis.set(**{"xlim" if across else "ylim": limits})
        axis.label_outer()
    if group:
        legend_beside(figure, axes[0, 0])
    figure.suptitle(title, fontsize=10)
    return figure


def _draw(
    axis: Axes,
    table: pd.DataFrame,
    columns: tuple[str, str, str | None],
    across: bool,
    points: bool,
    colours: Mapping[str, str] | Sequence[str] | str | None,
) -> None:
    place, value, group = columns
    places = list(dict.fromkeys(table[place]))
    parts = table.groupby(group, sort=False) if group else [(None, table)]
    width = 0.8 / len(parts)
    for number, (name, rows) in enumerate(parts):
        where = np.array([places.index(at) for at in rows[place]])
        where = where + (number - (len(parts) - 1) / 2) * width
        middle, ends = rows[value], None
        if name_of := next((one for one in ("low", "low_pct", "low_pts") if one in rows), None):
            low, high = rows[name_of], rows[name_of.replace("low", "high")]
            ends = np.stack([middle - low, high - middle]).astype(float).clip(0)
            ends[:, (ends == 0).all(axis=0)] = np.nan
        if name is not None:
            colour = ({**MEANINGS, **METHODS} | dict(colours or {})).get(name, OURS)
        else:
            colour = colours or [METHODS.get(at, OURS) for at in rows[place]]
        options = {"xerr" if across else "yerr": ends, "capsize": 3, "label": name}
        at = (middle, where) if across and points else (where, middle)
        if points:
            axis.errorbar(*at, fmt="o", color=colour if name is not None else INK, **options)
        else:
            (axis.barh if across else axis.bar)(*at, 0.92 * width, color=colour, **options)
    if across:
        write(partial(axis.set_yticks, range(len(places))), [str(place) for place in places])
        axis.set_ylim(len(places) - 0.5, -0.5)
    else:
        name_sets(axis, places)
        axis.set_xlim(-0.5, len(places) - 0.5)
    axis.grid(visible=False, axis="y" if across else "x")


# Test sets


def accuracy_bars(
    table: pd.DataFrame,
    title: str,
    place: str = "dataset",
    value: str = "top1_pct",
    group: str | None = None,
) -> Figure:
    """Accuracies, and the 95 % interval of each over its `images`; points where there are groups.

    `place` names the bars' places, `group` is a column of models as in MEANINGS.
    """
    half = 1.96 * (table[value] * (100 - table[value]) / table["images"]) ** 0.5
    rows = table.assign(low_pct=table[value] - half, high_pct=table[value] + half)
    style = {"group": group, "points": group is not None, "limits": (0, 105)}
    style |= {} if group else {"colours": MEANINGS["original"]}
    return intervals(rows, place, value, title=title, label="accuracy (%)", **style)


def neighbour_dots(tests: pd.DataFrame, title: str) -> Figure:
    """Accuracy of k-NN, a point a model, data set and k; `tests` is `knn.by_model`."""
    rows = tests.dropna(subset="images").replace({"model": KINDS})
    rows["place"] = rows["data"] + "\n" + rows["test"]
    return accuracy_bars(rows, title, place="place", value="accuracy_pct", group="model")


def paired_changes(changes: pd.DataFrame, title: str) -> Figure:
    """Change of top-1 on each set, a point a pair of models, with its 95 % interval.

    `changes` as from `finetune.your_own.changes`: ours, its control, and the two together.
    """
    pairs = changes["change"].unique()
    colours = dict(zip(pairs, (OURS, MEANINGS[KINDS["without"]], INK), strict=False))
    style = {"points": True, "colours": colours, "group": "change", "label": CHANGE_PTS}
    figure = intervals(changes, "dataset", "change_pts", title=title, **style)
    reach(figure.axes[0], -1, 1)
    return figure


def added_bars(table: pd.DataFrame, title: str, place: str = "classes") -> Figure:
    """With and without relevance against the original, a panel an arm, with 95 % intervals.

    `table` is `paired.added_table` of one world, `place` the column that bars stand for.
    """
    names = dict(zip(GROUPS, ("all", "classes A", "classes B"), strict=True))
    parts = [
        pd.DataFrame(
            {"arm": table["arm"], "place": table[place].replace(names), "kind": label}
            | {end: table[f"{kind}_{end}"] for end in ("pts", "low_pts", "high_pts")}
        )
        for kind, label in KINDS.items()
    ]
    arms = dict.fromkeys(table["arm"])
    style = {"group": "kind", "panel": ("arm", {arm: arm if len(arms) > 1 else "" for arm in arms})}
    return intervals(pd.concat(parts), "place", "pts", title=title, label=CHANGE_PTS, **style)


def arm_changes(table: pd.DataFrame, title: str, ours: Collection[str] = ()) -> Figure:
    """The change of each arm on the shifted sets with its interval, in the order of the table.

    Needs change_pts, low_pts and high_pts; the index names the arms, of which `ours` stand out.
    """
    rows = table.assign(place=[ARMS.get(arm, arm) for arm in table.index])
    colours = [OURS if arm in ours else FAINT for arm in table.index]
    style = {"across": True, "colours": colours, "label": f"{CHANGE_PTS} on the shifted sets"}
    return intervals(rows, "place", "change_pts", title=title, **style)


def dose_response(table: pd.DataFrame, gaps_pts: pd.Series, title: str) -> Figure:
    """What relevance adds over how much the original leans on context, for A and for B.

    `table` is `paired.added_table` of one arm, a row a world and group; `gaps_pts` the
    background gap of each world's original.
    """
    figure, axis = subplots(figsize=(7, 3.2))
    for group, colour in CLASS_COLOURS.items():
        rows = table[table["classes"] == group].set_index("world")
        rows = rows.assign(gap=gaps_pts).sort_values("gap")
        ends = [rows["adds_pts"] - rows["adds_low_pts"], rows["adds_high_pts"] - rows["adds_pts"]]
        shift = 0.4 if group == "B" else -0.4  # so that intervals do not cover each other
        style = {"color": colour, "marker": "o" if group == "A" else "s", "capsize": 3}
        style["label"] = f"classes {group}"
        axis.errorbar(rows["gap"] + shift, rows["adds_pts"], np.clip(ends, 0, None), **style)
    axis.margins(y=0.2)
    ordered, foot = gaps_pts.sort_values(), axis.get_xaxis_transform()
    for _, near in ordered.groupby((ordered.diff() > NEAR_PTS).cumsum()):
        axis.text(near.mean(), 0.02, "\n".join(near.index), transform=foot, ha="center", fontsize=7)
    axis.axhline(0, color="black", linewidth=0.8)
    axis.set(title=title, xlabel="background gap of the original (points)")
    axis.set_ylabel("relevance adds (points)")
    axis.legend(frameon=False)
    return figure


def class_grid(table: pd.DataFrame, classes_a: Collection[int], title: str) -> Figure:
    """Each class's change of top-1 on each set, sorted; compare RobustViT Figs. 8-14.

    `table` is that of `class_changes.class_table`; the classes of `classes_a` have one colour,
    the others another. A dot is a class without change; the first and the last are named.
    """
    sets = list(dict.fromkeys(table["dataset"]))
    side = (10 / COLUMNS, 2.2)
    figure, axes = panel_grid(len(sets), COLUMNS, side, (0, 0.5), sharey=True)
    figure.get_layout_engine().set(hspace=0.08)  # a panel's names are not the next one's title
    for axis, name in zip(axes.flat, sets, strict=False):
        part = table[table["dataset"] == name].sort_values(["change_top1_pts", "label"])
        colours = [CLASS_COLOURS["A" if label in classes_a else "B"] for label in part["label"]]
        axis.bar(range(len(part)), part["change_top1_pts"], color=colours, width=0.85)
        axis.scatter(range(len(part)), np.zeros(len(part)), color=colours, s=5, zorder=3)
        axis.axhline(0, color="black", linewidth=0.6)
        ends = f"{part['name'].iloc[0]} … {part['name'].iloc[-1]}"
        axis.set(title=name, xticks=[], xlabel=ends, ylabel="points")
        axis.grid(False, axis="x")
    present = ["A"] if set(table["label"]) <= set(classes_a) else list(CLASS_COLOURS)
    handles = [Patch(color=CLASS_COLOURS[kind], label=f"classes {kind}") for kind in present]
    figure.legend(handles=handles, loc="outside upper right", ncols=2, frameon=False)
    figure.suptitle(title, fontsize=10, x=0.02, ha="left")
    return figure


def average_bars(changes: pd.DataFrame, place: str, title: str) -> Figure:
    """One bar a kind of run, named by the column `place`, from the top, with its 95 % interval.

    `changes` has `change_pts`, `low_pts` and `high_pts`. A bar far beyond all others is cut, and
    its number written: it would hide their differences.
    """
    means = changes["change_pts"]
    style = {"across": True, "colours": [GAIN if change >= 0 else LOSS for change in means]}
    figure = intervals(changes, place, "change_pts", title=title, label=CHANGE_PTS, **style)
    (axis,) = figure.axes
    ends = changes[["low_pts", "high_pts"]].abs().max(axis=1).reset_index(drop=True)
    end = 1.15 * largest_but_one_far(ends)
    for row, value in means.reset_index(drop=True)[ends > end].items():
        side, text = ("right", f"{value:+.1f} ▸ ") if value > 0 else ("left", f" ◂ {value:.1f}")
        axis.set_xlim(**{side: np.copysign(end, value)})
        inside = {"va": "center", "fontsize": 8, "color": "white", "weight": "bold"}
        axis.text(np.copysign(end, value), row, text, ha=side, **inside)
    return figure


# Shares of a whole


def stacked_bars(
    shares_pct: pd.DataFrame, colours: Mapping[str, str], title: str, label: str
) -> Figure:
    """Rows as bars from the top, columns as their parts with the numbers on them.

    A row without any share, as of an empty map, is marked.
    """
    figure, axis = subplots(figsize=(8, 0.9 + 0.32 * len(shares_pct)))
    shares_pct.plot.barh(ax=axis, stacked=True, width=0.8, color=dict(colours), legend=False)
    for part, bars in zip(shares_pct, axis.containers, strict=True):
        labels = [f"{value:.0f}" if value >= 3 else "" for value in shares_pct[part]]
        ink = "white" if colours[part] == OBJECT else "black"
        axis.bar_label(bars, labels, label_type="center", fontsize=8, color=ink)
    for place in np.flatnonzero(shares_pct.sum(axis=1) == 0):
        axis.text(1, place, "no map", va="center", fontsize=8)
    axis.invert_yaxis()
    axis.set(xlim=(0, 100), xlabel=label, ylabel="", title=title)
    axis.grid(visible=False, axis="y")
    legend_beside(figure, axis)
    return figure


def share_bars(figures: pd.DataFrame, title: str) -> Figure:
    """Where relevance lies, stacked: a bar a model, mean over seeds. `figures` of one world."""
    means = figures.groupby(["arm", "relevance"], sort=False)[[f"on_{p}_pct" for p in PARTS]].mean()
    arms = list(dict.fromkeys(figures["arm"]))
    means = means.loc[sorted(means.index, key=lambda of: (arms.index(of[0]), of[1]))]
    several = len(set(arms) - {ORIGINAL_ARM}) > 1
    names = [
        arm if arm == ORIGINAL_ARM else f"{arm}, " * several + ("with" if on else "without")
        for arm, on in means.index
    ]
    shares = means.set_axis(names).set_axis(list(PART_COLOURS), axis=1)
    return stacked_bars(shares, PART_COLOURS, title, "share of the relevance (%)")


def word_bars(table: pd.DataFrame, title: str) -> Figure:
    """What each kind of word has of a caption's relevance, stacked; needs `word_shares`."""
    wide = table.pivot(index="method", columns="kind", values="share_pct")
    wide = wide.loc[list(dict.fromkeys(table["method"])), list(dict.fromkeys(table["kind"]))]
    colours = dict(zip(wide, WORD_COLOURS, strict=False))
    return stacked_bars(wide, colours, title, "share of the caption's relevance (%)")


# Images with text


def zero_shot_bars(table: pd.DataFrame, title: str) -> Figure:
    """Accuracy of each group of classes with its interval, a bar a seed, and chance as a line.

    Needs seed, classes, accuracy_pct, low_pct, high_pct, chance_pct.
    """
    rows = table.assign(
        classes=table["classes"] + " classes", seed="seed " + table["seed"].astype(str)
    )
    style = {"group": "seed", "limits": (0, 102), "colours": dict.fromkeys(rows["seed"], INK)}
    label = "zero-shot top-1 (%)\ndotted: chance"
    figure = intervals(rows, "classes", "accuracy_pct", title=title, label=label, **style)
    for place, height in enumerate(rows.groupby("classes", sort=False)["chance_pct"].mean()):
        figure.axes[0].plot([place - 0.45, place + 0.45], [height] * 2, ":", color=LOSS)
    return figure


def pointing_bars(table: pd.DataFrame, title: str) -> Figure:
    """Share of maps that point at their own object, its 95 % interval.

    `table` is of `pointing_table`; that of `language.pointing` has groups of `classes`, too.
    """
    rows, style = table, {"across": True, "level": 50, "limits": (0, 102), "title": title}
    style["points"] = "classes" not in table
    if "classes" in table:
        columns = ["own_object_pct", "low_pct", "high_pct"]
        rows = table.groupby(["classes", "method"], sort=False)[columns].mean().reset_index()
        rows["classes"] += " classes"
        style["group"] = "classes"
    label = "points at its own object (%); dotted: chance"
    return intervals(rows, "method", "own_object_pct", label=label, **style)


# Attribution methods


def score_bars(table: pd.DataFrame, title: str, higher: Mapping[str, bool] | None = None) -> Figure:
    """Each score of each method with its interval, a panel a score.

    `table` is `segmentation_table`, `area_table`, `judge.compared` (whose marks are in brackets),
    or has method, score, value_pct, low_pct and high_pct; of these `higher` says whether more is
    better.
    """
    better = {name: "higher" if more else "lower" for name, more in (higher or {}).items()}
    titles = {s: f"{s} (%)\n{word} is better" for s, word in better.items()}
    titles = titles or (TESTS if "score" in table else TITLES)
    column = next(name for name in ("metric", "direction", "score") if name in table)
    value = next(name for name in ("value_pct", "auc_pct", "value") if name in table)
    shown = {name: text for name, text in titles.items() if name in set(table[column])}
    rows = table[table[column].isin(list(shown))]
    colours = [method_colour(name) for name in dict.fromkeys(rows["method"])]
    style = {"panel": (column, shown), "across": True, "colours": colours, "title": title}
    return intervals(rows, "method", value, **style)


def two_tests(outlines: pd.DataFrame, areas: pd.DataFrame) -> Figure:
    """Each method as a dot: how well it outlines, and how far apart its two areas are.

    `outlines` is a `segmentation_table`, `areas` an `area_table`, of the same methods.
    """
    wide = areas.pivot(index="method", columns="direction", values="auc_pct")
    x = outlines[outlines["metric"] == "miou_pct"].set_index("method")["value_pct"]
    y = (wide["negative"] - wide["positive"]).reindex(x.index)
    figure, (axis,) = panels(1, 8, 4.2)
    axis.scatter(x, y, color=OURS)
    axis.margins(x=0.32, y=0.1)  # room for the names
    axis.set(xlabel=TITLES["miou_pct"], ylabel="negative minus positive area (points)")
    axis.set_title(f"Spearman's correlation of the two orders: {x.corr(y, 'spearman'):.2f}")
    _name_points(axis, x, y)
    return figure


def _name_points(axis: Axes, x: pd.Series, y: pd.Series) -> None:
    """The names of points, each at the first of four places where it covers no point or name."""
    axis.figure.draw_without_rendering()  # which settles where things are
    radius = axis.figure.dpi / 24  # three typographical points, those of a dot
    dots = axis.transData.transform(np.column_stack([x, y]))
    taken = [Bbox([dot - radius, dot + radius]) for dot in dots]
    for name in x.index:
        at = {"xytext": (0, 0), "textcoords": "offset points", "fontsize": 8}
        text = axis.annotate(name, (x[name], y[name]), **at)
        for right, up in ((4, 3), (4, -9), (-4, 3), (-4, -9)):
            text.set(ha="left" if right > 0 else "right")
            text.xyann = right, up
            box = text.get_window_extent()
            if not any(box.overlaps(other) for other in taken):
                break
        taken.append(box)


def causal_dots(table: pd.DataFrame, sets: Mapping[str, str]) -> Figure:
    """How well each method's masses tell the worths of parts, for each zero and set.

    `table` is of `causal_of_maps`, with dataset; `sets` has titles.
    """
    rows = table[table["score"] == "rank_correlation"].replace({"zero": FROM_ZERO})
    keys = ["dataset", "zero", "method"]
    # The panels share their places, also where a set lacks a method.
    everything = pd.MultiIndex.from_product([rows[key].unique() for key in keys], names=keys)
    rows = rows.set_index(keys).reindex(everything).reset_index()
    style = {"group": "zero", "panel": ("dataset", sets), "across": True, "points": True}
    style |= {"title": "rank correlation of mass and worth"}
    style |= {"colours": dict(zip(FROM_ZERO.values(), (OURS, INK), strict=True))}
    return intervals(rows, "method", "value", **style)


def largest_but_one_far(sizes: pd.Series) -> float:
    """The largest, or the second if that is less than half of it: a scale for the others."""
    *_, second, first = (0.0, *sorted(sizes.dropna()))
    return float(second if 0 < 2 * second < first else first)
