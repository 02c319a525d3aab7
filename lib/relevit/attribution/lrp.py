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

from relevit.attention.token_rows import Pooling, head_pooling, prefix_tokens
from relevit.attribution import lrp_rules as rules
from relevit.attribution.method import Target, method
from relevit.attribution.pixel_gradients import patch_sides, sum_over_patches
from relevit.attribution.replay import (
    Made,
    Replay,
    check_made,
    check_parts,
    check_replay,
    qkv_bias,
    replay,
)
from relevit.attribution.seen import Seen, observe


@method()
def lrp(
    model: nn.Module,
    images: Float[Tensor, "batch 3 height width"],
    target: Target = None,
    **options: Any,
) -> Float[Tensor, "batch patches"]:
    """Relevance of every patch: the sum of `lrp_pixels` over its pixels.

    `options` and errors: as `lrp_pixels`.
    """
    return sum_over_patches(model, lrp_pixels(model, images, target, **options))


def lrp_pixels(
    model: nn.Module,
    images: Float[Tensor, "batch 3 height width"],
    target: Target = None,
    *,
    mean_shares: bool = True,
    interleaved: bool = True,
    plain: bool = False,
    pooling: Pooling | None = None,
) -> Float[Tensor, "batch height width"]:
    """Relevance of every pixel for the class's logit, summed over colours.

    Source: Bach et al. 2015 with the rules of Chefer et al. 2021 (CVPR). `plain` takes the
    older rules, see `through_blocks`; `mean_shares` and `interleaved` as `from_head`.
    """
    with torch.no_grad():
        seen = observe(model, images, target, pooling=pooling)
        relevance = from_head(
            model, seen, mean_shares=mean_shares, interleaved=interleaved, plain=plain
        )
        patch_sides(model)  # refuses what is not made of pixels, before long work
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


class BlockRelevance(NamedTuple):
    """Relevance inside one block: of its attention map and of the tokens before it."""

    attention: Float[Tensor, "batch heads query key"]
    tokens: Float[Tensor, "batch tokens width"] | None


def from_head(
    model: nn.Module,
    seen: Seen,
    *,
    mean_shares: bool = True,
    interleaved: bool = True,
    plain: bool = False,
    made: list[Made] | None = None,
) -> Float[Tensor, "batch tokens width"]:
    """Relevance of the last block's output: 1 at the logit of the class, 0 at the others.

    A head that averages the patches hands each its share in the mean; without `mean_shares` each
    gets the whole, so that relevance is not conserved there (differences F1). DINO's head
    reads class token and mean, whatever `pooling` asks for: see `_from_both` (D5). The final norm,
    its eps and its place before or after the mean, is the model's own (C17, D4). `made` as
    `record_layers` gives it.
    Raises: ValueError for a model that computes something the rules do not know.
    """
    check_parts(model)
    heads = _heads(model)
    if not all(hasattr(head, "weight") for head in heads):
        raise ValueError(
            f"lrp: the head of this {type(model).__name__} is {heads[0]} and no linear layer, so "
            "that there are no classes; give it one: model.reset_classifier(classes)"
        )
    tokens = seen.inputs[-1]
    what = "the last block or the head"
    again = replay(model.blocks[-1], tokens, seen.maps[-1], made[-1] if made else None)
    if made:
        check_made(model, model.blocks[-1], again, what)
    after = model.norm(again.output)
    if seen.pooling == head_pooling(model):
        check_replay(model, _logits(model, seen, after), seen.logits, what)
    one_hot = nn.functional.one_hot(seen.target, seen.logits.shape[1]).to(tokens)
    result = torch.zeros_like(tokens)
    if seen.pooling == "patches":
        pooled = after[:, seen.prefix :].mean(dim=1)
        relevance = rules.through_linear(
            one_hot, _head_norm(model, pooled), model.head.weight, apart=plain
        )
        shares = rules.through_mean(relevance, after[:, seen.prefix :])
        result[:, seen.prefix :] = shares if mean_shares else relevance[:, None]
        return result
    if head_pooling(model) == "both":
        return _from_both(model, one_hot, after, mean_shares, interleaved, plain)
    for i, head in enumerate(heads):  # distilled: the logits are the mean of two heads
        inputs = _head_norm(model, after[:, i])
        relevance = rules.through_linear(one_hot / len(heads), inputs, head.weight, apart=plain)
        dense = getattr(getattr(model, "fc_norm", None), "dense", None)
        if dense is not None:  # BERT's pooler
            relevance = rules.through_linear(relevance, after[:, i], dense.weight, apart=plain)
        result[:, i] = relevance
    return result


def _from_both(
    model: nn.Module,
    one_hot: Tensor,
    after: Tensor,
    mean_shares: bool,
    interleaved: bool,
    plain: bool,
) -> Tensor:
    """Relevance of the tokens that DINO's classifier reads, where it reads them interleaved.

    Without `interleaved` it is split as if the classifier's first half read the class token
    (differences D5).
    """
    relevance = rules.through_linear(one_hot, model.pool(after), model.head.weight, apart=plain)
    prefix, width = prefix_tokens(model), after.shape[2]
    result = torch.zeros_like(after)
    if interleaved:
        of_class, of_mean = relevance[:, 0::2], relevance[:, 1::2]
    else:
        of_class, of_mean = relevance[:, :width], relevance[:, width:]
    result[:, 0] = of_class
    shares = rules.through_mean(of_mean, after[:, prefix:])
    result[:, prefix:] = shares if mean_shares else of_mean[:, None]
    return result


def through_blocks(
    model: nn.Module,
    seen: Seen,
    relevance: Tensor,
    *,
    plain: bool = False,
    made: list[Made] | None = None,
    stop: int = 0,
) -> Iterator[BlockRelevance]:
    """Go through the blocks from the last to the first.

    `plain=True` takes the rules of the first published LRP for ViT: `through_linear` with the
    parts apart, `through_sum` without normalising (differences C18). `made` as `record_layers`
    gives it. Block `stop`, counted from 1, is the last one gone through, and only as far as its
    attention map; 0 means all of them, down to the first block's tokens.
    Raises: ValueError for a block that computes something the rules do not know.
    """
    first = max(stop, 1)
    for i in reversed(range(first - 1, len(model.blocks))):
        block, tokens, attention = model.blocks[i], seen.inputs[i], seen.maps[i]
        again = replay(block, tokens, attention, made[i] if made else None)
        if i + 1 < len(model.blocks):
            if made:
                check_made(model, block, again, f"block {i + 1}")
            check_replay(model, again.output, seen.inputs[i + 1], f"block {i + 1}")
        found = _to_attention(block, tokens, attention, again, relevance, plain)
        of_map = found[1]
        of_map = nn.functional.pad(of_map, (0, 0, 0, of_map.shape[3] - of_map.shape[2]))
        if i + 1 == stop:
            yield BlockRelevance(of_map, None)
            return
        relevance = _to_tokens(block, again, *found, plain)
        yield BlockRelevance(of_map, relevance)


def _to_attention(
    block: nn.Module,
    tokens: Tensor,
    attention: Tensor,
    again: Replay,
    relevance: Tensor,
    plain: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Relevance that the tokens keep, of the attention map and of the values.

    Later tokens than the last with any relevance are left out of the first two: in the last
    block, all but the class token where that is all the head reads.
    """
    live = relevance.abs().amax(dim=(0, 2)).nonzero()
    rows = slice(int(live.max()) + 1 if len(live) else 1)
    cut = again._replace(
        **{name: value[:, rows] for name, value in again._asdict().items() if value.ndim == 3}
    )
    sums = partial(rules.through_sum, normalise=not plain)
    kept, branch = sums(relevance[:, rows], cut.middle, cut.changed)
    branch = _through_layer(branch, cut.hidden, block.mlp.fc2, cut.second, plain)
    branch = _through_layer(branch, cut.hidden_input, block.mlp.fc1, cut.first, plain)
    kept, branch = sums(kept + branch, tokens[:, rows], cut.attended)
    branch = _through_layer(branch, cut.mixed, block.attn.proj, cut.projected, plain)
    branch = branch.unflatten(2, (block.attn.num_heads, -1)).transpose(1, 2)
    return kept, *rules.through_product(branch, attention[:, :, rows], again.value)


def _to_tokens(
    block: nn.Module, again: Replay, kept: Tensor, of_map: Tensor, of_value: Tensor, plain: bool
) -> Tensor:
    rows = slice(of_map.shape[2])
    missing = (0, 0, 0, of_value.shape[2] - of_map.shape[2])
    of_query, of_key = rules.through_product(
        of_map, again.query[:, :, rows], again.key.transpose(-1, -2)
    )
    of_query = nn.functional.pad(of_query, missing)
    joint = torch.stack([of_query, of_key.transpose(-1, -2), of_value])
    joint = joint.permute(1, 3, 0, 2, 4).flatten(2)
    layer = block.attn.qkv
    found = _through_layer(joint, again.normed, layer, again.joint, plain, qkv_bias(block.attn))
    return nn.functional.pad(kept, missing) + found


def _through_layer(
    relevance: Tensor,
    inputs: Tensor,
    layer: nn.Module,
    made: Tensor,
    plain: bool,
    bias: Tensor | None = None,
) -> Tensor:
    bias = layer.bias if bias is None else bias
    outputs = made if bias is None else made - bias
    return rules.through_linear(relevance, inputs, layer.weight, apart=plain, outputs=outputs)


def _heads(model: nn.Module) -> list[nn.Module]:
    return [model.head] + [h for h in [getattr(model, "head_dist", None)] if h is not None]


def _logits(model: nn.Module, seen: Seen, after: Tensor) -> Tensor:
    if seen.pooling == "patches":
        return model.head(_head_norm(model, after[:, seen.prefix :].mean(dim=1)))
    if head_pooling(model) == "both":
        return model.head(model.pool(after))
    heads = _heads(model)
    return sum(h(_head_norm(model, after[:, i])) for i, h in enumerate(heads)) / len(heads)


def _head_norm(model: nn.Module, pooled: Tensor) -> Tensor:
    return getattr(model, "fc_norm", nn.Identity())(pooled)
