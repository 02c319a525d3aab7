"""Pictures made harder, blurred or cut into tiles that change places, and what a model loses.

Source: IAV Sec. V.A, Fig. 3 b to d: blur, and jigsaws of a 2 x 2 grid and of the patch grid.
The paper gives neither degrees of blur nor numbers of swaps, and does not say how a swap is
drawn: the levels are parameters here, and the draws are described at `jigsaw`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal, get_args

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Int, UInt8
from torch import Tensor, nn
from torchvision.transforms.v2.functional import gaussian_blur

from relevit.base.precision import Precision
from relevit.evaluate.bfloat16 import Answers, label_gap
from relevit.models.spec import ModelSpec

Corruption = Literal["none", "blur", "jigsaw", "patch_jigsaw"]

HALVES = 2  # tiles a side of the coarse jigsaw
REACH = 4.0  # standard deviations to which the blur is computed; beyond lies 0.006 % of it
BATCH = 50  # images corrupted and classified at once; the answers do not depend on it
PROBE = 16  # images on which bfloat16 is compared with float32, for each corruption and level


def blur(
    images: UInt8[Tensor, "batch 3 height width"], sigma_px: float
) -> UInt8[Tensor, "batch 3 height width"]:
    """Gaussian blur with a standard deviation of `sigma_px` pixels; 0 changes nothing.

    Source: IAV Fig. 3b. Mirrored at the border. The kernel reaches REACH standard deviations to
    each side, or to the far border where that is nearer.
    Raises: ValueError for a sigma that is negative or no number, or images of another format.
    """
    _check_images("blur", images)
    if not 0 <= sigma_px < math.inf:
        raise ValueError(
            f"blur: sigma_px is {sigma_px}; needed is a number of pixels from 0 on: give 0 for "
            "images that are not blurred"
        )
    if sigma_px == 0:
        return images.clone()
    # Rows and columns one after the other are the same blur, and much less to multiply.
    height, width = (2 * min(math.ceil(REACH * sigma_px), n - 1) + 1 for n in images.shape[-2:])
    sigma = [float(sigma_px)] * 2
    rows = gaussian_blur(images.float(), [width, 1], sigma)
    return gaussian_blur(rows, [1, height], sigma).round().clamp(0, 255).to(torch.uint8)


def jigsaw(
    images: UInt8[Tensor, "batch 3 height width"],
    grid: int,
    swaps: int,
    seed: int = 0,
    first_index: int = 0,
) -> UInt8[Tensor, "batch 3 height width"]:
    """Cut each image into `grid` x `grid` tiles and exchange two tiles, `swaps` times.

    Source: IAV Fig. 3c (grid 2) and 3d (patch grid). Each swap draws two different places,
    all pairs alike, from `seed` and the image's number alone (`first_index` and up), so that an
    image does not depend on its batch and more swaps go on from fewer. A tile may be drawn again:
    two swaps of a 2 x 2 grid undo each other in one of six images.
    Raises: ValueError for a grid below 2 or one that does not divide the images, a number of
    swaps that is negative or not whole, or images of another format.
    """
    _check_images("jigsaw", images)
    height, width = images.shape[-2:]
    if grid < 2 or height % grid or width % grid:
        raise ValueError(
            f"jigsaw: grid {grid} for images of {height} x {width} pixels; needed are at least 2 "
            "tiles a side that divide both: use 2 or the model's patch grid"
        )
    if swaps < 0 or swaps != int(swaps):
        raise ValueError(f"jigsaw: {swaps} swaps; needed is a whole number from 0 on")
    numbers = range(first_index, first_index + len(images))
    places = np.stack([_places(grid**2, int(swaps), seed, number) for number in numbers])
    order = torch.from_numpy(places).to(images.device)
    tiles = images.unflatten(3, (grid, -1)).unflatten(2, (grid, -1))  # b c row y column x
    tiles = tiles.permute(0, 2, 4, 1, 3, 5).flatten(1, 2)
    moved = tiles[torch.arange(len(images), device=images.device)[:, None], order]
    moved = moved.unflatten(1, (grid, grid)).permute(0, 3, 1, 4, 2, 5)
    return moved.reshape(images.shape)


def shift_table(
    model: nn.Module,
    spec: ModelSpec,
    images: UInt8[Tensor, "batch 3 height width"],
    labels: Int[Tensor, " batch"],
    levels: Mapping[str, Sequence[float]],
    *,
    precision: Precision | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Accuracy of a classifier on its images as they are and under each corruption and level.

    Source: IAV Fig. 3 b to d. `levels` gives the levels of each corruption: `blur` in pixels
    (standard deviation), `jigsaw` (grid 2) and `patch_jigsaw` (the model's patch grid) in swaps.
    `precision` runs a converted copy of the weights; None keeps the model's own format. With
    `bfloat16`, answers that rounding could change are computed again in float32, judged by the
    errors on PROBE images under each corruption and level (`relevit.evaluate.bfloat16`).

    One row a corruption and level, in the order given, after the row ('none', 0). Columns:
    `corruption`, `level`, `top1_pct`, `images` (their number).
    Raises: ValueError for an unknown corruption, a level that is not above 0 or not whole for
    swaps, images or labels that do not fit, or a model without a square patch grid.
    """
    _check(images, labels, levels)
    answers = Answers(model, precision)
    tiles = {"jigsaw": HALVES}
    if "patch_jigsaw" in levels:
        tiles["patch_jigsaw"] = _patch_grid(model)
    cases = [("none", 0.0), *((name, float(v)) for name, of_it in levels.items() for v in of_it)]
    corrupted = [partial(_corrupt, name, level, tiles.get(name), seed) for name, level in cases]
    probe = images[torch.linspace(0, len(images) - 1, min(PROBE, len(images))).long()]
    answers.measure(spec.normalise(corrupt(probe, 0), like=answers.like) for corrupt in corrupted)
    rows = []
    for (name, level), corrupt in zip(cases, corrupted, strict=True):
        hits = torch.cat(
            [
                _hits(answers, spec, corrupt(images[part], int(part[0])), labels[part].cpu())
                for part in torch.arange(len(images)).split(BATCH)
            ]
        )
        rows.append((name, level, 100 * float(hits.double().mean()), len(images)))
    return pd.DataFrame(rows, columns=["corruption", "level", "top1_pct", "images"])


def _places(tiles: int, swaps: int, seed: int, number: int) -> Int[np.ndarray, " tiles"]:
    """Which tile stands at each place of one image after its swaps."""
    random = np.random.default_rng([seed, number])
    places = np.arange(tiles)
    for first, further in random.integers([tiles, tiles - 1], size=(swaps, 2)):
        pair = [first, (first + 1 + further) % tiles]
        places[pair] = places[pair[::-1]]
    return places


def _corrupt(
    name: Corruption, level: float, tiles: int | None, seed: int, images: Tensor, first_index: int
) -> UInt8[Tensor, "batch 3 height width"]:
    if tiles is not None:
        return jigsaw(images, tiles, int(level), seed, first_index)
    return blur(images, level)  # 'none' has level 0


def _hits(
    answers: Answers, spec: ModelSpec, images: Tensor, labels: Int[Tensor, " batch"]
) -> Bool[Tensor, " batch"]:
    """Whether the label has the highest logit; NaN is no right answer."""

    def gap(logits: Tensor) -> Tensor:
        return label_gap(logits, labels, k=1)

    logits = answers(spec.normalise(images, like=answers.like), gap)
    if labels.min() < 0 or labels.max() >= logits.shape[1]:
        raise ValueError(
            f"shift_table: labels {int(labels.min())} to {int(labels.max())} and a model of "
            f"{logits.shape[1]} classes; needed are labels in 0..{logits.shape[1] - 1}: use the "
            "model that was finetuned on these images"
        )
    return (logits.argmax(dim=1) == labels) & logits.isfinite().all(dim=1)


def _patch_grid(model: nn.Module) -> int:
    grid = getattr(getattr(model, "patch_embed", None), "grid_size", None)
    if grid is None or len(set(grid)) != 1:
        raise ValueError(
            f"shift_table: this {type(model).__name__} has the patch grid {grid}; 'patch_jigsaw' "
            "needs a square one: leave it out, or use a Vision Transformer for square images"
        )
    return int(grid[0])


def _check_images(where: str, images: Tensor) -> None:
    shape = tuple(images.shape)
    if images.dtype != torch.uint8 or len(shape) != 4 or shape[1] != 3 or 0 in shape:
        raise ValueError(
            f"{where}: images {shape} of {images.dtype}; needed are bytes (torch.uint8), "
            "[batch, 3, height, width]: corrupt images before they are normalised"
        )


def _check(images: Tensor, labels: Tensor, levels: Mapping[str, Sequence[float]]) -> None:
    _check_images("shift_table", images)
    if labels.shape != images.shape[:1]:
        raise ValueError(
            f"shift_table: {len(images)} images and labels {tuple(labels.shape)}; needed is one "
            "label for each image"
        )
    allowed = get_args(Corruption)[1:]
    for name, values in levels.items():
        if name not in allowed:
            raise ValueError(f"shift_table: corruption {name!r} is unknown; use {allowed}")
        whole = name == "blur" or all(float(value).is_integer() for value in values)
        if not whole or not all(0 < value < math.inf for value in values):
            raise ValueError(
                f"shift_table: levels {list(values)} of {name!r}; needed are numbers above 0, "
                "whole ones for swaps: the images as they are come without asking"
            )
