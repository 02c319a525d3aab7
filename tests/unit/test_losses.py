"""RobustViT's loss terms and the baselines', on numbers that can be worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from relevit.losses import (
    background_loss,
    confidence_loss,
    foreground_loss,
    gradmask_loss,
    inverse_mask,
    rrr_loss,
)

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


@pytest.mark.wrong_types
@pytest.mark.parametrize("loss", MAP_LOSSES)
def test_shapes_must_agree(loss):
    text = r"relevance \(1, 1, 2, 2\) and mask \(1, 1, 1, 2\) differ; give one mask pixel"
    with pytest.raises(ValueError, match=text):
        loss(RELEVANCE, BINARY[:, :, :1])


@pytest.mark.wrong_types
@pytest.mark.parametrize("loss", MAP_LOSSES)
def test_unknown_protocol_is_an_error(loss):
    with pytest.raises(ValueError, match="protocol 'code' is unknown; use 'published'"):
        loss(RELEVANCE, BINARY, protocol="code")


# The baselines on a model whose input gradient is known

# Of the two pixels of an image of the linear model; the second is fractional (differences A7).
MASK = torch.tensor([1.0, 0.25]).double().reshape(1, 1, 1, 2).expand(2, 1, 1, 2)
SHARES = {"published": [0.0, 0.25], "described": [0.0, 0.75]}


@pytest.fixture
def linear():
    """Logits linear in two images of one colour and two pixels: images, weights, logits."""
    random = torch.Generator().manual_seed(0)
    weights = torch.randn(2, 3, generator=random).double()  # pixels, classes
    images = torch.randn(2, 1, 1, 2, generator=random).double().requires_grad_()
    return images, weights, images.flatten(1) @ weights


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_gradmask_of_a_linear_model(linear, protocol):
    images, weights, logits = linear
    labels = torch.tensor([1, 2])
    slopes = weights.T[labels] * torch.tensor(SHARES[protocol])
    # Mean of squares in the code, norm of each image in the text (differences B8).
    wanted = {"published": slopes.square().mean(), "described": slopes.norm(dim=1).mean()}
    ours = gradmask_loss(logits, images, MASK, labels, protocol=protocol)
    assert float(ours) == pytest.approx(float(wanted[protocol]), rel=1e-12)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_rrr_of_a_linear_model(linear, protocol):
    images, weights, logits = linear
    # d/dx of the sum over k of log p_k is the sum over k of w_k, less K times the mean of w in p.
    slopes = weights.sum(dim=1) - 3 * logits.softmax(dim=1) @ weights.T
    squares = (slopes * torch.tensor(SHARES[protocol])).square().sum()
    wanted = squares / (1 if protocol == "published" else 2)
    ours = rrr_loss(logits, images, MASK, protocol=protocol)
    assert float(ours.detach()) == pytest.approx(float(wanted.detach()), rel=1e-8)


def test_logits_of_other_images_are_an_error(linear):
    logits = linear[-1]
    for others in (torch.ones(2, 1, 1, 2), torch.ones(2, 1, 1, 2, requires_grad=True)):
        with pytest.raises(ValueError, match="do not depend on images that require grad; call"):
            rrr_loss(logits, others, MASK)


def test_background_share_of_fractional_pixels():
    assert inverse_mask(MASK)[0].flatten().tolist() == SHARES["published"]
    assert inverse_mask(MASK, "described")[0].flatten().tolist() == SHARES["described"]


@pytest.mark.wrong_types
def test_background_share_by_an_unknown_protocol_is_an_error():
    with pytest.raises(ValueError, match="protocol 'code'"):
        inverse_mask(MASK, "code")


@pytest.mark.wrong_types
def test_a_boolean_mask_is_one_of_zeros_and_ones():
    mask = torch.tensor([True, False]).expand(1, 1, 2, 2)
    for protocol in ("published", "described"):
        assert inverse_mask(mask, protocol).equal(inverse_mask(mask.float(), protocol))
        for loss in (background_loss, foreground_loss):
            found = loss(torch.full(mask.shape, 0.3), mask, protocol=protocol)
            assert found == loss(torch.full(mask.shape, 0.3), mask.float(), protocol=protocol)
