"""captum's class says what the methods say, spread over pixels."""

from __future__ import annotations

import pytest
import torch

from relevit.attribution import METHODS
from relevit.attribution.captum_classes import PatchAttribution

WIDE = {"img_size": (14, 28)}  # two rows and four columns of patches


@pytest.fixture
def inputs():
    return torch.randn(2, 3, 14, 28, generator=torch.Generator().manual_seed(1)).double()


@pytest.mark.parametrize("method", [name for name in METHODS if name != "smoothgrad"])
def test_a_patch_is_spread_evenly_over_its_pixels_and_channels(build_vit, inputs, method):
    model = build_vit(**WIDE)
    found = PatchAttribution(model, method).attribute(inputs, target=3)
    maps = METHODS[method](model, inputs, 3).unflatten(1, (2, 4)) / (3 * 7 * 7)
    wanted = maps.repeat_interleave(7, dim=1).repeat_interleave(7, dim=2)[:, None]
    torch.testing.assert_close(found, wanted.expand_as(inputs), equal_nan=True)


def test_patches_at_the_edge_have_fewer_pixels(build_vit, inputs):
    """A model that fills up its images: an image's sum is that of its patches all the same."""
    model, inputs = build_vit(dynamic_img_pad=True, dynamic_img_size=True), inputs[..., :12, :26]
    found, maps = PatchAttribution(model).attribute(inputs, 3), METHODS["gae"](model, inputs, 3)
    torch.testing.assert_close(found.sum(dim=(1, 2, 3)), maps.sum(dim=1))
    torch.testing.assert_close(found[0, 0, 11, 25] * (3 * 5 * 5), maps[0, -1])


def test_wrong_input_is_named(build_vit, inputs):
    model = build_vit(**WIDE)
    with pytest.raises(ValueError, match=r"methods: \['gea'\] are unknown"):
        PatchAttribution(model, "gea")
    with pytest.raises(ValueError, match="a tuple of 2 tensors; give one of images"):
        PatchAttribution(model).attribute((inputs, inputs))
    with pytest.raises(ValueError, match="additional_forward_args: a model is called with images"):
        PatchAttribution(model).attribute(inputs, 1, (inputs,))
