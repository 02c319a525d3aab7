"""What TokenCut cuts: the keys of a Vision Transformer's last block."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import torch
from jaxtyping import Float
from timm.layers import resample_abs_pos_embed
from torch import Tensor, nn

from relevit.attention.token_rows import prefix_tokens
from relevit.config.words import KeyBias
from relevit.models.dinov2 import load_dinov2
from relevit.models.loading import load_model, load_pretrained, model_spec
from relevit.models.registry import PAPER_MODELS, paper_spec
from relevit.models.spec import ModelSpec


def feature_spec(name: str) -> ModelSpec:
    """The backbone with the pixel statistics of its own pretraining, as TokenCut has it for DINO.

    Finetuning shows all the papers' models another mean and std (differences B5).
    Raises: ValueError for an unknown name.
    """
    return paper_spec(name, "timm") if name in PAPER_MODELS else model_spec(name)


def feature_model(
    name: str, side: int, device: torch.device | str = "cpu", weights: Path | None = None
) -> nn.Module:
    """A backbone for TokenCut that takes squares of `side` pixels, in eval mode.

    `dino-b` is the paper's (differences B14); `weights` is its file (`runs.origin_weights`).
    `dinov2-s` is DINOv2 as it was pretrained, without any label; its position embedding is
    resampled once, from the pretrained grid to the new one. A shipped model such as `tiny-mae`
    has been finetuned with labels after its pretraining.
    Raises: ValueError for an unknown name or a side that its patches do not divide, and as
    `load_dinov2`.
    """
    model = load_pretrained(name) if name == "dinov2-s" else load_model(name, weights)
    patch = model.patch_embed.patch_size[0]
    if side < patch or side % patch:
        raise ValueError(
            f"feature_model: {side} px are no whole number of {name}'s patches; use a multiple "
            f"of {patch}"
        )
    model.set_input_size(img_size=side)
    if name == "dinov2-s":
        grid = list(model.patch_embed.grid_size)
        with torch.no_grad():
            model.pos_embed.copy_(resample_abs_pos_embed(load_dinov2()["pos_embed"], grid))
    return model.eval().to(device)


@torch.no_grad()
def key_features(
    model: nn.Module, images: Float[Tensor, "batch 3 height width"], bias: KeyBias = "removed"
) -> Float[Tensor, "batch patches channels"]:
    """The patches' keys of the last block, all heads side by side.

    Source: TokenCut, as RobustViT's script calls it (differences B14), with `bias="kept"`.
    One vector added to all keys adds the same to all scores of a query, which softmax takes out
    again. So the bias of the key layer does nothing, has no gradient, and says nothing of the
    image (unless a norm of the keys follows). DINOv2's is twice as long as the rest of its keys:
    with it, all patches look alike and there is nothing to cut. `removed` takes it off.
    `images` are normalised. The model's mode and hooks are left as they were.
    Raises: ValueError for another bias, or a model without a joint layer for query, key and
    value in its last block.
    """
    if bias not in get_args(KeyBias):
        raise ValueError(f"key_features: bias is {bias!r}; use one of {get_args(KeyBias)}")
    layer = getattr(getattr(getattr(model, "blocks", [None])[-1], "attn", None), "qkv", None)
    if not isinstance(layer, nn.Linear):
        raise ValueError(
            f"key_features: {type(model).__name__} has no linear layer blocks[-1].attn.qkv; use a "
            "timm Vision Transformer"
        )
    outputs = []
    handle = layer.register_forward_hook(lambda module, inputs, output: outputs.append(output))
    try:
        model(images)
    finally:
        handle.remove()
    keys = outputs[-1].chunk(3, dim=2)[1]
    if bias == "removed" and layer.bias is not None:
        keys = keys - layer.bias.chunk(3)[1]
    return keys[:, prefix_tokens(model) :]
