"""Where the patches lie: their grid, which the model knows, and a picture of a value for each."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn.functional import interpolate, pad

from relevit.attention.token_rows import prefix_tokens


class PatchGrid(tuple[int, int]):
    """Rows and columns of the patches, and the `shares` of a picture that they cover.

    Of its height and of its width, from the top left corner: below 1 where a model drops what is
    left beyond the last patch, above 1 where it pads the picture. A plain (rows, columns) in its
    place is of patches that fill the picture.
    """

    shares: tuple[float, float]

    def __new__(cls, counts: tuple[int, int], shares: tuple[float, float]) -> PatchGrid:
        grid = super().__new__(cls, counts)
        grid.shares = tuple(shares)
        return grid

    def __getnewargs__(self) -> tuple[Any, ...]:  # to be copied and pickled
        return tuple(self), self.shares


def patch_grid(model: nn.Module, images: Shaped[Tensor, "batch ..."]) -> tuple[int, int]:
    """Rows and columns of the patches that `model` makes of `images`; of a text: 1, its tokens.

    Of images it is a `PatchGrid`, which says where they lie.
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
    size = tuple(embedding.img_size if strict else images.shape[-2:])
    if strict or not hasattr(embedding, "dynamic_feat_size"):
        counts = tuple(embedding.grid_size)
    else:
        counts = tuple(embedding.dynamic_feat_size(size))
    sides = _sides(embedding)
    if sides is None:
        return counts
    covered = zip(counts, sides, size, strict=True)
    return PatchGrid(counts, tuple(count * side / whole for count, side, whole in covered))


def _sides(embedding: Any) -> tuple[int, int] | None:
    """Height and width of a patch in pixels, where the embedding says so."""
    layer = getattr(embedding, "proj", None)
    if isinstance(layer, nn.Conv2d) and not hasattr(embedding, "backbone"):
        return tuple(layer.stride)
    ratio = getattr(embedding, "feat_ratio", None)
    return None if ratio is None else tuple(ratio(as_scalar=False))


def covered_size(size: tuple[int, int], grid: tuple[int, int]) -> tuple[int, int]:
    """Height and width of the pixels that patches cover of a picture of `size`, or beyond it."""
    shares = getattr(grid, "shares", (1, 1))
    height, width = (round(share * side) for share, side in zip(shares, size, strict=True))
    return height, width


def over_patches(
    pixels: Shaped[Tensor, "*batch height width"], grid: tuple[int, int]
) -> Shaped[Tensor, "*batch covered_height covered_width"]:
    """Pixels where patches lie: what no patch saw is cut off, what a model pads is 0.

    Raises: ValueError where the patches are no whole numbers of pixels.
    """
    size = tuple(pixels.shape[-2:])
    covered = covered_size(size, grid)
    if any(side % count for side, count in zip(covered, grid, strict=True)):
        raise ValueError(
            f"patches: {grid[0]} x {grid[1]} of them do not divide {size[0]} x {size[1]} pixels; "
            "give the grid of the model, patch_grid(model, images), and pixels as it has them"
        )
    return fitted(pixels, covered)


def patch_cells(
    pixels: Shaped[Tensor, "batch height width"], grid: tuple[int, int]
) -> Shaped[Tensor, "batch patches pixels"]:
    """The pixels of each patch, patches row by row. Raises: as `over_patches`."""
    rows, columns = grid
    cells = over_patches(pixels, grid).unflatten(2, (columns, -1)).unflatten(1, (rows, -1))
    return cells.transpose(2, 3).flatten(3).flatten(1, 2)


def to_pixels(
    values: Shaped[Tensor, "batch rows columns"], size: tuple[int, int], grid: tuple[int, int]
) -> Shaped[Tensor, "batch height width"]:
    """Each patch's value at all its pixels of a picture of `size`; 0 where no patch lies."""
    kind = values.dtype
    spread = values[:, None].to(torch.uint8) if kind == torch.bool else values[:, None]
    return fitted(interpolate(spread, covered_size(size, grid)), size)[:, 0].to(kind)


def fitted(
    pixels: Shaped[Tensor, "*batch _ _"], size: tuple[int, int]
) -> Shaped[Tensor, "*batch height width"]:
    """Cut off at the bottom and at the right, or filled up there with 0."""
    height, width = pixels.shape[-2:]
    return pad(pixels, (0, size[1] - width, 0, size[0] - height))


def to_heatmap(
    maps: Float[Tensor, "batch patches"],
    size: tuple[int, int],
    grid: tuple[int, int],
    *,
    normalise: bool = True,
) -> Float[Tensor, "batch 1 height width"]:
    """Bilinear heatmaps of `size` (height, width), each scaled to [0, 1] (differences A1).

    `grid` says how many rows and columns of patches there are, and where they lie (`patch_grid`).
    Pixels that no patch saw are 0, scaled or not, and take no part in the range; what a model pads
    is cut off. Gradients flow through minimum and maximum. A constant map has no range to scale:
    its heatmap is zero everywhere, with zero gradient.
    Raises: ValueError where the patches do not fill the grid.
    """
    batch, patches = maps.shape
    rows, columns = grid
    if rows * columns != patches:
        raise ValueError(
            f"to_heatmap: {patches} patches do not fill a grid of {rows} x {columns}; give that of "
            "the model: patch_grid(model, images)"
        )
    covered = covered_size(size, grid)
    heat = interpolate(
        maps.reshape(batch, 1, rows, columns), size=covered, mode="bilinear", align_corners=False
    )
    heat = heat[..., : size[0], : size[1]]
    if not normalise:
        return fitted(heat, size)
    low = heat.amin(dim=(1, 2, 3), keepdim=True)
    span = heat.amax(dim=(1, 2, 3), keepdim=True) - low
    # Judged on the patches: interpolation rounds, and would stretch its last bits to [0, 1].
    flat = (maps.amax(dim=1) <= maps.amin(dim=1)).reshape(batch, 1, 1, 1)
    constant = flat | (span <= 0)
    scaled = torch.where(constant, 0.0, (heat - low) / torch.where(constant, 1.0, span))
    return fitted(scaled, size)
