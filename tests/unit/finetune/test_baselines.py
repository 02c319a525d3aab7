"""The finding: published GradMask and RRR train the cross-entropy alone, to the last bit."""

from __future__ import annotations

import pandas as pd
import pytest
import torch

from relevit.finetune.baselines import (
    Case,
    Sample,
    background_share_pct,
    first_step_size,
    gap_summary,
    gradient_gap,
    gradients,
    label_loss,
    pixel_gradients,
    total_loss,
    weights_apart,
)
from relevit.finetune.hyperparameters import BASELINE_WEIGHTS, BASELINES

EVERY = pytest.mark.parametrize("method", BASELINES)
SOURCES = pytest.mark.parametrize("source", list(BASELINE_WEIGHTS))


@pytest.fixture(scope="module")
def sample(images):
    mask = torch.zeros(len(images), 1, *images.shape[2:]).double()
    mask[..., 5:20, 3:15] = 1
    return Sample(images, mask, torch.tensor([2, 0, 4]))


def as_float32(sample):
    return Sample(sample.images.float(), sample.masks.float(), sample.labels)


@EVERY
@SOURCES
@pytest.mark.parametrize("kind", ["plain", "average", "qk_norm", "registers"])
@pytest.mark.parametrize("digits", [32, 64])
def test_published_gradient_is_exactly_that_of_the_cross_entropy(
    build_vit, sample, method, source, kind, digits
):
    """Differences B9, B10. No tolerance: the largest difference is 0.0 on every parameter."""
    model = build_vit(kind) if digits == 64 else build_vit(kind).float()
    sample = sample if digits == 64 else as_float32(sample)
    case = Case(method, "published", weights=BASELINE_WEIGHTS[source][method])
    gap = gradient_gap(model, sample, case)
    assert gap["parameter"].tolist() == [name for name, _ in model.named_parameters()]
    assert (gap["largest_difference"] == 0.0).all()
    assert (gap["difference_norm"] == 0.0).all()
    assert (gap["alone_norm"] > 0).mean() > 0.9  # it is no comparison of zeros


@EVERY
@SOURCES
@pytest.mark.parametrize(
    "options", [{"protocol": "described"}, {"protocol": "published", "exact_gradient": True}]
)
def test_gradient_differs_once_the_term_is_in_the_graph(build_vit, sample, method, source, options):
    case = Case(method, weights=BASELINE_WEIGHTS[source][method], **options)
    gap = gradient_gap(build_vit(), sample, case).set_index("parameter")
    assert (gap.filter(regex=r"weight$", axis=0)["largest_difference"] > 0).all()
    summary = gap_summary(case, gap)
    # Far above rounding, which is near 1e-16; RRR's published weight is 1e-10, so it is small.
    assert summary["relative"] > 1e-5
    assert summary["protocol"] == ("described" if "exact_gradient" not in options else "mended")


def test_comparison_would_notice_a_term_that_trains(build_vit, sample, monkeypatch):
    """The exact zero is a finding, not a property of the comparison."""
    case = Case("gradmask", "published")
    model = build_vit()
    monkeypatch.setattr(
        "relevit.finetune.baselines.label_loss",
        lambda *args: label_loss(*args) + 1e-6 * model.head.weight.square().sum(),
    )
    gap = gradient_gap(model, sample, case).set_index("parameter")["largest_difference"]
    assert gap["head.weight"] > 0 and gap.drop("head.weight").max() == 0


def test_summary_of_a_gap():
    gap = pd.DataFrame(
        {"largest_difference": [0.0, 0.5], "alone_norm": [3.0, 4.0], "difference_norm": [0.0, 1.0]}
    )
    row = gap_summary(Case("rrr"), gap)
    assert row["largest_difference"] == 0.5 and row["relative"] == pytest.approx(0.2)
    assert (row["parameters"], row["parameters_differing"]) == (2, 1)


@EVERY
@SOURCES
def test_published_weights_stay_those_of_plain_finetuning(build_vit, sample, method, source):
    weights = BASELINE_WEIGHTS[source][method]
    model = build_vit()
    before = [p.detach().clone() for p in model.parameters()]
    steps = [sample, *sample.split(2)]
    published = weights_apart(model, steps, Case(method, "published", weights=weights), lr=1e-3)
    assert published["step"].tolist() == [0, 1, 2, 3]
    assert (published["largest_difference"] == 0.0).all()
    assert (published["moved"].diff().dropna() != 0).all()
    described = weights_apart(model, steps, Case(method, "described", weights=weights), lr=1e-3)
    assert (described["largest_difference"].iloc[1:] > 0).all()
    after = list(model.parameters())
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert all(p.grad is None for p in after)


def test_gradients_leave_the_model_alone(build_vit, sample, state_of):
    model = build_vit()
    before = state_of(model)
    found = gradients(model, total_loss(model, sample, Case("rrr", "described")))
    assert list(found) == [name for name, _ in model.named_parameters()]
    assert state_of(model) == before


@pytest.mark.parametrize(
    ("weight", "low", "high"), [(1.0, 0.9, 1.01), (1e-3, 0.9, 1.01), (1e-12, 0, 1e-2)]
)
def test_factor_of_the_loss_matters_only_near_adams_eps(build_vit, sample, weight, low, high):
    """Adam divides by the gradient's own size, until eps is larger (differences B12)."""
    model = build_vit()
    slopes = gradients(model, label_loss(model, sample, Case("gradmask")))
    size = first_step_size(model, slopes, weight=weight, lr=1e-4)
    assert low <= size <= high


@EVERY
def test_pixel_gradients_are_on_both_sides_of_the_mask(build_vit, sample, state_of, method):
    model = build_vit()
    before = state_of(model)
    maps = pixel_gradients(model, sample, method)
    assert maps.shape == sample.masks.shape and bool((maps > 0).any())
    assert state_of(model) == before and not sample.images.requires_grad
    shares = background_share_pct(maps, sample.masks)
    assert bool(((shares > 0) & (shares < 100)).all())


def test_background_share():
    maps = torch.tensor([2.0, 1.0, 1.0, 0.0]).reshape(1, 1, 2, 2)
    mask = torch.tensor([1.0, 0.0, 0.0, 0.0]).reshape(1, 1, 2, 2)
    assert background_share_pct(maps, mask).tolist() == pytest.approx([100 * 2 / 6])
    assert background_share_pct(0 * maps, mask).tolist() == [0]


def test_sample_splits_in_order(sample):
    sizes = [(len(s.images), len(s.masks), s.labels.tolist()) for s in sample.split(2)]
    assert sizes == [(2, 2, [2, 0]), (1, 1, [4])]
