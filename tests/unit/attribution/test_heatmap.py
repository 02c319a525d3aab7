"""From a value for each patch to a picture, on square and other grids."""

from __future__ import annotations

import pytest
import timm
import torch
from torch import nn
from torch.nn.functional import interpolate

from relevit.attribution import METHODS, explain, patch_grid, to_heatmap
from relevit.iav.scores import patch_average

from ..attribution_cases import PROTOCOLS


def test_heatmaps_span_zero_to_one_exactly():
    random = torch.Generator().manual_seed(3)
    for dtype in (torch.float32, torch.float64):
        sizes = 10 ** torch.linspace(-9, 3, 20)[:, None]
        maps = (torch.rand(20, 16, generator=random) * sizes).to(dtype)
        heat = to_heatmap(maps, (28, 30), (4, 4))
        assert heat.shape == (20, 1, 28, 30) and heat.dtype == dtype
        assert heat.amin(dim=(1, 2, 3)).tolist() == [0.0] * 20
        assert heat.amax(dim=(1, 2, 3)).tolist() == [1.0] * 20


@pytest.mark.parametrize("grid", [(2, 2), (1, 4), (4, 1)])
def test_heatmap_is_the_scaled_bilinear_map(grid):
    maps = torch.tensor([[1.0, 3.0, 2.0, 5.0], [0.0, -4.0, 0.0, 0.0]]).double()
    exact = to_heatmap(maps, grid, grid)
    assert exact[0].flatten().tolist() == [0.0, 0.5, 0.25, 1.0]
    assert exact[1].flatten().tolist() == [1.0, 0.0, 1.0, 1.0]
    raw = to_heatmap(maps, (8, 6), grid, normalise=False)
    plain = maps.reshape(2, 1, *grid)
    assert torch.equal(raw, interpolate(plain, (8, 6), mode="bilinear", align_corners=False))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, -1 / 3, 1.23456e-4, 700.1])
def test_constant_map_is_zero_with_zero_gradient(value, dtype):
    """Interpolation rounds: without care the last bits of a constant become a full heatmap."""
    for side in (1, 2, 8):
        maps = torch.rand(3, side * side, generator=torch.Generator().manual_seed(0)).to(dtype)
        maps[1] = value
        size, grid = (14 * side, 14 * side), (side, side)
        heat = to_heatmap(maps.requires_grad_(), size, grid)
        (gradient,) = torch.autograd.grad(heat.square().sum() + heat.sum(), maps)
        assert not heat[1].any() and not gradient[1].any() and gradient.isfinite().all()
        assert torch.equal(heat[2:], to_heatmap(maps[2:], size, grid)), "others are as without it"


# The grid comes from the model


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("options", [{"img_size": (21, 84)}, {"dynamic_img_size": True}])
@pytest.mark.parametrize("name", METHODS)
def test_a_wide_picture_has_a_wide_heatmap(build_vit, name, options, protocol):
    """Of 3 x 12 patches, 36 in all, that would also fill 6 x 6."""
    model, sides = build_vit(**options), (21, 84)
    images = torch.randn(2, 3, *sides, generator=torch.Generator().manual_seed(2)).double()
    assert patch_grid(model, images) == (3, 12)
    few = {"smoothgrad": {"draws": 2}, "integrated_gradients": {"steps": 3}}.get(name, {})
    heat = explain(model, images, [2, 0], method=name, protocol=protocol, **few)
    maps = METHODS[name](model, images, [2, 0], protocol=protocol, **few)
    assert torch.equal(heat, to_heatmap(maps.detach().nan_to_num(), sides, (3, 12)))


@pytest.mark.parametrize(
    ("name", "grid"),
    [
        ("vit_tiny_patch16_224", (14, 14)),
        ("eva02_tiny_patch14_224", (16, 16)),
        ("vit_small_patch16_dinov3", (16, 16)),
        ("vit_tiny_r_s16_p8_224", (7, 7)),
    ],
)
def test_grids_of_families(name, grid):
    with torch.device("meta"):
        model = timm.create_model(name)
        images = torch.zeros(1, 3, *model.pretrained_cfg["input_size"][1:])
    assert patch_grid(model, images) == grid


# A patch's value would lie beside its pixels
REST = (31, {"img_size": 31})  # pixels beyond the fourth patch of 7, which timm drops
PADDED = (24, {"dynamic_img_size": True, "dynamic_img_pad": True})


@pytest.mark.parametrize(("side", "options"), [REST, PADDED], ids=["rest", "padded"])
def test_patches_that_do_not_fill_the_picture_are_refused(build_vit, side, options):
    model, images = build_vit(**options), torch.rand(1, 3, side, side).double()
    fit = 28 if side == 31 else "a multiple of 7"
    told = rf"(do not fill pictures of 31 x 31; give .*, of 28 x 28|{side}, {side}\] of .*{fit})"
    for name in METHODS:
        with pytest.raises(ValueError, match=told):
            METHODS[name](model, images)
    with pytest.raises(ValueError, match="patches of 7 x 7 pixels do not fill pictures of"):
        patch_grid(model, images)


def test_wrong_input_is_named(build_vit, images):
    model = build_vit()
    for call, text in (
        (lambda: explain(model, images, method="gea"), r"methods: \['gea'\] are unknown; use"),
        (lambda: explain(model, images / 0), "explain: NaN or infinity among the pixels; give"),
        (
            lambda: patch_grid(nn.Sequential(model), images),
            "patch_grid: this Sequential has no patch_embed, which",
        ),
        (
            lambda: to_heatmap(torch.zeros(1, 16), (28, 28), (4, 5)),
            "to_heatmap: 16 patches do not fill a grid of 4 x 5; give",
        ),
        (
            lambda: patch_average(torch.zeros(1, 30, 28), (4, 4)),
            "patches: 4 x 4 of them do not divide 30 x 28 pixels; g",
        ),
        (
            lambda: METHODS["gae"](build_vit(dynamic_img_size=True), images[:, :, 1:]),
            r"27, 28\] of .*, a multiple of 7, a multiple of 7",
        ),
    ):
        with pytest.raises(ValueError, match=text):
            call()
