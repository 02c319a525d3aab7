"""Record the attention maps of a timm Vision Transformer while it runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from relevit.attention.class_token import class_token_only

# What a model is run on: normalised pixels [batch, 3, height, width] or, for a text encoder, which
# goes through the same methods, the embedded tokens [batch, tokens, width].
Inputs = Float[Tensor, "batch ..."]

FAMILIES = "ViT, DeiT (also distilled), AugReg, BEiT, DINO, DINOv2 (with registers), MAE"


_turns: WeakKeyDictionary[nn.Module, threading.RLock] = WeakKeyDictionary()
_turns_turn = threading.Lock()


@contextmanager
def alone(model: nn.Module) -> Iterator[None]:
    """One thread at a time: another that watches or changes the same model waits for its turn.

    What is changed meanwhile, such as `requires_grad`, belongs to the model and so to all
    threads. Contexts of one thread may lie inside each other. Plain forward passes do not wait.
    """
    with _turns_turn:
        turn = _turns.setdefault(model, threading.RLock())
    with turn:
        yield


@dataclass
class Tape:
    """What one forward pass left behind, one entry a block, first block first.

    `maps` are [batch, heads, tokens, tokens], softmax rows (query) over columns (key), in the
    autograd graph when gradients are enabled. `inputs` [batch, tokens, width] (before the
    block) and `values` [batch, heads, tokens, head width] are filled on request.
    """

    maps: list[Float[Tensor, "batch heads _query key"]] = field(default_factory=list)
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

    `class_row=True` lets the last block work for the class token alone where that is all the head
    reads (`class_token_only`): its map is then [batch, heads, 1, tokens] and the logits are the
    same. On other models, or with a hook of somebody else's in that block, the option does nothing.
    `last_only=True` records the last block's map alone; the others keep their fused attention.

    Raises: ValueError for a model without global self-attention blocks; RuntimeError on
    leaving when a forward pass was made and some block recorded nothing, or none was made.
    """
    attentions = _attentions(model, values)[-1 if last_only else 0 :]
    tape = Tape()
    short = class_token_only(model) if class_row and not values else nullcontext()
    # Before our own hooks are there: one of another's in the last block keeps that whole.
    with alone(model), short:
        fused = [attention.fused_attn for attention in attentions]
        handles = _hooks(tape, model, attentions, inputs=inputs, values=values)
        try:
            for attention in attentions:
                attention.fused_attn = False
            yield tape
        finally:
            for handle in handles:
                handle.remove()
            for attention, value in zip(attentions, fused, strict=True):
                attention.fused_attn = value
    _check_recorded(tape, len(attentions), values)


@contextmanager
def frozen_weights(model: nn.Module) -> Iterator[None]:
    """Switch off gradients to all weights inside the context and restore each one after it."""
    with alone(model):
        before = [(p, p.requires_grad) for p in model.parameters()]
        try:
            model.requires_grad_(False)
            yield
        finally:
            for parameter, value in before:
                parameter.requires_grad_(value)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode inside the context; afterwards each part has the mode that it had."""
    with alone(model):
        before = [(module, module.training) for module in model.modules()]
        try:
            model.eval()
            yield
        finally:
            for module, training in before:
                module.training = training


@contextmanager
def unfused_attention(model: nn.Module) -> Iterator[None]:
    """Compute attention step by step inside the context, and as before after it, block by block.

    Fused attention cannot be differentiated twice. timm's global switch is not touched.
    Raises: ValueError for a model without global self-attention blocks.
    """
    with alone(model):
        before = [(attention, attention.fused_attn) for attention in attention_layers(model)]
        try:
            for attention, _ in before:
                attention.fused_attn = False
            yield
        finally:
            for attention, value in before:
                attention.fused_attn = value


@contextmanager
def attention_for_gradients(model: nn.Module) -> Iterator[None]:
    """Attention whose backward pass is fast: step by step on a processor in mixed precision.

    The fused kernel's backward pass takes seven times as long there, at 65 tokens.
    Raises: ValueError as `unfused_attention`.
    """
    on_processor = next(model.parameters()).device.type == "cpu"
    slow = on_processor and torch.is_autocast_enabled("cpu")
    with unfused_attention(model) if slow else nullcontext():
        yield


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


def _hooks(
    tape: Tape, model: nn.Module, attentions: list[nn.Module], *, inputs: bool, values: bool
) -> list[RemovableHandle]:
    """Register what fills the tape."""
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
    return handles


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
