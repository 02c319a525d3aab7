"""RobustViT's loss terms and the baselines', on numbers that can be worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from relevit.losses import (
    Step,
    background_loss,
    background_of,
    cft_loss,
    confidence_loss,
    energy_loss,
    foreground_loss,
    gradmask_loss,
    l1_loss,
    label_loss,
    rrr_loss,
)

RELEVANCE = torch.tensor([1.0, 0.5, 0.25, 0.0]).double().reshape(1, 1, 2, 2)
BINARY = torch.tensor([1.0, 0.0, 0.0, 1.0]).double().reshape(1, 1, 2, 2)
MARGIN = 1e-4  # by which cross-entropy keeps a map away from 0 and 1
OF_MAPS = (background_loss, foreground_loss, cft_loss, energy_loss, l1_loss)
FRACTIONAL = torch.tensor([1.0, 0.75, 0.0, 0.25]).double().reshape(1, 1, 2, 2)


@pytest.mark.parametrize(
    ("loss", "masks", "options", "expected"),
    [
        # Averaged over all pixels (differences A6).
        (background_loss, BINARY, {}, (0.5**2 + 0.25**2) / 4),
        (background_loss, BINARY, {"edges_in_both": True}, (0.5**2 + 0.25**2) / 4),
        # A fractional pixel weighs 1 - S in the text, S in the code (A7).
        (background_loss, FRACTIONAL, {}, ((0.5 * 0.25) ** 2 + 0.25**2) / 4),
        (background_loss, FRACTIONAL, {"edges_in_both": True}, ((0.375) ** 2 + 0.25**2) / 4),
        # The target is one everywhere: each background pixel adds one; or the mask (A6).
        (foreground_loss, BINARY, {}, (0 + 1 + 1 + 1) / 4),
        (foreground_loss, BINARY, {"towards_mask": True}, (0 + 0 + 0 + 1) / 4),
        (foreground_loss, FRACTIONAL, {}, ((0.375 - 1) ** 2 + 1 + 1) / 4),
        (foreground_loss, FRACTIONAL, {"towards_mask": True}, (0.375**2 + 0.25**2) / 4),
        (energy_loss, BINARY, {}, 1 - 1 / 1.75),
        (energy_loss, FRACTIONAL, {}, 1 - (1 + 0.5 * 0.75) / 1.75),
        (l1_loss, BINARY, {}, (0 + 0.5 + 0.25 + 1) / 4),
        (l1_loss, FRACTIONAL, {}, (0 + 0.25 + 0.25 + 0.25) / 4),
        (cft_loss, BINARY, {}, -math.log((1 - MARGIN) * 0.5 * 0.75 * MARGIN) / 4),
        (cft_loss, FRACTIONAL, {}, -math.log((1 - MARGIN) ** 1.75 * 0.5 * 0.75 * MARGIN**0.25) / 4),
    ],
)
def test_terms_of_the_map(loss, masks, options, expected):
    step = Step(heatmaps=RELEVANCE, masks=masks)
    assert float(loss(step, **options)) == pytest.approx(expected, rel=1e-12)
    twice = loss(step.select(torch.tensor([0, 0])), **options)
    assert float(twice) == pytest.approx(expected, rel=1e-12), "the mean over the batch"


@pytest.mark.parametrize("loss", OF_MAPS)
def test_loss_and_slopes_are_finite_where_a_map_is_0_or_1(loss):
    for value in (0.0, 1.0):
        ends = torch.full_like(BINARY, value, requires_grad=True)
        found = loss(Step(heatmaps=ends, masks=BINARY))
        (slopes,) = torch.autograd.grad(found, ends)
        assert found.isfinite() and slopes.abs().max() <= 1


def test_energy_does_not_see_the_size_of_a_map_and_l1_is_zero_at_the_mask():
    maps = (RELEVANCE, 1e-6 * RELEVANCE, 3 * RELEVANCE, 0 * RELEVANCE)
    own, *scaled, none = (energy_loss(Step(heatmaps=one, masks=FRACTIONAL)) for one in maps)
    torch.testing.assert_close(scaled, [own, own])
    assert none == 1
    assert l1_loss(Step(heatmaps=FRACTIONAL, masks=FRACTIONAL)) == 0


@pytest.mark.parametrize(("temperature", "factor"), [(1.0, 1.0), (0.5, 2.0), (2.0, 0.5)])
def test_class_terms_are_the_cross_entropy_with_the_prediction_and_the_label(temperature, factor):
    logits = torch.tensor([[0.0, 2.0], [3.0, 0.0]]).double()
    expected = sum(math.log1p(math.exp(-gap * factor)) for gap in (2, 3)) / 2
    step = Step(logits=logits, labels=torch.tensor([1, 0]))
    own = confidence_loss(step, temperature=temperature)
    assert float(own) == pytest.approx(expected, rel=1e-12)
    assert own == label_loss(step, temperature=temperature)
    wrong = label_loss(replace(step, labels=1 - step.labels), temperature=temperature)
    assert float(wrong - own) == pytest.approx(2.5 * factor)


# The baselines on a model whose input gradient is known

# Of the two pixels of an image of the linear model; the second is fractional (differences A7).
MASKS = torch.tensor([1.0, 0.25]).double().reshape(1, 1, 1, 2).expand(2, 1, 1, 2)
SHARES = {False: [0.0, 0.75], True: [0.0, 0.25]}


@pytest.fixture
def linear():
    """Logits linear in two images of one colour and two pixels: images, weights, logits."""
    random = torch.Generator().manual_seed(0)
    weights = torch.randn(2, 3, generator=random).double()  # pixels, classes
    images = torch.randn(2, 1, 1, 2, generator=random).double().requires_grad_()
    return images, weights, images.flatten(1) @ weights


@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize("code", [False, True])
def test_baselines_of_a_linear_model(linear, code, edges):
    images, weights, logits = linear
    labels, share = torch.tensor([1, 2]), torch.tensor(SHARES[edges])
    step = Step(images, MASKS, labels, logits)
    assert background_of(MASKS, images, edges)[0].flatten().tolist() == SHARES[edges]
    slopes = weights.T[labels] * share
    # Mean of squares in the code, norm of each image in the text (differences B8).
    wanted = slopes.square().mean() if code else slopes.norm(dim=1).mean()
    ours = gradmask_loss(step, edges_in_both=edges, **({"mean_square": True} if code else {}))
    assert float(ours) == pytest.approx(float(wanted), rel=1e-12)
    # d/dx of the sum over k of log p_k is the sum over k of w_k, less K times the mean of w in p.
    slopes = weights.sum(dim=1) - 3 * logits.softmax(dim=1) @ weights.T
    wanted = (slopes * share).square().sum() / (1 if code else 2)  # B11
    options = {"sum_over_batch": True, "least_probability": 1e-11} if code else {}
    ours = rrr_loss(step, edges_in_both=edges, **options)
    assert float(ours.detach()) == pytest.approx(float(wanted.detach()), rel=1e-8)


@pytest.mark.parametrize(
    ("masks", "told"),
    [
        (BINARY * 1.5, r"from 0 to 1.5"),
        (BINARY - 0.1, r"from -0.1 to 0.9"),
        (BINARY * math.nan, "from nan to nan"),
    ],
)
@pytest.mark.parametrize("loss", OF_MAPS)
def test_masks_that_do_not_fit_are_named(loss, masks, told):
    with pytest.raises(ValueError, match=f"losses: masks.*{told}"):
        loss(Step(heatmaps=RELEVANCE, masks=masks))
