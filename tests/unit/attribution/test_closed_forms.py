"""Attributions whose value can be written down."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from relevit.attention.recording import record_attention
from relevit.attribution import METHODS
from relevit.attribution.beyond_intuition import express
from relevit.attribution.lrp import from_head, through_blocks
from relevit.attribution.observe import first_block, observe, scaled_to_one
from relevit.attribution.path import integration_path, path_baseline

from ..attribution_cases import HALF, OURS, know_black


def close(ours, theirs, tolerance=1e-12):
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=1e-14)


def attention_maps(model, images):
    with torch.no_grad(), record_attention(model) as tape:
        model(images)
    return tape.maps


def average_maps(model, images):
    return [attention.mean(dim=1) for attention in attention_maps(model, images)]


def read(matrix, model):
    """The row that the head reads, over the patches; the mean of the patches' rows without one."""
    prefix = model.num_prefix_tokens
    if model.global_pool == "avg":
        return matrix[:, prefix:, prefix:].mean(dim=1)
    return matrix[:, 0, prefix:]


# Rollout and raw attention


@pytest.mark.parametrize("start", [1, 2, 3])
@pytest.mark.parametrize("kind", ["plain", "average", "registers"])
def test_rollout_is_the_product_of_the_maps(build_vit, images, kind, start):
    model = build_vit(kind, depth=3)
    unit = torch.eye(model.pos_embed.shape[1]).double()
    steps = [a + unit for a in average_maps(model, images)[start - 1 :]]
    product = described = unit.expand(3, -1, -1)
    for step in steps:
        product = (step / step.sum(dim=-1, keepdim=True)) @ product
        described = step @ described
    options = {"start_block": start}
    close(METHODS["rollout"](model, images, **options), read(product, model))
    ours = METHODS["rollout"](model, images, protocol="described", **options)
    close(ours, read(described, model))


@pytest.mark.parametrize("family", ["bert", "clip"])
def test_ga_of_text_and_clip_is_the_last_block_clamped_first(build_vit, images, family):
    """Their scripts clamp before the mean over heads (differences C1, D8, D11)."""
    model = build_vit("plain", depth=3)
    seen = observe(model, images, gradients="all")
    product = seen.maps[-1] * seen.gradients[-1]
    as_vit = METHODS["ga"](model, images, start_block=3)
    close(as_vit, product.mean(dim=1).clamp(min=0)[:, 0, model.num_prefix_tokens :])
    model.family = family
    ours = METHODS["ga"](model, images)
    close(ours, product.clamp(min=0).mean(dim=1)[:, 0, model.num_prefix_tokens :])
    assert not torch.allclose(ours, as_vit)


def test_rollout_starts_at_the_second_block_as_published(build_vit, images):
    model = build_vit(depth=12)
    second = METHODS["rollout"](model, images, start_block=2)
    close(METHODS["rollout"](model, images), second)


@pytest.mark.parametrize("kind", ["plain", "average", "distilled"])
def test_raw_attention_is_the_last_map(build_vit, images, kind):
    model = build_vit(kind)
    last = average_maps(model, images)[-1]
    described = METHODS["raw_attention"](model, images, protocol="described")
    close(described, read(last, model))
    published = METHODS["raw_attention"](model, images)
    by_query = last[:, 1:, 1:].mean(dim=2)
    close(published, scaled_to_one(by_query if kind == "average" else described), 1e-9)


@pytest.mark.parametrize(
    ("depth", "method", "start"),
    [
        (12, "token_wise", 7),
        (24, "token_wise", 7),
        (2, "token_wise", 2),
        (2, "head_wise", 1),
        (6, "head_wise", 2),
        (12, "ga", 2),
        (12, "avg_attention", 1),
    ],
)
def test_published_start_on_shallow_models(build_vit, depth, method, start):
    model = build_vit(depth=depth, embed_dim=2, num_heads=1)
    assert first_block(model, None, "published", method) == start
    assert first_block(model, None, "described", method) == 1


# Beyond Intuition


def logit_gradients(model, image, label):
    """Every block's attention map of one image and the gradient of a logit, as full matrices."""
    with torch.enable_grad(), record_attention(model) as tape:
        score = model(image[None])[0, label]
    return [m[0].detach() for m in tape.maps], [
        g[0] for g in torch.autograd.grad(score, tape.maps, retain_graph=True)
    ]


def perception_by_the_book(name, model, image, label):
    """(I + A_L) ... (I + A_1) as full matrices, heads or tokens weighed as Eq. 14 and 15 say."""
    tokens = []
    handles = [
        b.register_forward_pre_hook(lambda _, args: tokens.append(args[0][0])) for b in model.blocks
    ]
    maps, gradients = logit_gradients(model, image, label)
    for handle in handles:
        handle.remove()
    product = unit = torch.eye(maps[0].shape[-1]).double()
    for block, z, attention, slope in zip(model.blocks, tokens, maps, gradients, strict=True):
        if name == "head_wise":
            importance = (attention * slope).sum(dim=(1, 2)).abs()
            heads = zip(importance / importance.sum(), attention, strict=True)
            step = sum(weight * head for weight, head in heads)
        else:
            moved = z @ block.attn.qkv.weight[2 * model.embed_dim :].T @ block.attn.proj.weight.T
            step = attention.mean(dim=0) * (moved.norm(dim=1) / z.norm(dim=1))
        product = (unit + step) @ product
    return product


@pytest.mark.parametrize("kind", ["plain", "average", "registers"])
@pytest.mark.parametrize("name", OURS)
def test_described_method_is_the_papers_formula(build_vit, images, name, kind):
    """T = P * F_c, F_c the mean over the path from black of the last map's gradient."""
    model = know_black(build_vit(kind, depth=3))
    target, rows = torch.tensor([4, 0, 2]), []
    points, weights = np.polynomial.legendre.leggauss(4)
    for image, label in zip(images, target, strict=True):
        feedback = sum(
            weight / 2 * logit_gradients(model, (p + 1) / 2 * (image + 1) - 1, label)[1][-1]
            for p, weight in zip(points, weights, strict=True)
        )
        product = perception_by_the_book(name, model, image, label)
        rows.append(product * feedback.clamp(min=0).mean(dim=0))
    expected = read(torch.stack(rows), model)
    ours = METHODS[name](model, images, target, protocol="described", steps=4, rule="gauss")
    assert expected.std() > 1e-6
    close(ours, expected.detach(), 1e-9)


@pytest.mark.parametrize("kind", ["plain", "average"])
def test_head_wise_with_equal_heads_is_the_average_attention(build_vit, images, kind):
    """Heads made equal are equally important: their share is that of the plain mean."""
    model = build_vit(kind)
    half = model.embed_dim // 2
    with torch.no_grad():
        for block in model.blocks:
            for part in range(3):
                for weights in (block.attn.qkv.weight, block.attn.qkv.bias):
                    first = slice(2 * part * half, (2 * part + 1) * half)
                    second = slice((2 * part + 1) * half, (2 * part + 2) * half)
                    weights[second] = weights[first]
            block.attn.proj.weight[:, half:] = block.attn.proj.weight[:, :half]
    for protocol in ("published", "described"):
        options = dict(protocol=protocol, feedback="gradient", start_block=1)
        ours = express(model, images, perception="head_wise", **options)
        plain = express(model, images, perception="avg_attention", **options)
        close(ours, plain)
        other = express(build_vit(kind), images, perception="head_wise", **options)
        assert (other - plain).abs().max() > 1e-9


def test_token_wise_with_equal_gains_is_the_average_attention(build_vit, images):
    """Values that are the tokens themselves all have gain 1."""
    model = build_vit()
    with torch.no_grad():
        for block in model.blocks:
            block.attn.qkv.weight[2 * model.embed_dim :] = torch.eye(model.embed_dim)
            block.attn.proj.weight.copy_(torch.eye(model.embed_dim))
    options = dict(protocol="described", feedback="gradient")
    ours = express(model, images, perception="token_wise", **options)
    close(ours, express(model, images, perception="avg_attention", **options))


def test_perception_alone_is_rollout(build_vit, images):
    model = build_vit(depth=4)
    options = dict(protocol="described", start_block=2)
    ours = express(model, images, perception="avg_attention", feedback="none", **options)
    close(ours, METHODS["rollout"](model, images, **options))


def test_last_attention_times_gradient_is_one_gae_step(build_vit, images):
    """With a single head the product A * grad A and the product of their means are the same."""
    model = build_vit(num_heads=1, depth=1)
    ours = express(
        model, images, perception="last_attention", feedback="gradient", protocol="described"
    )
    close(ours, METHODS["gae"](model, images))


# Layer-wise relevance propagation: nothing is lost


@pytest.mark.parametrize(
    "kind", ["plain", "average", "registers", "distilled", "layer_scale", "scale_norm"]
)
def test_relevance_sums_to_one_after_every_block(build_vit, images, kind):
    model = build_vit(kind, depth=3)
    with torch.no_grad():
        seen = observe(model, images, torch.tensor([0, 3, 1]), whole=True)
        relevance = from_head(model, seen, "described")
        one = torch.ones(3).double()
        close(relevance.sum(dim=(1, 2)), one, 1e-6)
        for found in through_blocks(model, seen, relevance):
            close(found.tokens.sum(dim=(1, 2)), one, 1e-6)
            # Half of a product's relevance goes to the map, by the mixing of the values.
            assert found.attention.sum(dim=(1, 2, 3)).abs().max() < 1


def test_published_average_pooling_hands_on_too_much(build_vit, images):
    model = build_vit("average")
    seen = observe(model, images, whole=True)
    with torch.no_grad():
        relevance = from_head(model, seen, "published")
    close(relevance.sum(dim=(1, 2)), torch.full((3,), 16.0).double(), 1e-6)


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
