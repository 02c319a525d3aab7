"""Features are what the head reads; a linear probe is the optimum of its loss."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from relevit.data.batch import Batch
from relevit.evaluate.frozen_features import class_features, linear_probe
from relevit.models.spec import ModelSpec

SPEC = ModelSpec("small", "none", 28, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
CLASSES = 5


# One vector an image


def pictures(count: int, seed: int = 0):
    random = torch.Generator().manual_seed(seed)
    return torch.randint(256, (count, 3, 28, 28), generator=random, dtype=torch.uint8)


@pytest.mark.parametrize("kind", ["plain", "registers", "average"])
def test_features_are_what_the_head_reads(build_vit, state_of, kind):
    model, images = build_vit(kind).train(), pictures(5)
    before = state_of(model)
    features = class_features(model, SPEC, [images[:3], images[3:]])
    assert state_of(model) == before
    assert features.dtype == torch.float64 and not features.requires_grad
    model.eval()
    pixels = SPEC.normalise(images, like=features)
    torch.testing.assert_close(model.head(features), model(pixels))
    if kind != "average":
        tokens = model.forward_features(pixels)
        torch.testing.assert_close(features, tokens[:, 0])


def test_no_images_and_diverged_models_are_errors(build_vit):
    model = build_vit()
    with pytest.raises(ValueError, match="class_features: no images; give at least one batch"):
        class_features(model, SPEC, [])
    with torch.no_grad():
        model.norm.weight[0] = float("nan")
    with pytest.raises(ValueError, match=r"NaN or infinity in a vector of 'small'; .*lower the"):
        class_features(model, SPEC, [pictures(2)])


# A linear probe


@pytest.fixture(scope="module")
def train() -> Batch:
    """Noise in a colour of the class."""
    random = torch.Generator().manual_seed(0)
    labels = torch.arange(60) % CLASSES
    tint = torch.tensor([[90, 0, 0], [0, 90, 0], [0, 0, 90], [90, 90, 0], [0, 0, 0]])[labels]
    noise = torch.randint(160, (60, 3, 28, 28), generator=random)
    images = (noise + tint[:, :, None, None]).to(torch.uint8)
    return Batch(images, torch.ones(60, 1, 28, 28).bool(), labels, torch.zeros(60).long())


@pytest.mark.parametrize("kind", ["plain", "average", "distilled"])
def test_head_is_the_optimum(build_vit, train, kind):
    """The gradient of loss and penalty, at the weights for features of unit spread, is zero."""
    probed = linear_probe(build_vit(kind), SPEC, train)
    few = SPEC.normalise(train.images[:4], like=probed.head.weight)
    told = probed.head(class_features(probed, SPEC, [train.images[:4]]))
    torch.testing.assert_close(probed(few), told)
    features = class_features(probed, SPEC, [train.images])
    spread = features.std(dim=0)
    weight = (probed.head.weight.detach() * spread).requires_grad_()
    bias = (probed.head.bias + probed.head.weight @ features.mean(dim=0)).detach().requires_grad_()
    logits = (features - features.mean(dim=0)) / spread @ weight.T + bias
    loss = cross_entropy(logits, train.labels, reduction="sum")
    (loss + weight.square().sum() / 2).backward()
    slopes = torch.stack([weight.grad.abs().max(), bias.grad.abs().max()]) / len(train)
    assert slopes.max() < 1e-3
