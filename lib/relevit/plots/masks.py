"""Pictures of masks and of how they come about. Every function returns a matplotlib figure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import seaborn as sns
from jaxtyping import Bool, Float, UInt8
from matplotlib.figure import Figure
from torch import Tensor

from relevit.plots.basics import BLUE, ORIGINAL, OURS, subplots

DIMMED = 0.22  # brightness of what a mask leaves out


def cut_out(
    images: UInt8[Tensor, "count 3 height width"], masks: Bool[Tensor, "count 1 height width"]
) -> UInt8[Tensor, "count 3 height width"]:
    """The images with all that lies outside the masks dimmed."""
    return (images * masks + DIMMED * images * ~masks).to(images.dtype)


def cut_steps(
    images: UInt8[Tensor, "count 3 height width"],
    steps: Sequence[tuple[str, Tensor]],
    side: float = 1.25,
) -> Figure:
    """The images, and below them one row of maps [count, height, width] for each step.

    A map of numbers has its own scale of colours, symmetric about its mean; one of truth values
    is dark where it is false.
    """
    shape = (len(steps) + 1, len(images))
    figure, axes = subplots(
        *shape,
        figsize=(1.1 + side * shape[1], side * shape[0]),
        squeeze=False,
        gridspec_kw={"wspace": 0.04, "hspace": 0.06},
    )
    for c, image in enumerate(images):
        axes[0, c].imshow(image.permute(1, 2, 0))
        for r, (_, maps) in enumerate(steps, start=1):
            values = maps[c].double().numpy()
            reach = np.abs(values - values.mean()).max() or 1.0
            scale = (values.mean() - reach, values.mean() + reach)
            low, high = (0, 1) if maps.is_floating_point() is False else scale
            axes[r, c].imshow(values, cmap="cividis", vmin=low, vmax=high, interpolation="nearest")
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
        axis.grid(False)
        sns.despine(ax=axis, left=True, bottom=True)
    for r, name in enumerate(("image", *(name for name, _ in steps))):
        axes[r, 0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)
    return figure


def edge_matrix(
    similarity: Float[Tensor, "tokens tokens"], tau: float, object_first: Bool[Tensor, " tokens"]
) -> Figure:
    """Cosines of one image's tokens, and which pairs are joined; the object's tokens first."""
    order = (~object_first).int().argsort(stable=True)
    sorted_ = similarity[order][:, order].numpy()
    figure, (left, right) = subplots(1, 2, figsize=(6.6, 3.1), layout="constrained")
    drawn = left.imshow(sorted_, cmap="cividis", vmin=-1, vmax=1)
    figure.colorbar(drawn, ax=left, shrink=0.85)
    right.imshow(sorted_ > tau, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
    for axis, title in ((left, "cosine of two tokens"), (right, f"joined: cosine above {tau:g}")):
        border = int(object_first.sum()) - 0.5
        axis.axhline(border, color=OURS, linewidth=1)
        axis.axvline(border, color=OURS, linewidth=1)
        axis.set(title=title, xlabel="token", ylabel="token")
        axis.grid(False)
    return figure


def quality_plot(quality: pd.DataFrame) -> Figure:
    """IoU of each image before and after refinement, the boxes found, and what is kept.

    `quality` holds `images`, `seed`, `stage`, `iou_pct`, `located` and `kept`. Bars are means
    over images.
    """
    figure, (left, right) = subplots(
        1, 2, figsize=(9, 3), layout="constrained", width_ratios=(3, 2)
    )
    colours = {"coarse": ORIGINAL, "refined": OURS}
    shared = {"data": quality, "x": "images", "y": "iou_pct", "hue": "stage", "palette": colours}
    sns.boxplot(**shared, ax=left, showfliers=False, width=0.7, boxprops={"alpha": 0.35})
    sns.stripplot(**shared, ax=left, dodge=True, size=2.5, alpha=0.5, jitter=0.22, legend=False)
    left.set(title="Overlap with the exact mask", xlabel="", ylabel="IoU (%)", ylim=(-3, 103))
    left.legend(frameon=False, title="")
    refined = quality[quality["stage"] == "refined"]
    shares = pd.concat(
        [
            100 * quality.pivot_table(index="images", columns="stage", values="located"),
            100 * refined.groupby("images")["kept"].mean().rename("kept"),
        ],
        axis=1,
    )
    shares = shares.rename(columns={"coarse": "found, coarse", "refined": "found, refined"})
    shares.plot.bar(ax=right, color=[ORIGINAL, OURS, BLUE], rot=0, width=0.75)
    right.set(title="Boxes found (CorLoc), and kept", xlabel="", ylabel="images (%)", ylim=(0, 119))
    right.legend(frameon=False, ncols=3, fontsize=7, loc="upper center", columnspacing=0.9)
    return figure
