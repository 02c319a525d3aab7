"""One step of finetuning: the losses of the method and of its baselines."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from relevit.attention.recording import unfused_attention
from relevit.attribution import METHODS, gae, to_heatmap
from relevit.finetune.hyperparameters import BASELINES, LossWeights
from relevit.finetune.step import baseline_losses, step_losses
from relevit.losses import background_loss, foreground_loss

from ..micro_finetuning import SETTINGS, SIZE, SPEC, micro_model, pictures

PROTOCOLS = ("published", "described")

# Ours


def step_inputs(count=4):
    shown = pictures("finetune", count)
    return SPEC.normalise(shown.images), shown.masks.float(), shown.labels


def gradients(model, total):
    return torch.autograd.grad(total, list(model.parameters()), allow_unused=True)


def same_gradients(one, other):
    return all(
        (a is None) == (b is None) and (a is None or torch.allclose(a, b, rtol=1e-4, atol=1e-7))
        for a, b in zip(one, other, strict=True)
    )


def test_total_is_the_weighted_sum():
    factors = LossWeights(relevance=0.5, classification=3.0, background=7.0, foreground=0.25)
    losses = step_losses(micro_model(), *step_inputs(), SETTINGS.changed(weights=factors))
    relevance = 7 * losses.background + 0.25 * losses.foreground
    torch.testing.assert_close(losses.relevance, relevance)
    torch.testing.assert_close(losses.total, 0.5 * relevance + 3 * losses.classification)
    assert losses.numbers() == {
        f"loss_{name}": float(getattr(losses, name).detach())
        for name in ("background", "foreground", "relevance", "classification", "total")
    }


@pytest.mark.parametrize("term", ["confidence", "label"])
def test_control_is_trained_as_by_maps_that_weigh_next_to_nothing(term):
    """It makes none; on validation images it does, to be looked at."""
    model, made = micro_model(), {}
    for weight in (0.0, 1e-12):
        weights = LossWeights(relevance=weight)
        settings = SETTINGS.changed(weights=weights, class_term=term)
        losses = step_losses(model, *step_inputs(), settings)
        made[losses.heatmaps is None] = gradients(model, losses.total)
    assert same_gradients(made[True], made[False])
    settings = SETTINGS.changed(weights=LossWeights(relevance=0.0))
    shown = step_losses(model, *step_inputs(), settings, train=False)
    assert shown.heatmaps is not None and shown.numbers()["loss_background"] > 0


@pytest.mark.parametrize("target", ["label", "predicted"])
@pytest.mark.parametrize("protocol", ["published", "described"])
def test_heatmaps_are_gae_of_the_target_and_the_terms_the_protocols(target, protocol):
    model = micro_model()
    images, masks, labels = step_inputs()
    masks = 0.3 * masks  # the protocols differ on fractions (A7)
    settings = SETTINGS.changed(target=target, protocol=protocol)
    losses = step_losses(model, images, masks, labels, settings)
    relevance = gae(model, images, labels if target == "label" else None)
    expected = to_heatmap(relevance, (SIZE, SIZE), (2, 2), normalise=protocol == "published")
    torch.testing.assert_close(losses.heatmaps.detach(), expected)
    for name, term in (("background", background_loss), ("foreground", foreground_loss)):
        wanted = float(term(expected, masks, protocol=protocol))
        assert float(getattr(losses, name).detach()) == pytest.approx(wanted, rel=1e-3), name
    other = gae(model, images, None if target == "label" else labels)
    assert (relevance - other).abs().max() > 1e-6, "label and prediction are the same"


@pytest.mark.parametrize(("protocol", "exact"), [("published", False), ("described", True)])
def test_protocol_chooses_the_gradient_unless_told(protocol, exact):
    model = micro_model()
    found = {}
    for told in ("protocol", "exact", "constant"):
        settings = SETTINGS.changed(protocol=protocol, gradient=told)
        found[told] = gradients(model, step_losses(model, *step_inputs(), settings).total)
    same, other = ("exact", "constant") if exact else ("constant", "exact")
    assert same_gradients(found["protocol"], found[same])
    assert not same_gradients(found["protocol"], found[other])


def test_temperature_reaches_the_class_term_alone():
    model, inputs = micro_model(), step_inputs()
    one = step_losses(model, *inputs, SETTINGS)
    half = step_losses(model, *inputs, SETTINGS.changed(temperature=0.5))
    assert half.classification < one.classification
    assert half.relevance == one.relevance


@pytest.mark.parametrize(
    ("name", "method"), [("attention", "raw_attention"), ("rollout", "rollout")]
)
def test_another_explanation_takes_the_place_of_gae(name, method):
    model = micro_model()
    images, masks, labels = step_inputs()
    losses = step_losses(model, images, masks, labels, SETTINGS.changed(explanation=name))
    expected = to_heatmap(
        METHODS[method](model, images, protocol="described"), (SIZE, SIZE), (2, 2)
    )
    # Scaling nearly even attention to [0, 1] magnifies its rounding.
    torch.testing.assert_close(losses.heatmaps.detach(), expected, atol=1e-3, rtol=0)
    assert any(g is not None and g.abs().max() > 0 for g in gradients(model, losses.relevance))


def test_ground_truth_takes_the_place_of_the_own_answer():
    model = micro_model()
    images, masks, _ = step_inputs()
    wrong = (model(images).argmax(1) + 1) % 40
    settings = SETTINGS.changed(class_term="label", temperature=0.5, target="predicted")
    losses = step_losses(model, images, masks, wrong, settings)
    expected = torch.nn.functional.cross_entropy(model(images) / 0.5, wrong)
    torch.testing.assert_close(losses.classification, expected)
    own = step_losses(model, images, masks, wrong, settings.changed(class_term="confidence"))
    torch.testing.assert_close(own.relevance, losses.relevance)
    assert own.classification < losses.classification


@pytest.mark.parametrize("protocol", ["published", "described"])
@pytest.mark.parametrize("method", ["gradmask", "rrr"])
def test_baseline_has_its_own_two_terms(method, protocol):
    model = micro_model()
    images, masks, labels = step_inputs()
    factors = LossWeights(relevance=1.0, classification=3.0, background=7.0, foreground=9.0)
    options = {"method": method, "protocol": protocol, "temperature": 0.5}
    settings = SETTINGS.changed(weights=factors, **options)
    losses = step_losses(model, images, masks, labels, settings)
    background, classification, _ = baseline_losses(model, images, masks, labels, **options)
    torch.testing.assert_close(losses.total, 7 * background + 3 * classification)
    assert losses.heatmaps is None and losses.foreground == 0
    assert losses.background.requires_grad == (protocol == "described")


@pytest.mark.parametrize("weight", [0.0, 0.8])
def test_precision_is_that_of_the_model_and_not_of_the_losses(weight):
    settings = SETTINGS.changed(weights=LossWeights(relevance=weight))
    plain, rough = (
        step_losses(micro_model(), *step_inputs(), settings.changed(precision=precision))
        for precision in ("float32", "bfloat16")
    )
    assert rough.logits.dtype == rough.total.dtype == torch.float32
    assert not torch.equal(rough.logits, plain.logits), "the model ran in float32"
    torch.testing.assert_close(rough.classification, plain.classification, rtol=0.05, atol=0)


@pytest.mark.parametrize("method", ["relevance", "gradmask", "rrr"])
def test_numbers_alone_are_the_same_without_second_derivatives(method):
    settings = SETTINGS.changed(method=method, protocol="described")
    whole, plain = (
        step_losses(micro_model(), *step_inputs(), settings, train=train) for train in (True, False)
    )
    assert plain.numbers() == pytest.approx(whole.numbers(), rel=1e-4)


# The baselines

LABELS = torch.tensor([2, 0, 4])


@pytest.fixture
def masks(images):
    """The left half of each image is object, with a fractional edge."""
    mask = torch.zeros(len(images), 1, *images.shape[2:]).double()
    mask[..., :14] = 1
    mask[..., 14] = 0.3
    return mask


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


# Errors


@pytest.mark.wrong_types
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


def test_model_without_attention_has_no_described_loss(images, masks):
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 28 * 28, 5)).double()
    with pytest.raises(ValueError, match="no blocks with global self-attention"):
        baseline_losses(model, images, masks, LABELS, method="rrr", protocol="described")
