"""Masking patches in the order of a map: does what a model looks at matter to its answer?

Source: IAV Sec. V.C, Fig. 5. It is the positive perturbation test of
`relevit.evaluate.perturbation`, on whole patches, for several maps and a random order beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from relevit.evaluate.perturbation import (
    SHARES_PCT,
    Erasing,
    Grid,
    accuracy_curves,
    judged,
    perturbation_rows,
)
from relevit.models.spec import ModelSpec

RANDOM = "random"


def masking_curves(
    model: nn.Module,
    spec: ModelSpec,
    images: UInt8[Tensor, "batch 3 height width"],
    labels: Int[Tensor, " batch"],
    maps: Mapping[str, Float[Tensor, "batch patches"]],
    grid: Grid,
    ratios_pct: Sequence[float] = SHARES_PCT,
    *,
    seed: int = 0,
) -> pd.DataFrame:
    """Accuracy while more and more patches are masked, those with the highest value first.

    Source: IAV Fig. 5, whose ratios are 0.1 to 0.9. `maps` are the orders by name: `attention`
    is the class row's mean over all heads and layers, `smoothgrad` one non-negative value a
    patch; the order `random` is added (`random_order`, from `seed`). `grid` has the (rows,
    columns) of the patches. Ratios are rounded down to whole patches, and 0 is always added.
    Patches take the mean colour, 0 after normalisation: the paper does not say which.

    One row an order and ratio, in this order: `order`, `ratio_pct`, `top1_pct`, `images`.
    """
    orders = {**maps, RANDOM: random_order(len(images), grid[0] * grid[1], seed=seed)}
    erasing = Erasing("token", "mean", ["positive"], ratios_pct)
    tables = []
    for name, values in orders.items():
        parts = judged(images, values, labels)
        rows = perturbation_rows(model, spec.normalise, parts, grid, erasing)
        curve = accuracy_curves(rows).assign(order=name)
        tables.append(curve.rename(columns={"share_pct": "ratio_pct", "accuracy_pct": "top1_pct"}))
    columns = ["order", "ratio_pct", "top1_pct", "images"]
    return pd.concat(tables, ignore_index=True)[columns]


def random_order(images: int, patches: int, *, seed: int = 0) -> Float[Tensor, "images patches"]:
    """A map for each image whose values are in random order, from 0 to patches - 1.

    Source: IAV Fig. 5, the curve for chance. An image's order comes from `seed` and its number
    alone; one order serves all ratios, so that more masks include fewer.
    """
    orders = [np.random.default_rng([seed, i]).permutation(patches) for i in range(images)]
    return torch.from_numpy(np.stack(orders)).float()
