"""Raw attention, rollout, GA and GradCAM: attributions whose value can be written down."""

from __future__ import annotations

import pytest
import torch

from relevit.attention.recording import record_attention
from relevit.attribution import METHODS
from relevit.attribution.attention_methods import scaled_to_one
from relevit.attribution.seen import observe
from relevit.text.encoder import build_tiny
from relevit.text.token_maps import attribute
from relevit.text.tokens import Tokens

from ..attribution_cases import close, read


def attention_maps(model, images):
    with torch.no_grad(), record_attention(model) as tape:
        model(images)
    return tape.maps


def average_maps(model, images):
    return [attention.mean(dim=1) for attention in attention_maps(model, images)]


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


@pytest.mark.parametrize("kind", ["plain", "average"])
def test_raw_attention_is_the_last_map(build_vit, images, kind):
    model = build_vit(kind)
    last = average_maps(model, images)[-1]
    described = METHODS["raw_attention"](model, images, protocol="described")
    close(described, read(last, model))
    published = METHODS["raw_attention"](model, images)
    by_query = last[:, 1:, 1:].mean(dim=2)
    close(published, scaled_to_one(by_query if kind == "average" else described), 1e-9)


# GradCAM as each family's published code has it, by hand from maps and gradients


IDS = torch.tensor([[1, 5, 6, 7, 2], [1, 9, 8, 5, 2]])


@pytest.mark.parametrize(
    ("family", "protocol"), [("bert", "published"), ("bert", "described"), ("clip", "published")]
)
def test_gradcam_of_texts(family, protocol):
    """Published BERT counts the class token and scales the whole map (differences F3)."""
    model, target = build_tiny(12, 2, width=8, heads=2, seed=3).double(), torch.ones(2).long()
    model.family = family
    embedded = model.embed(IDS).detach()
    seen = observe(model, embedded, target, gradients="last")
    whole = (family, protocol) == ("bert", "published")
    maps, slopes = seen.maps[-1], seen.gradients[-1]
    if not whole:
        maps, slopes = (matrix[:, :, :1, 1:] for matrix in (maps, slopes))
    weights = slopes.mean(dim=(2, 3))
    cam = (torch.einsum("bh,bhqk->bqk", weights, maps) / 2).clamp(min=0)
    if protocol == "published":
        low, high = (end(cam, dim=(1, 2), keepdim=True) for end in (torch.amin, torch.amax))
        cam = (cam - low) / (high - low)
    found = METHODS["gradcam"](model, embedded, target, protocol=protocol)
    torch.testing.assert_close(found, cam[:, 0, 1 if whole else 0 :], equal_nan=True)


def test_a_constant_map_of_a_text_is_zero():
    flat = build_tiny(12, 2, width=8, heads=2, seed=3)
    flat.head.weight.data.zero_()  # no class has a slope
    special = (True, *[False] * 3, True)
    texts = [Tokens("", tuple(ids), ((0, 0),) * 5, special) for ids in IDS.tolist()]
    for values in attribute(flat, texts, "gradcam", protocol="published"):
        assert values.tolist() == [0] * 5
