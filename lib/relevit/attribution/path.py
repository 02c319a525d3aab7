"""The path integral from a baseline to the image: its points, and the sum over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from relevit.maps import Inputs

Rule = Literal["riemann", "trapezoid", "gauss"]
# Where a path starts: at what an empty input is, at zero after normalisation, or as given.
Baseline = Literal["empty", "zero"] | Float[Tensor, "*start"]
Stop = Callable[[Int[Tensor, " rows"], Int[Tensor, " rows"]], Inputs]


class Quadrature(NamedTuple):
    """Shares of the way from the baseline to the image, and what each gradient counts."""

    points: list[float]
    weights: list[float]


def integration_path(steps: int, rule: Rule) -> Quadrature:
    """The points at which gradients are taken, `steps` of them.

    `riemann`: equally spaced points from 0 to 1, both included, each with weight 1 / steps
    (differences C9), so that the ends count twice too much. `trapezoid`: these ends count half;
    7 points err less than the published 20 (path_integral.csv in docs/results/notes), and the last
    is the image itself, so that they cost 6 passes. `gauss` (Gauss-Legendre) is better for smooth
    gradients alone, which these are not.
    Raises: ValueError for an unknown rule, or fewer steps than it has.
    """
    if rule not in get_args(Rule):
        raise ValueError(f"rule {rule!r} is unknown; use one of {get_args(Rule)}")
    least = 2 if rule == "trapezoid" else 1
    if steps < least:
        raise ValueError(f"steps {steps}: the path integral needs at least {least} point(s)")
    points, weights = np.linspace(0, 1, steps), np.full(steps, 1 / steps)
    if rule == "trapezoid":
        weights = np.r_[0.5, np.ones(steps - 2), 0.5] / (steps - 1)
    elif rule == "gauss":
        nodes, weights = np.polynomial.legendre.leggauss(steps)
        points, weights = (nodes + 1) / 2, weights / 2
    return Quadrature(points.tolist(), weights.tolist())


def path_baseline(
    model: nn.Module, images: Inputs, baseline: Baseline = "empty"
) -> Float[Tensor, "*start"]:
    """Where the path starts, in normalised pixels or in embedded tokens.

    Shapes: [3, 1, 1] for images, [tokens, width] for text, or what else broadcasts to an input.

    `empty` is black, which the model's own mean and std give (`pretrained_cfg`, as timm and
    `relevit.models` set it); for text padding (`TextTransformer.path_baseline`). `zero` is the
    mean colour, as the published code scales the normalised image (differences C10); for text no
    embedding at all (D9).
    Raises: ValueError when the model says nothing of either.
    """
    if isinstance(baseline, Tensor):
        return baseline.to(images)
    if baseline == "zero":
        return images.new_zeros(1)
    if hasattr(model, "path_baseline"):
        return model.path_baseline(images)
    config = getattr(model, "pretrained_cfg", None) or {}
    if not config.get("mean") or not config.get("std"):
        raise ValueError(
            f"baseline: this {type(model).__name__} does not say what black is after "
            "normalisation; give baseline=-mean/std as a tensor of shape [3, 1, 1]"
        )
    mean, std = (torch.tensor(config[key]).view(3, 1, 1) for key in ("mean", "std"))
    return (-mean / std).to(images)


def on_the_way(images: Inputs, start: Float[Tensor, "*start"], points: Sequence[float]) -> Stop:
    """The inputs at these shares of the way from `start` to the images."""
    shares = images.new_tensor(points).view(-1, *[1] * (images.ndim - 1))

    def stop(rows: Tensor, points: Tensor) -> Inputs:
        return torch.lerp(start.expand_as(images[:1]), images[rows], shares[points])

    return stop


def sum_over_stops(
    total: Float[Tensor, "batch ..."],
    images: Inputs,
    stop: Stop,
    weights: Sequence[float],
    chunk: int,
    gradient: Callable[[Inputs, Int[Tensor, " rows"]], Float[Tensor, "rows ..."]],
) -> Float[Tensor, "batch ..."]:
    """To `total` of each image, add the weighted gradients at its stops.

    `stop(rows, points)` makes the inputs, one for each pair of an image's row and a point's index;
    there are as many points as `weights`. `gradient(inputs, rows)` is what is summed. All pairs
    form one long batch, run `chunk` at a time, which bounds the memory.
    """
    shares = images.new_tensor(weights)
    pairs = torch.cartesian_prod(torch.arange(len(images)), torch.arange(len(weights)))
    for part in pairs.to(images.device).split(chunk):
        rows, points = part.unbind(1)
        slopes = gradient(stop(rows, points), rows)
        slopes = slopes * shares[points].view(-1, *[1] * (slopes.ndim - 1))
        total = total.index_add(0, rows, slopes.to(total))  # autocast may have two kinds
    return total
