"""Weights of transformers' and torchvision's Vision Transformer, under timm's names for them.

Of transformers' both as `save_pretrained` writes them and as its modules hold them since version 5.
Its norms add 1e-12 to a variance and timm's 1e-6, so logits differ in the sixth digit or so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor

BLOCK = r"(?:encoder\.layer|layers|encoder\.layers\.encoder_layer_)\.?(\d+)\."
PATCHES = r"(?:embeddings\.patch_embeddings\.projection|conv_proj)\."
# A name's end, and what timm has in place of it.
NAMES = (
    (PATCHES, "patch_embed.proj."),
    (r"(?:embeddings\.position_embeddings|encoder\.pos_embedding)$", "pos_embed"),
    (r"(?:embeddings\.cls_token|class_token)$", "cls_token"),
    (BLOCK + r"(?:layernorm_before|ln_1)\.", r"blocks.\1.norm1."),
    (BLOCK + r"(?:layernorm_after|ln_2)\.", r"blocks.\1.norm2."),
    (BLOCK + r"attention\.(?:attention\.)?([qkv])[a-z_]+\.", r"blocks.\1.attn.\2."),
    (BLOCK + r"self_attention\.in_proj_", r"blocks.\1.attn.qkv."),
    (
        BLOCK + r"(?:attention\.output\.dense|attention\.o_proj|self_attention\.out_proj)\.",
        r"blocks.\1.attn.proj.",
    ),
    (BLOCK + r"(?:intermediate\.dense|mlp\.(?:fc1|0|linear_1))\.", r"blocks.\1.mlp.fc1."),
    (BLOCK + r"(?:output\.dense|mlp\.(?:fc2|3|linear_2))\.", r"blocks.\1.mlp.fc2."),
    (r"(?:layernorm|encoder\.ln)\.(?=\w+$)", "norm."),
    (r"heads\.head\.", "head."),
)


def named_as_timm(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """All tensors, those of such a network by timm's names; others as they are."""
    if not any(re.search(rf"(?:^|\.){PATCHES}weight$", name) for name in tensors):
        return dict(tensors)
    named = {_renamed(name): value for name, value in tensors.items()}
    for name in [name for name in named if ".attn.q." in name]:
        parts = [name.replace(".attn.q.", f".attn.{part}.") for part in "qkv"]
        if all(part in named for part in parts):
            joined = torch.cat([named.pop(part) for part in parts])
            named[name.replace(".attn.q.", ".attn.qkv.")] = joined
    return named


def _renamed(name: str) -> str:
    for pattern, ours in NAMES:
        changed, found = re.subn(rf"(?<![^.]){pattern}", ours, name)
        if found:
            return changed
    return name
