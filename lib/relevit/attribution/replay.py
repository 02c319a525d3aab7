"""A Vision Transformer's blocks computed again, up to each step that a rule of LRP needs.

What timm's families keep in different places of a block, LayerScale and the biases
of BEiT, is looked up here.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear

from relevit.attention.recording import FAMILIES, need_softmax


class Step(NamedTuple):
    """A linear layer's part in a block: what it takes, its weight, what it makes but for its bias.

    The order is that of `lrp_rules.through_linear`.
    """

    inputs: Float[Tensor, "batch tokens in"]
    weight: Float[Tensor, "out in"]
    outputs: Float[Tensor, "batch tokens out"]


class Replay(NamedTuple):
    """What a block makes of its tokens, up to each step that a rule needs, in that order."""

    tokens: Tensor
    qkv: Step
    query: Tensor
    key: Tensor
    value: Tensor
    attention: Tensor
    proj: Step
    attended: Tensor  # what the attention adds to the tokens
    middle: Tensor
    fc1: Step
    fc2: Step
    changed: Tensor  # what the MLP adds to them
    output: Tensor

    def cut(self, count: int) -> Replay:
        """The same with only the first `count` tokens from the attention's queries on."""
        later = ("tokens", "proj", "attended", "middle", "fc1", "fc2", "changed", "output")
        short = {name: _first(getattr(self, name), count) for name in later}
        query, attention = self.query[:, :, :count], self.attention[:, :, :count]
        return self._replace(query=query, attention=attention, **short)


def _first(part: Tensor | Step, count: int) -> Tensor | Step:
    if isinstance(part, Step):
        return Step(part.inputs[:, :count], part.weight, part.outputs[:, :count])
    return part[:, :count]


def replay(
    block: nn.Module,
    tokens: Float[Tensor, "batch tokens width"],
    attention: Float[Tensor, "batch heads query key"],
) -> Replay:
    """Compute a block again from its tokens and its attention map.

    Layers are what their weights do: `layers.check_weights` has seen to it.
    """
    layer, mlp = block.attn, block.mlp

    def run(layer: nn.Module, inputs: Tensor, bias: Tensor | None) -> tuple[Step, Tensor]:
        output = linear(inputs, layer.weight, bias)
        return Step(inputs, layer.weight, output if bias is None else output - bias), output

    qkv, joint = run(layer.qkv, block.norm1(tokens), qkv_bias(layer))
    query, key, value = _query_key_value(layer, joint)
    mixed = getattr(layer, "norm", nn.Identity())((attention @ value).transpose(1, 2).flatten(2))
    proj, projected = run(layer.proj, mixed, layer.proj.bias)
    attended = scale_branch(block, 1, projected)
    middle = _after(block, 1, tokens + attended)
    fc1, first = run(mlp.fc1, block.norm2(middle), mlp.fc1.bias)
    hidden = getattr(mlp, "norm", nn.Identity())(mlp.act(first))
    fc2, second = run(mlp.fc2, hidden, mlp.fc2.bias)
    changed = scale_branch(block, 2, second)
    output = _after(block, 2, middle + changed)
    attending = (tokens, qkv, query, key, value, attention, proj, attended)
    return Replay(*attending, middle, fc1, fc2, changed, output)


def _query_key_value(layer: nn.Module, joint: Tensor) -> list[Tensor]:
    split = joint.unflatten(2, (3, layer.num_heads, -1)).permute(2, 0, 3, 1, 4)
    query, key, value = split.unbind(0)
    norms = (getattr(layer, name, nn.Identity()) for name in ("q_norm", "k_norm"))
    return [*(norm(x) for norm, x in zip(norms, (query, key), strict=True)), value]


def _after(block: nn.Module, branch: int, tokens: Tensor) -> Tensor:
    """The norm that BERT has behind each of its two sums."""
    return getattr(block, f"post_norm{branch}", nn.Identity())(tokens)


def check_parts(model: nn.Module) -> None:
    """Raise ValueError unless every block has the parts that `replay` runs."""
    need_softmax(model, "lrp")
    for i, block in enumerate(model.blocks):
        mlp = getattr(block, "mlp", None)
        parts = [(block, "norm1 norm2"), (block.attn, "qkv proj"), (mlp, "fc1 act fc2")]
        known = all(hasattr(part, name) for part, names in parts for name in names.split())
        if not known or _is_gated(mlp) or block.attn.qkv is None:
            raise ValueError(_unknown(model, f"block {i + 1}"))
    if getattr(model, "rope", None) is not None:
        raise ValueError(_unknown(model, "its rotary position embedding"))


def _is_gated(mlp: nn.Module) -> bool:
    """A gated MLP hands its second layer fewer values than its first one makes.

    What wraps a layer may not say how many: `layers.check_weights` refuses it.
    """
    made, taken = getattr(mlp.fc1, "out_features", None), getattr(mlp.fc2, "in_features", None)
    return None not in (made, taken) and made != taken


def check_replay(model: nn.Module, again: Tensor, before: Tensor, what: str) -> None:
    """Raise ValueError where the model computed something else than was computed again."""
    limit = torch.finfo(before.dtype).eps ** 0.4 * before.abs().amax()
    if bool((again - before).abs().amax() > limit):
        raise ValueError(_unknown(model, what))


def _unknown(model: nn.Module, what: str) -> str:
    return (
        f"lrp: {what} of this {type(model).__name__} is more than attention and MLP with their "
        "residuals, and has no propagation rule (gates, SwiGLU, rotary "
        f"positions); use a plain timm Vision Transformer ({FAMILIES})"
    )


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
    """Weight [width of all heads, width] and bias of the values, out of timm's joint layer."""
    weight, bias = layer.qkv.weight, qkv_bias(layer)
    start = 2 * weight.shape[0] // 3
    return weight[start:], None if bias is None else bias[start:]
