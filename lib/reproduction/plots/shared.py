"""Figures that several notebooks, pages or commands share. Every function returns a figure.

All others are statements in the cells of the notebooks. `model_lines` alone is a plot of
`seaborn.objects` that a cell goes on with.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from relevit.choices.finetuning import FinetuneChoices
from relevit.evaluate.segmentation import METRICS
from relevit.finetune.epochs import History
from relevit.finetune.learning_rate import RISE_NATS, class_loss_column, judge, kept_epoch
from reproduction.measures.paired import GROUPS, SETTINGS
from reproduction.plots.style import (
    CHANCE,
    CLASS_COLOURS,
    FAINT,
    INK,
    MEANINGS,
    OURS,
    count_whole,
    drawn,
    families,
    mark_level,
    method_colour,
    named,
    panels,
    reach,
    subplots,
    write,
)

if TYPE_CHECKING:
    import seaborn.objects as so

# What seaborn draws from a table's columns. It is loaded there: the command goes without it.
KINDS = {"with": "with relevance", "without": "without, same images and steps"}
TITLES = {  # of numbers of methods
    **dict(zip(METRICS, ("pixel accuracy (%)", "mIoU (%)", "mAP (%)", "mF1 (%)"), strict=True)),
    "positive": "positive: AUC (%)\nlower is better",
    "negative": "negative: AUC (%)\nhigher is better",
}
TESTS = {  # of `judge.compared`
    "truth_pct": "worth of parts:\nshare told (%)",
    "miou_pct": "outline:\nmIoU (%)",
    "erasing_pts": "erasing: least relevant first\nminus most (points)",
}
ORDERS = {"positive": "most relevant first", "negative": "least relevant first"}
# Of methods of a family, in turn; the dashes of one let another be seen below it.
LOOKS = (
    *(("o", "-"), ("s", (0, (3, 1.5))), ("D", (0, (1.5, 1.5)))),
    *(("^", (0, (5, 1.5, 1, 1.5))), ("v", (0, (1, 1)))),
)
NEAR_PTS = 4.0  # worlds whose gaps are closer share a name's place
# Models by how they were pretrained: dark and light, so that those of one kind differ in print too.
COLOURS = {
    "mini-supervised": "#27406b",
    "mini-deit": "#7d9fc4",
    "mini-mae": "#2f7d4f",
    "mini-dino": "#8fc46a",
    "dinov2-s": "#0c3b24",
}
MARKERS = dict(zip(COLOURS, "sDo^v", strict=True))
SPARE = {  # for models that are not the suite's own, in turn
    "supervised": (("#3d4f66", "P"), ("#93b7be", "X")),
    "self-supervised": (("#4a6b2a", "P"), ("#bcd6a0", "X")),
}
LINES = {"supervised": "--", "self-supervised": "-"}


def added_bars(table: pd.DataFrame, title: str, place: str = "classes") -> Figure:
    """With and without relevance against the original, a panel an arm, with 95 % intervals.

    `table` is `paired.added_table` of one world, `place` the column that bars stand for.
    """
    import seaborn.objects as so

    names = dict(zip(GROUPS, ("all", "classes A", "classes B"), strict=True))
    parts = [
        pd.DataFrame(
            {"arm": table["arm"].replace(SETTINGS), "kind": label}
            | {"place": table[place].replace(names).str.replace("_", "\n")}
            | {end: table[f"{kind}_{end}"] for end in ("pts", "low_pts", "high_pts")}
        )
        for kind, label in KINDS.items()
    ]
    rows = pd.concat(parts, ignore_index=True)
    arms, places = table["arm"].nunique(), table[place].nunique()
    wrap = 1 if places > 5 else arms  # names need their room
    plot = (
        so.Plot(rows, x="place", y="pts", color="kind")
        .facet(col="arm" if arms > 1 else None, wrap=wrap if arms > 1 else None)
        .add(so.Bar(alpha=1, edgewidth=0), so.Dodge())
        .add(so.Range(color="black"), so.Dodge(), ymin="low_pts", ymax="high_pts", legend=False)
        .scale(color=MEANINGS)
        .label(x="", y="change of top-1 (points)", color="")
    )
    return drawn(plot, 10.5 if places > 5 else 8, 2.8 * -(-arms // wrap), title, level=0)


def score_bars(table: pd.DataFrame, title: str, higher: Mapping[str, bool] | None = None) -> Figure:
    """Each score of each method with its interval, a panel a score.

    `table` is `segmentation_table`, `area_table`, `judge.compared` (whose marks are in brackets),
    or has method, score, value_pct, low_pct and high_pct; of these `higher` says whether more is
    better.
    """
    import seaborn.objects as so

    better = {name: "higher" if more else "lower" for name, more in (higher or {}).items()}
    titles = {s: f"{s} (%)\n{word} is better" for s, word in better.items()}
    titles = titles or (TESTS if "score" in table else TITLES)
    panel = next(name for name in ("metric", "direction", "score") if name in table)
    value = next(name for name in ("value_pct", "auc_pct", "value") if name in table)
    low = next(name for name in ("low_pct", "low") if name in table)
    shown = [name for name in titles if name in set(table[panel])]
    rows, methods = table[table[panel].isin(shown)], table["method"].unique()
    rows = rows.assign(method=rows["method"].map(named))
    plot = (
        so.Plot(rows, x=value, y="method", color="method")
        .facet(col=panel, order=shown)
        .share(x=False)
        .add(so.Bar(alpha=1, edgewidth=0), legend=False)
        .add(so.Range(color="black"), xmin=low, xmax=low.replace("low", "high"), legend=False)
        .scale(color={named(name): method_colour(name) for name in methods})
        .label(x="", y="", title=titles.get)
    )
    figure = drawn(plot, 1.8 + 2.2 * len(shown), 1.2 + 0.2 * len(methods), title, level=0)
    for lines in (each for axis in figure.axes for each in axis.collections):
        lines.set_path_effects([withStroke(linewidth=3.5, foreground="white")])  # on dark bars, too
    return figure


def model_lines(table: pd.DataFrame, x: str, y: str, panel: str | None = None) -> so.Plot:
    """A line a model, its mean over seeds, and a band from the lowest to the highest seed.

    Several rows of one seed and one `x` are averaged first, so that seeds weigh the same.
    """
    import seaborn.objects as so

    keys = ["model", "kind", "seed", x] + ([panel] if panel else [])
    means = table.groupby(keys, sort=False, as_index=False)[y].mean()
    return (
        so.Plot(means, x=x, y=y, color="model", marker="model", linestyle="kind")
        .facet(col=panel)
        .add(so.Band(), so.Est(errorbar=("pi", 100)), legend=False)
        .add(so.Line(pointsize=4), so.Agg())
        .scale(**model_scales(table), linestyle=LINES)
        .label(color="line: mean over seeds\nband: all seeds", marker="", linestyle="")
    )


def model_scales(table: pd.DataFrame) -> dict[str, so.Nominal]:
    """Colour and marker of every model of a table, supervised models first.

    The suite's own models have their colours; others take those of their kind in turn.
    """
    import seaborn.objects as so

    kinds = dict(zip(table["model"], table["kind"], strict=True))
    names = [name for name in COLOURS if name in kinds]
    names += [name for name in kinds if name not in COLOURS]
    names.sort(key=lambda name: list(LINES).index(kinds[name]))
    spare = {kind: cycle(looks) for kind, looks in SPARE.items()}
    looks = {
        name: (COLOURS[name], MARKERS[name]) if name in COLOURS else next(spare[kinds[name]])
        for name in names
    }
    return {
        "color": so.Nominal({name: colour for name, (colour, _) in looks.items()}, order=names),
        "marker": so.Nominal({name: marker for name, (_, marker) in looks.items()}, order=names),
    }


# What seaborn has not


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
            log["epoch"], log["validation_top1_pct"] - log["validation_top1_pct"][0], color=colour
        )
        right.plot(log["epoch"], log[column], color=colour, label=f"{lr:g}")
        end = {"color": colour, "marker": "o" if passes else "X", "markersize": 8, "zorder": 3}
        left.plot(kept, -verdict["drop_pts"], **end)
        right.plot(kept, verdict["class_loss"], **end)
    mark_level(left, -limit_pts)
    mark_level(right, log[column][0] + RISE_NATS)
    left.set(title="Change of validation top-1", xlabel="epoch", ylabel="points")
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


def paired_changes(changes: pd.DataFrame, title: str) -> Figure:
    """Change of top-1 on each set, a point a pair of models, with its 95 % interval.

    `changes` as from `finetune.your_own.changes`: ours, its control, and the two together. Names
    of sets are a reader's own.
    """
    figure, axis = subplots(figsize=(10, 2.8))
    places = list(dict.fromkeys(changes["dataset"]))
    colours = (OURS, MEANINGS[KINDS["without"]], INK)
    parts = list(changes.groupby("change", sort=False))
    for number, ((name, rows), colour) in enumerate(zip(parts, colours, strict=False)):
        where = [places.index(at) for at in rows["dataset"]]
        aside = (number - (len(parts) - 1) / 2) * 0.8 / len(parts)
        ends = [rows["change_pts"] - rows["low_pts"], rows["high_pts"] - rows["change_pts"]]
        style = {"fmt": "o", "color": colour, "capsize": 3, "label": name}
        axis.errorbar(np.add(where, aside), rows["change_pts"], np.clip(ends, 0, None), **style)
    broken = [str(name).replace("_", "\n") for name in places]
    write(partial(axis.set_xticks, range(len(places))), broken, fontsize=8)
    axis.axhline(0, color="black", linewidth=1)
    axis.set(title=title, ylabel="change of top-1 (points)")
    axis.grid(visible=False, axis="x")
    reach(axis, -1, 1)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside right center", frameon=False)
    return figure


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


def perturbation_curves(
    curves: pd.DataFrame,
    title: str,
    erased: str = "erased (%)",
    chance_pct: float | None = None,
    counted: str = "top-1 (%)",
) -> Figure:
    """Accuracy against the erased share: a row an order, a column a family of methods.

    `curves` has the column `method` and those of `accuracy_curves`. `chance_pct` is the accuracy
    of a guess, which is dotted; `counted` says what the accuracy is.
    """
    chance, shares = curves["method"] == CHANCE, curves["share_pct"]
    # From either end an order by chance is one: its line is the mean of both.
    mean = curves["accuracy_pct"].where(chance).groupby(shares).transform("mean")
    curves = curves.assign(accuracy_pct=mean.where(chance, curves["accuracy_pct"]))
    figure, axes = family_curves(curves, "share_pct", "accuracy_pct", title, row="direction")
    for line, (direction, order) in zip(axes, ORDERS.items(), strict=True):
        line[0].set_ylabel(f"{direction}:\n{order}\n{counted}")
        for axis in line:
            axis.set_ylim(0, 102)
            if chance_pct is not None:
                mark_level(axis, chance_pct, linewidth=0.8)
        if chance_pct is not None:
            below = {"textcoords": "offset points", "va": "top", "fontsize": 7}
            line[0].annotate("guess", (0, chance_pct), (2, -3), **below)
    for axis in axes[-1]:
        axis.set_xlabel(erased)
    return figure


def family_curves(
    table: pd.DataFrame, x: str, y: str, title: str, *, row: str | None = None
) -> tuple[Figure, np.ndarray]:
    """A column of panels a family of methods, in each all others faint; a row a value of `row`.

    `table` has the column `method`; where it has low and high, these are a method's band.
    """
    names = list(dict.fromkeys(table["method"]))
    found = families(names)
    rows = [part for _, part in table.groupby(row)][::-1] if row else [table]
    size = (0.8 + 2.1 * len(found), 1.2 + 2.1 * len(rows))
    shape = {"nrows": len(rows), "ncols": len(found), "squeeze": False}
    figure, axes = subplots(figsize=size, sharex=True, sharey=True, **shape)
    for across, part in zip(axes, rows, strict=True):
        of = dict(list(part.groupby("method")))
        for axis, members in zip(across, found.values(), strict=True):
            for name in names:
                if name not in (*members, CHANCE):
                    axis.plot(of[name][x], of[name][y], color=FAINT, linewidth=0.8, zorder=1)
            for (marker, line), name in zip(cycle(LOOKS), members, strict=False):
                style = {
                    "marker": marker,
                    "linestyle": line,
                    "markersize": 3.5,
                    "label": named(name),
                }
                axis.plot(of[name][x], of[name][y], color=method_colour(name), **style)
                if "low" in table:
                    ends = of[name]["low"], of[name]["high"]
                    band = {"color": method_colour(name), "alpha": 0.2, "linewidth": 0}
                    axis.fill_between(of[name][x], *ends, **band)
            if CHANCE in names:
                chance = {"color": "black", "linestyle": "-.", "linewidth": 1, "zorder": 1}
                axis.plot(of[CHANCE][x], of[CHANCE][y], **chance)
    for axis, family in zip(axes[0], found, strict=True):
        handles, labels = axis.get_legend_handles_labels()
        over = {"loc": "lower center", "bbox_to_anchor": (0.5, 1), "frameon": False}
        axis.legend(handles, labels, title=family, fontsize=7.5, title_fontsize=8.5, **over)
    if CHANCE in names:
        line = Line2D(
            [], [], linewidth=1, label="an order by chance", color="black", linestyle="-."
        )
        figure.legend(handles=[line], loc="outside lower right", frameon=False)
    figure.suptitle(title, fontsize=10)
    return figure, axes
