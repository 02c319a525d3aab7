"""Record the attention maps of a timm Vision Transformer while it runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from timm.layers import DiffAttention
from timm.models.xcit import XCA
from torch import Tensor, nn

# What a model is run on: normalised pixels [batch, 3, height, width] or, for a text encoder, which
# goes through the same methods, the embedded tokens [batch, tokens, width].
Inputs = Float[Tensor, "batch ..."]

FAMILIES = "ViT, DeiT, AugReg, BEiT, EVA-02, MAE, DINO, DINOv2, DINOv3"


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
    autograd graph when gradients are enabled: what the values are multiplied by. Of differential
    attention that is a softmax less a share of another, below zero in places. `inputs` are the
    tokens before the block, [batch, tokens, width]. `blocks` says whose maps are there.
    """

    maps: list[Float[Tensor, "batch heads query key"]] = field(default_factory=list)
    inputs: list[Float[Tensor, "batch tokens width"]] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)


@contextmanager
def record_attention(model: nn.Module, *, last: int | None = None) -> Iterator[Tape]:
    """Record every block's attention map, and its tokens, for a forward pass made inside.

    Fused attention keeps no map, so it is off inside and as it was afterwards, block by block;
    timm's global switch is not touched. A second forward pass starts the tape anew.
    `last` records the last so many blocks alone (None: all); the others keep their fused attention.

    Raises: ValueError for a model without global self-attention blocks; RuntimeError on
    leaving when no forward pass was made, or some block recorded nothing.
    """
    attentions = watched_layers(model)
    watched = last_blocks(len(attentions), last)
    tape, handles = Tape(), []
    with switched(model, attentions[watched.start :], "fused_attn"):
        try:
            for i in watched:
                note = partial(_keep_input, tape, i == watched.start)
                handles.append(model.blocks[i].register_forward_pre_hook(note))
                keep = partial(_keep_map, tape, i, attentions[i])
                handles.append(attentions[i].attn_drop.register_forward_hook(keep))
            yield tape
        finally:
            for handle in handles:
                handle.remove()
    if tape.blocks != list(watched):
        raise RuntimeError(
            f"record_attention: {len(tape.maps)} of {len(watched)} blocks recorded a map; "
            "run the whole model inside the context, with attention that is not fused"
        )


def frozen_weights(model: nn.Module) -> AbstractContextManager[None]:
    """Switch off gradients to all weights inside the context and restore each one after it."""
    return switched(model, list(model.parameters()), "requires_grad")


def evaluating(model: nn.Module) -> AbstractContextManager[None]:
    """Eval mode inside the context; afterwards each part has the mode that it had."""
    return switched(model, list(model.modules()), "training")


def unfused_attention(model: nn.Module) -> AbstractContextManager[None]:
    """Compute attention step by step inside the context, and as before after it, block by block.

    Fused attention cannot be differentiated twice. timm's global switch is not touched.
    Raises: ValueError for a model without global self-attention blocks.
    """
    return switched(model, attention_layers(model), "fused_attn")


@contextmanager
def switched(
    model: nn.Module, parts: Sequence[Any], switch: str, to: bool = False
) -> Iterator[None]:
    """A switch of these parts off inside the context; after it each is as it was."""
    with alone(model):
        before = [getattr(part, switch) for part in parts]
        try:
            for part in parts:
                setattr(part, switch, to)
            yield
        finally:
            for part, value in zip(parts, before, strict=True):
                setattr(part, switch, value)


def attention_for_gradients(
    model: nn.Module, *, last: int | None = None
) -> AbstractContextManager[None]:
    """Attention whose backward pass is fast: step by step on a processor in mixed precision.

    The fused kernel's backward pass takes seven times as long there, at 65 tokens. `last` says of
    how many of the last blocks there is one (None: all).
    Raises: ValueError as `unfused_attention`.
    """
    on_processor = next(model.parameters()).device.type == "cpu"
    if not (on_processor and torch.is_autocast_enabled("cpu")):
        return nullcontext()
    layers = attention_layers(model)
    return switched(model, layers if last is None else layers[len(layers) - last :], "fused_attn")


def last_blocks(depth: int, last: int | None) -> range:
    """The `last` blocks of so many, counted from 0; None: all. Raises: ValueError."""
    if last is not None and not 1 <= last <= depth:
        raise ValueError(f"last {last}: this model has {depth} blocks; give 1 to {depth}, or None")
    return range(depth - (last or depth), depth)


def watched_layers(model: nn.Module) -> list[nn.Module]:
    """As `attention_layers`, of a model that runs each block once. Raises: ValueError, too."""
    attentions = attention_layers(model)
    if getattr(model, "grad_checkpointing", False):
        raise ValueError(
            f"record_attention: this {type(model).__name__} runs its blocks twice for gradient "
            "checkpointing; switch that off: model.set_grad_checkpointing(False)"
        )
    return attentions


def attention_layers(model: nn.Module) -> list[nn.Module]:
    """The attention layer of every block. Raises: ValueError where there is none."""
    attentions = [block_part(model, block, "attn") for block in getattr(model, "blocks", ())]
    wanted = ("attn_drop", "fused_attn", "qkv")
    known = all(hasattr(a, name) for a in attentions for name in wanted)
    if not attentions or not known or isinstance(attentions[0], XCA):  # whose maps are of channels
        raise ValueError(
            f"record_attention: {type(model).__name__} has no blocks with a layer of global "
            f"self-attention (block.attn); use a timm Vision Transformer ({FAMILIES})"
        )
    return attentions


def part_path(model: nn.Module, name: str) -> str:
    """Where a block has what timm's has as `name`; blocks of transformers have other names."""
    return getattr(model, "part_names", {}).get(name, name)


def block_part(model: nn.Module, block: nn.Module, name: str) -> nn.Module | None:
    """The part of a block that timm's has as `name`; None where it has none."""
    try:
        return block.get_submodule(part_path(model, name))
    except AttributeError:
        return None


def need_softmax(model: nn.Module, method: str) -> None:
    """Raise ValueError for differential attention, whose rows are no shares of the tokens."""
    if any(isinstance(layer, DiffAttention) for layer in attention_layers(model)):
        raise ValueError(
            f"{method}: this {type(model).__name__} has differential attention, whose maps are a "
            "softmax less another, and below zero in places, where the method takes them for "
            "shares; use another, such as gae"
        )


def _keep_input(tape: Tape, first: bool, block: nn.Module, args: tuple) -> None:
    if first:  # another forward pass
        tape.maps.clear()
        tape.inputs.clear()
        tape.blocks.clear()
    tape.inputs.append(args[0])


def need_global(index: int, layer: nn.Module, tokens: int, shape: tuple[int, ...]) -> None:
    """Raise ValueError for maps of this shape that are not, for each head, of all tokens by all."""
    heads = getattr(layer, "num_heads", None)
    if len(shape) != 4 or shape[2:] != (tokens, tokens) or heads not in (None, shape[1]):
        heads = "heads" if heads is None else heads
        raise ValueError(
            f"record_attention: block {index} made a map of shape {shape}, not "
            f"[batch, {heads}, tokens, tokens] with {tokens} tokens; use a model with global "
            f"self-attention over its patches ({FAMILIES})"
        )


def _keep_map(
    tape: Tape, index: int, layer: nn.Module, module: nn.Module, args: tuple, output: Tensor
) -> Tensor:
    differential = isinstance(layer, DiffAttention)
    if differential:
        first, second = output.unflatten(1, (-1, 2)).unbind(2)
        output = first - layer._compute_lambda().to(output) * second
    need_global(index, layer, tape.inputs[-1].shape[1], tuple(output.shape))
    # With frozen weights nothing before the first map needs a gradient: it becomes a leaf, and
    # the backward pass stops there.
    if torch.is_grad_enabled() and not output.requires_grad:
        output.requires_grad_()
    tape.maps.append(output)
    tape.blocks.append(index)
    if differential:  # the layer takes a share of zeros off, and goes on with this map
        return torch.stack([output, torch.zeros_like(output)], dim=2).flatten(1, 2)
    return output
