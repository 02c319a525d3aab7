"""SmoothGrad: the mean input gradient over noisy copies of the image."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from relevit.attention.patches import patch_cells, patch_grid
from relevit.attribution.method import Target, method
from relevit.attribution.pixels.pixel_gradients import (
    CHUNK,
    Pixels,
    classes_to_explain,
    need_pixels,
    sum_of_gradients,
)
from relevit.attribution.seen import Map

DRAWS = 20
NOISE = 0.15


@method()
def smoothgrad(model: nn.Module, images: Pixels, target: Target = None, **options: Any) -> Map:
    """Absolute `smoothgrad_pixels`, summed over colours, mean over each patch's pixels.

    Source: Smilkov et al. 2017; IAV averages a non-negative attribution over every patch, and
    gives neither noise nor draws: these are SmoothGrad's own.
    """
    slopes = smoothgrad_pixels(model, images, target, **options)
    need_pixels(model)
    return patch_cells(slopes.abs().sum(dim=1), patch_grid(model, images)).mean(dim=2)


def smoothgrad_pixels(
    model: nn.Module,
    images: Pixels,
    target: Target = None,
    *,
    draws: int = DRAWS,
    noise: float = NOISE,
    seed: int = 0,
    chunk: int = CHUNK,
) -> Pixels:
    """Mean gradient of the class's logit with respect to the pixels, with its sign.

    Each of `draws` copies has Gaussian noise added, whose standard deviation is `noise` times the
    image's own range (maximum minus minimum of the normalised values). All images get the same
    draws: a map depends on the image, the class and `seed`, not on the batch it is in. `target`
    None is the class that is predicted without noise. `chunk` copies are run at once.
    """
    if draws < 1 or noise < 0:
        raise ValueError(
            f"smoothgrad: draws {draws}, noise {noise}; draws are at least 1 and noise is a share "
            f"of the image's range, 0 or more; {DRAWS} and {NOISE} are the usual"
        )
    images = images.detach()
    target = classes_to_explain(model, images, target, chunk)
    patterns = noise_patterns(images, draws, seed)
    scale = noise * (images.amax(dim=(1, 2, 3)) - images.amin(dim=(1, 2, 3))).view(-1, 1, 1, 1)

    def noisy(rows: Tensor, points: Tensor) -> Tensor:
        return images[rows] + scale[rows] * patterns[points]

    return sum_of_gradients(model, images, target, noisy, [1 / draws] * draws, chunk)


def noise_patterns(images: Pixels, draws: int, seed: int) -> Float[Tensor, "draws 3 height width"]:
    """Standard normal noise, drawn in single precision on the CPU: the same on every device."""
    random = torch.Generator().manual_seed(seed)
    return torch.randn((draws, *images.shape[1:]), generator=random).to(images)
