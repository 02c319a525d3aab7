"""Pictures of what a text classifier attends to, and of the methods' scores on texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import seaborn as sns
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from relevit.plots.basics import BLUE, ORIGINAL, OURS, subplots


def attention_rows(
    rows: Float[Tensor, "blocks tokens"], words: Sequence[str], title: str
) -> Figure:
    """How much the class token attends to each token, one row a block, the first on top.

    `words` name the tokens; texts of up to about 40 can be read.
    """
    figure, axis = subplots(figsize=(9, 1.6 + 0.28 * len(rows)), layout="constrained")
    sns.heatmap(
        rows.numpy(),
        ax=axis,
        vmin=0,
        cmap="rocket_r",
        xticklabels=words,
        yticklabels=range(1, len(rows) + 1),
        cbar_kws={"label": "attention"},
    )
    axis.set(ylabel="block", title=title)
    axis.tick_params(axis="x", rotation=60)
    axis.tick_params(axis="y", rotation=0)
    return figure


def score_bars(
    table: pd.DataFrame, higher: Mapping[str, bool], variants: Sequence[str], title: str
) -> Figure:
    """Each score of each method with its interval; `variants` in red, an order by chance in grey.

    `table` has method, score, value_pct, low_pct, high_pct; `higher` says of each score whether
    more is better.
    """
    names = [name for name in higher if name in set(table["score"])]
    figure, axes = subplots(
        1, len(names), figsize=(2.9 * len(names), 3.6), sharey=True, layout="constrained"
    )
    colours = dict.fromkeys(variants, OURS) | {"random": ORIGINAL}
    for axis, name in zip(axes, names, strict=True):
        rows = table[table["score"] == name].iloc[::-1]
        error = (rows["value_pct"] - rows["low_pct"], rows["high_pct"] - rows["value_pct"])
        axis.barh(
            rows["method"],
            rows["value_pct"],
            xerr=error,
            capsize=2,
            color=[colours.get(method, BLUE) for method in rows["method"]],
        )
        axis.set(title=f"{name} ({'higher' if higher[name] else 'lower'} is better)", xlabel="%")
    figure.suptitle(title, fontsize=10)
    return figure
