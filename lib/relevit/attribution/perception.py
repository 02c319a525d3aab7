"""Perception: how the tokens that the head reads are made of the patches (Beyond Intuition 3.2).

Each perception makes one matrix a block, [batch, query, key], for the recurrence
R <- R + A R. Rollout's has the plain mean over heads; ours differ in how they weigh.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from relevit.attention.rows import carry_rows, read_rows
from relevit.attribution.blocks import scale_branch, value_projection
from relevit.attribution.lrp_replay import replay
from relevit.attribution.observe import Observation, model_family
from relevit.relevance import Protocol

Matrices = list[Float[Tensor, "batch _query tokens"]]


class Perception(NamedTuple):
    """Rule for the matrices; whether it needs the gradients of all maps, or whole maps of CLIP."""

    matrices: Callable[[nn.Module, Observation, Protocol], Matrices]
    needs_gradients: bool = False
    moves_tokens: bool = False


def perceive(
    model: nn.Module, seen: Observation, name: str, protocol: Protocol, start_block: int
) -> Float[Tensor, "batch rows tokens"]:
    """The rows of P that the head reads (Eq. 16), for one of PERCEPTIONS.

    `last_attention` is the last block's attention alone; `none` is 1 everywhere. Blocks before
    `start_block` are left out.
    """
    matrices = PERCEPTIONS[name].matrices(model, seen, protocol)
    if name == "last_attention":
        return read_rows(matrices[-1], seen.pooling, seen.prefix)
    if name == "none":
        return torch.ones_like(read_rows(matrices[-1], seen.pooling, seen.prefix))
    return carry_rows(matrices, seen.pooling, seen.prefix, start_block)


def average_matrices(model: nn.Module, seen: Observation, protocol: Protocol) -> Matrices:
    """Attention averaged over heads."""
    return [attention.mean(dim=1) for attention in seen.maps]


def head_wise_matrices(model: nn.Module, seen: Observation, protocol: Protocol) -> Matrices:
    """Heads weighed by what the class score owes to each (Eq. 15).

    `published`: the mean absolute entry of A^T grad A, divided by its sum over the heads of one
    image (differences C5, where the published code also sums over the batch). `described`: the
    inner product of A and grad A, without its sign as in Michel et al. 2019: weights of both
    signs could cancel in the sum they are divided by.
    """
    pairs = zip(seen.maps, seen.gradients, strict=True)
    return [_weigh_heads(attention, slope, protocol) for attention, slope in pairs]


def _weigh_heads(attention: Tensor, slope: Tensor, protocol: Protocol) -> Tensor:
    if protocol == "published":
        importance = (attention.transpose(-1, -2) @ slope).abs().mean(dim=(2, 3))
    else:
        importance = (attention * slope).sum(dim=(2, 3)).abs()
    total = importance.sum(dim=1, keepdim=True)
    # No gradient at all: no head is better than another.
    some = total > 0
    share = torch.where(some, importance / torch.where(some, total, 1.0), 1 / importance.shape[1])
    return torch.einsum("bh,bhqk->bqk", share, attention)


def token_wise_matrices(model: nn.Module, seen: Observation, protocol: Protocol) -> Matrices:
    """Attention averaged over heads, each key weighed by how long its value is (Eq. 14).

    alpha_i = |(Z W)_i| / |Z_i| with W = W_value W_proj, times LayerScale where the block has
    one. `described` takes Z, the tokens before the block, and no biases; `published` takes
    LayerNorm(Z) and the value's bias in the numerator alone (differences C7). BERT has no norm
    there. For CLIP `published` takes the tokens after the block's attention in place of Z (D12).
    """
    averages = average_matrices(model, seen, protocol)
    after = protocol == "published" and model_family(model) == "clip"
    gains = []
    for block, tokens, attention in zip(model.blocks, seen.inputs, seen.maps, strict=True):
        source = replay(block, tokens, attention).middle if after else tokens
        gains.append(value_gain(block, tokens, protocol, source))
    return [matrix * gain[:, None, :] for matrix, gain in zip(averages, gains, strict=True)]


def value_gain(
    block: nn.Module,
    tokens: Float[Tensor, "batch tokens width"],
    protocol: Protocol,
    source: Float[Tensor, "batch tokens width"] | None = None,
) -> Float[Tensor, "batch tokens"]:
    """alpha of every token for one block; `source` is what the values are made of, if not they."""
    source, bias = tokens if source is None else source, None
    weight, value_bias = value_projection(block.attn)
    if protocol == "published":
        source, bias = block.norm1(source), value_bias
    moved = nn.functional.linear(source, weight, bias) @ block.attn.proj.weight.T
    moved = scale_branch(block, 1, moved)
    return moved.norm(dim=-1) / tokens.norm(dim=-1)


PERCEPTIONS: dict[str, Perception] = {
    "none": Perception(average_matrices),
    "last_attention": Perception(average_matrices),
    "avg_attention": Perception(average_matrices),
    "head_wise": Perception(head_wise_matrices, needs_gradients=True),
    "token_wise": Perception(token_wise_matrices, moves_tokens=True),
}
