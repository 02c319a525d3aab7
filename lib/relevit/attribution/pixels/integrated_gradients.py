"""Integrated gradients on the pixels, from a baseline image to the image."""

from __future__ import annotations

from typing import Any

from torch import nn

from relevit.attribution.method import Target, method
from relevit.attribution.path import Baseline, Rule, integration_path, on_the_way, path_baseline
from relevit.attribution.pixels.pixel_gradients import (
    CHUNK,
    Pixels,
    classes_to_explain,
    sum_of_gradients,
    sum_over_patches,
)
from relevit.attribution.seen import Map

STEPS = 20


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
    target = classes_to_explain(model, images, target, chunk)
    start = path_baseline(model, images, baseline)
    stop = on_the_way(images, start, path.points)
    return (images - start) * sum_of_gradients(model, images, target, stop, path.weights, chunk)
