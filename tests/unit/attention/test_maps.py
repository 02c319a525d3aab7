"""Recorded attention is the model's own, with the full last block and with its short form."""

from __future__ import annotations

import pytest
import torch

from relevit.attention.class_token import reads_class_token_only
from relevit.attention.recording import frozen_weights, record_attention

ALL_KINDS = (
    "plain",
    "layer_scale",
    "qk_norm",
    "scale_norm",
    "registers",
    "no_qkv_bias",
    "average",
    "average_and_registers",
    "distilled",
)
CLASS_TOKEN_KINDS = ("plain", "layer_scale", "qk_norm", "scale_norm", "registers", "no_qkv_bias")


def tokens_by_block(model, images):
    """Input of every block, computed block by block without hooks."""
    tokens = model.norm_pre(model._pos_embed(model.patch_embed(images)))
    found = []
    for block in model.blocks:
        found.append(tokens)
        tokens = block(tokens)
    return found


def attention_by_hand(block, tokens):
    """softmax(q k^T / sqrt(width)) and v, from slices of the weights."""
    attention = block.attn
    width = attention.num_heads * attention.head_dim
    bias = attention.qkv.bias
    parts = []
    for i in range(3):
        rows = slice(i * width, (i + 1) * width)
        part = block.norm1(tokens) @ attention.qkv.weight[rows].T
        part = part if bias is None else part + bias[rows]
        heads = [
            part[..., h * attention.head_dim : (h + 1) * attention.head_dim]
            for h in range(attention.num_heads)
        ]
        parts.append(torch.stack(heads, dim=1))
    query, key, value = attention.q_norm(parts[0]), attention.k_norm(parts[1]), parts[2]
    scores = torch.einsum("bhid,bhjd->bhij", query, key) / attention.head_dim**0.5
    exponents = scores.exp()
    return exponents / exponents.sum(-1, keepdim=True), value


# What is recorded


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_maps_inputs_and_values_equal_a_computation_by_hand(build_vit, images, kind):
    model = build_vit(kind)
    with torch.no_grad():
        with record_attention(model, inputs=True, values=True) as tape:
            model(images)
        tokens = tokens_by_block(model, images)
        by_hand = [attention_by_hand(*pair) for pair in zip(model.blocks, tokens, strict=True)]
    count = 16 + model.num_prefix_tokens
    assert [tuple(m.shape) for m in tape.maps] == 2 * [(3, 2, count, count)]
    assert [tuple(x.shape) for x in tape.inputs] == 2 * [(3, count, 16)]
    assert [tuple(v.shape) for v in tape.values] == 2 * [(3, 2, count, 8)]
    for i, (attention, value) in enumerate(by_hand):
        torch.testing.assert_close(tape.maps[i], attention, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(tape.inputs[i], tokens[i], rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(tape.values[i], value, rtol=1e-12, atol=1e-13)
        assert attention.std(dim=-1).max() > 0.01, "the map is too flat to tell anything"


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_rows_sum_to_one(build_vit, images, kind):
    with record_attention(model := build_vit(kind), class_row=True) as tape:
        model(images)
    for attention in tape.maps:
        sums = attention.sum(dim=-1)
        torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=1e-14)
        assert attention.min() >= 0


def test_inputs_and_values_only_on_request(build_vit, images):
    with record_attention(model := build_vit()) as tape:
        model(images)
    assert len(tape.maps) == 2 and tape.inputs == [] and tape.values == []


def test_recording_does_not_change_the_logits(build_vit, images):
    model = build_vit()
    before = model(images)
    with record_attention(model, inputs=True, values=True):
        inside = model(images)
    torch.testing.assert_close(inside, before, rtol=1e-12, atol=1e-13)


def test_maps_are_in_the_graph(build_vit, images):
    model = build_vit()
    with record_attention(model) as tape:
        score = model(images).sum()
    gradients = torch.autograd.grad(score, [*tape.maps, model.cls_token])
    assert all(gradient.abs().max() > 0 for gradient in gradients)


def test_maps_get_gradients_with_frozen_weights(build_vit, images):
    model = build_vit()
    with record_attention(model) as tape:
        score = model(images).sum()
    expected = torch.autograd.grad(score, tape.maps)
    with frozen_weights(model), record_attention(model) as tape:
        score = model(images).sum()
    assert tape.maps[0].is_leaf, "the backward pass should stop at the first map"
    for ours, theirs in zip(torch.autograd.grad(score, tape.maps), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("class_row", [False, True])
def test_a_second_forward_starts_the_tape_anew(build_vit, images, class_row):
    model = build_vit(depth=3)
    options = {"inputs": True, "values": not class_row, "class_row": class_row}
    with record_attention(model, **options) as tape:
        model(images)
        model(images[:1])
    with record_attention(model, **options) as alone:
        model(images[:1])
    for name in ("maps", "inputs", "values"):
        ours, theirs = getattr(tape, name), getattr(alone, name)
        assert [tuple(x.shape) for x in ours] == [tuple(x.shape) for x in theirs], name
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True)), name


# The short last block


@pytest.mark.parametrize("kind", CLASS_TOKEN_KINDS)
def test_class_row_has_the_logits_and_gradients_of_the_full_block(build_vit, images, kind):
    model = build_vit(kind)
    assert reads_class_token_only(model)
    weights = torch.linspace(-1, 1, 15).reshape(3, 5).double()
    found = []
    for class_row in (False, True):
        with record_attention(model, class_row=class_row) as tape:
            logits = model(images)
        inputs = [*tape.maps[:-1], *model.parameters()]
        gradients = torch.autograd.grad((logits * weights).sum(), inputs, retain_graph=True)
        (last,) = torch.autograd.grad((logits * weights).sum(), tape.maps[-1])
        found.append((logits, tape.maps[-1], last, gradients))
    (logits, attention, last, gradients), (short_logits, row, short_last, short_gradients) = found
    assert tuple(row.shape) == (3, 2, 1, 16 + model.num_prefix_tokens)
    torch.testing.assert_close(row, attention[:, :, :1], rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(short_last, last[:, :, :1], rtol=1e-11, atol=1e-13)
    torch.testing.assert_close(short_logits, logits, rtol=1e-12, atol=1e-13)
    for ours, theirs in zip(short_gradients, gradients, strict=True):
        assert (ours - theirs).abs().max() <= 1e-12 * max(1.0, float(theirs.abs().max()))


@pytest.mark.parametrize("kind", ["average", "average_and_registers", "distilled"])
def test_class_row_does_nothing_where_other_tokens_are_read(build_vit, images, kind):
    model = build_vit(kind)
    assert not reads_class_token_only(model)
    expected = model(images)
    with record_attention(model, class_row=True) as tape:
        assert "forward" not in vars(model.blocks[-1])
        logits = model(images)
    assert tape.maps[-1].shape[2] == 16 + model.num_prefix_tokens
    torch.testing.assert_close(logits, expected, rtol=1e-12, atol=1e-13)


def test_class_row_keeps_a_forward_of_the_users_own(build_vit, images):
    model = build_vit()
    block = model.blocks[-1]
    calls = []

    def own(x):
        calls.append(tuple(x.shape))
        return type(block).forward(block, x)

    block.forward = own
    with record_attention(model, class_row=True) as tape:
        model(images)
    assert calls == [(3, 17, 16)] and block.forward is own
    assert tape.maps[-1].shape[2] == 17


def test_values_are_those_of_all_tokens_even_with_class_row(build_vit, images):
    with record_attention(model := build_vit(), values=True, class_row=True) as tape:
        model(images)
    assert tuple(tape.values[-1].shape) == (3, 2, 17, 8)
