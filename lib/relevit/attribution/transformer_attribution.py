"""Transformer attribution and partial LRP: relevance of the attention maps by LRP."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from relevit.attention.recording import Inputs
from relevit.attention.token_rows import Pooling, carry_rows, pool_rows, read_rows
from relevit.attribution.lrp import from_head, through_blocks
from relevit.attribution.observe import first_block, observe
from relevit.attribution.replay import record_layers
from relevit.relevance import Protocol, Target, explaining


@explaining
def transformer_attribution(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    protocol: Protocol = "published",
    start_block: int | None = None,
    pooling: Pooling | None = None,
) -> Float[Tensor, "batch patches"]:
    """R <- R + A_bar R, with A_bar the mean over heads of (grad A * relevance of A)^+.

    Source: Chefer, Gur, Wolf 2021 (CVPR). The published scripts leave out the first block
    (differences C16). Raises: as `observe` and `first_block`.
    """
    start = first_block(model, start_block, protocol, "transformer_attribution")
    with record_layers(model) as made:
        seen = observe(model, images, target, gradients="all", pooling=pooling, whole=True)
    matrices = [torch.zeros_like(attention[:, 0]) for attention in seen.maps]
    with torch.no_grad():
        relevance = from_head(model, seen, protocol, made=made)
        found = through_blocks(model, seen, relevance, made=made, stop=start)
        for i, share in zip(reversed(range(start - 1, len(matrices))), found, strict=True):
            matrices[i] = (seen.gradients[i] * share.attention).clamp(min=0).mean(dim=1)
        rows = carry_rows(matrices, seen.pooling, seen.prefix, start)
        return pool_rows(rows, seen.pooling, seen.prefix)


@explaining
def partial_lrp(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    protocol: Protocol = "published",
    plain: bool = False,
    pooling: Pooling | None = None,
) -> Float[Tensor, "batch patches"]:
    """Relevance of the last block's attention map: positive part, mean over heads.

    Source: Voita et al. 2019; Beyond Intuition App. B, whose text calls it class-agnostic:
    its map depends on the class all the same (differences C18). `plain` takes the rules of
    the first published code. `protocol` matters where the head reads a mean, see `from_head`.
    Raises: as `observe`.
    """
    with torch.no_grad():
        seen = observe(model, images, target, pooling=pooling, whole=True)
        relevance = from_head(model, seen, protocol, plain=plain)
        [last] = through_blocks(model, seen, relevance, plain=plain, stop=len(model.blocks))
        relevance = last.attention.clamp(min=0).mean(dim=1)
        return pool_rows(read_rows(relevance, seen.pooling, seen.prefix), seen.pooling, seen.prefix)
