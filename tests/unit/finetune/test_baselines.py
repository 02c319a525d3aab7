"""The finding: published GradMask and RRR train the cross-entropy alone, to the last bit."""

from __future__ import annotations

import pytest
import torch

from relevit.finetune.baselines import (
    Sample,
    background_share_pct,
    gradient_gap,
    pixel_gradients,
    settings_of,
    weights_apart,
)
from relevit.finetune.settings import BASELINES, paper_weights, script_weights

EVERY = pytest.mark.parametrize("method", BASELINES)
SOURCES = pytest.mark.parametrize("weights", [paper_weights, script_weights])


@pytest.fixture(scope="module")
def sample(images):
    mask = torch.zeros(len(images), 1, *images.shape[2:]).double()
    mask[..., 5:20, 3:15] = 1
    return Sample(images, mask, torch.tensor([2, 0, 4]))


@EVERY
@SOURCES
@pytest.mark.parametrize("kind", ["plain", "average"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_published_gradient_is_exactly_that_of_the_cross_entropy(
    build_vit, sample, method, weights, kind, dtype
):
    """Differences B9, B10. No tolerance: the largest difference is 0.0 on every parameter."""
    model = build_vit(kind).to(dtype)
    sample = Sample(sample.images.to(dtype), sample.masks.to(dtype), sample.labels)
    gap = gradient_gap(model, sample, settings_of(method, "published", weights=weights(method)))
    assert gap["parameter"].tolist() == [name for name, _ in model.named_parameters()]
    assert (gap["largest_difference"] == 0.0).all()
    assert (gap["difference_norm"] == 0.0).all()
    assert (gap["alone_norm"] > 0).mean() > 0.9  # it is no comparison of zeros


@EVERY
@SOURCES
@pytest.mark.parametrize("case", ["mended", "described"])
def test_gradient_differs_once_the_term_is_in_the_graph(build_vit, sample, method, weights, case):
    settings = settings_of(method, case, weights=weights(method))
    gap = gradient_gap(build_vit(), sample, settings).set_index("parameter")
    assert (gap.filter(regex=r"weight$", axis=0)["largest_difference"] > 0).all()
    # Far above rounding, which is near 1e-16; RRR's published weight is 1e-10, so it is small.
    assert gap["difference_norm"].pow(2).sum() > 1e-10 * gap["alone_norm"].pow(2).sum()


@EVERY
@SOURCES
def test_published_weights_stay_those_of_plain_finetuning(build_vit, sample, method, weights):
    model, steps = build_vit(), [sample, *sample.split(2)]
    before = [p.detach().clone() for p in model.parameters()]
    published, described = (
        weights_apart(model, steps, settings_of(method, case, weights=weights(method), lr=1e-3))
        for case in ("published", "described")
    )
    assert published["step"].tolist() == [0, 1, 2, 3]
    assert (published["largest_difference"] == 0.0).all()
    assert (published["moved"].diff().dropna() != 0).all()
    assert (described["largest_difference"].iloc[1:] > 0).all()
    for weights, after in zip(before, model.parameters(), strict=True):
        assert torch.equal(weights, after) and after.grad is None


@EVERY
def test_pixel_gradients_are_on_both_sides_of_the_mask(build_vit, sample, method):
    maps = pixel_gradients(build_vit(), sample, method)
    assert maps.shape == sample.masks.shape and bool((maps > 0).any())
    shares = background_share_pct(maps, sample.masks)
    assert bool(((shares > 0) & (shares < 100)).all())


def test_background_share():
    maps = torch.tensor([2.0, 1.0, 1.0, 0.0]).reshape(1, 1, 2, 2)
    mask = torch.tensor([1.0, 0.0, 0.0, 0.0]).reshape(1, 1, 2, 2)
    assert background_share_pct(maps, mask).tolist() == pytest.approx([100 * 2 / 6])
    assert background_share_pct(0 * maps, mask).tolist() == [0]
