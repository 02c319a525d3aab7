"""From a coarse mask to one that is kept: the solver, its quirks, and the grades."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from relevit.masks import (
    AutomaticMasks,
    bilateral_solve,
    mask_quality,
    quality_rows,
    refine,
    solid,
    sound,
)
from relevit.protocols import options

SMALLEST_SHARE = options("published", "refine")["smallest_share"]
as_published = partial(refine, **options("published", "refine"))


def disc(side: int, radius: float) -> np.ndarray:
    rows, columns = np.indices((side, side)) - (side - 1) / 2
    return rows**2 + columns**2 <= radius**2


def picture(mask: np.ndarray) -> torch.Tensor:
    """A red object on a blue ground."""
    image = np.where(mask[..., None], [200, 40, 30], [20, 60, 180]).astype(np.uint8)
    return torch.from_numpy(image).permute(2, 0, 1)


@pytest.fixture
def small() -> np.ndarray:
    return disc(48, 12)


def test_solver_brings_a_box_to_the_edge_of_the_object(small):
    image, box = picture(small).permute(1, 2, 0).numpy(), np.zeros_like(small)
    box[12:36, 12:36] = True
    assert np.array_equal(solid(bilateral_solve(image, box)), small)


def test_more_steps_come_nearer_to_the_solution(small):
    """The published 25 steps are not converged (differences B19)."""
    image = np.random.default_rng(0).integers(0, 256, size=(48, 48, 3), dtype=np.uint8)
    exact = bilateral_solve(image, small, steps=5000, tolerance=1e-14)
    gaps = [np.abs(bilateral_solve(image, small, steps=n) - exact).max() for n in (2, 25)]
    assert gaps[1] < gaps[0]


def test_solid_fills_holes_and_keeps_one_piece(small):
    soft = small.astype(float)
    soft[23:25, 23:25], soft[0:3, 0:3] = 0.0, 1.0
    for second_piece in (False, True):
        np.testing.assert_array_equal(solid(soft, second_piece=second_piece), small)


def test_second_piece_in_its_corner_cases():
    """The later of equals counts as the more frequent (differences B19)."""
    nothing, equal, half = np.zeros((3, 6, 8))
    equal[1:3, 1:3] = equal[4:6, 5:7] = 1
    half[:3] = 1
    assert solid(nothing, second_piece=True).all() and not solid(nothing).any()
    assert set(solid(equal, second_piece=True).nonzero()[0]) == {4, 5}
    assert set(solid(equal).nonzero()[0]) == {1, 2}
    np.testing.assert_array_equal(solid(half, second_piece=True), half == 0)  # the background
    np.testing.assert_array_equal(solid(half), half == 1)


@pytest.mark.parametrize(
    ("radius", "published", "described"),
    [(22, False, True), (12, True, True), (2, False, True), (0, False, False), (99, False, False)],
)
def test_what_is_kept(radius, published, described):
    """Published: no large object, of which the background is left (B19, B17), and no small one.

    Never a mask without object or without background.
    """
    mask = disc(48, radius)
    for rule, expected in ((as_published, published), (refine, described)):
        found, kept = rule(picture(mask), torch.from_numpy(mask))
        assert kept == expected
        assert not kept or np.array_equal(found, mask)
    assert radius != 2 or mask.mean() < SMALLEST_SHARE


def test_quality_in_closed_form():
    truth = torch.zeros(4, 1, 10, 10, dtype=torch.bool)
    truth[:, 0, 2:6, 2:6] = True
    found = truth.clone()
    found[1, 0, 4:6] = False  # the upper half
    found[2] = False
    found[3], found[3, 0, 2:5, 2:5] = False, True
    table = mask_quality(found, truth)
    assert table["iou_pct"].tolist() == pytest.approx([100, 50, 0, 100 * 9 / 16])
    assert table["located"].tolist() == [True, True, False, True]
    kept = torch.tensor([True, False, False, True])
    rows = quality_rows(AutomaticMasks(truth, found, kept), truth)
    assert list(rows) == ["index", "stage", "iou_pct", "located", "kept"]
    assert rows["iou_pct"].tolist() == pytest.approx([100] * 4 + table["iou_pct"].tolist())
    assert rows["kept"].tolist() == 2 * kept.tolist() and rows["index"].tolist() == 2 * [0, 1, 2, 3]


def test_a_mask_along_the_border_is_given_up():
    masks = torch.zeros(4, 1, 8, 8, dtype=torch.bool)
    masks[0, 0, 2:6, 2:6] = True
    masks[1] = ~masks[0]
    masks[2, 0, :, :4] = True  # half of the border
    masks[3, 0, 3:, 3:6] = True  # leaves the picture at its lower edge
    found = sound(AutomaticMasks(masks, masks, torch.ones(4, dtype=torch.bool)))
    assert found.kept.tolist() == [True, False, False, True]
