"""SmoothGrad: the mean input gradient over noisy copies of the image."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from relevit.attribution.method import Target, method
from relevit.attribution.pixel_gradients import (
    classes_to_explain,
    patch_sides,
    sum_of_gradients,
    sum_over_patches,
)

DRAWS = 20
NOISE = 0.15
CHUNK = 40  # noisy images run at once; bounds the memory


@method()
def smoothgrad(
    model: nn.Module,
    images: Float[Tensor, "batch 3 height width"],
    target: Target = None,
    **options: Any,
) -> Float[Tensor, "batch patches"]:
    """Absolute `smoothgrad_pixels`, summed over colours, mean over each patch's pixels.

    Source: Smilkov et al. 2017; IAV averages a non-negative attribution over every patch, and
    gives neither noise nor draws: these are SmoothGrad's own. `options` as
    `smoothgrad_pixels`.
    """
    slopes = smoothgrad_pixels(model, images, target, **options)
    height, width = patch_sides(model)
    return sum_over_patches(model, slopes.abs().sum(dim=1)) / (height * width)


def smoothgrad_pixels(
    model: nn.Module,
    images: Float[Tensor, "batch 3 height width"],
    target: Target = None,
    *,
    draws: int = DRAWS,
    noise: float = NOISE,
    seed: int = 0,
    chunk: int = CHUNK,
) -> Float[Tensor, "batch 3 height width"]:
    """Mean gradient of the class's logit with respect to the pixels, with its sign.

    Source: Smilkov et al. 2017. Each of `draws` copies has Gaussian noise added, whose standard
    deviation is `noise` times the image's own range (maximum minus minimum of the normalised
    values). All images get the same draws, each scaled by its range: a map depends on the
    image, the class and `seed`, not on the batch it is in. `target` None is the class that is
    predicted without noise. `chunk` copies are run at once.
    Raises: ValueError for draws or chunk below 1, negative noise, a bad target, or a model
    without global self-attention, which no method here takes.
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


def noise_patterns(
    images: Float[Tensor, "batch 3 height width"], draws: int, seed: int
) -> Float[Tensor, "draws 3 height width"]:
    """Standard normal noise, drawn in single precision on the CPU: the same on every device."""
    random = torch.Generator().manual_seed(seed)
    return torch.randn((draws, *images.shape[1:]), generator=random).to(images)
