"""From a coarse mask to one that is kept: the solver, its quirks, and the grades."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from relevit.masks import (
    AutomaticMasks,
    BilateralSettings,
    bilateral_solve,
    mask_quality,
    quality_rows,
    refine,
    solid,
    zoom_in,
)
from relevit.masks import automatic as module


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
    found = solid(bilateral_solve(image, box))
    before, after = ((m & small).sum() / (m | small).sum() for m in (box, found))
    assert after == 1 and before < 0.85


@pytest.mark.parametrize("value", [False, True])
def test_constant_mask_stays_constant(small, value):
    soft = bilateral_solve(
        picture(small).permute(1, 2, 0).numpy(), np.full_like(small, value), BilateralSettings()
    )
    np.testing.assert_allclose(soft, float(value), atol=1e-9)


def test_image_of_one_colour_and_place_gives_the_mean():
    mask = disc(8, 3)
    image = np.full((8, 8, 3), 90, dtype=np.uint8)
    np.testing.assert_allclose(bilateral_solve(image, mask), mask.mean(), atol=1e-9)


def test_more_steps_come_nearer_to_the_solution(small):
    """The published 25 steps are not converged (differences B19)."""
    random = np.random.default_rng(0)
    image = random.integers(0, 256, size=(48, 48, 3), dtype=np.uint8)
    exact = bilateral_solve(image, small, BilateralSettings(steps=5000, tolerance=1e-14))
    gaps = [
        np.abs(bilateral_solve(image, small, BilateralSettings(steps=n)) - exact).max()
        for n in (2, 25)
    ]
    assert gaps[1] < gaps[0]


def test_solid_fills_holes_and_keeps_one_piece(small):
    soft = small.astype(float)
    soft[23:25, 23:25], soft[0:3, 0:3] = 0.0, 1.0
    for protocol in ("published", "described"):
        np.testing.assert_array_equal(solid(soft, protocol), small)


def test_nothing_found_is_everything_where_published_and_nothing_where_described():
    nothing = np.zeros((4, 4))
    assert solid(nothing).all() and not solid(nothing, "described").any()


def test_equal_pieces_fall_as_published():
    """The later counts as the more frequent (differences B19)."""
    soft = np.zeros((6, 8))
    soft[1:3, 1:3] = soft[4:6, 5:7] = 1
    first, second = np.zeros_like(soft, dtype=bool), np.zeros_like(soft, dtype=bool)
    first[1:3, 1:3] = second[4:6, 5:7] = True
    np.testing.assert_array_equal(solid(soft), second)
    np.testing.assert_array_equal(solid(soft, "described"), first)
    half = np.zeros((6, 8))
    half[:3] = 1
    np.testing.assert_array_equal(solid(half), half == 0)  # the background
    np.testing.assert_array_equal(solid(half, "described"), half == 1)


def test_large_object_is_dropped_where_published_and_kept_where_described():
    large = disc(48, 22)
    coarse = torch.from_numpy(large)
    mask, kept = refine(picture(large), coarse)
    assert not kept and not bool((mask & coarse).any())  # the background (B19), then given up (B17)
    mask, kept = refine(picture(large), coarse, protocol="described")
    assert kept and torch.equal(mask, coarse)


def test_small_mask_is_skipped_where_published():
    tiny = disc(48, 2)
    kept = [
        refine(picture(tiny), torch.from_numpy(tiny), protocol=p)[1]
        for p in ("published", "described")
    ]
    assert tiny.mean() < module.SMALLEST_AREA and kept == [False, True]


@pytest.mark.parametrize("protocol", ["published", "described"])
@pytest.mark.parametrize("value", [False, True])
def test_mask_without_object_or_background_is_never_kept(small, protocol, value):
    coarse = torch.full((48, 48), value)
    assert not refine(picture(small), coarse, protocol=protocol)[1]


def test_refine_that_loses_the_object_falls_back_where_described(small, monkeypatch):
    monkeypatch.setattr(module, "bilateral_solve", lambda *args: (~small).astype(float))
    coarse = torch.from_numpy(small)
    assert not refine(picture(small), coarse)[1]
    mask, kept = refine(picture(small), coarse, protocol="described")
    assert kept and torch.equal(mask, coarse)


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


def test_image_that_does_not_show_its_object_is_not_graded():
    truth = torch.zeros(3, 1, 10, 10, dtype=torch.bool)
    truth[[0, 2], 0, 2:6, 2:6] = True
    found = AutomaticMasks(truth, truth, torch.tensor([False, True, True]))
    rows = quality_rows(found, truth)
    assert rows["index"].tolist() == [0, 2, 0, 2] and rows["iou_pct"].tolist() == [100.0] * 4
    assert rows["kept"].tolist() == [False, True, False, True]
    with pytest.raises(ValueError, match="an object in every exact one"):
        quality_rows(found, torch.zeros_like(truth))


def test_zoomed_object_touches_every_side(small):
    shifted = torch.from_numpy(np.roll(small, (5, -3), axis=(0, 1)))[None, None]
    images, masks = zoom_in(picture(shifted[0, 0].numpy())[None], shifted)
    assert images.shape == (1, 3, 48, 48) and masks.float().mean() > 0.7
    assert all(bool(line.any()) for line in (masks[0, 0, 0], masks[0, 0, -1], masks[0, 0, :, 0]))
    assert torch.equal(images[0, 0] == 200, masks[0, 0])


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: BilateralSettings(space=0), r"\{'space': 0\}; every value must be above 0"),
        (
            lambda: bilateral_solve(np.zeros((4, 4, 3)), np.ones((4, 4), dtype=bool)),
            r"image \(4, 4, 3\) of float64 and mask \(4, 4\); needed are bytes",
        ),
        (
            lambda: bilateral_solve(np.zeros((4, 5, 3), np.uint8), np.ones((4, 4), dtype=bool)),
            "a mask of the same height and width",
        ),
        (lambda: solid(np.zeros((2, 2)), "guessed"), "protocol 'guessed' is unknown"),
        (
            lambda: mask_quality(*(torch.zeros(2, 1, 4, 4, dtype=torch.bool),) * 2),
            "an object in every exact one",
        ),
        (
            lambda: zoom_in(torch.zeros(1, 3, 4, 4), torch.zeros(1, 1, 4, 4)),
            "a mask has no object; leave its image out",
        ),
    ],
)
@pytest.mark.wrong_types  # floats for bytes, sizes that differ
def test_errors_say_what_to_do(call, text):
    with pytest.raises(ValueError, match=text):
        call()
