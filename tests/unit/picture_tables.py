"""Small made-up tables of two models, for the tests of pictures, and what was drawn of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

KINDS = {"mini-dino": "self-supervised", "mini-deit": "supervised"}
SEEDS = (0, 1)


def table(
    value: Callable[[Mapping[str, Any]], Mapping[str, Any]], **columns: Sequence
) -> pd.DataFrame:
    """A row for each model, seed and combination of `columns`; `value` maps a row to numbers."""
    names = ("model", "seed", *columns)
    rows = itertools.product(KINDS, SEEDS, *columns.values())
    made = [dict(zip(names, row, strict=True)) for row in rows]
    return pd.DataFrame([row | {"kind": KINDS[row["model"]]} | value(row) for row in made])


def line(axis: Axes, label: str) -> Line2D:
    """The one line of that name."""
    (found,) = [line for line in axis.lines if line.get_label() == label]
    return found


def band(axis: Axes, number: int) -> tuple[float, float]:
    """Lowest and highest value of a band."""
    heights = axis.collections[number].get_paths()[0].vertices[:, 1]
    return heights.min(), heights.max()
