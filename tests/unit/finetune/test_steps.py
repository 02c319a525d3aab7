"""One step of relevance finetuning: its losses, and the order and augmentation of the images."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from relevit.attribution import METHODS
from relevit.config import FinetuneParams
from relevit.data import cutouts
from relevit.finetune.baselines import baseline_losses
from relevit.finetune.loop import CROP_MARGIN, augment, epoch_plan
from relevit.finetune.settings import FinetuneSettings, LossWeights, paper_weights
from relevit.finetune.step import step_losses
from relevit.relevance import gae, to_pixels

from ..micro_finetuning import SETTINGS, SIZE, SPEC, micro_model, pictures

# One step


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
    losses = step_losses(micro_model(), *step_inputs(), replace(SETTINGS, weights=factors))
    relevance = 7 * losses.background + 0.25 * losses.foreground
    torch.testing.assert_close(losses.relevance, relevance)
    torch.testing.assert_close(losses.total, 0.5 * relevance + 3 * losses.classification)
    assert losses.numbers() == {
        f"loss_{name}": float(getattr(losses, name).detach())
        for name in ("background", "foreground", "relevance", "classification", "total")
    }


@pytest.mark.parametrize("target", ["label", "predicted"])
@pytest.mark.parametrize("protocol", ["published", "described"])
def test_heatmaps_are_gae_of_the_target(target, protocol):
    model = micro_model()
    images, masks, labels = step_inputs()
    settings = replace(SETTINGS, target=target, protocol=protocol)
    losses = step_losses(model, images, masks, labels, settings)
    relevance = gae(model, images, labels if target == "label" else None)
    expected = to_pixels(relevance, (SIZE, SIZE), normalise=protocol == "published")
    torch.testing.assert_close(losses.heatmaps.detach(), expected)
    other = gae(model, images, None if target == "label" else labels)
    assert (relevance - other).abs().max() > 1e-6, "label and prediction are the same"


@pytest.mark.parametrize(("protocol", "exact"), [("published", False), ("described", True)])
def test_protocol_chooses_the_gradient_unless_told(protocol, exact):
    model = micro_model()
    found = {}
    for told in ("protocol", "exact", "constant"):
        settings = replace(SETTINGS, protocol=protocol, gradient=told)
        found[told] = gradients(model, step_losses(model, *step_inputs(), settings).total)
    same, other = ("exact", "constant") if exact else ("constant", "exact")
    assert same_gradients(found["protocol"], found[same])
    assert not same_gradients(found["protocol"], found[other])


def test_temperature_reaches_the_class_term_alone():
    model, inputs = micro_model(), step_inputs()
    one = step_losses(model, *inputs, SETTINGS)
    half = step_losses(model, *inputs, replace(SETTINGS, temperature=0.5))
    assert half.classification < one.classification
    assert half.relevance == one.relevance


@pytest.mark.parametrize(
    ("name", "method"), [("attention", "raw_attention"), ("rollout", "rollout")]
)
def test_another_explanation_takes_the_place_of_gae(name, method):
    model = micro_model()
    images, masks, labels = step_inputs()
    losses = step_losses(model, images, masks, labels, replace(SETTINGS, explanation=name))
    expected = to_pixels(METHODS[method](model, images, protocol="described"), (SIZE, SIZE))
    # Scaling nearly even attention to [0, 1] magnifies its rounding.
    torch.testing.assert_close(losses.heatmaps.detach(), expected, atol=1e-3, rtol=0)
    assert any(g is not None and g.abs().max() > 0 for g in gradients(model, losses.relevance))


def test_ground_truth_takes_the_place_of_the_own_answer():
    model = micro_model()
    images, masks, _ = step_inputs()
    wrong = (model(images).argmax(1) + 1) % 40
    settings = replace(SETTINGS, class_term="label", temperature=0.5, target="predicted")
    losses = step_losses(model, images, masks, wrong, settings)
    expected = torch.nn.functional.cross_entropy(model(images) / 0.5, wrong)
    torch.testing.assert_close(losses.classification, expected)
    own = step_losses(model, images, masks, wrong, replace(settings, class_term="confidence"))
    torch.testing.assert_close(own.relevance, losses.relevance)
    assert own.classification < losses.classification


@pytest.mark.parametrize("protocol", ["published", "described"])
@pytest.mark.parametrize("method", ["gradmask", "rrr"])
def test_baseline_has_its_own_two_terms(method, protocol):
    model = micro_model()
    images, masks, labels = step_inputs()
    factors = LossWeights(relevance=1.0, classification=3.0, background=7.0, foreground=9.0)
    settings = replace(SETTINGS, method=method, protocol=protocol, weights=factors)
    losses = step_losses(model, images, masks, labels, settings)
    background, classification, _ = baseline_losses(
        model, images, masks, labels, method=method, protocol=protocol
    )
    torch.testing.assert_close(losses.total, 7 * background + 3 * classification)
    assert losses.heatmaps is None and losses.foreground == 0
    assert losses.background.requires_grad == (protocol == "described")


@pytest.mark.parametrize("method", ["relevance", "gradmask", "rrr"])
def test_numbers_alone_are_the_same_without_second_derivatives(method):
    settings = replace(SETTINGS, method=method, protocol="described")
    whole, plain = (
        step_losses(micro_model(), *step_inputs(), settings, train=train) for train in (True, False)
    )
    assert plain.numbers() == pytest.approx(whole.numbers(), rel=1e-4)


# The settings


def test_schedule_and_gradient_follow_the_protocol_unless_told():
    published = replace(SETTINGS, lr=1.0, protocol="published")
    described = replace(published, protocol="described")
    assert [published.lr_at(e) for e in (1, 2, 3, 5)] == [1, 1, 0.85, 0.85**2]
    assert described.lr_at(9) == replace(published, schedule="constant").lr_at(9) == 1
    assert replace(described, schedule="decaying").lr_at(3) == 0.85
    assert described.exact_gradient and not published.exact_gradient
    assert replace(published, gradient="exact").exact_gradient
    assert not replace(described, gradient="constant").exact_gradient


def test_weights_are_the_papers_unless_given():
    assert paper_weights("relevance") == LossWeights()
    gradmask = FinetuneSettings.from_params(FinetuneParams(method="gradmask"), 1.0, "float32")
    assert gradmask.weights == LossWeights(
        relevance=1.0, classification=3.0e-9, background=50.0, foreground=0.0
    )
    given = FinetuneParams(method="rrr", weight_classification=0.5)
    assert FinetuneSettings.from_params(given, 1.0, "float32").weights == LossWeights(
        relevance=1.0, classification=0.5, background=1.0e-10, foreground=0.0
    )


@pytest.mark.parametrize(
    ("model", "others", "expected"),
    [
        ("deit-b", {}, 0.65),
        ("deit-s", {}, 0.55),
        ("deit-s-cut", {}, 0.55),
        ("vit-b", {}, 1.0),
        ("ar-l", {}, 1.0),
        ("deit-b", {"protocol": "described"}, 1.0),
        ("deit-b", {"method": "gradmask"}, 1.0),
        ("deit-b", {"temperature": 2.0}, 2.0),
        ("vit-b", {"temperature": 0.65}, 0.65),
    ],
)
def test_temperature_is_the_published_one_of_the_model_unless_given(model, others, expected):
    """Only the published code has one, for its own method on DeiT (A8)."""
    cfg = FinetuneParams(model=model, **others)
    assert FinetuneSettings.from_params(cfg, 1.0, "float32").temperature == expected


# The order and the augmentation


def test_epoch_plan_is_the_same_each_time_and_differs_by_epoch_and_seed():
    def plan(*args):
        return [(rows.tolist(), rng.random()) for rows, rng in epoch_plan(10, 4, *args)]

    assert plan(0, 1) == plan(0, 1)
    plans = [plan(0, 1), plan(0, 2), plan(1, 1), plan(1, 2)]
    for i in range(2):  # the order of the images, and the random numbers of the batches
        drawn = {tuple(map(str, (batch[i] for batch in batches))) for batches in plans}
        assert len(drawn) == 4
    for batches in plans:
        assert [len(rows) for rows, _ in batches] == [4, 4, 2]
        assert sorted(row for rows, _ in batches for row in rows) == list(range(10))
        assert len({draw for _, draw in batches}) == 3, "batches share their random numbers"


def marked_batch(count=12):
    """Images that are their own masks: a block of random place and size, in three channels."""
    random = torch.Generator().manual_seed(0)
    masks = torch.rand(count, 1, SIZE, SIZE, generator=random) < 0.3
    images = masks.expand(-1, 3, -1, -1).to(torch.uint8) * torch.tensor([255, 1, 77])[:, None, None]
    return cutouts.Batch(
        images.to(torch.uint8), masks, torch.arange(count), torch.zeros(count).long()
    )


def test_augment_moves_image_and_mask_alike():
    batch = marked_batch()
    before = batch.images.clone(), batch.masks.clone()
    images, masks = augment(batch, np.random.default_rng(0))
    assert images.dtype == torch.uint8 and masks.dtype == torch.bool
    assert images.shape == batch.images.shape and masks.shape == batch.masks.shape
    for channel, value in enumerate((255, 1, 77)):
        assert torch.equal(images[:, channel : channel + 1], masks.to(torch.uint8) * value)
    assert torch.equal(batch.images, before[0]) and torch.equal(batch.masks, before[1])


def test_augment_crops_anywhere_in_the_margin_and_flips_half():
    """Each picture has one lit pixel in its middle, whose place tells what was done to it."""
    count, middle = 400, SIZE // 2
    images = torch.zeros(count, 3, SIZE, SIZE, dtype=torch.uint8)
    images[:, :, middle, middle] = 200
    images[:, 0, middle, middle + 1] = 100  # right of it, so that a flip shows
    batch = cutouts.Batch(
        images, images[:, :1] > 150, torch.zeros(count).long(), torch.zeros(count).long()
    )
    moved, masks = augment(batch, np.random.default_rng(0))
    places = masks[:, 0].nonzero()
    assert len(places) == count, "the pixel is never lost or doubled"
    shifts = places[:, 1] - middle
    margin = CROP_MARGIN * SIZE // 112
    assert (int(shifts.min()), int(shifts.max())) == (-margin, margin)
    flipped = [
        bool(picture[0, row, column - 1] == 100)
        for picture, (_, row, column) in zip(moved, places.tolist(), strict=True)
    ]
    assert 150 < sum(flipped) < 250


def test_augment_follows_its_generator():
    batch = marked_batch()
    draws = [augment(batch, np.random.default_rng(seed))[0] for seed in (0, 0, 1)]
    assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])
