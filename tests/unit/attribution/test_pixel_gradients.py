"""SmoothGrad and integrated gradients: against captum, and what each promises."""

from __future__ import annotations

from functools import partial

import captum.attr
import numpy as np
import pytest
import torch
from captum.attr import IntegratedGradients, NoiseTunnel, Saliency

from relevit.attribution import METHODS
from relevit.attribution.integrated_gradients import completeness_gap, integrated_gradients_pixels
from relevit.attribution.path import integration_path, path_baseline
from relevit.attribution.smoothgrad import noise_patterns, smoothgrad_pixels

from .. import attribution_cases
from ..attribution_cases import HALF, know_black

close = partial(attribution_cases.close, atol=1e-11)

TARGET = torch.tensor([4, 0, 2])
SINGLE = 1e-7  # captum weighs the points of a path in single precision
KINDS = ("plain", "average", "registers", "distilled")


def patch_sums(pixels):
    batch = len(pixels)
    return pixels.reshape(batch, 4, 7, 4, 7).sum(dim=(2, 4)).flatten(1)


# SmoothGrad


@pytest.fixture
def given_noise(monkeypatch, images):
    """Let captum's noise tunnel add our noise: every draw of an image, then the next image."""

    def scaled(*sizes):
        patterns = noise_patterns(images, 6, seed=3)
        span = images.amax(dim=(1, 2, 3)) - images.amin(dim=(1, 2, 3))
        return torch.stack([0.2 * s * p for s in span for p in patterns])

    noise = captum.attr._core.noise_tunnel
    monkeypatch.setattr(noise.torch, "normal", lambda *args, **kwargs: scaled(), raising=True)


@pytest.mark.parametrize("kind", KINDS)
def test_smoothgrad_agrees_with_captum(build_vit, images, given_noise, kind):
    model = build_vit(kind)
    tunnel = NoiseTunnel(Saliency(model))
    theirs = tunnel.attribute(
        images.clone(), nt_type="smoothgrad", nt_samples=6, stdevs=1.0, target=TARGET, abs=False
    )
    ours = smoothgrad_pixels(model, images, TARGET, draws=6, noise=0.2, seed=3)
    assert ours.abs().max() > 1e-3
    close(ours, theirs)
    maps = METHODS["smoothgrad"](model, images, TARGET, draws=6, noise=0.2, seed=3)
    close(maps, patch_sums(theirs.abs().sum(dim=1)) / 49)


def test_smoothgrad_without_noise_is_the_gradient(build_vit, images):
    model = build_vit()
    inputs = images.clone().requires_grad_()
    score = model(inputs).gather(1, TARGET[:, None]).sum()
    (slopes,) = torch.autograd.grad(score, inputs)
    close(smoothgrad_pixels(model, images, TARGET, draws=2, noise=0.0), slopes)


def test_smoothgrad_scales_its_noise_with_the_image(build_vit, images):
    """A linear model of the rescaled image has the rescaled noise: the same map, scaled."""
    model = build_vit()
    weight = model.patch_embed.proj.weight
    own = smoothgrad_pixels(model, images, TARGET)
    with torch.no_grad():
        weight /= 4
    close(smoothgrad_pixels(model, 4 * images, TARGET), own / 4, 1e-9)


def test_smoothgrad_depends_on_the_seed_alone(build_vit, images):
    model = build_vit()
    first = METHODS["smoothgrad"](model, images, seed=1)
    torch.manual_seed(5)
    state = torch.get_rng_state()
    assert torch.equal(METHODS["smoothgrad"](model, images, seed=1), first)
    assert torch.equal(torch.get_rng_state(), state), "the global generator was used"
    assert (METHODS["smoothgrad"](model, images, seed=2) - first).abs().max() > 1e-6
    assert (first >= 0).all()


@pytest.mark.parametrize("options", [{"draws": 0}, {"noise": -0.1}])
def test_smoothgrad_refuses(build_vit, images, options):
    with pytest.raises(ValueError, match=r"smoothgrad: draws \d+, noise .*20 and 0.15 are the us"):
        METHODS["smoothgrad"](build_vit(), images, **options)


@pytest.mark.parametrize("name", ["smoothgrad", "integrated_gradients"])
def test_fused_attention_stays_on_and_chunks_bound_the_batch(build_vit, images, name):
    model, seen = build_vit(), []

    def note(module, args):
        if torch.is_grad_enabled():
            seen.append((len(args[0]), model.blocks[0].attn.fused_attn, args[0].requires_grad))

    model.register_forward_pre_hook(note)
    before = model.blocks[0].attn.fused_attn
    METHODS[name](model, images, chunk=8)  # 60 copies
    assert seen == [(8, before, True)] * 7 + [(4, before, True)]


# Integrated gradients


@pytest.mark.parametrize("kind", KINDS)
def test_integrated_gradients_agree_with_captum(build_vit, images, kind):
    model = know_black(build_vit(kind))
    black = -torch.ones_like(images)
    theirs = IntegratedGradients(model).attribute(
        images, black, target=TARGET, n_steps=7, method="gausslegendre"
    )
    ours = integrated_gradients_pixels(
        model, images, TARGET, protocol="described", steps=7, rule="gauss"
    )
    assert ours.abs().max() > 1e-3
    close(ours, theirs, SINGLE, atol=SINGLE)
    maps = METHODS["integrated_gradients"](
        model, images, TARGET, protocol="described", steps=7, rule="gauss"
    )
    close(maps, patch_sums(theirs.sum(dim=1)), SINGLE, atol=SINGLE)


def test_integrated_gradients_point_by_point(build_vit, images):
    model = build_vit()
    slopes = torch.zeros_like(images)
    for k in range(5):
        inputs = (k / 4 * images).requires_grad_()
        score = model(inputs).gather(1, TARGET[:, None]).sum()
        slopes += torch.autograd.grad(score, inputs)[0] / 5
    close(integrated_gradients_pixels(model, images, TARGET, steps=5), images * slopes)


def test_completeness(build_vit, images):
    """Patches sum to the change of the logit; the gap shrinks with the steps."""
    model = know_black(build_vit())
    options = {"protocol": "described", "steps": 60}
    maps = METHODS["integrated_gradients"](model, images, TARGET, **options)
    with torch.no_grad():
        after = model(images).gather(1, TARGET[:, None])[:, 0]
        change = after - model(-torch.ones_like(images)).gather(1, TARGET[:, None])[:, 0]
    gap = completeness_gap(model, images, TARGET, **options)
    close(gap, maps.sum(dim=1) - change, 1e-9)
    assert change.abs().min() > 0.1
    coarse = completeness_gap(model, images, TARGET, protocol="described", steps=3)
    assert (gap.abs() < 1e-3 * change.abs()).all() and (gap.abs() < coarse.abs() / 10).all()


def test_completeness_with_a_given_baseline(build_vit, images):
    model = know_black(build_vit())
    baseline = torch.tensor([0.2, -0.4, 0.6]).view(3, 1, 1)
    options = {"steps": 60, "baseline": baseline, "protocol": "described"}
    assert completeness_gap(model, images, **options).abs().max() < 1e-3
    predicted = model(images).argmax(dim=1)
    close(
        completeness_gap(model, images, **options),
        completeness_gap(model, images, predicted, **options),
    )


def test_completeness_of_the_published_path(build_vit, images):
    gap = completeness_gap(build_vit(), images, TARGET)
    assert gap.shape == (3,) and gap.isfinite().all() and not gap.requires_grad


def test_patches_of_a_grid_that_is_no_square(build_vit):
    """Two rows of three patches: only the last one's pixels differ from the baseline."""
    model = build_vit(img_size=(14, 21))
    model.pretrained_cfg = HALF
    image = torch.zeros(1, 3, 14, 21).double()
    image[:, :, 7:, 14:] = 1
    found = METHODS["integrated_gradients"](model, image)
    assert found.shape == (1, 6)
    assert found[0, :5].abs().max() == 0 and found[0, 5].abs() > 1e-6


# The path


@pytest.mark.parametrize("points", [1, 2, 6, 20])
def test_gauss_integrates_polynomials_exactly(points):
    path = integration_path("described", points, "gauss")
    assert len(path.points) == points and sum(path.weights) == pytest.approx(1, abs=1e-14)
    for degree in range(2 * points):
        found = np.dot(np.power(path.points, degree), path.weights)
        assert found == pytest.approx(1 / (degree + 1), rel=1e-12)
    missed = np.dot(np.power(path.points, 2 * points), path.weights)
    if points < 10:  # beyond, the miss is below rounding
        assert abs(missed - 1 / (2 * points + 1)) > 1e-9


def test_published_path_has_both_ends():
    path = integration_path("published")
    assert path.points == np.linspace(0, 1, 20).tolist() and path.weights == [1 / 20] * 20


def test_described_path_is_the_trapezoid_with_the_image_at_its_end():
    path = integration_path("described")
    assert path.points == np.linspace(0, 1, 7).tolist()
    assert path.weights == pytest.approx([1 / 12, *[1 / 6] * 5, 1 / 12])
    cubes = [0.0, 1.0, 8.0, 27.0, 64.0, 125.0, 216.0]  # of (6 x): the integral of x^3 is 1/4
    found = np.dot(cubes, path.weights) / 216
    assert found == pytest.approx(np.trapezoid(np.array(cubes) / 216, dx=1 / 6))


@pytest.mark.parametrize("name", ["lrp", "smoothgrad", "integrated_gradients"])
def test_tokens_of_other_things_than_pixels_are_an_error(build_vit, images, name):
    """As in timm's hybrids, whose patches are those of a convolutional network's features."""
    model = build_vit()
    model.pretrained_cfg = HALF
    model.patch_embed.backbone = torch.nn.Identity()
    with pytest.raises(ValueError, match=r"patches: this VisionTransformer does not make its tok"):
        METHODS[name](model, images)


@pytest.mark.wrong_types
def test_unknown_rule_is_an_error():
    with pytest.raises(ValueError, match=r"rule 'simpson' is unknown; use one of .*'trapezoid'"):
        integration_path("described", rule="simpson")
    with pytest.raises(ValueError, match="steps 1: the path integral needs at least 2"):
        integration_path("described", 1)


def test_baseline(build_vit, images):
    model = build_vit()
    assert path_baseline(model, images, "published").eq(0).all()
    model.pretrained_cfg = HALF
    close(path_baseline(model, images, "described"), -torch.ones(3, 1, 1).double())
    given = torch.full((3, 1, 1), 0.7)
    for protocol in ("published", "described"):
        assert path_baseline(model, images, protocol, given).dtype == images.dtype
        close(path_baseline(model, images, protocol, given), given.double())
