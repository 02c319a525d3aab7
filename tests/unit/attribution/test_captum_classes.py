"""The methods under captum's metrics; captum's class says what the methods say."""

from __future__ import annotations

from pathlib import Path

import pytest
import timm
import torch
from captum.metrics import infidelity, sensitivity_max

import relevit
from relevit.attribution import METHODS
from relevit.attribution.captum_classes import PatchAttribution

SIZES = {"img_size": 32, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2}


@pytest.fixture
def vit():
    torch.manual_seed(0)
    model = timm.create_model("vit_tiny_patch16_224", num_classes=5, **SIZES).eval()
    for weights in model.parameters():
        torch.nn.init.normal_(weights, std=0.3)
    return model


@pytest.fixture
def inputs():
    return torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("method", [name for name in METHODS if name != "smoothgrad"])
def test_captum_says_what_the_methods_say(vit, inputs, method):
    found = PatchAttribution(vit, method).attribute(inputs, target=3)
    maps = METHODS[method](vit, inputs, torch.tensor([3, 3]), protocol="published")
    assert found.shape == inputs.shape
    torch.testing.assert_close(found.sum(dim=(1, 2, 3)), maps.sum(dim=1))
    patches = found.unfold(2, 8, 8).unfold(3, 8, 8).sum(dim=(1, 4, 5)).flatten(1)
    torch.testing.assert_close(patches, maps)
    assert torch.equal(found[:, 0, :8, :8], found[:, 2, :1, :1].expand(-1, 8, 8).squeeze(1))


@pytest.mark.parametrize("target", [1, [1, 1], torch.tensor([1, 1]), torch.tensor(1)])
def test_targets_as_captum_allows_them(vit, inputs, target):
    method = PatchAttribution(vit, "gae")
    found = method.attribute(inputs, target=target)
    assert torch.equal(found, method.attribute((inputs,), torch.tensor([1, 1]))[0])
    assert not found.requires_grad


def test_captums_metrics(vit, inputs):
    method = PatchAttribution(vit, "gae", "described")

    def shaken(images):
        noise = 0.01 * torch.ones_like(images)
        return noise, images - noise

    found = method.attribute(inputs, target=2)
    wrong = infidelity(vit, shaken, inputs, found, target=2, n_perturb_samples=2)
    moved = sensitivity_max(method.attribute, inputs, target=2, n_perturb_samples=2)
    for score in (wrong, moved):
        assert score.shape == (2,) and bool(score.isfinite().all()) and bool((score > 0).all())


def test_wrong_input(vit, inputs):
    with pytest.raises(ValueError, match=r"methods: \['gea'\] are unknown"):
        PatchAttribution(vit, "gea")
    with pytest.raises(ValueError, match="has no blocks with global self-attention"):
        PatchAttribution(torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match="a tuple of 2 tensors; give one of images"):
        PatchAttribution(vit).attribute((inputs, inputs))


def test_captum_stays_a_choice():
    library = Path(relevit.__file__).parent
    users = [p.name for p in library.rglob("*.py") if "captum" in p.read_text("utf-8")]
    assert users == ["captum_classes.py"]
