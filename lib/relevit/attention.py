"""Record the attention maps of a timm Vision Transformer while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import torch
from jaxtyping import Float
from timm.layers import Attention
from timm.models.vision_transformer import Block, VisionTransformer
from torch import Tensor, nn

FAMILIES = "ViT, DeiT (also distilled), AugReg, BEiT, DINO, DINOv2 (with registers), MAE"


@dataclass
class Tape:
    """What one forward pass left behind, one entry a block, first block first.

    `maps` are [batch, heads, tokens, tokens], softmax rows (query) over columns (key), in the
    autograd graph when gradients are enabled. `inputs` [batch, tokens, width] (before the
    block) and `values` [batch, heads, tokens, head width] are filled on request.
    """

    maps: list[Float[Tensor, "batch heads query key"]] = field(default_factory=list)
    inputs: list[Float[Tensor, "batch tokens width"]] = field(default_factory=list)
    values: list[Float[Tensor, "batch heads tokens head_width"]] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)  # whose maps are there, in order
    tokens: int = 0  # of the latest attention's input


@contextmanager
def record_attention(
    model: nn.Module,
    *,
    inputs: bool = False,
    values: bool = False,
    class_row: bool = False,
    last_only: bool = False,
) -> Iterator[Tape]:
    """Record every block's attention map for forward passes made inside the context.

    Fused attention keeps no map, so it is off inside and as it was afterwards, block by block;
    timm's global switch is not touched. A second forward pass starts the tape anew.

    `class_row=True` lets the last block work for the class token alone where that is all the
    head reads (`reads_class_token_only`): its map is then [batch, heads, 1, tokens] and the
    logits are the same. On other models the option does nothing. `last_only=True` records the
    last block's map alone; the other blocks keep their fused attention.

    Raises: ValueError for a model without global self-attention blocks; RuntimeError on
    leaving when a forward pass was made and some block recorded nothing, or none was made.
    """
    attentions = _attentions(model, values)[-1 if last_only else 0 :]
    tape = Tape()
    fused = [attention.fused_attn for attention in attentions]
    handles = [
        attention.attn_drop.register_forward_hook(partial(_keep_map, tape, i))
        for i, attention in enumerate(attentions)
    ]
    handles += [a.register_forward_pre_hook(partial(_note_tokens, tape)) for a in attentions]
    if inputs:
        handles += [
            block.register_forward_pre_hook(partial(_keep_input, tape, i))
            for i, block in enumerate(model.blocks)
        ]
    if values:
        handles += [
            attention.qkv.register_forward_hook(partial(_keep_values, tape, i, attention.num_heads))
            for i, attention in enumerate(attentions)
        ]
    last = model.blocks[-1]
    shortened = class_row and not values and reads_class_token_only(model)
    try:
        for attention in attentions:
            attention.fused_attn = False
        if shortened:
            last.forward = partial(_class_token_block, last)
        yield tape
    finally:
        for handle in handles:
            handle.remove()
        for attention, value in zip(attentions, fused, strict=True):
            attention.fused_attn = value
        if shortened:
            del last.forward
    _check_recorded(tape, len(attentions), values)


def reads_class_token_only(model: nn.Module) -> bool:
    """Whether the head sees the class token's row of the last block and nothing else.

    True for timm's plain Vision Transformer with class-token pooling and standard blocks.
    """
    block = model.blocks[-1]
    return (
        type(model) is VisionTransformer
        and model.global_pool == "token"
        and model.has_class_token
        and getattr(model, "attn_pool", None) is None
        and type(block) is Block
        and type(block.attn) is Attention
        and getattr(block.attn, "gate", None) is None
        and "forward" not in vars(block)
    )


@contextmanager
def frozen_weights(model: nn.Module) -> Iterator[None]:
    """Switch off gradients to all weights inside the context and restore each one after it."""
    before = [(p, p.requires_grad) for p in model.parameters()]
    try:
        model.requires_grad_(False)
        yield
    finally:
        for parameter, value in before:
            parameter.requires_grad_(value)


@contextmanager
def unfused_attention(model: nn.Module) -> Iterator[None]:
    """Compute attention step by step inside the context, and as before after it, block by block.

    Fused attention cannot be differentiated twice. timm's global switch is not touched.
    Raises: ValueError for a model without global self-attention blocks.
    """
    before = [(attention, attention.fused_attn) for attention in attention_layers(model)]
    try:
        for attention, _ in before:
            attention.fused_attn = False
        yield
    finally:
        for attention, value in before:
            attention.fused_attn = value


def attention_layers(model: nn.Module) -> list[nn.Module]:
    """The attention layer of every block. Raises: ValueError where there is none."""
    attentions = [getattr(block, "attn", None) for block in getattr(model, "blocks", ())]
    wanted = ("attn_drop", "fused_attn", "qkv")
    if not attentions or not all(hasattr(a, name) for a in attentions for name in wanted):
        raise ValueError(
            f"record_attention: {type(model).__name__} has no blocks with global self-attention; "
            f"use a timm Vision Transformer ({FAMILIES})"
        )
    return attentions


def _attentions(model: nn.Module, values: bool) -> list[nn.Module]:
    attentions = attention_layers(model)
    if getattr(model, "grad_checkpointing", False):
        raise ValueError(
            f"record_attention: this {type(model).__name__} runs its blocks twice for gradient "
            "checkpointing; switch that off: model.set_grad_checkpointing(False)"
        )
    if values and not all(isinstance(attention.qkv, nn.Module) for attention in attentions):
        raise ValueError(
            f"record_attention: {type(model).__name__} has no joint qkv layer to take values from; "
            "leave out values=True or use a plain timm Vision Transformer"
        )
    return attentions


def _check_recorded(tape: Tape, expected: int, values: bool) -> None:
    silent_values = values and len(tape.values) != expected
    if tape.blocks != list(range(expected)) or silent_values:
        raise RuntimeError(
            f"record_attention: {len(tape.maps)} of {expected} blocks recorded a map"
            f"{', some no values' if silent_values else ''}; "
            "run the whole model inside the context, with attention that is not fused"
        )


def _note_tokens(tape: Tape, module: nn.Module, args: tuple) -> None:
    tape.tokens = args[0].shape[1]


def _keep_map(tape: Tape, index: int, module: nn.Module, args: tuple, output: Tensor) -> None:
    if tape.blocks and index <= tape.blocks[-1]:  # another forward pass
        tape.maps.clear()
        tape.blocks.clear()
    query, key = output.shape[-2:]
    if output.ndim != 4 or query not in (1, key) or tape.tokens not in (0, key):
        raise ValueError(
            f"record_attention: block {index} made a map of shape {tuple(output.shape)}, not "
            "[batch, heads, tokens, tokens]; use a model with global self-attention over its "
            f"patches ({FAMILIES})"
        )
    # With frozen weights nothing before the first map needs a gradient: it becomes a leaf, and
    # the backward pass stops there.
    if torch.is_grad_enabled() and not output.requires_grad:
        output.requires_grad_()
    tape.maps.append(output)
    tape.blocks.append(index)


def _keep_input(tape: Tape, index: int, block: nn.Module, args: tuple) -> None:
    if index == 0:
        tape.inputs.clear()
    tape.inputs.append(args[0])


def _keep_values(
    tape: Tape, index: int, heads: int, module: nn.Module, args: tuple, output: Tensor
) -> None:
    if index == 0:
        tape.values.clear()
    batch, tokens, width = output.shape
    split = output.reshape(batch, tokens, 3, heads, width // (3 * heads))
    tape.values.append(split[:, :, 2].transpose(1, 2))


def _class_token_block(
    block: Block, tokens: Float[Tensor, "batch tokens width"]
) -> Float[Tensor, "batch 1 width"]:
    """The block's output for the class token: one query row, one row through the MLP."""
    attention = block.attn
    batch, count, _ = tokens.shape
    normed = block.norm1(tokens)
    width = attention.num_heads * attention.head_dim
    weight, bias = attention.qkv.weight, attention.qkv.bias
    query_bias, rest_bias = (None, None) if bias is None else (bias[:width], bias[width:])
    query = nn.functional.linear(normed[:, :1], weight[:width], query_bias)
    rest = nn.functional.linear(normed, weight[width:], rest_bias)
    query = query.reshape(batch, 1, attention.num_heads, attention.head_dim).transpose(1, 2)
    rest = rest.reshape(batch, count, 2, attention.num_heads, attention.head_dim)
    key, value = rest.permute(2, 0, 3, 1, 4).unbind(0)
    query, key = attention.q_norm(query), attention.k_norm(key)
    scores = (query * attention.scale) @ key.transpose(-2, -1)
    mixed = attention.attn_drop(scores.softmax(dim=-1)) @ value
    mixed = attention.norm(mixed.transpose(1, 2).reshape(batch, 1, width))
    mixed = attention.proj_drop(attention.proj(mixed))
    residual = tokens[:, :1] + block.drop_path1(block.ls1(mixed))
    return residual + block.drop_path2(block.ls2(block.mlp(block.norm2(residual))))
