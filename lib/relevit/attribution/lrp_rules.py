"""Layer-wise relevance propagation: how one operation hands relevance to what it was made of.

Source: Bach et al. 2015; Montavon et al. 2017 (z+ and z^B); Chefer, Gur, Wolf 2021 (CVPR) for
products and sums of two activations. `relevance` has the shape of the operation's output. The
relevance of the inputs sums to that of the output, but for values whose denominator is zero.
Activations, norms, softmax, scaling and dropout hand relevance on unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import conv2d, conv_transpose2d

SMALLEST = 1e-9  # denominators are kept this far from zero


def in_single(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Count in float32 at least: in float16 the smallest denominator would be 0."""

    def widened(value: Any) -> Any:
        half = isinstance(value, Tensor) and value.dtype in (torch.float16, torch.bfloat16)
        return value.float() if half else value

    @wraps(rule)
    def run(relevance: Tensor, *operands: Any, **options: Any) -> Any:
        with torch.autocast(relevance.device.type, enabled=False):
            return rule(*(widened(value) for value in (relevance, *operands)), **options)

    return run


def safe_divide(a: Tensor, b: Tensor) -> Tensor:
    """a / b with b kept away from zero; 0 where b is 0."""
    away = torch.copysign(b.abs().clamp(min=SMALLEST), b)
    return (a / away).masked_fill(b == 0, 0.0)


@in_single
def through_linear(
    relevance: Float[Tensor, "*batch out"],
    inputs: Float[Tensor, "*batch in"],
    weight: Float[Tensor, "out in"],
    outputs: Float[Tensor, "*batch out"] | None = None,
    *,
    apart: bool = False,
) -> Float[Tensor, "*batch in"]:
    """The z+ rule (alpha 1, beta 0): only products of equal sign count; biases do not.

    `outputs` are those of the layer without its bias, where they are known: they save one of four
    products. `apart` divides the part from positive inputs and the part from negative inputs by
    their own sums instead of the common one, so that both receive all the relevance: the rule
    of the first published LRP for ViT (differences C18).
    """
    positive, negative = weight.clamp(min=0), weight.clamp(max=0)
    if not apart:
        # The products of equal sign are half of all products plus half of their sizes.
        known = inputs @ weight.T if outputs is None else outputs
        total = (inputs.abs() @ weight.abs().T).add_(known).div_(2)
        # Nothing is handed to an output whose sum is 0: none of its products is in the sum.
        share = relevance / total.clamp_(min=SMALLEST)
        return torch.where(inputs > 0, share @ positive, share @ negative).mul_(inputs)
    parts = [(inputs.clamp(min=0), positive), (inputs.clamp(max=0), negative)]
    return sum(x * (safe_divide(relevance, x @ w.T) @ w) for x, w in parts)


@in_single
def through_product(
    relevance: Float[Tensor, "*batch n m"],
    left: Float[Tensor, "*batch n k"],
    right: Float[Tensor, "*batch k m"],
) -> tuple[Float[Tensor, "*batch n k"], Float[Tensor, "*batch k m"]]:
    """Half to each factor of a matrix product, by its share in every sum."""
    share = safe_divide(relevance, left @ right) / 2
    return left * (share @ right.transpose(-1, -2)), right * (left.transpose(-1, -2) @ share)


@in_single
def through_sum(
    relevance: Float[Tensor, "*shape"],
    a: Float[Tensor, "*shape"],
    b: Float[Tensor, "*shape"],
    *,
    normalise: bool = True,
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """Each summand by its share; `normalise` then bounds the two parts of an image.

    Where a and b have opposite signs their shares can be huge: the parts are rescaled to
    |sum of a's part| : |sum of b's part|, adding up to the relevance of the image. The
    published code takes these sums over the batch (differences C16).
    """
    share = safe_divide(relevance, a + b)
    parts = a * share, b * share
    if not normalise:
        return parts
    axes = tuple(range(1, relevance.ndim))
    sums = [part.sum(dim=axes, keepdim=True) for part in parts]
    whole = sums[0].abs() + sums[1].abs()
    total = relevance.sum(dim=axes, keepdim=True)
    first, second = (
        part * safe_divide(safe_divide(own.abs(), whole) * total, own)
        for part, own in zip(parts, sums, strict=True)
    )
    return first, second


@in_single
def through_mean(
    relevance: Float[Tensor, "batch width"], tokens: Float[Tensor, "batch tokens width"]
) -> Float[Tensor, "batch tokens width"]:
    """Each token by its share in the mean."""
    share = safe_divide(relevance, tokens.mean(dim=1)) / tokens.shape[1]
    return tokens * share[:, None]


@in_single
def through_patches(
    relevance: Float[Tensor, "batch channels rows columns"],
    images: Float[Tensor, "batch colours height width"],
    weight: Float[Tensor, "channels colours tall wide"],
) -> Float[Tensor, "batch colours height width"]:
    """The z^B rule from patch tokens to pixels: pixels lie between the image's extremes."""
    stride = weight.shape[2:]
    bounds = [
        (images, weight, 1),
        (images.amin(dim=(1, 2, 3), keepdim=True).expand_as(images), weight.clamp(min=0), -1),
        (images.amax(dim=(1, 2, 3), keepdim=True).expand_as(images), weight.clamp(max=0), -1),
    ]
    whole = sum(sign * conv2d(x, w, stride=stride) for x, w, sign in bounds) + SMALLEST
    share = relevance / whole
    return sum(sign * x * conv_transpose2d(share, w, stride=stride) for x, w, sign in bounds)
