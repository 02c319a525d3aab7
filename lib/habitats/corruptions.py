"""Pictures made harder: blurred, or cut into tiles that change places.

Source: IAV Sec. V.A, Fig. 3 b to d: blur, and jigsaws of a 2 x 2 grid and of the patch grid.
The paper gives neither degrees of blur nor numbers of swaps, and does not say how a swap is
drawn: the levels are parameters here, and the draws are described at `jigsaw`. What a model loses
is measured in `reproduction.measures.corruptions`.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor
from torchvision.transforms.v2.functional import gaussian_blur

from relevit.maps import need_whole

REACH = 4.0  # standard deviations to which the blur is computed; beyond lies 0.006 % of it


def blur(
    images: UInt8[Tensor, "batch 3 height width"], sigma_px: float
) -> UInt8[Tensor, "batch 3 height width"]:
    """Gaussian blur with a standard deviation of `sigma_px` pixels; 0 changes nothing.

    Source: IAV Fig. 3b. Mirrored at the border. The kernel reaches REACH standard deviations to
    each side, or to the far border where that is nearer.
    """
    if sigma_px == 0:
        return images.clone()
    # Rows and columns one after the other are the same blur, and much less to multiply.
    height, width = (2 * min(math.ceil(REACH * sigma_px), n - 1) + 1 for n in images.shape[-2:])
    sigma = [float(sigma_px)] * 2
    rows = gaussian_blur(images.float(), [width, 1], sigma)
    return gaussian_blur(rows, [1, height], sigma).round().clamp(0, 255).to(torch.uint8)


def jigsaw(
    images: UInt8[Tensor, "batch 3 height width"],
    grid: int | tuple[int, int],
    swaps: int,
    seed: int = 0,
    first_index: int = 0,
) -> UInt8[Tensor, "batch 3 height width"]:
    """Cut each image into `grid` x `grid` tiles and exchange two tiles, `swaps` times.

    Or into the patches of a model's grid (`patch_grid`).
    Source: IAV Fig. 3c (grid 2) and 3d (patch grid). Each swap draws two different places,
    all pairs alike, from `seed` and the image's number alone (`first_index` and up), so that an
    image does not depend on its batch and more swaps go on from fewer. A tile may be drawn again:
    two swaps of a 2 x 2 grid undo each other in one of six images.
    Raises: ValueError for tiles that are no whole numbers of pixels.
    """
    grid = (grid, grid) if isinstance(grid, int) else grid
    rows, columns = grid
    need_whole(tuple(images.shape[-2:]), grid)
    numbers = range(first_index, first_index + len(images))
    places = np.stack([_places(rows * columns, swaps, seed, number) for number in numbers])
    order = torch.from_numpy(places).to(images.device)
    tiles = images.unflatten(3, (columns, -1)).unflatten(2, (rows, -1))  # b c row y column x
    tiles = tiles.permute(0, 2, 4, 1, 3, 5).flatten(1, 2)
    moved = tiles[torch.arange(len(images), device=images.device)[:, None], order]
    return moved.unflatten(1, (rows, columns)).permute(0, 3, 1, 4, 2, 5).reshape(images.shape)


def _places(tiles: int, swaps: int, seed: int, number: int) -> Int[np.ndarray, " tiles"]:
    """Which tile stands at each place of one image after its swaps."""
    random = np.random.default_rng([seed, number])
    places = np.arange(tiles)
    for first, further in random.integers([tiles, tiles - 1], size=(swaps, 2)):
        pair = [first, (first + 1 + further) % tiles]
        places[pair] = places[pair[::-1]]
    return places
