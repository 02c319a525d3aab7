"""SmoothGrad and integrated gradients: against captum, and what each promises."""

from __future__ import annotations

from functools import partial

import captum.attr
import numpy as np
import pytest
import torch
from captum.attr import IntegratedGradients, NoiseTunnel, Saliency

from relevit.attribution import METHODS
from relevit.attribution.path import integration_path
from relevit.attribution.pixels import (
    integrated_gradients_pixels,
    noise_patterns,
    smoothgrad_pixels,
)

from .. import attribution_cases
from ..attribution_cases import PIXELS, TARGET

close = partial(attribution_cases.close, atol=1e-11)

SINGLE = 1e-7  # captum weighs the points of a path in single precision
KINDS = ("plain", "average", "registers", "distilled")


def patch_sums(pixels):
    return pixels.reshape(len(pixels), 4, 7, 4, 7).sum(dim=(2, 4)).flatten(1)


# SmoothGrad


@pytest.mark.parametrize("kind", KINDS)
def test_smoothgrad_agrees_with_captum(build_vit, images, monkeypatch, kind):
    """captum's noise tunnel adds our noise: every draw of an image, then the next image."""
    span = images.amax(dim=(1, 2, 3)) - images.amin(dim=(1, 2, 3))
    noise = [0.2 * s * p for s in span for p in noise_patterns(images, 6, seed=3)]
    tunnels = captum.attr._core.noise_tunnel
    monkeypatch.setattr(tunnels.torch, "normal", lambda *args, **named: torch.stack(noise))
    model = build_vit(kind)
    theirs = NoiseTunnel(Saliency(model)).attribute(
        images.clone(), nt_type="smoothgrad", nt_samples=6, stdevs=1.0, target=TARGET, abs=False
    )
    options = {"draws": 6, "noise": 0.2, "seed": 3}
    assert theirs.abs().max() > 1e-3
    close(smoothgrad_pixels(model, images, TARGET, **options), theirs)
    maps = METHODS["smoothgrad"](model, images, TARGET, **options)
    close(maps, patch_sums(theirs.abs().sum(dim=1)) / 49)


def test_smoothgrad_depends_on_the_seed_alone(build_vit, images):
    model = build_vit()
    first = METHODS["smoothgrad"](model, images, seed=1)
    torch.manual_seed(5)
    state = torch.get_rng_state()
    assert torch.equal(METHODS["smoothgrad"](model, images, seed=1), first)
    assert torch.equal(torch.get_rng_state(), state), "the global generator was used"
    assert (METHODS["smoothgrad"](model, images, seed=2) - first).abs().max() > 1e-6
    assert (first >= 0).all()


# Integrated gradients


@pytest.mark.parametrize("kind", KINDS)
def test_integrated_gradients_agree_with_captum(build_vit, images, kind):
    model = build_vit(kind)
    theirs = IntegratedGradients(model).attribute(
        images, -torch.ones_like(images), target=TARGET, n_steps=7, method="gausslegendre"
    )
    options = {"steps": 7, "rule": "gauss"}
    assert theirs.abs().max() > 1e-3
    ours = integrated_gradients_pixels(model, images, TARGET, **options)
    close(ours, theirs, SINGLE, atol=SINGLE)
    maps = METHODS["integrated_gradients"](model, images, TARGET, protocol="described", **options)
    close(maps, patch_sums(theirs.sum(dim=1)), SINGLE, atol=SINGLE)


def test_published_integrated_gradients_point_by_point(build_vit, images):
    model, slopes = build_vit(), 0
    for k in range(5):
        inputs = (k / 4 * images).requires_grad_()
        slopes = slopes + torch.autograd.grad(model(inputs)[range(3), TARGET].sum(), inputs)[0] / 5
    pixels = images * slopes
    ours = METHODS["integrated_gradients"](model, images, TARGET, steps=5)
    close(ours, patch_sums(pixels.sum(dim=1)))


@pytest.mark.parametrize("baseline", [None, torch.tensor([0.2, -0.4, 0.6]).view(3, 1, 1)])
def test_completeness(build_vit, images, baseline):
    """Patches sum to the change of the logit; the gap shrinks with the steps."""
    model = build_vit()
    options = {"protocol": "described"} | ({} if baseline is None else {"baseline": baseline})
    start = torch.full_like(images, -1) if baseline is None else baseline.expand_as(images)
    with torch.no_grad():
        after, before = (model(inputs)[range(3), TARGET] for inputs in (images, start.double()))
    fine, coarse = (
        METHODS["integrated_gradients"](model, images, TARGET, steps=steps, **options).sum(dim=1)
        - (after - before)
        for steps in (60, 3)
    )
    assert (fine.abs() < 1e-3).all() and (fine.abs() < coarse.abs() / 10).all()


# The path


@pytest.mark.parametrize("points", [1, 2, 6, 20])
def test_gauss_integrates_polynomials_exactly(points):
    path = integration_path(points, "gauss")
    degrees = np.arange(2 * points + 1)
    *found, missed = np.power.outer(path.points, degrees).T @ path.weights
    assert len(path.points) == points and found == pytest.approx(1 / (degrees[:-1] + 1), rel=1e-12)
    if points < 10:  # beyond, the miss is below rounding
        assert abs(missed - 1 / (2 * points + 1)) > 1e-9


def test_other_paths():
    path = integration_path(20, "riemann")
    assert path.points == np.linspace(0, 1, 20).tolist() and path.weights == [1 / 20] * 20
    path = integration_path(7, "trapezoid")
    assert path.points == np.linspace(0, 1, 7).tolist()
    assert path.weights == pytest.approx([1 / 12, *[1 / 6] * 5, 1 / 12])


# Doors


@pytest.mark.parametrize("name", [*PIXELS, "lrp"])
def test_tokens_of_other_things_than_pixels_are_refused(build_vit, images, name):
    """As in timm's hybrids, whose patches are those of a convolutional network's features."""
    model = build_vit()
    model.patch_embed.backbone = torch.nn.Identity()
    with pytest.raises(ValueError, match=r"patches: this VisionTransformer does not make its tok"):
        METHODS[name](model, images)
