"""The network whose features TokenCut cuts, on a grid of patches as fine as wanted."""

from __future__ import annotations

from pathlib import Path

import torch
from timm.layers import resample_abs_pos_embed
from torch import nn

from relevit.models.dinov2 import load_dinov2
from relevit.models.loading import load_model
from relevit.models.registry import model_spec
from relevit.models.spec import ModelSpec


def feature_spec(name: str) -> ModelSpec:
    """The backbone with the pixel statistics of its own pretraining, as TokenCut has it for DINO.

    Finetuning shows all the papers' models another mean and std (differences B5).
    """
    return model_spec(name)


def feature_model(
    name: str, side: int, device: torch.device | str = "cpu", weights: Path | None = None
) -> nn.Module:
    """A backbone for TokenCut that takes squares of `side` pixels, in eval mode.

    `dino-b` is the paper's (differences B14); `weights` is its file (`origin_weights`).
    `dinov2-s` is DINOv2 as it was pretrained, without any label; its position embedding is
    resampled once, from the pretrained grid to the new one. A shipped model such as `tiny-mae`
    has been finetuned with labels after its pretraining.
    Raises: ValueError for an unknown name, or a side that its patches do not divide.
    """
    model = load_model(name, weights, new_head=name == "dinov2-s")
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
