"""Pictures of the notebooks. Every function returns a matplotlib figure and shows nothing."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pandas as pd
import seaborn as sns
from IPython import get_ipython
from jaxtyping import Float, UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib_inline.backend_inline import set_matplotlib_formats
from torch import Tensor, nn

from relevit.training.epochs import History

ORIGINAL, OURS = "#8a8f98", "#d1495b"  # grey and red, told apart in print too
BLUE = "#3b6ea5"  # for a third thing
DPI = 80  # small files: committed notebooks carry the pictures


def set_style() -> None:
    """The look of all figures."""
    sns.set_theme(style="whitegrid", context="notebook", font_scale=0.85)
    plt.rcParams.update({"figure.dpi": DPI, "savefig.dpi": DPI, "axes.titlesize": 10})
    if get_ipython() is not None:  # noise textures are several times smaller as JPEG
        set_matplotlib_formats("jpeg", pil_kwargs={"quality": 88})


def image_grid(
    rows: Sequence[tuple[str, UInt8[Tensor, "count 3 height width"]]],
    titles: Sequence[Sequence[str]] | None = None,
    side: float = 1.05,
) -> Figure:
    """Rows of images with a name at the left; `titles` gives a caption for each image."""
    columns = max(len(images) for _, images in rows)
    height = side * (1.22 if titles else 1.0)
    figure, axes = _bare_axes(len(rows), columns, side, height)
    for r, (name, images) in enumerate(rows):
        for c, image in enumerate(images):
            axes[r, c].imshow(image.permute(1, 2, 0).numpy())
            if titles:
                axes[r, c].set_title(titles[r][c], fontsize=7, pad=2)
        _name_row(axes[r, 0], name)
    return figure


def heatmap_grid(
    images: UInt8[Tensor, "count 3 height width"],
    rows: Sequence[tuple[str, Float[Tensor, "count 1 height width"]]],
    titles: Sequence[str] | None = None,
    colours: Sequence[str] | None = None,
    side: float = 1.25,
) -> Figure:
    """The images, and below them one row of heatmaps for each model, laid over the image."""
    figure, axes = _bare_axes(len(rows) + 1, len(images), side, side * 1.08)
    for c, image in enumerate(images):
        picture = image.permute(1, 2, 0).numpy()
        axes[0, c].imshow(picture)
        if titles:
            colour = colours[c] if colours else "black"
            axes[0, c].set_title(titles[c], fontsize=7, pad=2, color=colour)
        for r, (_, maps) in enumerate(rows, start=1):
            axes[r, c].imshow(picture.mean(axis=2), cmap="gray", vmin=-80, vmax=335)
            axes[r, c].imshow(maps[c, 0].detach().cpu(), cmap="inferno", alpha=0.72, vmin=0, vmax=1)
    _name_row(axes[0, 0], "image")
    for r, (name, _) in enumerate(rows, start=1):
        _name_row(axes[r, 0], name)
    return figure


def training_curve(log: pd.DataFrame) -> Figure:
    """Loss within the epochs and validation top-1 after each, of the original model."""
    figure, (left, right) = subplots(1, 2, figsize=(8, 2.6), layout="constrained")
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
    figure, axes = subplots(1, 5, figsize=(12, 2.3), layout="constrained")
    for axis, term in zip(axes, terms, strict=False):
        axis.plot(log["epoch"], log[f"validation_loss_{term}"], marker=".", color=OURS)
        axis.set(title=term, xlabel="epoch")
        axis.ticklabel_format(axis="y", style="sci", scilimits=(-3, 4))
    axes[0].set_ylabel("validation loss")
    axes[4].plot(log["epoch"], log["validation_top1_pct"], marker=".", color=ORIGINAL)
    axes[4].set(title="top-1 (%)", xlabel="epoch")
    for axis in axes:
        axis.xaxis.get_major_locator().set_params(integer=True)
    return figure


def rate_curves(histories: dict[float, History], limit_pts: float) -> Figure:
    """What the learning-rate rule looks at, one line a rate; the dotted lines are its limits."""
    figure, (left, right) = subplots(1, 2, figsize=(9, 2.8), layout="constrained")
    colours = sns.color_palette("flare", len(histories))
    for colour, (lr, history) in zip(colours, histories.items(), strict=True):
        log = pd.DataFrame(history)
        style = {"color": colour, "marker": ".", "label": f"{lr:.1e}"}
        left.plot(log["epoch"], log["validation_top1_pct"][0] - log["validation_top1_pct"], **style)
        right.plot(log["epoch"], log["validation_confidence_loss"], **style)
    left.axhline(limit_pts, color="black", linestyle=":")
    right.axhline(log["validation_confidence_loss"][0], color="black", linestyle=":")
    left.set(title="Loss of validation top-1", xlabel="epoch", ylabel="points")
    right.set(title="Classification loss", xlabel="epoch", ylabel="nats")
    right.legend(frameon=False, title="learning rate")
    return figure


def gradient_bars(model: nn.Module, title: str) -> Figure:
    """Gradient norm of every block, and of what comes before and after the blocks."""
    names = ["embedding", *(f"block {i + 1}" for i in range(len(model.blocks))), "norm", "head"]
    squares = dict.fromkeys(names, 0.0)
    for key, parameter in model.named_parameters():
        first, second = [*key.split("."), ""][:2]
        place = f"block {int(second) + 1}" if first == "blocks" else first
        place = place if place in squares else "embedding"
        if parameter.grad is not None:
            squares[place] += float(parameter.grad.detach().square().sum())
    figure, axis = subplots(figsize=(7.5, 2.3), layout="constrained")
    axis.bar(names, np.sqrt(list(squares.values())), color=OURS)
    axis.set(title=title, ylabel="norm", yscale="log")
    axis.tick_params(axis="x", rotation=35)
    return figure


def accuracy_bars(accuracy: pd.DataFrame, title: str) -> Figure:
    """Top-1 of one model on each set, with the 95 % interval over images."""
    figure, axis = subplots(figsize=(7.5, 2.6), layout="constrained")
    share = accuracy["top1_pct"] / 100
    error = 196 * np.sqrt(share * (1 - share) / accuracy["images"])
    axis.bar(accuracy["dataset"], accuracy["top1_pct"], yerr=error, color=ORIGINAL, capsize=3)
    axis.set(ylabel="top-1 (%)", ylim=(0, 105), title=title)
    axis.tick_params(axis="x", rotation=20)
    return figure


def share_table(shares_pct: pd.DataFrame, title: str) -> Figure:
    """A table of percentages as colours, classes down, textures across."""
    figure, axis = subplots(figsize=(5, 4.2), layout="constrained")
    sns.heatmap(shares_pct, cmap="mako_r", vmin=0, vmax=100, ax=axis, yticklabels=5)
    axis.set(title=title, xlabel="texture", ylabel="class")
    return figure


def relevance_bars(where: pd.DataFrame, title: str) -> Figure:
    """Mean IoU and share of the relevance on the object, for each set."""
    figure, axis = subplots(figsize=(7.5, 2.6), layout="constrained")
    long = where.rename(
        columns={"iou_pct": "IoU with the mask", "on_object_pct": "relevance on the object"}
    ).melt("dataset", var_name="", value_name="percent")
    sns.barplot(long, x="dataset", y="percent", hue="", palette=[ORIGINAL, BLUE], ax=axis)
    axis.set(title=title, xlabel="", ylabel="%", ylim=(0, 100))
    axis.tick_params(axis="x", rotation=20)
    axis.legend(frameon=False, ncols=2)
    return figure


def change_bars(changes: pd.DataFrame, title: str) -> Figure:
    """Mean change of top-1 over seeds with its standard deviation, one bar a set.

    `changes` holds `dataset`, `change` and `std`, and optionally `group` for bars side by side.
    """
    figure, axis = subplots(figsize=(7.5, 2.8), layout="constrained")
    draw_changes(axis, changes, title)
    return figure


def draw_changes(axis: Axes, changes: pd.DataFrame, title: str) -> None:
    """The bars of `change_bars` on a given axis."""
    groups = list(dict.fromkeys(changes["group"])) if "group" in changes else [None]
    colours = dict(zip(groups, [OURS, ORIGINAL, BLUE], strict=False))
    width = 0.8 / len(groups)
    for i, group in enumerate(groups):
        part = changes if group is None else changes[changes["group"] == group]
        places = np.arange(len(part)) + (i - (len(groups) - 1) / 2) * width
        axis.bar(
            places,
            part["change"],
            width,
            yerr=part["std"].fillna(0),
            capsize=3,
            color=colours[group],
            label=group,
        )
    axis.axhline(0, color="black", linewidth=0.8)
    axis.set_xticks(range(changes["dataset"].nunique()), changes["dataset"].unique(), rotation=20)
    axis.set(ylabel="change of top-1 (points)", title=title)
    if groups != [None]:  # beside the bars: there is no corner that no set's error bar reaches
        axis.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))


def class_bars(changes: pd.Series, title: str) -> Figure:
    """One bar a class, in the order given; `changes` maps class names to points."""
    figure, axis = subplots(figsize=(9, 2.8), layout="constrained")
    colours = [OURS if value >= 0 else ORIGINAL for value in changes]
    axis.bar(changes.index, changes.to_numpy(), color=colours)
    axis.axhline(0, color="black", linewidth=0.8)
    axis.set(ylabel="points", title=title)
    axis.tick_params(axis="x", rotation=90, labelsize=7)
    return figure


def flow_chart(edges: list[tuple[str, str]], title: str) -> Figure:
    """The stages as boxes, each in the column after the last of those it needs."""
    graph = nx.DiGraph(edges)
    for column, names in enumerate(nx.topological_generations(graph)):
        for name in names:
            graph.nodes[name]["column"] = column
    places = nx.multipartite_layout(graph, subset_key="column")
    figure, axis = subplots(figsize=(9, 2.2), layout="constrained")
    box = {"boxstyle": "round,pad=0.5", "facecolor": "#eef1f5", "edgecolor": ORIGINAL}
    nx.draw_networkx_edges(graph, places, ax=axis, edge_color=ORIGINAL, node_size=3200)
    nx.draw_networkx_labels(graph, places, ax=axis, font_size=9, bbox=box)
    axis.set_title(title)
    axis.set_axis_off()
    axis.margins(x=0.12, y=0.3)
    return figure


def subplots(*shape: int, **options):
    """As `plt.subplots`, but known to the caller alone: a notebook shows it once, as a result."""
    figure, axes = plt.subplots(*shape, **options)
    plt.close(figure)
    return figure, axes


def _bare_axes(rows: int, columns: int, side: float, height: float):
    figure, axes = subplots(
        rows,
        columns,
        figsize=(0.75 + columns * side, rows * height),
        squeeze=False,
        gridspec_kw={"wspace": 0.04, "hspace": 0.08 + height / side - 1},
    )
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
        axis.grid(False)
        for spine in axis.spines.values():
            spine.set_visible(False)
    return figure, axes


def _name_row(axis, name: str) -> None:
    axis.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)
