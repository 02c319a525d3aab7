"""Where the patches lie: their grid, which the model knows, and a picture of a value for each."""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn.functional import interpolate

from relevit.attention.token_rows import prefix_tokens


def patch_grid(model: nn.Module, images: Shaped[Tensor, "batch ..."]) -> tuple[int, int]:
    """Rows and columns of the patches that `model` makes of `images`; of a text: 1, its tokens.

    Raises: ValueError for images and a model that does not say what patches it makes of them.
    """
    embedding = getattr(model, "patch_embed", None) or getattr(model, "embeds", None)
    if embedding is None and images.ndim == 4:
        raise ValueError(
            f"patch_grid: this {type(model).__name__} has no patch_embed, which knows the grid of "
            "its patches; give the Vision Transformer itself where it is wrapped"
        )
    if embedding is None:
        return 1, images.shape[1] - prefix_tokens(model)
    strict = getattr(embedding, "strict_img_size", False)
    if strict or not hasattr(embedding, "dynamic_feat_size"):
        return tuple(embedding.grid_size)
    return tuple(embedding.dynamic_feat_size(tuple(images.shape[-2:])))


def to_heatmap(
    maps: Float[Tensor, "batch patches"],
    size: tuple[int, int],
    grid: tuple[int, int],
    *,
    normalise: bool = True,
) -> Float[Tensor, "batch 1 height width"]:
    """Bilinear heatmaps of `size` (height, width), each scaled to [0, 1] (differences A1).

    `grid` says how many rows and columns of patches there are (`patch_grid`). Gradients flow
    through minimum and maximum. A constant map has no range to scale: its heatmap is zero
    everywhere, with zero gradient.
    Raises: ValueError where the patches do not fill the grid.
    """
    batch, patches = maps.shape
    rows, columns = grid
    if rows * columns != patches:
        raise ValueError(
            f"to_heatmap: {patches} patches do not fill a grid of {rows} x {columns}; give that of "
            "the model: patch_grid(model, images)"
        )
    heat = interpolate(
        maps.reshape(batch, 1, rows, columns), size=size, mode="bilinear", align_corners=False
    )
    if not normalise:
        return heat
    low = heat.amin(dim=(1, 2, 3), keepdim=True)
    span = heat.amax(dim=(1, 2, 3), keepdim=True) - low
    # Judged on the patches: interpolation rounds, and would stretch its last bits to [0, 1].
    flat = (maps.amax(dim=1) <= maps.amin(dim=1)).reshape(batch, 1, 1, 1)
    constant = flat | (span <= 0)
    return torch.where(constant, 0.0, (heat - low) / torch.where(constant, 1.0, span))
