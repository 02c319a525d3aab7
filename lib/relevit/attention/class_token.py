"""The last block, worked for the class token alone where the head reads nothing else.

The other tokens' last queries and their rows of the last MLP change no logit. Without them the last
block costs a sixth of a whole one, in both directions: some 8 % of the time of twelve blocks.
Models get it where they are made (`with_short_last_block`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from jaxtyping import Float
from timm.layers import Attention
from timm.models.vision_transformer import Block, VisionTransformer
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention


class ShortVisionTransformer(VisionTransformer):
    """timm's model, whose last block works for the class token alone when all of it is run.

    `forward` gives the same logits and gradients as before. `forward_features`, the blocks by
    themselves, and a forward pass that somebody watches (`reads_class_token_only`) stay whole.
    """

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        with class_token_only(self):
            return super().forward(*args, **kwargs)


def with_short_last_block(model: nn.Module) -> nn.Module:
    """The model itself, as a `ShortVisionTransformer` where its head reads the class token alone.

    For the place where a model is made. Its weights, names and hooks are as they were; so are
    models of another kind. Copies of the model, deep or shallow, are of its kind.
    """
    if type(model) is VisionTransformer and reads_class_token_only(model):
        model.__class__ = ShortVisionTransformer
    return model


@contextmanager
def class_token_only(model: nn.Module) -> Iterator[None]:
    """Let the last block work for the class token alone; the logits and gradients are the same.

    Where `reads_class_token_only` is false, nothing changes. Inside, `forward_features` gives the
    class token alone. The model is as it was afterwards.
    """
    if not reads_class_token_only(model):
        yield
        return
    shorten(model)
    try:
        yield
    finally:
        # Another thread may have put it back: then this one's block worked whole, to the same end.
        vars(model.blocks[-1]).pop("forward", None)


def shorten(model: nn.Module) -> None:
    """As `class_token_only`, for good: for a copy that only has to answer."""
    if reads_class_token_only(model):
        last = model.blocks[-1]
        last.forward = partial(_class_token_block, last)


def reads_class_token_only(model: nn.Module) -> bool:
    """Whether the class token's row of the last block is all that the head, or a hook, sees.

    True for timm's plain Vision Transformer with class-token pooling and standard blocks, unless
    there is a hook from the last block to the head, that block or its attention has a forward or a
    `qkv` of its own (LoRA, quantisation), or the backward pass runs it again (checkpointing).
    """
    blocks = getattr(model, "blocks", ())
    block = blocks[-1] if len(blocks) else None
    return (
        type(model) in (VisionTransformer, ShortVisionTransformer)
        and model.global_pool == "token"
        and model.has_class_token
        and getattr(model, "attn_pool", None) is None
        and type(block) is Block
        and type(block.attn) is Attention
        and type(block.attn.qkv) is nn.Linear
        and getattr(block.attn, "gate", None) is None
        and not model.grad_checkpointing
        and not any("forward" in vars(module) for module in (block, *block.attn.modules()))
        and not any(map(_hooked, (blocks, *block.modules(), model.norm)))
    )


def _hooked(module: nn.Module) -> bool:
    before, after = module._forward_pre_hooks, module._forward_hooks
    return bool(before or after or module._backward_pre_hooks or module._backward_hooks)


def _class_token_block(
    block: Block, tokens: Float[Tensor, "batch tokens width"]
) -> Float[Tensor, "batch 1 width"]:
    """The block's output for the class token: one query row, one row through the MLP."""
    mixed = _class_token_attention(block.attn, block.norm1(tokens))
    residual = tokens[:, :1] + block.drop_path1(block.ls1(mixed))
    return residual + block.drop_path2(block.ls2(block.mlp(block.norm2(residual))))


def _class_token_attention(
    attention: Attention, tokens: Float[Tensor, "batch tokens width"]
) -> Float[Tensor, "batch 1 width"]:
    batch, count, _ = tokens.shape
    heads = (attention.num_heads, attention.head_dim)
    width = attention.num_heads * attention.head_dim
    weight, bias = attention.qkv.weight, attention.qkv.bias
    query_bias, rest_bias = (None, None) if bias is None else (bias[:width], bias[width:])
    query = linear(tokens[:, :1], weight[:width], query_bias).reshape(batch, 1, *heads)
    rest = linear(tokens, weight[width:], rest_bias).reshape(batch, count, 2, *heads)
    key, value = rest.permute(2, 0, 3, 1, 4).unbind(0)
    query, key = attention.q_norm(query.transpose(1, 2)), attention.k_norm(key)
    if attention.fused_attn:
        dropout = attention.attn_drop.p if attention.training else 0.0
        mixed = scaled_dot_product_attention(query, key, value, dropout_p=dropout)
    else:
        scores = (query * attention.scale) @ key.transpose(-2, -1)
        mixed = attention.attn_drop(scores.softmax(dim=-1)) @ value
    mixed = attention.norm(mixed.transpose(1, 2).reshape(batch, 1, width))
    return attention.proj_drop(attention.proj(mixed))
