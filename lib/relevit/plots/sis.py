"""Pictures of sufficient input subsets. Every function returns a matplotlib figure."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from relevit.evaluate.looking import RIGHT, WRONG
from relevit.evaluate.sis import Subsets
from relevit.plots.basics import ORIGINAL, OURS, subplots


def subset_grid(
    images: Float[Tensor, "rows 3 height width"],
    alone: Float[Tensor, "pairs 3 height width"],
    subsets: Subsets,
    titles: Sequence[str],
    targets: Sequence[str],
    side: float = 1.45,
) -> Figure:
    """Each image and, beside it, its subset for each target; pairs come image by image.

    `images` are whole, `alone` what the model sees of them, both in [0, 1]; `titles` are
    those of the images, `targets` the names of the columns.
    """
    rows, columns = len(images), 1 + len(targets)
    figure, axes = subplots(
        rows,
        columns,
        figsize=(columns * side, rows * side * 1.22),
        squeeze=False,
        layout="constrained",
    )
    for r, (image, title) in enumerate(zip(images, titles, strict=True)):
        _draw(axes[r, 0], image, title, "black")
        for c, target in enumerate(targets):
            pair = r * len(targets) + c
            text = (
                f"{target} {float(subsets.confidence_pct[pair]):.0f} %\n"
                f"{float(subsets.kept_pct[pair]):.0f} % of the pixels"
            )
            colour = RIGHT if bool(subsets.found[pair]) else WRONG
            _draw(axes[r, c + 1], alone[pair], text, colour)
    return figure


def confidence_paths(runs: dict[str, Subsets], threshold_pct: float) -> Figure:
    """The target's confidence while pixels are removed, one line a pair."""
    figure, axes = subplots(
        1,
        len(runs),
        figsize=(4.4 * len(runs), 2.8),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for axis, (name, subsets) in zip(axes[0], runs.items(), strict=True):
        for path, found in zip(subsets.path_pct.T, subsets.found.tolist(), strict=True):
            axis.plot(
                subsets.path_kept_pct.cpu(),
                path.cpu(),
                linewidth=1.2,
                color=OURS if found else ORIGINAL,
            )
        axis.axhline(threshold_pct, color="black", linewidth=0.8, linestyle=":")
        axis.invert_xaxis()  # removing goes to the right
        axis.set(title=name, xlabel="pixels left (%)", ylim=(-2, 102))
    axes[0, 0].set_ylabel("confidence in the label (%)")
    return figure


def _draw(axis, image: Tensor, title: str, colour: str) -> None:
    axis.imshow(image.permute(1, 2, 0).numpy(), interpolation="nearest")
    axis.set(xticks=[], yticks=[])
    axis.grid(False)
    for spine in axis.spines.values():
        spine.set_visible(False)
    axis.set_title(title, fontsize=7.5, pad=2, color=colour)
