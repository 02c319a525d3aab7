"""Transformer attribution and partial LRP: relevance of the attention maps by LRP."""

from __future__ import annotations

import torch
from torch import nn

from relevit.attention.recording import Inputs
from relevit.attention.token_rows import Pooling
from relevit.attribution.lrp import through_blocks
from relevit.attribution.method import Target, method
from relevit.attribution.seen import Map, observe


@method(float64=True)
def transformer_attribution(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    start_block: int = 1,
    pooling: Pooling | None = None,
    **head: bool,
) -> Map:
    """R <- R + A_bar R, with A_bar the mean over heads of (grad A * relevance of A)^+.

    Source: Chefer, Gur, Wolf 2021 (CVPR). The published scripts leave out the first block
    (`start_block`, differences C16). `head` are options of `lrp.from_head`.
    """
    seen = observe(model, images, target, gradients="all", pooling=pooling)
    matrices = [torch.zeros_like(attention[:, 0]) for attention in seen.maps]
    with torch.no_grad():
        found = through_blocks(model, seen, stop=start_block, **head)
        for i, relevance in zip(reversed(range(len(matrices))), found, strict=False):
            matrices[i] = (seen.gradients[i] * relevance.attention).clamp(min=0).mean(dim=1)
        return seen.pool(seen.propagate(matrices, start_block)).to(images.dtype)


@method(float64=True)
def partial_lrp(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    plain: bool = False,
    pooling: Pooling | None = None,
    **head: bool,
) -> Map:
    """Relevance of the last block's attention map: positive part, mean over heads.

    Source: Voita et al. 2019; Beyond Intuition App. B, whose text calls it class-agnostic:
    its map depends on the class all the same (differences C18). `plain` takes the rules of
    the first published code, see `lrp.through_block`; `head` are options of `lrp.from_head`.
    """
    with torch.no_grad():
        seen = observe(model, images, target, pooling=pooling)
        [last] = through_blocks(model, seen, plain=plain, stop=len(model.blocks), **head)
        relevance = last.attention.clamp(min=0).mean(dim=1)
        return seen.pool(seen.rows(relevance)).to(images.dtype)
