"""A Vision Transformer's blocks computed again, up to each step that a rule of LRP needs.

`record_layers` keeps what the linear layers made in a forward pass, so that nothing large is
computed twice. What timm's families keep in different places of a block, LayerScale and the biases
of BEiT, is looked up here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from relevit.attention.recording import FAMILIES

LAYERS = ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2")
Made = dict[str, Tensor]  # outputs of one block's LAYERS, as far as they were recorded


@contextmanager
def record_layers(model: nn.Module) -> Iterator[list[Made]]:
    """Keep what the linear layers of every block make in a forward pass inside the context.

    Autograd keeps the outputs of `qkv` and `fc1` anyway where gradients of the maps are asked
    for; those of the two others take 2 x tokens x width values a block.
    """
    made: list[Made] = [{} for _ in getattr(model, "blocks", ())]

    def keep(block: int, name: str, layer: nn.Module, args: tuple, output: Tensor) -> None:
        made[block][name] = output.detach()

    found = [
        (block, name, layer)
        for block in range(len(made))
        for name, layer in model.blocks[block].named_modules()
        if name in LAYERS
    ]
    handles = [layer.register_forward_hook(partial(keep, b, name)) for b, name, layer in found]
    try:
        yield made
    finally:
        for handle in handles:
            handle.remove()


class Replay(NamedTuple):
    """What a block makes of its tokens, up to each step that a rule needs.

    `joint`, `projected`, `first` and `second` are what its LAYERS make, in that order.
    """

    normed: Tensor
    joint: Tensor
    query: Tensor
    key: Tensor
    value: Tensor
    mixed: Tensor
    projected: Tensor
    attended: Tensor
    middle: Tensor
    hidden_input: Tensor
    first: Tensor
    hidden: Tensor
    second: Tensor
    changed: Tensor
    output: Tensor


def replay(
    block: nn.Module,
    tokens: Float[Tensor, "batch tokens width"],
    attention: Float[Tensor, "batch heads query key"],
    made: Made | None = None,
) -> Replay:
    """Compute a block again from its tokens and its attention map, but for what was `made`."""
    layer, mlp, made = block.attn, block.mlp, made or {}

    def run(name: str, inputs: Tensor) -> Tensor:
        return made[name] if name in made else block.get_submodule(name)(inputs)

    normed = block.norm1(tokens)
    joint = made.get("attn.qkv")
    if joint is None:
        joint = nn.functional.linear(normed, layer.qkv.weight, qkv_bias(layer))
    query, key, value = _query_key_value(layer, joint)
    mixed = getattr(layer, "norm", nn.Identity())((attention @ value).transpose(1, 2).flatten(2))
    projected = run("attn.proj", mixed)
    attended = scale_branch(block, 1, projected)
    middle = _after(block, 1, tokens + attended)
    hidden_input = block.norm2(middle)
    first = run("mlp.fc1", hidden_input)
    hidden = getattr(mlp, "norm", nn.Identity())(mlp.act(first))
    second = run("mlp.fc2", hidden)
    changed = scale_branch(block, 2, second)
    return Replay(
        normed,
        joint,
        query,
        key,
        value,
        mixed,
        projected,
        attended,
        middle,
        hidden_input,
        first,
        hidden,
        second,
        changed,
        _after(block, 2, middle + changed),
    )


def _after(block: nn.Module, branch: int, tokens: Tensor) -> Tensor:
    """The norm that BERT has behind each of its two sums."""
    return getattr(block, f"post_norm{branch}", nn.Identity())(tokens)


def check_parts(model: nn.Module) -> None:
    """Raise ValueError unless every block has the parts that `replay` runs."""
    for i, block in enumerate(model.blocks):
        mlp = getattr(block, "mlp", None)
        parts = [(block, "norm1 norm2"), (block.attn, "qkv proj"), (mlp, "fc1 act fc2")]
        known = all(hasattr(part, name) for part, names in parts for name in names.split())
        # A gated MLP hands its second layer fewer values than its first one makes.
        if not known or mlp.fc1.out_features != mlp.fc2.in_features or block.attn.qkv is None:
            raise ValueError(_unknown(model, f"block {i + 1}"))
    if getattr(model, "rope", None) is not None:
        raise ValueError(_unknown(model, "its rotary position embedding"))


def check_replay(model: nn.Module, again: Tensor, before: Tensor, what: str) -> None:
    """Raise ValueError where the model computed something else than was computed again."""
    limit = torch.finfo(before.dtype).eps ** 0.4 * before.abs().amax()
    if bool((again - before).abs().amax() > limit):
        raise ValueError(_unknown(model, what))


def check_made(model: nn.Module, block: nn.Module, again: Replay, what: str) -> None:
    """Raise ValueError where a layer made something else of the first and the last token.

    Recorded outputs hide what stands between the layers, so two tokens are computed again.
    """
    ends = [0, again.normed.shape[1] - 1]
    steps = [
        (again.mixed, block.attn.proj, again.projected),
        (again.hidden_input, block.mlp.fc1, again.first),
        (again.hidden, block.mlp.fc2, again.second),
    ]
    for inputs, layer, made in steps:
        check_replay(model, layer(inputs[:, ends]), made[:, ends], what)
    joint = nn.functional.linear(again.normed[:, ends], block.attn.qkv.weight, qkv_bias(block.attn))
    check_replay(model, joint, again.joint[:, ends], what)


def _unknown(model: nn.Module, what: str) -> str:
    return (
        f"lrp: {what} of this {type(model).__name__} is more than attention and MLP with their "
        "residuals, and has no propagation rule (gates, SwiGLU, rotary "
        f"positions); use a plain timm Vision Transformer ({FAMILIES})"
    )


def _query_key_value(layer: nn.Module, joint: Tensor) -> list[Tensor]:
    split = joint.unflatten(2, (3, layer.num_heads, -1)).permute(2, 0, 3, 1, 4)
    query, key, value = split.unbind(0)
    norms = (getattr(layer, name, nn.Identity()) for name in ("q_norm", "k_norm"))
    return [*(norm(x) for norm, x in zip(norms, (query, key), strict=True)), value]


def scale_branch(block: nn.Module, branch: int, values: Tensor) -> Tensor:
    """LayerScale of the block's attention (1) or MLP (2), where it has one."""
    layer = getattr(block, f"ls{branch}", None)
    if layer is not None:
        return layer(values)
    gamma = getattr(block, f"gamma_{branch}", None)  # BEiT
    return values if gamma is None else gamma * values


def qkv_bias(layer: nn.Module) -> Tensor | None:
    """Bias of the joint layer of queries, keys and values."""
    if layer.qkv.bias is None and getattr(layer, "q_bias", None) is not None:  # BEiT
        return torch.cat([layer.q_bias, torch.zeros_like(layer.v_bias), layer.v_bias])
    return layer.qkv.bias


def value_projection(layer: nn.Module) -> tuple[Tensor, Tensor | None]:
    """Weight [width of all heads, width] and bias of the values, out of timm's joint layer.

    Raises: ValueError where queries, keys and values have separate layers.
    """
    if not hasattr(layer.qkv, "weight"):
        raise ValueError(
            f"token_wise: {type(layer).__name__} has no joint qkv layer to take the values' "
            f"weights from; use a plain timm Vision Transformer ({FAMILIES})"
        )
    weight, bias = layer.qkv.weight, qkv_bias(layer)
    start = 2 * weight.shape[0] // 3
    return weight[start:], None if bias is None else bias[start:]
