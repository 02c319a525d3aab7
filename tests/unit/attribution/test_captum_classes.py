"""The methods under captum's metrics; captum's class says what the methods say."""

from __future__ import annotations

import pytest
import timm
import torch

from relevit.attribution import METHODS
from relevit.attribution.captum_classes import PatchAttribution

SIZES = {"img_size": (16, 32), "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2}


@pytest.fixture
def vit():
    torch.manual_seed(0)
    model = timm.create_model("vit_tiny_patch16_224", num_classes=5, **SIZES).eval()
    for weights in model.parameters():
        torch.nn.init.normal_(weights, std=0.3)
    return model


@pytest.fixture
def inputs():
    """Of two rows and four columns of patches."""
    return torch.randn(2, 3, 16, 32, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("method", [name for name in METHODS if name != "smoothgrad"])
def test_captum_says_what_the_methods_say(vit, inputs, method):
    found = PatchAttribution(vit, method).attribute(inputs, target=3)
    maps = METHODS[method](vit, inputs, torch.tensor([3, 3]), protocol="published")
    assert found.shape == inputs.shape
    patches = found.unfold(2, 8, 8).unfold(3, 8, 8)
    torch.testing.assert_close(patches.sum(dim=(1, 4, 5)).flatten(1), maps, equal_nan=True)
    same = patches[:, :1, :, :, :1, :1].expand_as(patches)
    assert torch.equal(patches.nan_to_num(), same.nan_to_num())


def test_wrong_input_is_named(vit, inputs):
    with pytest.raises(ValueError, match=r"methods: \['gea'\] are unknown"):
        PatchAttribution(vit, "gea")
    with pytest.raises(ValueError, match="a tuple of 2 tensors; give one of images"):
        PatchAttribution(vit).attribute((inputs, inputs))
    with pytest.raises(ValueError, match="additional_forward_args: a model is called with images"):
        PatchAttribution(vit).attribute(inputs, 1, (inputs,))


def test_patches_at_the_edge_have_fewer_pixels(inputs):
    """A model that fills up its images: an image's sum is that of its patches all the same."""
    options = SIZES | {"dynamic_img_size": True, "dynamic_img_pad": True}
    model = timm.create_model("vit_tiny_patch16_224", num_classes=5, **options).eval()
    inputs = inputs[:, :, :13, :30]
    found = PatchAttribution(model).attribute(inputs, target=3)
    maps = METHODS["gae"](model, inputs, 3)
    assert found.shape == inputs.shape
    torch.testing.assert_close(found.sum(dim=(1, 2, 3)), maps.sum(dim=1))
    torch.testing.assert_close(found[0, 0, 12, 29] * (3 * 5 * 6), maps[0, -1])
