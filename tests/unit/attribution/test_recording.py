"""Recorded attention is the model's own, the model is left as it was, and failures are loud."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from timm.layers import Attention, DiffAttention
from torch import nn

from relevit.attribution import METHODS
from relevit.maps import attention_for_gradients, frozen_weights, record_attention

from ..conftest import KINDS


class Foreign(nn.Module):
    """timm's under another name."""

    forward, _compute_lambda = DiffAttention.forward, DiffAttention._compute_lambda


def tokens_by_block(model, images):
    """Input of every block, computed block by block without hooks."""
    tokens = model.norm_pre(model._pos_embed(model.patch_embed(images)))
    found = []
    for block in model.blocks:
        found.append(tokens)
        tokens = block(tokens)
    return found


def attention_by_hand(block, tokens):
    """softmax(q k^T / sqrt(width))."""
    layer = block.attn
    query, key, _ = (
        part.unflatten(2, (layer.num_heads, -1)).transpose(1, 2)
        for part in layer.qkv(block.norm1(tokens)).chunk(3, dim=2)
    )
    scores = layer.q_norm(query) @ layer.k_norm(key).transpose(2, 3) / layer.head_dim**0.5
    return scores.exp() / scores.exp().sum(-1, keepdim=True)


# What is recorded


@pytest.mark.parametrize("kind", KINDS)
def test_maps_and_inputs_equal_a_computation_by_hand(build_vit, images, kind):
    model = build_vit(kind)
    with torch.no_grad():
        with record_attention(model) as tape:
            model(images)
        tokens = tokens_by_block(model, images)
        by_hand = [attention_by_hand(*pair) for pair in zip(model.blocks, tokens, strict=True)]
    torch.testing.assert_close(tape.maps, by_hand, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(tape.inputs, tokens, rtol=1e-12, atol=1e-14)
    assert min(attention.std() for attention in by_hand) > 0.01, "too flat to tell anything"


def test_differential_attention_is_refused(build_vit, images):
    """By its layers' type; where that is not timm's, by its maps, which are not one a head."""
    model = build_vit(attn_layer="diff")
    told = "record_attention: VisionTransformer has differential attention.*use a timm"
    with pytest.raises(ValueError, match=told), record_attention(model):
        pass
    for block in model.blocks:
        foreign = Foreign()
        vars(foreign).update(vars(block.attn))
        block.attn = foreign
    with pytest.raises(ValueError, match=r"block 0 made a map of shape \(1, 4, 17, 17\), not \[ba"):
        METHODS["gae"](model, images)


def test_maps_get_gradients_with_frozen_weights(build_vit, images):
    model = build_vit()
    with record_attention(model) as tape:
        score = model(images).sum()
    expected = torch.autograd.grad(score, tape.maps)
    with frozen_weights(model), record_attention(model) as tape:
        score = model(images).sum()
    assert tape.maps[0].is_leaf, "the backward pass should stop at the first map"
    found = torch.autograd.grad(score, tape.maps)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)


# The model is left as it was


class SilentAttention(Attention):
    """Always fused, whatever the switch says, so that no map can be recorded."""

    def forward(self, x, attn_mask=None, is_causal=False):
        batch, tokens, _ = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, self.num_heads, self.head_dim)
        mixed = nn.functional.scaled_dot_product_attention(*qkv.permute(2, 0, 3, 1, 4))
        return self.proj(mixed.transpose(1, 2).reshape(batch, tokens, -1))


def silence(model, block):
    """Replace one block's attention by one that keeps no map."""
    silent = SilentAttention(16, num_heads=2, qkv_bias=True).double()
    silent.load_state_dict(model.blocks[block].attn.state_dict())
    model.blocks[block].attn = silent


def mixed_state(model, training=True):
    """Modes, switches and frozen weights that have to come back one by one."""
    model.train(training)
    model.blocks[0].eval()
    model.blocks[0].attn.fused_attn = False
    model.cls_token.requires_grad_(False)
    return model


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    ("case", "told"),
    [
        ("no forward", "record_attention: 0 of 2 blocks.*inside the context"),
        ("silent block", r"1 of 2 blocks.*not fused"),
        ("silent twice", r"1 of 2 blocks.*not fused"),
    ],
)
def test_model_is_as_before_a_failure(build_vit, images, state_of, case, told, training):
    """Fused attention passes the hook by; two half-recorded passes are not a whole one."""
    model = mixed_state(build_vit(), training)
    if case.startswith("silent"):
        silence(model, 1)
    before = state_of(model)
    with pytest.raises(RuntimeError, match=told), record_attention(model):  # noqa: PT012
        for _ in range({"no forward": 0, "silent twice": 2}.get(case, 1)):
            model(images)
    assert state_of(model) == before


@pytest.mark.parametrize("look", ["gae", "lrp", None])
def test_another_thread_is_asked_to_take_a_copy(build_vit, images, state_of, look):
    model, other = build_vit(), ThreadPoolExecutor(1)
    before, own = state_of(model), METHODS["gae"](model, images)

    def found(of):
        if look is not None:
            return METHODS[look](of, images)
        with record_attention(of):
            return of(images)

    with record_attention(model):
        assert torch.equal(METHODS["gae"](model, images), own), "of one thread they may be nested"
        with pytest.raises(RuntimeError, match=r"another thread .* Vis.*: copy\.deepcopy\(model\)"):
            other.submit(found, model).result()
        assert torch.equal(other.submit(found, copy.deepcopy(build_vit())).result(), found(model))
        model(images)
    assert state_of(model) == before and "_watched_by" not in vars(model)


@pytest.mark.parametrize("mixed", [True, False])
def test_attention_for_gradients_is_unfused_in_mixed_precision_alone(build_vit, images, mixed):
    """A processor's fused kernel is slow there, backwards."""
    model = build_vit().float()
    fused = [block.attn.fused_attn for block in model.blocks]
    assert all(fused)
    with torch.autocast("cpu", torch.bfloat16, enabled=mixed), attention_for_gradients(model):
        assert [block.attn.fused_attn for block in model.blocks] == [not mixed for _ in fused]
        model(images.float()).sum().backward()
    assert [block.attn.fused_attn for block in model.blocks] == fused
