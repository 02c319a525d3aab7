"""Pictures of IA-scores: by depth, by head, by model. Every function returns a figure.

The tables are those of 07_iav; layers and heads count from 1. Colours, lines and bands:
`relevit.plots.pretrained`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
import seaborn as sns
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from relevit.iav.scores import HIGH as HIGH_ABOVE
from relevit.plots.pretrained import (
    BAND,
    mark_layers,
    model_bands,
    model_panels,
    model_styles,
    need_present,
    one_seed,
    seed_band,
)
from relevit.plots.style import ORIGINAL, OURS, legend_beside, mark_level, panels, subplots

LIGHTS = (0.4, 0.62, 0.8)  # of classes, in turn
MARKERS = "osD^vP"  # of classes, in turn: colours alone do not part ten
HIGH, LOW = "#b04a93", "#e3c4da"  # of heads; the colours of models mean something else
MAPS = {
    "smoothgrad": "SmoothGrad",
    "gradcam": "GradCAM",
    "aav_dino": "SmoothGrad of DINO (AAV)",
    "mask": "object mask (AAV)",
}


def depth_curves(scores: pd.DataFrame, maps: Sequence[str] = ("smoothgrad", "aav_dino")) -> Figure:
    """global-IAV of each layer, mean over its heads and all images (IAV Fig. 7a, 7b).

    A panel a map, a line a model. Raises: ValueError for a map that the table does not hold.
    """
    need_present(scores, "map", maps, "depth_curves")
    figure, axes = panels(len(maps), 1.9 + 3.7 * len(maps), 3.2, sharey=True)
    for axis, name in zip(axes, maps, strict=True):
        model_bands(axis, scores[scores["map"] == name], "layer", "score")
    _finish_layers(axes, maps, scores)
    legend_beside(figure, axes[0], BAND)
    return figure


def head_curves(scores: pd.DataFrame, map_name: str = "smoothgrad") -> Figure:
    """global-IAV of every head, sorted within its layer, the largest first (as in IAV Fig. 7).

    A panel a model, a piece of line a layer. Heads are sorted in each seed, so that the band
    is that of the first head, the second head and so on, whichever these are.
    Raises: ValueError for a map that the table does not hold.
    """
    need_present(scores, "map", [map_name], "head_curves")
    rows = scores[scores["map"] == map_name]
    means = rows.groupby(["model", "seed", "layer", "head"])["score"].mean().reset_index()
    within = means.groupby(["model", "seed", "layer"])["score"]
    means["rank"] = within.rank(method="first", ascending=False)
    means["place"] = means["layer"] + 0.8 * ((means["rank"] - 0.5) / within.transform("size") - 0.5)
    labels = ("layer, heads sorted within", "mean IA-score")
    figure, by_model = model_panels(rows, (3.5, 2.4), labels, sharex=True, sharey=True)
    for name, style in model_styles(rows).items():
        for _, layer in means[means["model"] == name].groupby("layer"):
            seed_band(by_model[name], layer, "place", "score", color=style["color"], marker=".")
        mark_layers(by_model[name], rows)
    _fit_scores(by_model.values())
    figure.legend([], [], title=BAND, loc="outside right center", frameon=False, title_fontsize=8)
    return figure


def score_boxes(
    scores: pd.DataFrame,
    layers: Sequence[int] = (1, 6, 12),
    map_name: str = "smoothgrad",
    seed: int | None = None,
) -> Figure:
    """IA-scores of each head over images, as boxes coloured by the head's type (IAV Fig. 8).

    Rows are models, columns `layers`; heads are sorted by their median and named below. One
    finetuning seed is drawn, each model's first for None: heads are not the same in another.
    Raises: ValueError for a map, layer or seed that the table does not hold.
    """
    need_present(scores, "map", [map_name], "score_boxes")
    need_present(scores, "layer", layers, "score_boxes")
    rows = one_seed(scores[scores["map"] == map_name], seed, "score_boxes")
    names = list(model_styles(rows))
    size = (0.5 + 3.4 * len(layers), 0.6 + 1.55 * len(names))
    figure, axes = subplots(len(names), len(layers), figsize=size, sharey=True, squeeze=False)
    for line, name in zip(axes, names, strict=True):
        for axis, layer in zip(line, layers, strict=True):
            part = rows[(rows["model"] == name) & (rows["layer"] == layer)]
            _head_boxes(axis, part, "score")
            mark_level(axis, HIGH_ABOVE, linewidth=0.8)
            axis.set(title=f"{name}, layer {layer}", ylim=(-0.03, 1.03))
            axis.set_yticks([0, 0.5, 1])
        line[0].set_ylabel("IA-score")
    for axis in axes[-1]:
        axis.set_xlabel("head, by its median")
    high = Patch(facecolor=HIGH, edgecolor="black", label="High-IA: median above 0.5")
    low = Patch(facecolor=LOW, edgecolor="black", label="Low-IA")
    figure.legend(handles=[high, low], loc="outside upper right", ncols=2, frameon=False)
    return figure


def entropy_boxes(
    entropy: pd.DataFrame,
    layer: int | None = None,
    patches: int | None = None,
    seed: int | None = None,
) -> Figure:
    """Attention entropy of each head over images in one layer, the last for None (IAV Fig. 6b).

    A panel a model, heads sorted by their median; one seed as in `score_boxes`. With
    `patches`, the dotted line is the entropy of even attention, their logarithm.
    Raises: ValueError for a layer or seed that the table does not hold.
    """
    layer = int(entropy["layer"].max()) if layer is None else layer
    need_present(entropy, "layer", [layer], "entropy_boxes")
    rows = one_seed(entropy[entropy["layer"] == layer], seed, "entropy_boxes")
    labels = (f"head of layer {layer}, by its median", "entropy (nats)")
    figure, by_model = model_panels(rows, (3.3, 2.1), labels, sharey=True)
    for name, style in model_styles(rows).items():
        axis = by_model[name]
        _head_boxes(axis, rows[rows["model"] == name], "entropy", style["color"])
        if patches is not None:
            mark_level(axis, np.log(patches), linewidth=0.8)
            place = {"transform": axis.get_yaxis_transform(), "ha": "right", "va": "top"}
            axis.text(0.98, np.log(patches), f"log {patches}", fontsize=7, **place)
    return figure


def slope_intervals(slopes: pd.DataFrame, maps: Sequence[str] | None = None) -> Figure:
    """Change of the mean score over the depth, a point a run with its interval, by kind.

    A panel a map (all of the table for None), a row a run. The dotted lines are the means of
    the kinds, each model with the same weight: where the points of the two kinds do not mix,
    IAV separates them. Raises: ValueError for a map that the table does not hold.
    """
    maps = list(dict.fromkeys(slopes["map"])) if maps is None else maps
    need_present(slopes, "map", maps, "slope_intervals")
    styles = model_styles(slopes)
    runs = slopes[["model", "seed"]].drop_duplicates().sort_values("seed")
    order = [(name, seed) for name in styles for seed in runs[runs["model"] == name]["seed"]]
    size = (1.7 + 2.8 * len(maps), 2 + 0.2 * len(order))
    figure, axes = panels(len(maps), *size, sharex=True, sharey=True)
    for axis, name in zip(axes, maps, strict=True):
        rows = slopes[slopes["map"] == name].set_index(["model", "seed"])
        places = {run: place for place, run in enumerate(order) if run in rows.index}
        for run, place in places.items():
            value, low, high = rows.loc[run, ["slope", "low", "high"]].astype(float)
            style = {**styles[run[0]], "linestyle": "-", "markersize": 5, "capsize": 2}
            axis.errorbar(value, place, xerr=[[value - low], [high - value]], **style)
        _mark_kinds(axis, rows.assign(place=pd.Series(places)))
        axis.axvline(0, color="black", linewidth=0.8)
        axis.set_title(MAPS.get(name, name))
        axis.set_xlabel("change of the score, first\nto last layer (dotted: mean)")
    _name_kinds(axes[-1], [run for run, _ in order], slopes)
    axes[0].set_yticks(*_model_ticks(order))
    axes[0].set_ylim(len(order) - 0.4, -0.6)
    return figure


def before_after(robustvit: pd.DataFrame, original: str = "original") -> Figure:
    """global-IAV of each layer before and after RobustViT's finetuning, a panel a map.

    The full line is the mean over finetuned runs, its band goes from the lowest to the highest.
    """
    maps = list(dict.fromkeys(robustvit["map"]))
    figure, axes = panels(len(maps), 0.6 + 4 * len(maps), 3, sharey=True)
    table = robustvit.rename(columns={"run": "seed"})
    before = table["seed"] == original
    old = {"color": ORIGINAL, "marker": "s", "linestyle": "--", "label": "original"}
    new = {"color": OURS, "marker": "o", "label": "finetuned, all runs"}
    for axis, name in zip(axes, maps, strict=True):
        shown = table["map"] == name
        seed_band(axis, table[shown & before], "layer", "score", **old)
        seed_band(axis, table[shown & ~before], "layer", "score", **new)
    _finish_layers(axes, maps, table)
    legend_beside(figure, axes[0])
    return figure


def space_pictures(
    points: Mapping[str, Float[np.ndarray, "images 2"]],
    labels: Int[np.ndarray, " images"],
    space: pd.DataFrame,
    layer: int,
    classes: Sequence[str],
    seed: int | None = None,
) -> Figure:
    """t-SNE of one layer's IAV, a colour and mark a class, with what it says in numbers (Fig. 9).

    `points` holds each model's places, one an image; `classes` names the labels. `space` is the
    table of 07_iav, from which silhouette and k-NN accuracy are taken (in IAV space, not in the
    picture). One seed as in `score_boxes`.
    Raises: ValueError for a model, layer or seed that `space` does not hold.
    """
    need_present(space, "layer", [layer], "space_pictures")
    need_present(space, "model", list(points), "space_pictures")
    shown = space[(space["layer"] == layer) & space["model"].isin(list(points))]
    rows = one_seed(shown, seed, "space_pictures").set_index("model")
    figure, by_model = model_panels(rows.reset_index(), (3.1, 2.9))
    shown = np.unique(labels)
    # Hues of ten classes are too near each other: their lightness differs too.
    shades = [sns.husl_palette(len(shown), s=0.85, l=light) for light in LIGHTS]
    colours = [shades[i % len(LIGHTS)][i] for i in range(len(shown))]
    for name, axis in by_model.items():
        places = np.asarray(points[name])
        for number, (label, colour) in enumerate(zip(shown, colours, strict=True)):
            style = {"color": colour, "marker": MARKERS[number % len(MARKERS)], "linewidth": 0}
            axis.scatter(*places[labels == label].T, s=30, label=classes[label], **style)
        numbers = rows.loc[name]
        axis.set_title(
            f"{name}, layer {layer}\nsilhouette {numbers['silhouette']:.2f}\nk-NN "
            f"{numbers['knn_pct']:.0f} % (chance {numbers['chance_pct']:.0f} %)"
        )
        axis.set(xticks=[], yticks=[])
        axis.grid(False)
    legend_beside(figure, axis, "a point an image")
    return figure


def space_curves(space: pd.DataFrame) -> Figure:
    """How well the IAV of each layer tells the classes apart: silhouette and k-NN accuracy."""
    figure, (left, right) = panels(2, 9.5, 3)
    model_bands(left, space, "layer", "silhouette")
    model_bands(right, space, "layer", "knn_pct")
    left.axhline(0, color="black", linewidth=0.8)
    mark_level(right, space["chance_pct"].mean(), linewidth=0.8)
    left.set(title="Silhouette of the classes", xlabel="layer", ylabel="silhouette")
    right.set(title="k-NN, dotted: chance", xlabel="layer", ylabel="accuracy (%)")
    right.set_ylim(bottom=0)
    for axis in (left, right):
        mark_layers(axis, space)
    legend_beside(figure, right, BAND)
    return figure


def _finish_layers(axes: Sequence[Axes], maps: Sequence[str], table: pd.DataFrame) -> None:
    """Names and ticks of panels with a map each and the layers from left to right."""
    for axis, name in zip(axes, maps, strict=True):
        axis.set(title=MAPS.get(name, name), xlabel="layer")
        mark_layers(axis, table)
    _fit_scores(axes)
    axes[0].set_ylabel("mean IA-score of the layer")


def _head_boxes(axis: Axes, rows: pd.DataFrame, column: str, colour: str | None = None) -> None:
    """A box a head, the largest median first; without a colour, by the head's type."""
    medians = rows.groupby("head")[column].median().sort_values(ascending=False)
    values = [rows.loc[rows["head"] == head, column].dropna() for head in medians.index]
    drawn = axis.boxplot(
        values, patch_artist=True, showfliers=False, widths=0.7, medianprops={"color": "black"}
    )
    for box, median in zip(drawn["boxes"], medians, strict=True):
        box.set_facecolor(colour or (HIGH if median > HIGH_ABOVE else LOW))
        box.set_linewidth(0.7)
    axis.set_xticks(range(1, len(medians) + 1), medians.index, fontsize=8)
    axis.grid(False, axis="x")


def _mark_kinds(axis: Axes, rows: pd.DataFrame) -> None:
    """A dotted line over the rows of each kind, at the mean of its models."""
    for _, part in rows.groupby("kind"):
        mean = part.groupby("model")["slope"].mean().mean()
        ends = (part["place"].min() - 0.4, part["place"].max() + 0.4)
        axis.plot([mean, mean], ends, color=ORIGINAL, linestyle=":", linewidth=1.8, zorder=0)


def _name_kinds(axis: Axes, names: Sequence[str], table: pd.DataFrame) -> None:
    """Each kind's name at the right of its rows, which are those of `names`."""
    kinds = dict(zip(table["model"], table["kind"], strict=True))
    places = pd.Series(range(len(names))).groupby([kinds[name] for name in names]).mean()
    for kind, place in places.items():
        beside = {"transform": axis.get_yaxis_transform(), "ha": "left", "va": "center"}
        axis.text(1.02, place, kind.replace("-", "-\n"), fontsize=8, rotation=270, **beside)


def _model_ticks(order: Sequence[tuple[str, int]]) -> tuple[list[float], list[str]]:
    """Each model's name in the middle of its runs."""
    places = pd.Series(range(len(order))).groupby([name for name, _ in order], sort=False).mean()
    return places.to_list(), places.index.to_list()


def _fit_scores(axes: Iterable[Axes]) -> None:
    """Limits at tenths around the data of axes that share them."""
    axes = list(axes)
    low = min(axis.dataLim.y0 for axis in axes)
    high = max(axis.dataLim.y1 for axis in axes)
    axes[0].set_ylim(np.floor(10 * low + 1e-6) / 10, np.ceil(10 * high - 1e-6) / 10)
