"""What the pictures of several models share: colours, bands over seeds, panels, legends.

Supervised models are blue with dashed lines, self-supervised ones red and orange with full
lines. A line is the mean over seeds, its band goes from the lowest to the highest seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from relevit.plots.basics import subplots

# Dark and light, so that models of one kind differ in print too.
COLOURS = {
    "mini-supervised": "#27406b",
    "mini-deit": "#7d9fc4",
    "mini-mae": "#d1495b",
    "mini-dino": "#ee9b3a",
    "dinov2-s": "#7b1e3a",
}
MARKERS = dict(zip(COLOURS, "sDo^v", strict=True))
SPARE = {  # for models that are not the suite's own, in turn
    "supervised": (("#3d4f66", "P"), ("#93b7be", "X")),
    "self-supervised": (("#b23a2e", "P"), ("#f2b880", "X")),
}
LINES = {"supervised": "--", "self-supervised": "-"}
BAND = "line: mean over seeds\nband: all seeds"


def model_styles(table: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Colour, marker and line of every model of a table, supervised models first.

    The suite's own models have their colours; others take those of their kind in turn.
    Raises: ValueError for a kind of pretraining that has no colours.
    """
    kinds = dict(zip(table["model"], table["kind"], strict=True))
    if unknown := set(kinds.values()) - set(LINES):
        raise ValueError(
            f"model_styles: kinds {sorted(unknown)}; only {sorted(LINES)} have colours; "
            "name one of them for each model"
        )
    names = [name for name in COLOURS if name in kinds]
    others = [name for name in kinds if name not in COLOURS]
    spare = {kind: cycle(looks) for kind, looks in SPARE.items()}
    styles = {}
    for name in sorted(names + others, key=lambda name: list(LINES).index(kinds[name])):
        known = name in COLOURS
        colour, marker = (COLOURS[name], MARKERS[name]) if known else next(spare[kinds[name]])
        styles[name] = {"color": colour, "marker": marker, "linestyle": LINES[kinds[name]]}
    return styles


def seed_band(axis: Axes, rows: pd.DataFrame, x: str, y: str, **style: Any) -> None:
    """Mean of `y` over seeds against `x`, and a band from the lowest to the highest seed.

    Several rows of one seed and one `x` are averaged first, so that seeds weigh the same.
    """
    seeds = rows.groupby([x, "seed"])[y].mean().groupby(level=0)
    mean = seeds.mean()
    axis.plot(mean.index, mean, markersize=4, linewidth=1.6, **style)
    axis.fill_between(
        mean.index, seeds.min(), seeds.max(), color=style["color"], alpha=0.18, linewidth=0
    )


def model_bands(axis: Axes, table: pd.DataFrame, x: str, y: str) -> None:
    """A line with its band for each model of a table."""
    for name, style in model_styles(table).items():
        seed_band(axis, table[table["model"] == name], x, y, label=name, **style)


def model_panels(
    table: pd.DataFrame, side: tuple[float, float], **options: Any
) -> tuple[Figure, dict[str, Axes]]:
    """A panel with its name above for each model, up to three in a row."""
    names = list(model_styles(table))
    columns = _columns(len(names))
    rows = -(-len(names) // columns)
    figure, axes = subplots(
        rows,
        columns,
        figsize=(side[0] * columns, side[1] * rows + 0.2),
        squeeze=False,
        layout="constrained",
        **options,
    )
    for axis in axes.flat[len(names) :]:
        axis.set_axis_off()
    for axis in axes.flat[max(0, len(names) - columns) : len(names)]:
        axis.tick_params(labelbottom=True)  # nothing may be below it in the last row
    panels = dict(zip(names, axes.flat, strict=False))
    for name, axis in panels.items():
        axis.set_title(name)
    return figure, panels


def legend_beside(figure: Figure, axis: Axes, title: str = BAND) -> None:
    """The legend of one panel at the right of all, where it covers no data."""
    figure.legend(
        *axis.get_legend_handles_labels(),
        loc="outside right center",
        frameon=False,
        title=title,
        title_fontsize=8,
        alignment="left",
    )


def edge(axes: Iterable[Axes], side: str) -> Iterator[Axes]:
    """Those of some panels that have none below ("x") or at the left ("y")."""
    panels = list(axes)
    columns = _columns(len(panels))
    for place, axis in enumerate(panels):
        if place >= len(panels) - columns if side == "x" else place % columns == 0:
            yield axis


def need_present(table: pd.DataFrame, column: str, wanted: Sequence, where: str) -> None:
    """Raises: ValueError, named after `where`, for a wanted value that a column lacks."""
    held = sorted(set(table[column]))
    if missing := [value for value in wanted if value not in held]:
        raise ValueError(
            f"{where}: {column} {missing} is not in the table; it holds {held}; take from these"
        )


def one_seed(table: pd.DataFrame, seed: int | None, where: str) -> pd.DataFrame:
    """Rows of one seed, or of each model's first."""
    if seed is not None:
        need_present(table, "seed", [seed], where)
        return table[table["seed"] == seed]
    return table[table["seed"] == table.groupby("model")["seed"].transform("min")]


def count_whole(axis: Axes) -> None:
    """Ticks at whole epochs alone."""
    axis.xaxis.get_major_locator().set_params(integer=True)


def mark_layers(axis: Axes, table: pd.DataFrame) -> None:
    """Ticks at the first layer, and at every second of a deep model."""
    last = int(table["layer"].max())
    axis.set_xticks(range(1, last + 1) if last < 8 else [1, *range(2, last + 1, 2)])


def _columns(panels: int) -> int:
    """Panels in a row: two where three would leave one alone."""
    return 2 if panels == 4 else min(panels, 3)
