"""Layer-wise relevance propagation (LRP) down to the pixels."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from timm.layers import resample_abs_pos_embed
from torch import Tensor, nn

from relevit.attention.rows import Pooling
from relevit.attribution import lrp_rules as rules
from relevit.attribution.lrp_model import from_head, through_blocks
from relevit.attribution.observe import observe
from relevit.attribution.pixels import sum_over_patches
from relevit.relevance import Protocol, check_protocol


def lrp(
    model: nn.Module,
    images: Float[Tensor, "batch 3 height width"],
    target: Int[Tensor, " batch"] | None = None,
    *,
    protocol: Protocol = "published",
    plain: bool = False,
    pooling: Pooling | None = None,
) -> Float[Tensor, "batch patches"]:
    """Relevance of every patch: the sum of `lrp_pixels` over its pixels.

    `protocol` matters for average pooling alone, see `lrp_model.from_head`. Raises: as `observe`.
    """
    check_protocol(protocol)
    pixels = lrp_pixels(model, images, target, protocol=protocol, plain=plain, pooling=pooling)
    return sum_over_patches(model, pixels)


def lrp_pixels(
    model: nn.Module,
    images: Float[Tensor, "batch 3 height width"],
    target: Int[Tensor, " batch"] | None = None,
    *,
    protocol: Protocol = "published",
    plain: bool = False,
    pooling: Pooling | None = None,
) -> Float[Tensor, "batch height width"]:
    """Relevance of every pixel for the class's logit, summed over colours.

    Source: Bach et al. 2015 with the rules of Chefer et al. 2021 (CVPR). `plain` takes the
    older rules, see `lrp_model.through_blocks`. Raises: as `observe`.
    """
    with torch.no_grad():
        seen = observe(model, images, target, pooling=pooling, whole=True)
        relevance = from_head(model, seen, protocol, plain=plain)
        for found in through_blocks(model, seen, relevance, plain=plain):
            relevance = found.tokens
        embedded, position = _embedded(model, seen.inputs[0], images)
        if position is not None:
            relevance, _ = rules.through_sum(
                relevance, embedded - position, position, normalise=not plain
            )
        patches = relevance[:, seen.prefix :]
        return rules.through_patches(patches, images, model.patch_embed.proj).sum(dim=1)


def _embedded(model: nn.Module, tokens: Tensor, images: Tensor) -> tuple[Tensor, Tensor | None]:
    """The embedded tokens, and the position embedding as it was added to all of them.

    It is zero for a token that has none, and None where no token has one.
    """
    if not isinstance(getattr(model, "norm_pre", nn.Identity()), nn.Identity):
        tokens = model._pos_embed(model.patch_embed(images))  # CLIP: a norm comes after it
    embedding = getattr(model, "pos_embed", None)
    if embedding is None:
        return tokens, None
    if getattr(model, "dynamic_img_size", False):
        embedding = resample_abs_pos_embed(
            embedding,
            new_size=list(model.patch_embed.dynamic_feat_size(images.shape[-2:])),
            old_size=list(model.patch_embed.grid_size),
            num_prefix_tokens=0 if model.no_embed_class else model.num_prefix_tokens,
        )
    missing = tokens.shape[1] - embedding.shape[1]
    return tokens, nn.functional.pad(embedding, (0, 0, missing, 0)).expand_as(tokens)
