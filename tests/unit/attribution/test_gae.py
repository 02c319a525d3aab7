"""GAE against a slow computation that follows the paper's formulas word by word; heatmaps.

What holds for every attribution method is in `attribution/test_methods.py`, for GAE too.
"""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import interpolate

from relevit.attribution import (
    check_protocol,
    foreground_iou_pct,
    gae,
    relevance_and_logits,
    to_pixels,
)

from .conftest import KINDS

PROTOCOLS = ("published", "described")


def score_and_maps(model, image, label):
    """One image's logit of a class, and every block's attention map in its graph."""
    maps, handles = [], []
    for block in model.blocks:
        block.attn.fused_attn = False
        handles.append(
            block.attn.attn_drop.register_forward_hook(lambda *args: maps.append(args[-1]))
        )
    score = model(image[None])[0, label]
    for handle in handles:
        handle.remove()
    return score, maps


def gae_by_the_book(model, images, target, *, exact=False):
    """One image after the other: R <- R + A_bar R as full matrices, one gradient a block.

    The class token's row, or for a model that averages its patches the mean of their rows.
    """
    prefix = model.num_prefix_tokens
    read = slice(prefix, None) if model.global_pool == "avg" else slice(0, 1)
    rows = []
    for image, label in zip(images, target, strict=True):
        score, maps = score_and_maps(model, image, label)
        relevance = torch.eye(maps[0].shape[-1]).double()
        for attention in maps:
            (gradient,) = torch.autograd.grad(
                score, attention, retain_graph=True, exact_gradient=exact
            )
            positive = torch.relu(gradient * attention)[0]
            relevance = relevance + (positive.sum(0) / len(positive)) @ relevance
        rows.append(relevance[read, prefix:].mean(dim=0))
    return torch.stack(rows)


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("kind", KINDS)
def test_gae_equals_the_computation_by_the_book(build_vit, images, kind, protocol):
    target = torch.tensor([4, 0, 2])
    expected = gae_by_the_book(build_vit(kind), images, target).detach()
    assert expected.std(dim=1).min() > 0, "the map is too flat to tell anything"
    close(gae(build_vit(kind), images, target, protocol=protocol), expected)
    exact = gae(build_vit(kind), images, target, protocol=protocol, exact_gradient=True)
    close(exact.detach(), expected)


def test_gae_of_a_deeper_model(build_vit, images):
    """Two blocks hardly tell the order of the recursion apart; five do."""
    target = torch.tensor([1, 1, 3])
    expected = gae_by_the_book(build_vit(depth=5), images, target).detach()
    close(gae(build_vit(depth=5), images, target), expected)


@pytest.mark.parametrize("registers", [0, 2])
def test_average_pooling_needs_no_class_token(build_vit, images, registers):
    options = {"class_token": False, "reg_tokens": registers, "depth": 3}
    target = torch.tensor([1, 1, 3])
    expected = gae_by_the_book(build_vit("average", **options), images, target).detach()
    close(gae(build_vit("average", **options), images, target), expected)


# Gradients of the map


@pytest.mark.parametrize("kind", ["plain", "registers", "average"])
@pytest.mark.parametrize("exact", [False, True])
def test_gradient_of_the_map(build_vit, images, kind, exact):
    """`exact` takes the gradient through grad A as well, otherwise grad A is a constant."""
    target = torch.tensor([4, 0, 2])
    weights = torch.linspace(-1, 2, 48).reshape(3, 16).double()
    model, slow = build_vit(kind), build_vit(kind)
    relevance, logits = relevance_and_logits(model, images, target, exact=exact)
    close(logits, slow(images))
    (relevance * weights).sum().backward()
    (gae_by_the_book(slow, images, target, exact=exact) * weights).sum().backward()
    moved = 0
    for (name, ours), theirs in zip(model.named_parameters(), slow.parameters(), strict=True):
        wanted = torch.zeros_like(theirs) if theirs.grad is None else theirs.grad
        found = torch.zeros_like(ours) if ours.grad is None else ours.grad
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12, msg=name)
        moved += bool(wanted.abs().max() > 1e-6)
    assert moved >= 8


def test_head_learns_from_the_exact_gradient_alone(build_vit, images):
    """With grad A constant the head's weights get no gradient (differences A2)."""
    target = torch.tensor([4, 0, 2])
    for exact in (False, True):
        model = build_vit()
        relevance, _ = relevance_and_logits(model, images, target, exact=exact)
        relevance.square().sum().backward()
        assert (model.head.weight.grad is not None) == exact


@pytest.mark.parametrize("create_graph", [False, True])
def test_weights_are_in_the_graph_only_when_asked(build_vit, images, create_graph):
    """A detached map costs no backward pass through the weights of the first block."""
    model, seen = build_vit(), []
    model.blocks[0].norm1.register_forward_hook(lambda *args: seen.append(args[-1].requires_grad))
    gae(model, images, exact_gradient=create_graph)
    assert seen == [create_graph]


# Errors


@pytest.mark.wrong_types
def test_unknown_protocol_is_an_error_before_any_work(build_vit, images):
    text = "protocol 'paper' is unknown; use 'published' .* or 'described'"
    with pytest.raises(ValueError, match=text):
        gae(None, images, protocol="paper")
    with pytest.raises(ValueError, match=text):
        check_protocol("paper")


def test_class_token_that_is_missing_is_an_error(build_vit, images):
    model = build_vit("average", class_token=False)
    model.global_pool = "token"
    text = r"pooling: this VisionTransformer has no class token.*'patches' or .* class_token=True"
    with pytest.raises(ValueError, match=text):
        gae(model, images)


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


def test_heatmap_of_one_pixel_is_zero():
    assert to_pixels(torch.arange(4.0)[None], (1, 1)).tolist() == [[[[0.0]]]]


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


@pytest.mark.wrong_types
@pytest.mark.parametrize("masks", [torch.ones(2, 1, 2, 2).byte(), torch.ones(2, 2, 2).bool()])
def test_iou_of_other_masks_is_an_error(masks):
    """Pixels of 0..255 and masks without their channel gave numbers."""
    with pytest.raises(ValueError, match=r"foreground_iou_pct: heatmaps \[2, 1, 2, 2\] and masks"):
        foreground_iou_pct(torch.rand(2, 1, 2, 2), masks)
