"""Points and weights of the path integral from a baseline to the image."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from relevit.attention.recording import Inputs
from relevit.relevance import Protocol, check_protocol

Rule = Literal["riemann", "trapezoid", "gauss"]

PUBLISHED_STEPS = 20
DESCRIBED_STEPS = 7  # as exact as the published 20, see tools/bench_path.py


class Quadrature(NamedTuple):
    """Shares of the way from the baseline to the image, and what each gradient counts."""

    points: list[float]
    weights: list[float]


def integration_path(
    protocol: Protocol, steps: int | None = None, rule: Rule | None = None
) -> Quadrature:
    """The points at which gradients are taken, `steps` of them.

    `published` (`riemann`): 20 equally spaced points from 0 to 1, both included, each with
    weight 1 / steps (differences C9), so that the ends count twice too much. `described`: the
    integral of Eq. 17 by the `trapezoid` rule, whose ends count half (F6: Eq. 17 prints the points
    k / K from 1 on); 7 points err less than the published 20, and the last is the image itself,
    so that they cost 6 passes. `gauss` (Gauss-Legendre) is better for smooth gradients alone,
    which these are not.
    Raises: ValueError for an unknown rule, or fewer steps than it has.
    """
    check_protocol(protocol)
    published = protocol == "published"
    rule = rule or ("riemann" if published else "trapezoid")
    if rule not in get_args(Rule):
        raise ValueError(f"rule {rule!r} is unknown; use one of {get_args(Rule)}")
    if steps is None:
        steps = PUBLISHED_STEPS if published else DESCRIBED_STEPS
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


def check_chunk(chunk: int) -> None:
    """Raise ValueError unless at least one image is to be run at once."""
    if chunk < 1:
        raise ValueError(f"chunk {chunk}: at least 1 image has to be run at once; 40 is the usual")


def path_baseline(
    model: nn.Module,
    images: Inputs,
    protocol: Protocol,
    baseline: Float[Tensor, "*start"] | None = None,
) -> Float[Tensor, "*start"]:
    """Where the path starts, in normalised pixels or in embedded tokens.

    Shapes: [3, 1, 1] for images, [tokens, width] for text, or what else broadcasts to an input.

    Given, it is taken as it is. Otherwise `published` starts at 0: the mean colour (the code
    scales the normalised image, differences C10), for text no embedding at all (D9).
    `described` starts at black, which the model's own mean and std give (`pretrained_cfg`, as
    timm and `relevit.models.loading` set it), for text at padding
    (`TextTransformer.path_baseline`).
    Raises: ValueError when a described path has neither.
    """
    if baseline is not None:
        return baseline.to(images)
    if protocol == "published":
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
