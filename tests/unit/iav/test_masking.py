"""Masking patches by maps and by chance, with a model that counts what is left of an image."""

from __future__ import annotations

import numpy as np
import torch

from relevit.iav.masking import masking_curves, random_order
from relevit.models.spec import ModelSpec

from ..left_half import GRID, SIDE, Seen, left_first

# Normalised, white is 1 and both fills are 0.
SPEC = ModelSpec("stub", "none", SIDE, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
MAPS = {"attention": left_first(6), "smoothgrad": -left_first(6)}


def white(batch=6):
    return torch.full((batch, 3, SIDE, SIDE), 255, dtype=torch.uint8)


def zeros(batch=6):
    return torch.zeros(batch, dtype=torch.long)


def curve(table, order):
    return table[table["order"] == order]["top1_pct"].tolist()


def test_accuracy_falls_when_half_of_the_left_half_is_masked():
    """More than 4 of its 8 patches: at 6 of all 16 if the left goes first, at 14 if it goes last.

    That is from 40 % on, or at 90 %: 10 % are 1.6 patches, and part of a patch is none.
    """
    table = masking_curves(Seen(), SPEC, white(), zeros(), MAPS, (GRID, GRID))
    assert table.columns.tolist() == ["order", "ratio_pct", "top1_pct", "images"]
    assert table["order"].unique().tolist() == ["attention", "smoothgrad", "random"]
    for _, rows in table.groupby("order"):
        assert rows["ratio_pct"].tolist() == list(range(0, 100, 10))
    assert (table["images"] == 6).all()
    assert curve(table, "attention") == [100] * 4 + [0] * 6
    assert curve(table, "smoothgrad") == [100] * 9 + [0]


def test_random_order_of_an_image_depends_on_its_number_and_the_seed_alone():
    orders = random_order(20, 64, seed=3)
    assert torch.equal(orders.sort(dim=1).values, torch.arange(64.0).expand(20, -1))
    assert torch.equal(random_order(5, 64, seed=3), orders[:5])
    assert len({tuple(order.tolist()) for order in orders}) == 20
    assert not torch.equal(random_order(20, 64, seed=4), orders)
    # No place is masked early more often than others.
    first = random_order(6400, 64, seed=3).argmax(dim=1)
    assert np.bincount(first, minlength=64).max() < 150


def test_patches_are_whole_and_take_the_mean_colour():
    spec = ModelSpec("stub", "none", SIDE, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    model = Seen()
    masking_curves(model, spec, white(1), zeros(1), {"attention": left_first(1)}, (4, 4), [50])
    masked = model.seen()[1]  # the first order comes first
    assert (masked[..., : SIDE // 2] == 0).all() and (masked[..., SIDE // 2 :] == 2).all()
