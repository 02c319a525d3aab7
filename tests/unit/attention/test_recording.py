"""Recorded attention is the model's own, the model is left as it was, and failures are loud."""

from __future__ import annotations

import threading
import weakref

import pytest
import timm
import torch
from timm.layers import Attention, use_fused_attn
from torch import nn

from relevit.attention.recording import (
    alone,
    attention_for_gradients,
    evaluating,
    frozen_weights,
    record_attention,
    unfused_attention,
)

from ..conftest import KINDS


def tokens_by_block(model, images):
    """Input of every block, computed block by block without hooks."""
    tokens = model.norm_pre(model._pos_embed(model.patch_embed(images)))
    found = []
    for block in model.blocks:
        found.append(tokens)
        tokens = block(tokens)
    return found


def attention_by_hand(block, tokens):
    """softmax(q k^T / sqrt(width)), from slices of the weights."""
    attention = block.attn
    width = attention.num_heads * attention.head_dim
    bias = attention.qkv.bias
    parts = []
    for i in range(2):
        rows = slice(i * width, (i + 1) * width)
        part = block.norm1(tokens) @ attention.qkv.weight[rows].T
        part = part if bias is None else part + bias[rows]
        heads = [
            part[..., h * attention.head_dim : (h + 1) * attention.head_dim]
            for h in range(attention.num_heads)
        ]
        parts.append(torch.stack(heads, dim=1))
    query, key = attention.q_norm(parts[0]), attention.k_norm(parts[1])
    scores = torch.einsum("bhid,bhjd->bhij", query, key) / attention.head_dim**0.5
    exponents = scores.exp()
    return exponents / exponents.sum(-1, keepdim=True)


# What is recorded


@pytest.mark.parametrize("kind", KINDS)
def test_maps_and_inputs_equal_a_computation_by_hand(build_vit, images, kind):
    model = build_vit(kind)
    with torch.no_grad():
        with record_attention(model) as tape:
            model(images)
        tokens = tokens_by_block(model, images)
        by_hand = [attention_by_hand(*pair) for pair in zip(model.blocks, tokens, strict=True)]
    count = 16 + model.num_prefix_tokens
    assert [tuple(m.shape) for m in tape.maps] == 2 * [(3, 2, count, count)]
    for i, attention in enumerate(by_hand):
        torch.testing.assert_close(tape.maps[i], attention, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(tape.inputs[i], tokens[i], rtol=1e-12, atol=1e-14)
        assert attention.std(dim=-1).max() > 0.01, "the map is too flat to tell anything"


def test_recording_does_not_change_the_logits(build_vit, images):
    model = build_vit()
    before = model(images)
    with record_attention(model):
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


@pytest.mark.parametrize("last_only", [False, True])
def test_a_second_forward_starts_the_tape_anew(build_vit, images, last_only):
    model = build_vit(depth=3)
    with record_attention(model, last_only=last_only) as tape:
        model(images)
        model(images[:1])
    with record_attention(model, last_only=last_only) as alone:
        model(images[:1])
    assert tape.blocks == alone.blocks == ([2] if last_only else [0, 1, 2])
    for name in ("maps", "inputs"):
        for ours, theirs in zip(getattr(tape, name), getattr(alone, name), strict=True):
            assert torch.equal(ours, theirs), name


# The model is left as it was


class Broken(nn.Module):
    """Raises in the forward pass, as a bug or an interrupt inside a block would."""

    def __init__(self, error: BaseException):
        super().__init__()
        self.error = error

    def forward(self, x):
        raise self.error


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


@pytest.mark.parametrize("fused", [(True, True), (False, True), (True, False), (False, False)])
def test_fused_attention_is_off_inside_and_as_before_outside(build_vit, images, fused):
    model = build_vit()
    for block, value in zip(model.blocks, fused, strict=True):
        block.attn.fused_attn = value
    everywhere = use_fused_attn()
    with record_attention(model):
        assert [block.attn.fused_attn for block in model.blocks] == [False, False]
        assert use_fused_attn() == everywhere, "timm's global switch was changed"
        model(images)
    assert tuple(block.attn.fused_attn for block in model.blocks) == fused
    assert use_fused_attn() == everywhere


def use(model, images, error_at):
    """Make one kind of error inside the context."""
    if error_at == "no forward":
        return
    logits = model(images)
    if error_at == "user":
        raise KeyError("user")
    if error_at == "interrupt":
        raise KeyboardInterrupt
    logits.sum().backward(inputs=[images])


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize(
    ("error_at", "error"),
    [
        ("nowhere", None),
        ("block 0", ZeroDivisionError),
        ("block 1", ZeroDivisionError),
        ("user", KeyError),
        ("interrupt", KeyboardInterrupt),
        ("no forward", RuntimeError),
        ("silent block", RuntimeError),
    ],
)
def test_model_is_as_before_whatever_happens(build_vit, images, state_of, mode, error_at, error):
    model = build_vit()
    model.train(mode == "train")
    model.blocks[0].eval()  # mixed modes, switches and frozen weights have to come back too
    model.blocks[0].attn.fused_attn = False
    model.cls_token.requires_grad_(False)
    if error_at.startswith("block"):
        model.blocks[int(error_at[-1])].mlp = Broken(ZeroDivisionError("in the block"))
    if error_at == "silent block":
        silence(model, 0)
    before = state_of(model)
    images = images.clone().requires_grad_()
    if error is None:
        with record_attention(model):
            use(model, images, error_at)
    else:
        with pytest.raises(error), record_attention(model):
            use(model, images, error_at)
    assert state_of(model) == before
    assert not any("forward" in vars(module) for module in model.modules())


def test_state_of_sees_what_a_context_changes(build_vit, images, state_of):
    """The comparison above would be worth nothing if it did not see hooks and switches."""
    model = build_vit()
    before = state_of(model)
    with record_attention(model):
        inside = state_of(model)
        model(images)
    for name in ("blocks.0", "blocks.1", "blocks.0.attn", "blocks.0.attn.attn_drop"):
        assert inside[name] != before[name], name
    with frozen_weights(model):
        assert state_of(model)["cls_token (weights)"] != before["cls_token (weights)"]


@pytest.mark.parametrize("error", [None, ValueError])
def test_frozen_weights_come_back_one_by_one(build_vit, state_of, error):
    model = build_vit()
    model.blocks[1].requires_grad_(False)
    before = state_of(model)

    def inside():
        with frozen_weights(model):
            assert not any(p.requires_grad for p in model.parameters())
            if error:
                raise error

    if error:
        with pytest.raises(error):
            inside()
    else:
        inside()
    assert state_of(model) == before


@pytest.mark.parametrize("context", [alone, evaluating, frozen_weights, unfused_attention])
def test_another_thread_waits_for_the_model(build_vit, state_of, context):
    model = build_vit()
    before, order = state_of(model), []

    def other():
        with frozen_weights(model), unfused_attention(model), evaluating(model):
            order.append("other")

    with context(model):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(0.05)
        with frozen_weights(build_vit()), evaluating(model), alone(model):  # no thread waits here
            order.append("one")
    thread.join()
    assert order == ["one", "other"]
    assert state_of(model) == before


def test_a_model_is_not_kept_for_its_turn():
    model = nn.Linear(1, 1)
    gone = weakref.ref(model)
    with frozen_weights(model):
        pass
    del model
    assert gone() is None


def test_a_forward_after_a_failed_one_is_recorded_whole(build_vit, images):
    model = build_vit()
    with record_attention(model) as tape:
        mlp, model.blocks[0].mlp = model.blocks[0].mlp, Broken(RuntimeError("once"))
        with pytest.raises(RuntimeError, match="once"):
            model(images)
        model.blocks[0].mlp = mlp
        model(images[:1])
    assert [[len(x) for x in xs] for xs in (tape.maps, tape.inputs)] == 2 * [[1, 1]]


# Loud failures


def test_no_forward_pass_is_an_error(build_vit):
    with (
        pytest.raises(RuntimeError, match=r"record_attention: 0 of 2 blocks.*inside the context"),
        record_attention(build_vit()),
    ):
        pass


def use_repeatedly(model, images, forwards):
    for _ in range(forwards):
        model(images)


@pytest.mark.parametrize("forwards", [1, 2])
@pytest.mark.parametrize("block", [0, 1])
def test_silent_attention_is_an_error(build_vit, images, block, forwards):
    """Fused attention passes the hook by; two half-recorded passes are not a whole one."""
    model = build_vit()
    silence(model, block)
    with pytest.raises(RuntimeError, match=r"1 of 2 blocks.*not fused"), record_attention(model):
        use_repeatedly(model, images, forwards)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Linear(3, 2),
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()),
        lambda: timm.create_model("resnet10t"),
    ],
    ids=["linear", "sequential", "resnet"],
)
def test_model_without_blocks_is_an_error(state_of, make):
    model = make()
    before = state_of(model)
    name = type(model).__name__
    with (
        pytest.raises(ValueError, match=f"record_attention: {name} has no blocks.*use a timm Vi"),
        record_attention(model),
    ):
        pass
    assert state_of(model) == before


def test_windows_and_channels_are_no_global_attention(images):
    """XCiT's maps go from channel to channel; they have heads and rows, but no tokens."""
    model = timm.create_model(
        "xcit_nano_12_p16_224", img_size=32, embed_dim=16, num_heads=2, depth=2, num_classes=5
    )
    model = model.double().eval()
    with pytest.raises((ValueError, RuntimeError), match="record_attention"):  # noqa: SIM117
        with record_attention(model):
            model(torch.randn(1, 3, 32, 32).double())


def test_gradient_checkpointing_is_an_error(build_vit, images):
    model = build_vit()
    model.set_grad_checkpointing()
    with (
        pytest.raises(ValueError, match=r"set_grad_checkpointing\(False\)"),
        record_attention(model),
    ):
        model(images)


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
