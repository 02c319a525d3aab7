"""Layer-wise relevance propagation (LRP), from a class's logit through the blocks to the pixels.

The model is not rewritten: each block is computed again from the tokens before it, recorded in
one forward pass, and the rules of `lrp_rules` go through it backwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from timm.layers import resample_abs_pos_embed
from torch import Tensor, nn

from relevit.attention.patches import fitted, over_patches, patch_grid
from relevit.attention.token_rows import Pooling, head_pooling
from relevit.attribution import lrp_rules as rules
from relevit.attribution.layers import block_layers, check_weights
from relevit.attribution.method import Target, method
from relevit.attribution.pixels.pixel_gradients import need_pixels, sum_over_patches
from relevit.attribution.replay import Replay, check_parts, check_replay, replay
from relevit.attribution.seen import Map, Seen, observe

AVERAGED = ("patches", "all_tokens")


@method(float64=True)
def lrp(
    model: nn.Module,
    images: Float[Tensor, "batch 3 height width"],
    target: Target = None,
    **options: Any,
) -> Map:
    """Relevance of every patch: the sum of `lrp_pixels`, whose the `options` are, over its pixels.

    Source: Bach et al. 2015 with the rules of Chefer et al. 2021 (CVPR).
    """
    return sum_over_patches(model, lrp_pixels(model, images, target, **options))


@torch.no_grad()
def lrp_pixels(
    model: nn.Module,
    images: Float[Tensor, "batch 3 height width"],
    target: Target = None,
    *,
    plain: bool = False,
    pooling: Pooling | None = None,
    **head: bool,
) -> Float[Tensor, "batch height width"]:
    """Relevance of every pixel for the class's logit, summed over colours.

    `plain` takes the older rules, see `through_block`; `head` are options of `from_head`.
    """
    seen = observe(model, images, target, pooling=pooling)
    need_pixels(model)
    grid = patch_grid(model, images)
    check_weights(model, ["patch_embed.proj"], "lrp")
    for found in through_blocks(model, seen, plain=plain, **head):
        relevance = found.tokens
    embedded, position = _embedded(model, seen.inputs[0], images)
    if position is not None:
        # Tokens that have none are in no sum, and no part of what is rescaled.
        first = embedded.shape[1] - position.shape[1]
        summed, _ = rules.through_sum(
            relevance[:, first:], embedded[:, first:] - position, position, normalise=not plain
        )
        relevance = torch.cat([relevance[:, :first], summed], dim=1)
    patches = relevance[:, seen.prefix :].transpose(1, 2).unflatten(2, grid)
    weight = model.patch_embed.proj.weight
    pixels = rules.through_patches(patches, over_patches(images, grid), weight)
    return fitted(pixels.sum(dim=1), tuple(images.shape[2:])).to(images.dtype)


def _embedded(model: nn.Module, tokens: Tensor, images: Tensor) -> tuple[Tensor, Tensor | None]:
    """The embedded tokens, and the position embedding as it was added to the last of them.

    It is shorter where tokens before the patches have none, and None where no token has one.
    """
    if not isinstance(getattr(model, "norm_pre", nn.Identity()), nn.Identity):
        tokens = model._pos_embed(model.patch_embed(images))  # CLIP: a norm comes after it
    embedding = getattr(model, "pos_embed", None)
    if embedding is None:
        return tokens, None
    if getattr(model, "dynamic_img_size", False):
        embedding = resample_abs_pos_embed(
            embedding,
            new_size=list(patch_grid(model, images)),
            old_size=list(model.patch_embed.grid_size),
            num_prefix_tokens=0 if model.no_embed_class else model.num_prefix_tokens,
        )
    return tokens, embedding.expand(len(tokens), -1, -1)


class BlockRelevance(NamedTuple):
    """Relevance inside one block: of its attention map and of the tokens before it."""

    attention: Float[Tensor, "batch heads query key"]
    tokens: Float[Tensor, "batch tokens width"] | None


def through_blocks(
    model: nn.Module, seen: Seen, *, plain: bool = False, stop: int = 0, **head: bool
) -> Iterator[BlockRelevance]:
    """From the class's logit through the blocks, from the last to the first.

    Block `stop`, counted from 1, is the last one gone through, and only as far as its attention
    map; 0 means all of them, down to the first block's tokens. `plain` as
    `through_block`, `head` as `from_head`.
    Raises: ValueError for a model that computes something the rules do not know.
    """
    first, depth = max(stop, 1), len(model.blocks)
    check_parts(model)
    check_weights(model, [*block_layers(model, first=first), *_head_layers(model)], "lrp")
    for number in range(depth, first - 1, -1):
        i = number - 1
        what = "the last block or the head" if number == depth else f"block {number}"
        again = replay(model.blocks[i], seen.inputs[i], seen.maps[i])
        if number == depth:
            relevance = from_head(model, seen, again.output, plain=plain, **head)
        else:
            check_replay(model, again.output, seen.inputs[number], what)
        found = through_block(again, relevance, plain=plain, down=number != stop)
        relevance = found.tokens
        yield found


def through_block(
    again: Replay, relevance: Tensor, *, plain: bool = False, down: bool = True
) -> BlockRelevance:
    """Relevance of a block's output handed to its attention map and, if `down`, to its tokens.

    `plain` takes the rules of the first published LRP for ViT: linear layers with their parts
    apart, sums without normalising (differences C18).
    """
    linear = partial(rules.through_linear, apart=plain)
    sums = partial(rules.through_sum, normalise=not plain)
    # In the last block only the tokens that the head reads have any relevance.
    live = relevance.abs().amax(dim=(0, 2)).nonzero()
    count = int(live.max()) + 1 if len(live) else 1
    again, relevance = again.cut(count), relevance[:, :count]

    def whole(values: Tensor) -> Tensor:
        return nn.functional.pad(values, (0, 0, 0, again.value.shape[2] - count))

    kept, branch = sums(relevance, again.middle, again.changed)
    branch = linear(linear(branch, *again.fc2), *again.fc1)
    kept, branch = sums(kept + branch, again.tokens, again.attended)
    branch = linear(branch, *again.proj)
    branch = branch.unflatten(2, (again.value.shape[1], -1)).transpose(1, 2)
    of_map, of_value = rules.through_product(branch, again.attention, again.value)
    if not down:
        return BlockRelevance(whole(of_map), None)
    of_query, of_key = rules.through_product(of_map, again.query, again.key.transpose(-1, -2))
    joint = torch.stack([whole(of_query), of_key.transpose(-1, -2), of_value])
    joint = joint.permute(1, 3, 0, 2, 4).flatten(2)
    return BlockRelevance(whole(of_map), whole(kept) + linear(joint, *again.qkv))


# The head


def from_head(
    model: nn.Module,
    seen: Seen,
    output: Float[Tensor, "batch tokens width"],
    *,
    mean_shares: bool = True,
    interleaved: bool = True,
    plain: bool = False,
) -> Float[Tensor, "batch tokens width"]:
    """Relevance of the last block's `output`: 1 at the logit of the class, 0 at the others.

    A head that averages the patches, or all tokens, hands each its share in the mean; without
    `mean_shares` each gets the whole, and relevance is not conserved there (F1). DINO's head reads
    class token and mean interleaved, whatever `pooling` asks for; without `interleaved` it is
    split as if its first half read the class token (D5). Each of the two heads of a distilled DeiT
    gets half of the relevance: a choice of ours, that no paper makes (F13). By what each adds to
    the logit, the sum rule, the maps would be others (seen: by 9 to 57 %). The final norm, its eps
    and its place before or after the mean, is the model's own (C17, D4).
    """
    tokens, first = model.norm(output), seen.prefix  # of the tokens that a mean is of
    heads = [getattr(model, name) for name in _heads(model)]
    reads = "both" if head_pooling(model) == "both" else seen.pooling
    if reads == "both":
        read = [model.pool(tokens)]
    elif reads in AVERAGED:
        first = 0 if reads == "all_tokens" else seen.prefix
        read = [tokens[:, first:].mean(dim=1)]
    else:
        read = [tokens[:, i] for i in range(len(heads))]
    norm = getattr(model, "fc_norm", nn.Identity())
    inputs = [norm(pooled) for pooled in read]
    if seen.pooling == head_pooling(model):
        logits = sum(head(x) for head, x in zip(heads, inputs, strict=True)) / len(heads)
        check_replay(model, logits, seen.logits, "the last block or the head")

    linear = partial(rules.through_linear, apart=plain)
    one_hot = nn.functional.one_hot(seen.target, seen.logits.shape[1]).to(tokens)
    shares = [
        linear(one_hot / len(heads), x, head.weight) for head, x in zip(heads, inputs, strict=True)
    ]
    if hasattr(norm, "dense"):  # BERT's pooler
        shares = [linear(r, x, norm.dense.weight) for r, x in zip(shares, read, strict=True)]
    result = shares[0].new_zeros(tokens.shape)
    if reads not in ("both", *AVERAGED):
        for i, share in enumerate(shares):  # distilled: the logits are the mean of two heads
            result[:, i] = share
        return result
    of_mean = shares[0]
    if reads == "both":
        halves = of_mean.unflatten(1, (-1, 2)).unbind(2) if interleaved else of_mean.chunk(2, 1)
        result[:, 0], of_mean = halves
    meant = tokens[:, first:]
    result[:, first:] = rules.through_mean(of_mean, meant) if mean_shares else of_mean[:, None]
    return result


def _heads(model: nn.Module) -> list[str]:
    return ["head", "head_dist"] if hasattr(model, "head_dist") else ["head"]


def _head_layers(model: nn.Module) -> list[str]:
    pooler = hasattr(getattr(model, "fc_norm", None), "dense")
    return [*_heads(model), *(["fc_norm.dense"] if pooler else [])]
