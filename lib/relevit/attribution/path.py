"""Points and weights of the path integral from a baseline to the image."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from relevit.relevance import Protocol, check_protocol

RIEMANN_STEPS = 20  # as published
GAUSS_STEPS = 6  # nearly as exact as 20 Riemann points, see tools/bench_path.py


class Path(NamedTuple):
    """Shares of the way from the baseline to the image, and what each gradient counts."""

    points: list[float]
    weights: list[float]


def integration_path(protocol: Protocol, steps: int | None = None) -> Path:
    """The points at which gradients are taken.

    `published`: `steps` (20) equally spaced points from 0 to 1, both included, each with weight
    1 / steps (differences C9). `described`: the integral of Eq. 17 by Gauss-Legendre, which
    needs fewer points: 6 err about as much as the published 20.
    Raises: ValueError for steps below 1.
    """
    check_protocol(protocol)
    if steps is None:
        steps = RIEMANN_STEPS if protocol == "published" else GAUSS_STEPS
    if steps < 1:
        raise ValueError(f"steps {steps}: the path integral needs at least 1 point")
    if protocol == "published":
        return Path(np.linspace(0, 1, steps).tolist(), [1 / steps] * steps)
    points, weights = np.polynomial.legendre.leggauss(steps)
    return Path(((points + 1) / 2).tolist(), (weights / 2).tolist())


def check_chunk(chunk: int) -> None:
    """Raise ValueError unless at least one image is to be run at once."""
    if chunk < 1:
        raise ValueError(f"chunk {chunk}: at least 1 image has to be run at once; 40 is the usual")


def path_baseline(
    model: nn.Module,
    images: Float[Tensor, "batch 3 height width"],
    protocol: Protocol,
    baseline: Float[Tensor, "3 1 1"] | None = None,
) -> Tensor:
    """Where the path starts, in normalised pixels.

    Given, it is taken as it is. Otherwise `published` starts at 0, the mean colour (the code
    scales the normalised image, differences C10), and `described` at black, which the model's
    own mean and std give (`pretrained_cfg`, as timm and `relevit.models` set it).
    Raises: ValueError when a described path has neither.
    """
    if baseline is not None:
        return baseline.to(images)
    if protocol == "published":
        return images.new_zeros(1)
    config = getattr(model, "pretrained_cfg", None) or {}
    if not config.get("mean") or not config.get("std"):
        raise ValueError(
            f"baseline: this {type(model).__name__} does not say what black is after "
            "normalisation; give baseline=-mean/std as a tensor of shape [3, 1, 1]"
        )
    mean, std = (torch.tensor(config[key]).view(3, 1, 1) for key in ("mean", "std"))
    return (-mean / std).to(images)
