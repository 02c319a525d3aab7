"""GradMask and RRR on a model whose input gradient is known, and what they leave behind."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from relevit.attention.recording import unfused_attention
from relevit.finetune.baselines import (
    BASELINE_WEIGHTS,
    BASELINES,
    baseline_losses,
    baseline_weights,
    paper_rate,
    rate_factor,
)
from relevit.losses import gradmask_loss, inverse_mask, rrr_loss
from relevit.paper.published import hyperparameters

PROTOCOLS = ("published", "described")
LABELS = torch.tensor([2, 0, 4])
# Of the two pixels of an image of the linear model; the second is fractional (differences A7).
MASK = torch.tensor([1.0, 0.25]).double().reshape(1, 1, 1, 2).expand(2, 1, 1, 2)
SHARES = {"published": [0.0, 0.25], "described": [0.0, 0.75]}


@pytest.fixture
def masks(images):
    """The left half of each image is object, with a fractional edge."""
    mask = torch.zeros(len(images), 1, *images.shape[2:]).double()
    mask[..., :14] = 1
    mask[..., 14] = 0.3
    return mask


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


def test_terms_sum_or_average_over_the_batch(build_vit, images, masks):
    """A batch of the same image twice: RRR's published term doubles, the others stay (B11)."""
    model = build_vit()
    one = [images[:1], masks[:1], LABELS[:1]]
    two = [torch.cat([value, value]) for value in one]
    for method in BASELINES:
        for protocol in PROTOCOLS:
            options = {"method": method, "protocol": protocol}
            single, double = (baseline_losses(model, *b, **options)[0] for b in (one, two))
            factor = 2 if (method, protocol) == ("rrr", "published") else 1
            assert float(double.detach()) == pytest.approx(factor * float(single.detach()))


@pytest.mark.parametrize("method", BASELINES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("create_graph", [None, False, True])
def test_terms_have_the_graph_they_really_have(
    build_vit, images, masks, method, protocol, create_graph
):
    background, classification, logits = baseline_losses(
        build_vit(),
        images,
        masks,
        LABELS,
        method=method,
        protocol=protocol,
        create_graph=create_graph,
    )
    wanted = protocol == "described" if create_graph is None else create_graph
    assert background.requires_grad is wanted
    assert classification.requires_grad and logits.requires_grad
    assert float(background.detach()) > 0


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_class_term_is_the_cross_entropy_of_the_labels(build_vit, images, masks, temperature):
    model = build_vit()
    _, classification, logits = baseline_losses(
        model, images, masks, LABELS, method="rrr", temperature=temperature
    )
    torch.testing.assert_close(logits, model(images))
    torch.testing.assert_close(classification, cross_entropy(logits / temperature, LABELS))


@pytest.mark.parametrize("method", BASELINES)
def test_described_gradient_is_that_of_finite_differences(build_vit, images, masks, method):
    model = build_vit()
    parameter = model.blocks[0].attn.qkv.weight
    random = torch.Generator().manual_seed(3)
    direction = torch.randn(parameter.shape, generator=random).double()

    def background() -> torch.Tensor:
        batch = (images, masks, LABELS)
        return baseline_losses(model, *batch, method=method, protocol="described")[0]

    (slope,) = torch.autograd.grad(background(), parameter)
    step, start, values = 1e-6, parameter.detach().clone(), []
    for shift in (step, -step):
        parameter.data = start + shift * direction
        values.append(float(background().detach()))
    measured = (values[0] - values[1]) / (2 * step)
    assert float((slope * direction).sum()) == pytest.approx(measured, rel=1e-5)


def test_no_gradient_on_the_background_costs_nothing_and_is_finite(build_vit, images):
    """A mask of nothing but object: the norm of zero has slope zero, not NaN."""
    model = build_vit()
    whole = torch.ones(len(images), 1, *images.shape[2:]).double()
    for method in BASELINES:
        term = baseline_losses(model, images, whole, LABELS, method=method, protocol="described")[0]
        assert float(term.detach()) == 0
        slopes = torch.autograd.grad(term, list(model.parameters()), materialize_grads=True)
        assert all(bool((slope == 0).all()) for slope in slopes)


# What is left behind


@pytest.mark.parametrize("method", BASELINES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_model_and_images_are_left_as_they_were(
    build_vit, images, masks, state_of, method, protocol
):
    model = build_vit()
    model.blocks[1].attn.fused_attn = False
    before = state_of(model)
    baseline_losses(model, images, masks, LABELS, method=method, protocol=protocol)
    assert state_of(model) == before
    assert not images.requires_grad and images.grad is None


def test_fused_attention_comes_back_after_an_error(build_vit, images, masks, state_of):
    model = build_vit()
    before = state_of(model)
    with pytest.raises(ValueError, match="target"):
        baseline_losses(model, images, masks, LABELS + 9, method="gradmask", protocol="described")
    assert state_of(model) == before


def test_unfused_attention_ends_with_its_context(build_vit, state_of):
    model = build_vit()
    model.blocks[1].attn.fused_attn = False
    before = state_of(model)
    with unfused_attention(model):
        assert not any(block.attn.fused_attn for block in model.blocks)
    assert state_of(model) == before and model.blocks[0].attn.fused_attn


@pytest.mark.parametrize("method", BASELINES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_mixed_precision_does_not_reach_the_gradients(build_vit, images, masks, method, protocol):
    model = build_vit().float()
    batch = (images.float(), masks.float(), LABELS)
    options = {"method": method, "protocol": protocol}
    plain = baseline_losses(model, *batch, **options)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = baseline_losses(model, *batch, **options)
    for one, other in zip(plain, mixed, strict=True):
        assert other.dtype == torch.float32 and torch.equal(one, other)


def test_works_where_gradients_are_switched_off(build_vit, images, masks):
    with torch.no_grad():
        background, _, _ = baseline_losses(build_vit(), images, masks, LABELS, method="gradmask")
    assert float(background) > 0


# Weights and rates of the paper


@pytest.mark.parametrize("method", BASELINES)
def test_weights_and_rates_are_those_of_the_tables(method):
    for row in hyperparameters().query("method == @method").itertuples():
        weights = baseline_weights(method, "paper", row.model)
        assert weights == (row.lambda_bg, row.lambda_classification)
        assert paper_rate(method, row.model) == row.lr
    assert BASELINE_WEIGHTS["paper"][method] == baseline_weights(method)
    assert BASELINE_WEIGHTS["script"][method] == (0.8, 0.2)


def test_grids_lie_as_far_from_ours_as_the_papers_rates():
    assert rate_factor("relevance", "published") == 1
    assert rate_factor("gradmask", "published") == pytest.approx(2e-4 / 3e-6)
    assert rate_factor("rrr", "published") == pytest.approx(2e-6 / 3e-6)
    assert {rate_factor(method, "described") for method in BASELINES} == {1.0}


# Errors


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: baseline_weights("ours+"), "method 'ours.' is unknown; use one of .'gradmask'"),
        (lambda: baseline_weights("rrr", "mine"), "source 'mine' is unknown; use one of .'paper'"),
        (lambda: baseline_weights("rrr", "paper", "ViT-L"), "no rrr on 'ViT-L'; use one of"),
        (lambda: paper_rate("sgd"), "method 'sgd' is unknown"),
        (lambda: rate_factor("rrr", "code"), "protocol 'code' is unknown"),
    ],
)
def test_unknown_names(call, text):
    with pytest.raises(ValueError, match=text):
        call()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"method": "relevance"}, "baselines: method 'relevance' is unknown; use one of"),
        ({"protocol": "code"}, "protocol 'code' is unknown; use 'published'"),
        ({"masks": torch.full((3, 1, 28, 28), 2.0)}, r"spans \[2, 2\]; it must lie in .0, 1."),
        ({"masks": torch.full((3, 1, 28, 28), math.nan)}, "the mask spans"),
        ({"masks": torch.ones(3, 1, 4, 4)}, r"images \(3, 3, 28, 28\) and mask \(3, 1, 4, 4\)"),
        ({"labels": torch.tensor([0, 1])}, "give one class in 0..4 for each image"),
    ],
)
def test_arguments_that_do_not_fit(build_vit, images, masks, change, text):
    batch = {"masks": masks, "labels": LABELS, "method": "gradmask"} | change
    with pytest.raises(ValueError, match=text):
        baseline_losses(build_vit(), images, **batch)


def test_logits_of_other_images_are_an_error(linear):
    logits = linear[-1]
    for others in (torch.ones(2, 1, 1, 2), torch.ones(2, 1, 1, 2, requires_grad=True)):
        with pytest.raises(ValueError, match="do not depend on images that require grad; call"):
            rrr_loss(logits, others, MASK)


def test_model_without_attention_has_no_described_loss(images, masks):
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 28 * 28, 5)).double()
    with pytest.raises(ValueError, match="no blocks with global self-attention"):
        baseline_losses(model, images, masks, LABELS, method="rrr", protocol="described")


def test_background_share_of_fractional_pixels():
    assert inverse_mask(MASK)[0].flatten().tolist() == SHARES["published"]
    assert inverse_mask(MASK, "described")[0].flatten().tolist() == SHARES["described"]
    with pytest.raises(ValueError, match="protocol 'code'"):
        inverse_mask(MASK, "code")
