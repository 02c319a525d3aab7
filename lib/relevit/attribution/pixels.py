"""Maps of the pixels: their gradients, averaged over noise or along a path, for long batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from relevit.attribution.path import (
    Baseline,
    Rule,
    Stop,
    integration_path,
    on_the_way,
    path_baseline,
    sum_over_stops,
)
from relevit.maps import (
    Map,
    Target,
    attention_for_gradients,
    checked_target,
    frozen_weights,
    method,
    patch_cells,
    patch_grid,
    record_attention,
    wide,
)

Pixels = Float[Tensor, "batch 3 height width"]
CHUNK = 40  # images run at once; bounds the memory
STEPS = 20  # of integrated gradients
DRAWS, NOISE = 20, 0.15  # of SmoothGrad


@method()
def smoothgrad(model: nn.Module, images: Pixels, target: Target = None, **options: Any) -> Map:
    """Absolute `smoothgrad_pixels`, summed over colours, mean over each patch's pixels.

    Source: Smilkov et al. 2017; IAV averages a non-negative attribution over every patch, and
    gives neither noise nor draws: these are SmoothGrad's own.
    """
    slopes = smoothgrad_pixels(model, images, target, **options)
    return cells(model, slopes.abs().sum(dim=1)).mean(dim=2)


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
    patterns = noise_patterns(images, draws, seed)
    scale = noise * (images.amax(dim=(1, 2, 3)) - images.amin(dim=(1, 2, 3))).view(-1, 1, 1, 1)

    def noisy(rows: Tensor, points: Tensor) -> Tensor:
        return images[rows] + scale[rows] * patterns[points]

    return sum_of_gradients(model, images, target, noisy, [1 / draws] * draws, chunk)


def noise_patterns(images: Pixels, draws: int, seed: int) -> Float[Tensor, "draws 3 height width"]:
    """Standard normal noise, drawn in single precision on the CPU: the same on every device."""
    random = torch.Generator().manual_seed(seed)
    return torch.randn((draws, *images.shape[1:]), generator=random).to(images)


@method("path")
def integrated_gradients(
    model: nn.Module, images: Pixels, target: Target = None, **options: Any
) -> Map:
    """`integrated_gradients_pixels` summed over colours and each patch's pixels, with its sign.

    Signed, as LRP's map here: what a patch takes from the class's logit counts against it, and
    the sum over patches is the logit's change from the baseline, but for the steps of the sum.
    """
    pixels = integrated_gradients_pixels(model, images, target, **options)
    return sum_over_patches(model, pixels.sum(dim=1))


def integrated_gradients_pixels(
    model: nn.Module,
    images: Pixels,
    target: Target = None,
    *,
    steps: int = STEPS,
    rule: Rule = "trapezoid",
    baseline: Baseline = "empty",
    chunk: int = CHUNK,
) -> Pixels:
    """(image - baseline) times the mean gradient of the class's logit on the way between them.

    Source: Sundararajan et al. 2017, Eq. 1. The papers here integrate gradients of attention,
    not of pixels; points and baseline are as there, see `integration_path` and `path_baseline`.
    The published rule counts both ends of the path in full, so that its sum is off by more.
    """
    path, images = integration_path(steps, rule), images.detach()
    start = path_baseline(model, images, baseline)
    stop = on_the_way(images, start, path.points)
    return (images - start) * sum_of_gradients(model, images, target, stop, path.weights, chunk)


def sum_of_gradients(
    model: nn.Module,
    images: Pixels,
    target: Target,
    stop: Stop,
    weights: Sequence[float],
    chunk: int,
) -> Pixels:
    """Weighted sum of the gradients of each image's logit of its class at its stops.

    They are walked as `sum_over_stops` says, with the weights frozen. Only first derivatives are
    taken: fused attention may stay on. The first image's attention is recorded, so that models
    without global self-attention are refused here as by every other method.
    """
    with torch.no_grad():
        with record_attention(model):
            logits = [model(images[:1])]
        logits += [model(part) for part in images[1:].split(chunk) if len(part)]
    classes = checked_target(torch.cat(logits), target)

    def gradient(inputs: Tensor, rows: Int[Tensor, " rows"]) -> Tensor:
        with frozen_weights(model), attention_for_gradients(model), torch.enable_grad():
            inputs = inputs.detach().requires_grad_()
            score = model(inputs).gather(1, classes[rows, None]).sum()
            return torch.autograd.grad(score, inputs)[0]

    total = torch.zeros_like(images, dtype=wide(images))
    return sum_over_stops(total, images, stop, weights, chunk, gradient)


def sum_over_patches(
    model: nn.Module, pixels: Float[Tensor, "batch height width"]
) -> Float[Tensor, "batch patches"]:
    """Sum of every patch's pixels, patches row by row.

    Raises: as `need_pixels`, and `patch_cells` where they do not fill the pictures.
    """
    return cells(model, pixels).sum(dim=2)


def cells(
    model: nn.Module, pixels: Float[Tensor, "batch height width"]
) -> Float[Tensor, "batch patches pixels"]:
    """The pixels of every patch. Raises: as `need_pixels`."""
    need_pixels(model)
    return patch_cells(pixels, patch_grid(model, pixels[:, None]))


def need_pixels(model: nn.Module) -> None:
    """Raise ValueError for a model that makes its tokens of anything but patches of pixels."""
    embedding = getattr(model, "patch_embed", None)
    layer = getattr(embedding, "proj", None)
    if not isinstance(layer, nn.Conv2d) or hasattr(embedding, "backbone"):
        raise ValueError(
            f"patches: this {type(model).__name__} does not make its tokens of patches of pixels "
            "by one convolution; use a model that does, or a method that asks for no pixels, such "
            "as gae"
        )
