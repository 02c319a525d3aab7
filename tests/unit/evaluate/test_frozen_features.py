"""Features are what the head reads; a linear probe is the optimum of its loss."""

from __future__ import annotations

import dataclasses

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


def test_features_in_bfloat16_are_near_and_come_in_float32(build_vit):
    model, images = build_vit().float(), pictures(6)
    exact = class_features(model, SPEC, [images])
    rounded = class_features(model, SPEC, [images], "bfloat16")
    assert rounded.dtype == torch.float32 and not torch.equal(rounded, exact)
    assert torch.cosine_similarity(rounded, exact).min() > 0.999


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


def test_probe_learns_and_only_the_head_changes(build_vit, state_of, train):
    model = build_vit().train()
    before, weights = state_of(model), {k: v.clone() for k, v in model.state_dict().items()}
    random = torch.get_rng_state()
    probed = linear_probe(model, SPEC, train)
    assert torch.equal(torch.get_rng_state(), random)
    assert state_of(model) == before
    assert all(torch.equal(v, weights[k]) for k, v in model.state_dict().items())
    assert not probed.training
    changed = {k for k, v in probed.state_dict().items() if not torch.equal(v, weights[k])}
    assert changed == {"head.weight", "head.bias"}
    answers = probed(SPEC.normalise(train.images, like=probed.head.weight)).argmax(dim=1)
    assert (answers == train.labels).double().mean() > 0.8


@pytest.mark.parametrize("kind", ["plain", "average"])
@pytest.mark.parametrize("inverse_penalty", [0.01, 1.0])
def test_head_is_the_optimum(build_vit, train, kind, inverse_penalty):
    """The gradient of loss and penalty, at the weights for features of unit spread, is zero."""
    probed = linear_probe(build_vit(kind), SPEC, train, inverse_penalty=inverse_penalty)
    features = class_features(probed, SPEC, [train.images])
    spread = features.std(dim=0)
    weight = (probed.head.weight.detach() * spread).requires_grad_()
    bias = (probed.head.bias + probed.head.weight @ features.mean(dim=0)).detach().requires_grad_()
    logits = (features - features.mean(dim=0)) / spread @ weight.T + bias
    loss = inverse_penalty * cross_entropy(logits, train.labels, reduction="sum")
    (loss + weight.square().sum() / 2).backward()
    scale = max(1.0, inverse_penalty) * len(train)
    assert weight.grad.abs().max() / scale < 1e-3 and bias.grad.abs().max() / scale < 1e-3


def test_same_images_same_head(build_vit, train):
    one, other = (linear_probe(build_vit(), SPEC, train).head.weight for _ in range(2))
    assert torch.equal(one, other)


def test_a_feature_that_never_varies_does_no_harm(build_vit, train):
    model = build_vit()
    with torch.no_grad():
        model.norm.weight[3], model.norm.bias[3] = 0.0, 2.0
    probed = linear_probe(model, SPEC, train)
    assert probed.head.weight.isfinite().all() and (probed.head.weight[:, 3] == 0).all()


def test_format_of_the_head_is_that_of_the_model(build_vit, train):
    probed = linear_probe(build_vit().float(), SPEC, train, precision="bfloat16")
    assert probed.head.weight.dtype == torch.float32 and probed.head.weight.isfinite().all()


def test_models_that_cannot_be_probed_are_errors(build_vit, train):
    masked = dataclasses.replace(SPEC, name="tiny-mae")
    with pytest.raises(ValueError, match=r"'tiny-mae' only comes already trained .*use 'dinov2-s'"):
        linear_probe(build_vit(), masked, train)
    for options in ({"num_classes": 0}, {"num_classes": 1}):
        with pytest.raises(ValueError, match=r"linear_probe: the head is .*one linear layer with"):
            linear_probe(build_vit(**options), SPEC, train)


@pytest.mark.parametrize("penalty", [0.0, -1.0, float("nan")])
def test_a_penalty_must_be_positive(build_vit, train, penalty):
    with pytest.raises(ValueError, match=r"inverse_penalty .*; give a value above 0"):
        linear_probe(build_vit(), SPEC, train, inverse_penalty=penalty)


def test_every_class_needs_an_image(build_vit, train):
    some = train.select((train.labels != 2).nonzero()[:, 0])
    with pytest.raises(ValueError, match=r"48 images without classes \[2\] and with \[\]; the"):
        linear_probe(build_vit(), SPEC, some)
    beyond = dataclasses.replace(train, labels=train.labels + 1)
    with pytest.raises(ValueError, match=r"without classes \[0\] and with \[5\]; the head has 5"):
        linear_probe(build_vit(), SPEC, beyond)
