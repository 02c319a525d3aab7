"""What the pictures share: colours, the look of all figures, panels, legends and ticks."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from IPython import get_ipython
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib_inline.backend_inline import set_matplotlib_formats

ORIGINAL, OURS = "#8a8f98", "#d1495b"  # grey and red, told apart in print too
BLUE = "#3b6ea5"  # for a third thing
DPI = 80  # small files: committed notebooks carry the pictures
GREY = {"cmap": "gray", "vmin": -80, "vmax": 335}  # of an image below its heatmap
HEAT = {"cmap": "inferno", "alpha": 0.72, "vmin": 0, "vmax": 1}


def set_style() -> None:
    """The look of all figures."""
    sns.set_theme(style="whitegrid", context="notebook", font_scale=0.85)
    plt.rcParams.update({"figure.dpi": DPI, "savefig.dpi": DPI, "axes.titlesize": 10})
    if get_ipython() is not None:  # noise textures are several times smaller as JPEG
        set_matplotlib_formats("jpeg", pil_kwargs={"quality": 88})


def subplots(
    *shape: int, layout: str | None = "constrained", **options: Any
) -> tuple[Figure, np.ndarray | Axes]:
    """As `plt.subplots`, but known to the caller alone: a notebook shows it once, as a result."""
    figure, axes = plt.subplots(*shape, layout=layout, **options)
    plt.close(figure)
    return figure, axes


def panels(count: int, width: float, height: float, **options: Any) -> tuple[Figure, list[Axes]]:
    """So many panels side by side in a figure of that size, in inches."""
    figure, axes = subplots(1, count, figsize=(width, height), squeeze=False, **options)
    return figure, list(axes[0])


def legend_beside(figure: Figure, axis: Axes, title: str = "") -> None:
    """The legend of one panel at the right of all, where it covers no data."""
    figure.legend(
        *axis.get_legend_handles_labels(),
        loc="outside right center",
        frameon=False,
        title=title,
        title_fontsize=8,
        alignment="left",
    )


def heading(figure: Figure, title: str) -> None:
    """A title above all panels."""
    figure.suptitle(title, fontsize=10)


def count_whole(axis: Axes) -> None:
    """Ticks at whole epochs, blocks or steps alone."""
    axis.xaxis.get_major_locator().set_params(integer=True)


def mark_level(axis: Axes, height: float, **style: Any) -> None:
    """A dotted line across the panel: a limit, or what chance gives."""
    axis.axhline(height, color="black", linestyle=":", **style)
