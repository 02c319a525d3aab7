"""Transformer attribution and partial LRP: relevance of the attention maps by LRP."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from relevit.attention.recording import Inputs
from relevit.attention.token_rows import Pooling
from relevit.attribution.lrp import from_head, through_blocks
from relevit.attribution.method import Target, method
from relevit.attribution.replay import record_layers
from relevit.attribution.seen import observe


@method()
def transformer_attribution(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    start_block: int = 1,
    mean_shares: bool = True,
    interleaved: bool = True,
    pooling: Pooling | None = None,
) -> Float[Tensor, "batch patches"]:
    """R <- R + A_bar R, with A_bar the mean over heads of (grad A * relevance of A)^+.

    Source: Chefer, Gur, Wolf 2021 (CVPR). The published scripts leave out the first block
    (`start_block`, differences C16). `mean_shares` and `interleaved` as `from_head`.
    """
    with record_layers(model) as made:
        seen = observe(model, images, target, gradients="all", pooling=pooling)
    matrices = [torch.zeros_like(attention[:, 0]) for attention in seen.maps]
    with torch.no_grad():
        relevance = from_head(
            model, seen, mean_shares=mean_shares, interleaved=interleaved, made=made
        )
        found = through_blocks(model, seen, relevance, made=made, stop=start_block)
        for i, share in zip(reversed(range(start_block - 1, len(matrices))), found, strict=True):
            matrices[i] = (seen.gradients[i] * share.attention).clamp(min=0).mean(dim=1)
        return seen.pool(seen.propagate(matrices, start_block))


@method()
def partial_lrp(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    mean_shares: bool = True,
    interleaved: bool = True,
    plain: bool = False,
    pooling: Pooling | None = None,
) -> Float[Tensor, "batch patches"]:
    """Relevance of the last block's attention map: positive part, mean over heads.

    Source: Voita et al. 2019; Beyond Intuition App. B, whose text calls it class-agnostic:
    its map depends on the class all the same (differences C18). `plain` takes the rules of
    the first published code. `mean_shares` and `interleaved` as `from_head`.
    """
    with torch.no_grad():
        seen = observe(model, images, target, pooling=pooling)
        relevance = from_head(
            model, seen, mean_shares=mean_shares, interleaved=interleaved, plain=plain
        )
        [last] = through_blocks(model, seen, relevance, plain=plain, stop=len(model.blocks))
        relevance = last.attention.clamp(min=0).mean(dim=1)
        return seen.pool(seen.rows(relevance))
