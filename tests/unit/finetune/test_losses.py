"""RobustViT's three loss terms on numbers small enough to be worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from relevit.losses import background_loss, confidence_loss, foreground_loss

RELEVANCE = torch.tensor([1.0, 0.5, 0.25, 0.0]).double().reshape(1, 1, 2, 2)
BINARY = torch.tensor([1.0, 0.0, 0.0, 1.0]).double().reshape(1, 1, 2, 2)
FRACTIONAL = torch.tensor([1.0, 0.75, 0.0, 0.25]).double().reshape(1, 1, 2, 2)
PROTOCOLS = ("published", "described")
MAP_LOSSES = (background_loss, foreground_loss)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_background_of_a_binary_mask(protocol):
    expected = (0.5**2 + 0.25**2) / 4  # averaged over all pixels (differences A6)
    assert float(background_loss(RELEVANCE, BINARY, protocol=protocol)) == expected


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        # A fractional pixel weighs S in the code, 1 - S in the text (differences A7).
        ("published", ((0.5 * 0.75) ** 2 + 0.25**2) / 4),
        ("described", ((0.5 * 0.25) ** 2 + 0.25**2) / 4),
    ],
)
def test_background_of_a_fractional_mask(protocol, expected):
    assert float(background_loss(RELEVANCE, FRACTIONAL, protocol=protocol)) == expected


@pytest.mark.parametrize(
    ("mask", "protocol", "expected"),
    [
        (BINARY, "published", (0 + 0 + 0 + 1) / 4),
        # The target is one everywhere: each background pixel adds one.
        (BINARY, "described", (0 + 1 + 1 + 1) / 4),
        (FRACTIONAL, "published", ((0.375 - 0.75) ** 2 + 0.25**2) / 4),
        (FRACTIONAL, "described", ((0.375 - 1) ** 2 + 1 + 1) / 4),
    ],
)
def test_foreground(mask, protocol, expected):
    assert float(foreground_loss(RELEVANCE, mask, protocol=protocol)) == expected


@pytest.mark.parametrize("loss", MAP_LOSSES)
def test_published_is_the_default(loss):
    ours = loss(RELEVANCE, FRACTIONAL)
    assert ours == loss(RELEVANCE, FRACTIONAL, protocol="published")
    assert ours != loss(RELEVANCE, FRACTIONAL, protocol="described")


def test_a_perfect_map_costs_nothing():
    assert float(background_loss(BINARY, BINARY)) == 0
    assert float(foreground_loss(BINARY, BINARY)) == 0


def test_gradients_pull_the_map_onto_the_object():
    relevance = RELEVANCE.clone().requires_grad_()
    (background_loss(relevance, BINARY) + foreground_loss(relevance, BINARY)).backward()
    # d/dR of (R^2 outside + (R - 1)^2 inside) / 4
    assert relevance.grad.flatten().tolist() == [0.0, 0.25, 0.125, -0.5]


def test_losses_average_over_the_batch():
    both = torch.cat([RELEVANCE, BINARY])
    masks = torch.cat([BINARY, BINARY])
    for loss in MAP_LOSSES:
        assert float(loss(both, masks)) == float(loss(RELEVANCE, BINARY)) / 2


@pytest.mark.parametrize(("temperature", "factor"), [(1.0, 1.0), (0.5, 2.0), (2.0, 0.5)])
def test_confidence_is_the_cross_entropy_with_the_prediction(temperature, factor):
    logits = torch.tensor([[0.0, 2.0], [3.0, 0.0]]).double()
    expected = sum(math.log1p(math.exp(-gap * factor)) for gap in (2, 3)) / 2
    assert float(confidence_loss(logits, temperature)) == pytest.approx(expected, rel=1e-12)


def test_confidence_of_an_undecided_model():
    assert float(confidence_loss(torch.zeros(3, 40))) == pytest.approx(math.log(40), rel=1e-6)


@pytest.mark.parametrize("temperature", [0.0, -0.5, math.nan])
def test_temperature_must_be_positive(temperature):
    with pytest.raises(ValueError, match=f"temperature is {temperature}; it must be above 0"):
        confidence_loss(torch.zeros(1, 2), temperature)


@pytest.mark.parametrize("loss", MAP_LOSSES)
@pytest.mark.parametrize(("value", "span"), [(1.5, r"\[0, 1.5\]"), (-0.1, r"\[-0.1, 1\]")])
def test_mask_outside_zero_to_one_is_an_error(loss, value, span):
    mask = BINARY.clone()
    mask[..., 0, int(value < 0)] = value
    with pytest.raises(ValueError, match=f"mask spans {span}; it must lie in .0, 1., 1 on the"):
        loss(RELEVANCE, mask)


@pytest.mark.parametrize("loss", MAP_LOSSES)
def test_mask_with_nan_is_an_error(loss):
    mask = BINARY.clone()
    mask[..., 0, 0] = math.nan
    with pytest.raises(ValueError, match="mask"):
        loss(RELEVANCE, mask)


@pytest.mark.parametrize("loss", MAP_LOSSES)
def test_shapes_must_agree(loss):
    text = r"relevance \(1, 1, 2, 2\) and mask \(1, 1, 1, 2\) differ; give one mask pixel"
    with pytest.raises(ValueError, match=text):
        loss(RELEVANCE, BINARY[:, :, :1])


@pytest.mark.parametrize("loss", MAP_LOSSES)
def test_unknown_protocol_is_an_error(loss):
    with pytest.raises(ValueError, match="protocol 'code' is unknown; use 'published'"):
        loss(RELEVANCE, BINARY, protocol="code")
