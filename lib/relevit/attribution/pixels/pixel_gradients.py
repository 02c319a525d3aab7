"""Gradients on the input's pixels, for long batches in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from relevit.attention.patches import patch_cells, patch_grid
from relevit.attention.recording import attention_for_gradients, frozen_weights, record_attention
from relevit.attribution.method import Target, checked_target
from relevit.attribution.path import Stop, sum_over_stops

Pixels = Float[Tensor, "batch 3 height width"]
CHUNK = 40  # images run at once; bounds the memory


def logits_in_chunks(
    model: nn.Module, images: Pixels, chunk: int
) -> Float[Tensor, "batch classes"]:
    """Logits without a graph, `chunk` images at a time.

    The first image's attention is recorded, so that models without global self-attention are
    refused here as by every other method.
    """
    with torch.no_grad():
        with record_attention(model):
            logits = [model(images[:1])]
        logits += [model(part) for part in images[1:].split(chunk) if len(part)]
    return torch.cat(logits)


def classes_to_explain(
    model: nn.Module, images: Pixels, target: Target, chunk: int
) -> Int[Tensor, " batch"]:
    """`target`, or the predicted classes."""
    return checked_target(logits_in_chunks(model, images, chunk), target)


def sum_of_gradients(
    model: nn.Module,
    images: Pixels,
    target: Int[Tensor, " batch"],
    stop: Stop,
    weights: Sequence[float],
    chunk: int,
) -> Pixels:
    """Weighted sum of the gradients of each image's logit of its class at its stops.

    They are walked as `sum_over_stops` says, with the weights frozen. Only first derivatives are
    taken: fused attention may stay on.
    """

    def gradient(inputs: Tensor, rows: Tensor) -> Tensor:
        with frozen_weights(model), attention_for_gradients(model), torch.enable_grad():
            inputs = inputs.detach().requires_grad_()
            score = model(inputs).gather(1, target[rows, None]).sum()
            return torch.autograd.grad(score, inputs)[0]

    return sum_over_stops(torch.zeros_like(images), images, stop, weights, chunk, gradient)


def sum_over_patches(
    model: nn.Module, pixels: Float[Tensor, "batch height width"]
) -> Float[Tensor, "batch patches"]:
    """Sum of every patch's pixels, patches row by row; at the edge those that there are.

    Raises: as `need_pixels`.
    """
    need_pixels(model)
    return patch_cells(pixels, patch_grid(model, pixels[:, None])).sum(dim=2)


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
