"""Raw attention, rollout, GA and GradCAM: attributions whose value can be written down."""

from __future__ import annotations

import pytest
import torch

from relevit.attribution import METHODS
from relevit.maps import observe, record_attention
from relevit.text.encoder import build_tiny
from relevit.text.token_maps import attribute
from relevit.text.tokens import Tokens

from ..attribution_cases import close, read


@pytest.mark.parametrize("kind", ["plain", "average", "registers"])
def test_described_rollout_is_the_product_of_the_maps_and_raw_attention_the_last(
    build_vit, images, kind
):
    """Published values of both are golden."""
    model = build_vit(kind, depth=3)
    with torch.no_grad(), record_attention(model) as tape:
        model(images)
    maps = [attention.mean(dim=1) for attention in tape.maps]
    product = unit = torch.eye(maps[0].shape[1]).double().expand(3, -1, -1)
    for attention in maps[1:]:
        product = (attention + unit) @ product
    found = METHODS["rollout"](model, images, protocol="described", start_block=2)
    close(found, read(product, model))
    close(METHODS["raw_attention"](model, images, protocol="described"), read(maps[-1], model))


# Texts: as each family's published code has it, by hand from maps and gradients

IDS = torch.tensor([[1, 5, 6, 7, 2], [1, 9, 8, 5, 2]])


@pytest.mark.parametrize("family", ["bert", "clip"])
def test_ga_of_text_and_clip_is_the_last_block_clamped_first(build_vit, images, family):
    """Their scripts clamp before the mean over heads (differences C1, D8, D11)."""
    model = build_vit("plain", depth=3)
    seen = observe(model, images, gradients="all")
    product = seen.maps[-1] * seen.gradients[-1]
    as_vit, wanted = product.mean(dim=1).clamp(min=0), product.clamp(min=0).mean(dim=1)
    close(METHODS["ga"](model, images, start_block=3), as_vit[:, 0, 1:])
    model.family = family
    close(METHODS["ga"](model, images), wanted[:, 0, 1:])
    assert not torch.allclose(wanted, as_vit)


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
    cam = (torch.einsum("bh,bhqk->bqk", slopes.mean(dim=(2, 3)), maps) / 2).clamp(min=0)
    if protocol == "published":
        low, high = (end(cam, dim=(1, 2), keepdim=True) for end in (torch.amin, torch.amax))
        cam = (cam - low) / (high - low)
    found = METHODS["gradcam"](model, embedded, target, protocol=protocol)
    torch.testing.assert_close(found, cam[:, 0, 1 if whole else 0 :], equal_nan=True)


def test_a_constant_map_of_a_text_is_zero():
    flat = build_tiny(12, 2, width=8, heads=2, seed=3)
    flat.head.weight.data.zero_()  # no class has a slope
    text = Tokens("", tuple(IDS[0].tolist()), ((0, 0),) * 5, (True, *[False] * 3, True))
    assert attribute(flat, [text], "gradcam", protocol="published")[0].tolist() == [0] * 5
