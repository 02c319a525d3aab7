"""One line from images to heatmaps: a method's map of each image, at the images' size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import index
from typing import SupportsIndex

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from relevit.attribution import METHODS, check_known
from relevit.relevance import Protocol, check_protocol, to_pixels

Target = SupportsIndex | Sequence[SupportsIndex] | Tensor | None  # numpy's whole numbers, too


def explain(
    model: nn.Module,
    images: Float[Tensor, "batch 3 height width"],
    method: str = "gae",
    target: Target = None,
    *,
    protocol: Protocol = "published",
) -> Float[Tensor, "batch 1 height width"]:
    """Where the model finds a class: heatmaps from 0 to 1, each over its own range.

    `images` are normalised as the model wants them (`ModelSpec.normalise`), on its device;
    `method` is one of METHODS. `target`: one class for all images or one for each, None for the
    predicted ones. The model works in eval mode meanwhile. A map that is the same everywhere gives
    a heatmap of zeros.
    Raises: ValueError for an unknown method or protocol, images or targets of another form, and as
    the methods do.
    """
    check_known([method])
    check_protocol(protocol)
    if images.ndim != 4 or images.shape[1] != 3 or not images.is_floating_point():
        raise ValueError(
            f"explain: images of shape {tuple(images.shape)} and type {images.dtype}; give "
            "normalised ones, [batch, 3, height, width] (ModelSpec.normalise)"
        )
    classes = one_each(target, len(images), images.device)
    with evaluating(model):
        maps = METHODS[method](model, images, classes, protocol=protocol)
    # Published code makes a constant map NaN.
    return to_pixels(maps.detach().nan_to_num(nan=0.0), tuple(images.shape[-2:]))


def one_each(
    target: Target, batch: int, device: torch.device | str = "cpu"
) -> Int[Tensor, " batch"] | None:
    """One class an image, or None as it is. Raises: ValueError for what are no whole numbers."""
    if target is None:
        return None
    listed = target.tolist() if isinstance(target, Tensor) else target
    several = listed if isinstance(listed, Sequence) and not isinstance(listed, str) else [listed]
    try:
        if any(isinstance(value, bool) for value in several):
            raise TypeError
        classes = [index(value) for value in several]
    except TypeError:
        raise ValueError(
            f"target {listed!r}: classes are whole numbers; give one for all images, or one each"
        ) from None
    if several is not listed:
        classes *= batch
    if len(classes) != batch:
        raise ValueError(
            f"target {classes} for {batch} images; give one class for all images, or one each"
        )
    return torch.tensor(classes, dtype=torch.int64, device=device)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode inside the context; afterwards each part has the mode that it had."""
    before = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        yield
    finally:
        for module, training in before:
            module.training = training
