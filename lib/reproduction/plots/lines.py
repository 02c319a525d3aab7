"""Lines over seeds, and models of several kinds of pretraining. Every function returns a figure.

A line is the mean over seeds, its band goes from the lowest to the highest seed. Supervised models
are blue with dashed lines, self-supervised ones green with full lines; layers and heads count
from 1. The tables are those of IAV's stages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from relevit.iav.scores import HIGH as HIGH_ABOVE
from relevit.iav.trend import separations
from reproduction.plots.style import (
    INK,
    METHODS,
    ORIGINAL,
    OURS,
    band,
    count_whole,
    legend_beside,
    mark_level,
    panel_grid,
    panels,
)

# Dark and light, so that models of one kind differ in print too.
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
BAND = "line: mean over seeds\nband: all seeds"
HIGH, LOW = "#b04a93", "#e3c4da"  # of heads; the colours of models mean something else
ORDERS = {
    "smoothgrad": {"label": "SmoothGrad", "color": METHODS["smoothgrad"], "marker": "o"},
    "attention": {"label": "attention", "color": METHODS["raw_attention"], "marker": "s"},
    "random": {"label": "chance", "color": INK, "marker": "^"},
}
SHIFTS = {
    "blur": ("Blur", "sigma (pixels)"),
    "jigsaw": ("Jigsaw, 2 x 2 parts", "swaps"),
    "patch_jigsaw": ("Jigsaw, patches", "swaps"),
}
QUANTITIES = {"smoothgrad": "SmoothGrad maps", "attention": "Attention maps"}
AGREEMENT = {  # of a model's heads with its SmoothGrad
    "score": "IA-score",
    "above_flat": "IA-score, less that of a\nhead that looks everywhere alike",
    "centred": "correlation",
}
PROPERTIES = {  # of finetuned models
    "accuracy_pct": "accuracy (%)",
    "robustness_pct": "accuracy under\nblur and jigsaw (%)",
    "entropy_nats": "entropy of\nattention (nats)",
    "iav_slope": "IA-score: change\nfrom first to last layer",
}
MAPS = {
    "smoothgrad": "SmoothGrad",
    "aav_dino": "SmoothGrad of DINO (AAV)",
    "mask": "object mask (AAV)",
}


# What they share


def model_styles(table: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Colour, marker and line of every model of a table, supervised models first.

    The suite's own models have their colours; others take those of their kind in turn.
    """
    kinds = dict(zip(table["model"], table["kind"], strict=True))
    names = [name for name in COLOURS if name in kinds]
    names += [name for name in kinds if name not in COLOURS]
    spare = {kind: cycle(looks) for kind, looks in SPARE.items()}
    styles = {}
    for name in sorted(names, key=lambda name: list(LINES).index(kinds[name])):
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
    band(axis, mean.index, seeds.min(), seeds.max(), style["color"], alpha=0.18)


def model_curves(
    parts: Mapping[str, pd.DataFrame],
    x: str,
    y: str | Sequence[str],
    label: str,
    limits: tuple[float, float | None] | None = None,
    *,
    by: str = "model",
    styles: Mapping[str, Mapping[str, Any]] | None = None,
    note: str = BAND,
    wide: int = 0,
    **options: Any,
) -> Figure:
    """A panel a part of a table under its title, in it a line and band a model.

    `y` is the column of all parts, or of each; `label` and `limits` are those of the axis upwards.
    Other lines than models are the values of `by`, which `styles` names; `wide` panels stand side
    by side.
    """
    count = len(parts)
    wide = wide or (2 if count == 4 else count)  # four beside each other cannot be read
    figure, axes = panel_grid(count, wide, (3.2, 3.0), (1.9, 0), **options)
    columns = [y] * count if isinstance(y, str) else y
    for axis, column, (title, table) in zip(axes.flat, columns, parts.items(), strict=False):
        for name, style in (styles or model_styles(table)).items():
            seed_band(axis, table[table[by] == name], x, column, **{"label": name} | dict(style))
        axis.set(title=title, xlabel=x)
        count_whole(axis)
        if limits:
            axis.set_ylim(limits)
    for axis in axes[:, 0]:
        axis.set_ylabel(label)
    legend_beside(figure, axes[0, 0], note)
    return figure


# Pretraining and finetuning


def shift_curves(models: pd.DataFrame, shift: pd.DataFrame) -> Figure:
    """Validation accuracy over finetuning, then accuracy under blur and jigsaw (IAV Fig. 3).

    Images without a change are level 0.
    """
    parts = {"Validation images": models.rename(columns={"epoch": "level"})}
    for corruption, (title, _) in SHIFTS.items():
        parts[title] = shift[shift["corruption"].isin(["none", corruption])]
    columns = ["validation_top1_pct", *["top1_pct"] * len(SHIFTS)]
    figure = model_curves(parts, "level", columns, "top-1 (%)", (0, 102), sharey=True)
    for axis, label in zip(figure.axes, ["epoch", *(x for _, x in SHIFTS.values())], strict=True):
        axis.set_xlabel(label)
    return figure


def drift_curves(drift: pd.DataFrame) -> Figure:
    """How far maps are from those of the last epoch (IAV Fig. 4), a panel a quantity."""
    found = {title: drift[drift["quantity"] == name] for name, title in QUANTITIES.items()}
    parts = {title: table for title, table in found.items() if len(table)}
    label = "mean absolute difference\nfrom the last epoch"
    return model_curves(parts, "epoch", "difference", label, (0, None))


def masking_curves(masking: pd.DataFrame) -> Figure:
    """Accuracy when patches are masked in three orders, a panel a model (IAV Fig. 5)."""
    parts = {name: masking[masking["model"] == name] for name in model_styles(masking)}
    wide = 2 if len(parts) == 4 else min(len(parts), 3)  # three would leave one alone
    style = {"by": "order", "styles": ORDERS, "note": f"{BAND}\n\nmasked first by", "wide": wide}
    figure = model_curves(parts, "ratio_pct", "top1_pct", "top-1 (%)", (0, 102), **style)
    for axis in figure.axes:
        axis.set_xlabel("masked patches (%)")
    return figure


# IA-scores


def depth_curves(scores: pd.DataFrame, maps: Sequence[str] = ("smoothgrad", "aav_dino")) -> Figure:
    """global-IAV of each layer, mean over its heads and all images (IAV Fig. 7a, 7b).

    A panel a map, a line a model.
    """
    parts = {MAPS.get(name, name): scores[scores["map"] == name] for name in maps}
    return model_curves(parts, "layer", "score", "mean IA-score of the layer", sharey=True)


def heads_beside_flat(scores: Float[Tensor, "images layers heads"], flat: float) -> Figure:
    """How many heads of a model have which mean score; dotted: it looks everywhere alike."""
    figure, (axis,) = panels(1, 6, 2.6)
    axis.hist(scores.mean(dim=0).flatten().numpy(), bins=20, range=(0, 1), color=OURS)
    axis.axvline(flat, color="black", linestyle=":")
    axis.annotate(
        "looks everywhere alike", (flat, 1), (4, -4), xycoords=("data", "axes fraction"),
        textcoords="offset points", va="top", fontsize=9,
    )  # fmt: skip
    axis.set(title="Heads of one model", xlabel="mean IA-score", ylabel="heads")
    axis.yaxis.get_major_locator().set_params(integer=True)
    return figure


def agreement_curves(chance: pd.DataFrame) -> Figure:
    """How far heads agree with the decision, by layer: as a score, above chance, as a correlation.

    `chance` is of `heads.chance_table`. Line 0 is a head that looks everywhere alike.
    """
    table = chance.assign(above_flat=chance["score"] - chance["uniform"])
    parts = dict.fromkeys(AGREEMENT.values(), table)
    figure = model_curves(parts, "layer", list(AGREEMENT), "mean over heads and images")
    for axis in figure.axes[1:]:
        axis.axhline(0, color="black", linewidth=0.8)
    return figure


def separation_dots(properties: pd.DataFrame, kinds: pd.Series) -> Figure:
    """A dot a run, a panel a property, which says whether it keeps the kinds apart.

    `properties` and `kinds` are of `relevit.iav.run_properties`; apart are all runs of one kind
    above all of the other (`relevit.iav.separations`).
    """
    ends = separations(properties, kinds).set_index("property")[["above", "below"]]
    rows = properties.assign(kind=kinds).reset_index()
    styles = model_styles(rows)
    figure, axes = panels(properties.shape[1], 1.9 + 2.2 * properties.shape[1], 3.0)
    for axis, name in zip(axes, properties, strict=True):
        for place, (model, style) in enumerate(styles.items()):
            own = rows[rows["model"] == model]
            where = list(LINES).index(own["kind"].iloc[0]) + 0.1 * (place % 3 - 1)
            dots = style | {"linestyle": "", "markersize": 6, "label": model}
            axis.plot([where] * len(own), own[name], **dots)
        said = "kinds apart" if ends.loc[name].max() > 0 else "kinds mixed"
        axis.set(title=f"{PROPERTIES[name]}\n{said}", xlim=(-0.5, 1.5))
        axis.set_xticks([0, 1], ["supervised", "self-\nsupervised"])
    legend_beside(figure, axes[0])
    return figure


def score_boxes(scores: pd.DataFrame, layers: Sequence[int]) -> Figure:
    """IA-scores of each head over images (IAV Fig. 8). Dark is High-IA, pale Low-IA."""
    figure = head_boxes(scores[scores["map"] == "smoothgrad"], "score", layers)
    for axis in figure.axes:
        mark_level(axis, HIGH_ABOVE, linewidth=0.8)
        axis.set(ylim=(-0.03, 1.03), yticks=[0, 0.5, 1])
    figure.suptitle("IA-score; dark: High-IA, median above 0.5; pale: Low-IA", fontsize=9)
    return figure


def entropy_boxes(entropy: pd.DataFrame) -> Figure:
    """Attention entropy of each head over images in the last layer, in nats (IAV Fig. 6b)."""
    figure = head_boxes(entropy, "entropy", [int(entropy["layer"].max())])
    figure.suptitle("Attention entropy (nats)", fontsize=9)
    return figure


def head_boxes(table: pd.DataFrame, column: str, layers: Sequence[int]) -> Figure:
    """A box a head, the largest median first: rows are models, columns `layers`.

    Of each model's first seed: heads are not the same in another.
    """
    rows = table[table["seed"] == table.groupby("model")["seed"].transform("min")]
    names = list(model_styles(rows))
    grid = [(name, layer) for name in names for layer in layers]
    wide = len(layers) if len(layers) > 1 else min(2, len(names))
    figure, axes = panel_grid(len(grid), wide, (3.4, 1.7), (0.5, 0.8), sharey=True)
    for axis, (name, layer) in zip(axes.flat, grid, strict=False):
        part = rows[(rows["model"] == name) & (rows["layer"] == layer)]
        medians = part.groupby("head")[column].median().sort_values(ascending=False)
        own = COLOURS.get(name, INK) if column == "entropy" else None
        types = {h: own or (HIGH if m > HIGH_ABOVE else LOW) for h, m in medians.items()}
        sns.boxplot(
            part, x="head", y=column, order=medians.index, hue="head", palette=types, legend=False,
            showfliers=False, linewidth=0.8, linecolor="black", saturation=1, ax=axis,
        )  # fmt: skip
        axis.set(title=f"{name}, layer {layer}", xlabel="head, by its median", ylabel="")
    return figure


def space_points(
    places: Mapping[str, np.ndarray], labels: Int[Tensor, " images"], space: pd.DataFrame
) -> Figure:
    """Images in the last layer's space of scores, a panel a model, a colour a class (IAV Fig. 9).

    `places` are points of `relevit.iav.tsne`, `space` is the table of that name.
    """
    numbers = space[space["layer"] == space["layer"].max()].groupby("model").first()
    figure, axes = panels(len(places), 2.9 * len(places), 3)
    for axis, (name, points) in zip(axes, places.items(), strict=True):
        axis.scatter(*points.T, c=labels, cmap="tab20", s=30)
        found = numbers.loc[name]
        said = f"silhouette {found['silhouette']:.2f}, k-NN {found['knn_pct']:.0f} %"
        axis.set(title=f"{name}\n{said}", xticks=[], yticks=[])
    return figure


def slope_intervals(slopes: pd.DataFrame) -> Figure:
    """Change of the mean score over the depth, a point a run with its interval, a panel a map.

    A row is a model, its runs below each other. Where the points of the two kinds of pretraining do
    not mix, IAV separates them.
    """
    maps, styles = list(dict.fromkeys(slopes["map"])), model_styles(slopes)
    seeds = sorted(set(slopes["seed"]))
    size = (1.7 + 2.8 * len(maps), 1.6 + 0.25 * len(styles) * max(2, len(seeds)))
    figure, axes = panels(len(maps), *size, sharex=True, sharey=True)
    for axis, name in zip(axes, maps, strict=True):
        for row in slopes[slopes["map"] == name].itertuples():
            offset = 0.7 * ((seeds.index(row.seed) + 0.5) / len(seeds) - 0.5)
            ends = [[row.slope - row.low], [row.high - row.slope]]
            style = styles[row.model] | {"linestyle": "-", "markersize": 5, "capsize": 2}
            axis.errorbar(row.slope, list(styles).index(row.model) + offset, xerr=ends, **style)
        axis.axvline(0, color="black", linewidth=0.8)
        axis.set_title(MAPS.get(name, name))
        axis.set_xlabel("change of the score,\nfirst to last layer")
    kinds = dict(zip(slopes["model"], slopes["kind"], strict=True))
    axes[0].set_yticks(range(len(styles)), [f"{name}\n{kinds[name]}" for name in styles])
    axes[0].set_ylim(len(styles) - 0.5, -0.5)
    return figure


def before_after(robustvit: pd.DataFrame, original: str = "original") -> Figure:
    """global-IAV of each layer before and after RobustViT's finetuning, a panel a map.

    The full line is the mean over finetuned runs, its band goes from the lowest to the highest.
    """
    table = robustvit.rename(columns={"run": "seed"})
    table["weights"] = table["seed"].eq(original).map({True: "original", False: "finetuned"})
    parts = {MAPS.get(name, name): part for name, part in table.groupby("map", sort=False)}
    old = {"color": ORIGINAL, "marker": "s", "linestyle": "--"}
    new = {"color": OURS, "marker": "o", "label": "finetuned, all runs"}
    style = {"by": "weights", "styles": {"original": old, "finetuned": new}, "note": ""}
    return model_curves(parts, "layer", "score", "mean IA-score of the layer", **style, sharey=True)
