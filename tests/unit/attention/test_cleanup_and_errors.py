"""The model is left as it was, whatever happens while recording, and failures are loud."""

from __future__ import annotations

import pytest
import timm
import torch
from timm.layers import Attention, use_fused_attn
from torch import nn

from relevit.attention.recording import frozen_weights, record_attention


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


# The model is left as it was


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
    "options",
    [
        {},
        {"inputs": True, "values": True},
        {"class_row": True},
        {"class_row": True, "values": True},
    ],
    ids=["maps", "all", "class_row", "class_row_and_values"],
)
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
def test_model_is_as_before_whatever_happens(
    build_vit, images, state_of, mode, options, error_at, error
):
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
        with record_attention(model, **options):
            use(model, images, error_at)
    else:
        with pytest.raises(error), record_attention(model, **options):
            use(model, images, error_at)
    assert state_of(model) == before
    assert not any("forward" in vars(module) for module in model.modules())


def test_state_of_sees_what_a_context_changes(build_vit, images, state_of):
    """The comparison above would be worth nothing if it did not see hooks and switches."""
    model = build_vit()
    before = state_of(model)
    with record_attention(model, inputs=True, class_row=True):
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


def test_a_forward_after_a_failed_one_is_recorded_whole(build_vit, images):
    model = build_vit()
    with record_attention(model, inputs=True, values=True) as tape:
        mlp, model.blocks[0].mlp = model.blocks[0].mlp, Broken(RuntimeError("once"))
        with pytest.raises(RuntimeError, match="once"):
            model(images)
        model.blocks[0].mlp = mlp
        model(images[:1])
    found = [[len(x) for x in xs] for xs in (tape.maps, tape.inputs, tape.values)]
    assert found == 3 * [[1, 1]]


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


@pytest.mark.parametrize("name", ["beit_base_patch16_224", "eva02_base_patch14_448"])
def test_values_that_cannot_be_recorded_are_an_error(state_of, name):
    """BEiT reads qkv's weights without calling it, EVA-02 has three layers in its place."""
    patch = 14 if "14" in name else 16
    model = timm.create_model(
        name, img_size=2 * patch, embed_dim=24, depth=2, num_heads=2, num_classes=5
    ).eval()
    before = state_of(model)
    with pytest.raises((ValueError, RuntimeError), match="record_attention"):  # noqa: SIM117
        with record_attention(model, values=True):
            model(torch.randn(1, 3, 2 * patch, 2 * patch))
    assert state_of(model) == before


def test_gradient_checkpointing_is_an_error(build_vit, images):
    model = build_vit()
    model.set_grad_checkpointing()
    with (
        pytest.raises(ValueError, match=r"set_grad_checkpointing\(False\)"),
        record_attention(model),
    ):
        model(images)
