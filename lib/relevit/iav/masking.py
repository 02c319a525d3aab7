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

from relevit.base.device import Precision
from relevit.evaluate.perturbation import SHARES_PCT, Fill, accuracy_curves, perturbation_rows
from relevit.models.spec import ModelSpec

RANDOM = "random"
IMAGES = 500  # kept normalised in memory at once; the answers do not depend on it


def masking_curves(
    model: nn.Module,
    spec: ModelSpec,
    images: UInt8[Tensor, "batch 3 height width"],
    labels: Int[Tensor, " batch"],
    maps: Mapping[str, Float[Tensor, "batch patches"]],
    ratios_pct: Sequence[float] = SHARES_PCT,
    *,
    fill: Fill = "mean",
    precision: Precision | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Accuracy while more and more patches are masked, those with the highest value first.

    Source: IAV Fig. 5, whose ratios are 0.1 to 0.9. `maps` are the orders by name: `attention`
    is the class row's mean over all heads and layers, `smoothgrad` one non-negative value a
    patch. The order `random` is added (`random_order`, from `seed`). Ratios are rounded down to
    whole patches, and 0 is always added. Patches take the mean colour, 0 after normalisation, or
    black: the paper does not say which. `precision` as in `perturbation_rows`.

    One row an order and ratio, in this order. Columns: `order`, `ratio_pct`, `top1_pct`,
    `images` (their number).
    Raises: ValueError for no map, a map called 'random', maps that do not fit the images or
    one another, or as `perturbation_rows`.
    """
    patches = _check(maps, len(images))
    orders = {**maps, RANDOM: random_order(len(images), patches, seed=seed)}
    tables = []
    for name, values in orders.items():
        hits = [
            perturbation_rows(
                model,
                spec.normalise,
                images[part],
                values[part],
                labels[part],
                unit="token",
                fill=fill,
                directions=["positive"],
                shares_pct=ratios_pct,
                precision=precision,
                first_index=int(part[0]),
            )
            for part in torch.arange(len(images)).split(IMAGES)
        ]
        curve = accuracy_curves(pd.concat(hits, ignore_index=True)).assign(order=name)
        tables.append(curve.rename(columns={"share_pct": "ratio_pct", "accuracy_pct": "top1_pct"}))
    columns = ["order", "ratio_pct", "top1_pct", "images"]
    return pd.concat(tables, ignore_index=True)[columns]


def random_order(
    images: int, patches: int, *, seed: int = 0, first_index: int = 0
) -> Float[Tensor, "images patches"]:
    """A map for each image whose values are in random order, from 0 to patches - 1.

    Source: IAV Fig. 5, the curve for chance. An image's order comes from `seed` and its number
    alone (`first_index` and up); one order serves all ratios, so that more masks include fewer.
    """
    orders = [
        np.random.default_rng([seed, number]).permutation(patches)
        for number in range(first_index, first_index + images)
    ]
    return torch.from_numpy(np.stack(orders)).float()


def _check(maps: Mapping[str, Tensor], images: int) -> int:
    """The number of patches."""
    shapes = {name: tuple(values.shape) for name, values in maps.items()}
    if not shapes or RANDOM in shapes:
        raise ValueError(
            f"masking_curves: maps {list(shapes)}; needed is at least one, and {RANDOM!r} is the "
            "name of the order that is added: call the map something else"
        )
    shape, *others = set(shapes.values())
    if others or len(shape) != 2 or shape[0] != images or 0 in shape:
        raise ValueError(
            f"masking_curves: {images} images and maps of shapes {shapes}; needed is one value a "
            "patch for each image: give [batch, patches] for all of them"
        )
    return shape[1]
