"""Relevance maps as heatmaps: their exact scaling to pixels, and the overlap with the object."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import interpolate

from relevit.relevance import foreground_iou_pct, to_pixels

# Heatmaps


def test_heatmaps_span_zero_to_one_exactly():
    random = torch.Generator().manual_seed(3)
    for dtype in (torch.float32, torch.float64):
        maps = torch.rand(20, 16, generator=random).to(dtype) * 10 ** torch.linspace(-9, 3, 20)[
            :, None
        ].to(dtype)
        heat = to_pixels(maps, (28, 30))
        assert heat.shape == (20, 1, 28, 30) and heat.dtype == dtype
        assert heat.amin(dim=(1, 2, 3)).tolist() == [0.0] * 20
        assert heat.amax(dim=(1, 2, 3)).tolist() == [1.0] * 20


def test_heatmap_is_the_scaled_bilinear_map():
    maps = torch.tensor([[1.0, 3.0, 2.0, 5.0], [0.0, -4.0, 0.0, 0.0]]).double()
    exact = to_pixels(maps, (2, 2))
    assert exact[0, 0].tolist() == [[0.0, 0.5], [0.25, 1.0]]
    assert exact[1, 0].tolist() == [[1.0, 0.0], [1.0, 1.0]]
    raw = to_pixels(maps, (8, 6), normalise=False)
    grid = maps.reshape(2, 1, 2, 2)
    assert torch.equal(raw, interpolate(grid, (8, 6), mode="bilinear", align_corners=False))


def test_patches_lie_row_by_row():
    heat = to_pixels(torch.eye(9).double()[1:2], (9, 9))[0, 0]
    assert float(heat[1, 4]) == 1.0  # top, in the middle
    assert int((heat == 1.0).sum()) == 2  # beyond the outer patches' centres nothing changes


def test_heatmaps_of_a_batch_are_scaled_one_by_one():
    maps = torch.rand(4, 16, generator=torch.Generator().manual_seed(0)).double()
    scaled = to_pixels(maps * torch.tensor([[1.0], [7.0], [0.1], [100.0]]), (28, 28))
    torch.testing.assert_close(scaled, to_pixels(maps, (28, 28)), rtol=1e-12, atol=1e-13)


def test_gradient_flows_through_minimum_and_maximum():
    """A heatmap does not change with shift and scale, so its gradient is orthogonal to both."""
    maps = torch.rand(1, 16, generator=torch.Generator().manual_seed(0)).double()
    maps.requires_grad_()
    heat = to_pixels(maps, (28, 28))
    (gradient,) = torch.autograd.grad((heat * heat.detach().sin()).sum(), maps)
    assert gradient.abs().max() > 1
    assert abs(float(gradient.sum())) < 1e-11
    assert abs(float((gradient * maps.detach()).sum())) < 1e-11


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("side", [1, 2, 8])
@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, -1 / 3, 1.23456e-4, 700.1])
def test_constant_map_is_zero_with_zero_gradient(value, side, dtype):
    """Interpolation rounds: without care the last bits of a constant become a full heatmap."""
    maps = torch.full((1, side * side), value, dtype=dtype, requires_grad=True)
    heat = to_pixels(maps, (14 * side, 14 * side))
    assert heat.unique().tolist() == [0.0]
    (gradient,) = torch.autograd.grad(heat.square().sum() + heat.sum(), maps)
    assert gradient.unique().tolist() == [0.0]


def test_constant_map_leaves_the_others_of_its_batch_alone():
    maps = torch.rand(3, 16, generator=torch.Generator().manual_seed(0)).double()
    maps[1] = 0.0
    maps.requires_grad_()
    heat = to_pixels(maps, (28, 28))
    (gradient,) = torch.autograd.grad(heat.square().sum(), maps)
    assert torch.isfinite(gradient).all()
    assert [bool(row.abs().max() > 0) for row in gradient] == [True, False, True]
    assert torch.equal(heat[2:], to_pixels(maps[2:], (28, 28)))


@pytest.mark.parametrize("patches", [2, 15, 17])
def test_patches_that_form_no_square_are_an_error(patches):
    with pytest.raises(ValueError, match=f"to_pixels: {patches} patches form no square; give"):
        to_pixels(torch.zeros(1, patches), (28, 28))


# Overlap with the object


def test_iou_of_known_heatmaps():
    mask = torch.zeros(1, 4, 4, dtype=torch.bool)
    mask[:, :2] = True  # the upper half: 8 of 16 pixels
    left = torch.zeros(1, 4, 4)
    left[:, :, :2] = 1.0
    heat = torch.stack([mask.float(), 1 - mask.float(), left, torch.full((1, 4, 4), 0.5)])
    found = foreground_iou_pct(heat, mask.expand(4, 1, 4, 4))
    expected = torch.tensor([100.0, 0.0, 100 * 4 / 12, 0.0])
    torch.testing.assert_close(found, expected)


def test_iou_cuts_each_heatmap_at_its_own_mean():
    mask = torch.zeros(2, 1, 2, 2, dtype=torch.bool)
    mask[:, :, 0, 0] = True
    heat = torch.tensor([[1.0, 0.2, 0.1, 0.1], [10.0, 9.0, 0.0, 0.0]]).reshape(2, 1, 2, 2)
    # Means 0.35 and 4.75: one pixel is found in the first, two in the second.
    assert foreground_iou_pct(heat, mask).tolist() == [100.0, 50.0]


def test_iou_without_object_and_without_find_is_zero():
    nothing = torch.zeros(1, 1, 2, 2)
    assert foreground_iou_pct(nothing, nothing.bool()).tolist() == [0.0]
