"""Feedback: what the class score owes to the last block's attention (Beyond Intuition 3.3)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from relevit.attention.recording import Inputs, frozen_weights, record_attention
from relevit.attention.rows import read_rows
from relevit.attribution.observe import Observation
from relevit.attribution.path import Quadrature

FEEDBACKS = ("none", "gradient", "integrated_gradient")


def feed_back(
    model: nn.Module,
    images: Inputs,
    seen: Observation,
    name: str,
    path: Quadrature,
    baseline: Float[Tensor, "*start"] | None,
    chunk: int,
    create_graph: bool = False,
) -> Float[Tensor, "batch rows tokens"]:
    """The rows of F_c (Eq. 17) that the head reads, for one of FEEDBACKS.

    The gradient, or its mean along the path, is clamped to be positive and then averaged over
    heads (differences C12); `none` is 1 everywhere. The gradient is that of the class's logit
    (C11). The point 1 of a path is the image itself, whose gradient `seen` holds already.
    Only `integrated_gradient` needs the `baseline`.
    """
    if name == "none":
        return torch.ones_like(read_rows(seen.maps[-1][:, 0], seen.pooling, seen.prefix))
    gradient = seen.gradients[-1]
    if name == "integrated_gradient":
        pairs = list(zip(*path, strict=True))
        share = sum(weight for point, weight in pairs if point == 1)
        before = Quadrature(*zip(*(pair for pair in pairs if pair[0] != 1), strict=True))
        gradient = gradient * share + path_gradients(
            model, images, seen, before, baseline, chunk, create_graph
        )
    return read_rows(gradient.clamp(min=0).mean(dim=1), seen.pooling, seen.prefix)


def path_gradients(
    model: nn.Module,
    images: Inputs,
    seen: Observation,
    path: Quadrature,
    baseline: Float[Tensor, "*start"],
    chunk: int,
    create_graph: bool = False,
) -> Float[Tensor, "batch heads query tokens"]:
    """Weighted sum over the path of the gradient of each image's logit of its class.

    All points of all images form one long batch, run `chunk` at a time. Without
    `create_graph` only the last block keeps a graph, from its attention map on.
    """
    total = torch.zeros_like(seen.gradients[-1])
    pairs = [(i, p, w) for i in range(len(images)) for p, w in zip(*path, strict=True)]
    for start in range(0, len(pairs), chunk):
        rows, points, weights = zip(*pairs[start : start + chunk], strict=True)
        rows = torch.tensor(rows, device=images.device)
        share = images.new_tensor(points).view(-1, *[1] * (images.ndim - 1))
        stops = torch.lerp(baseline.expand_as(images[:1]), images[rows], share)
        slopes = last_gradient(model, stops, seen.target[rows], seen, create_graph)
        slopes = slopes * images.new_tensor(weights).view(-1, 1, 1, 1)
        total = total.index_add(0, rows, slopes)
    return total


def last_gradient(
    model: nn.Module, images: Inputs, target: Int[Tensor, " batch"], seen: Observation, graph: bool
) -> Float[Tensor, "batch heads query tokens"]:
    """Gradient of the target's logit with respect to the last block's attention map."""
    short = seen.maps[-1].shape[2] == 1
    with record_attention(model, last_only=True, class_row=short) as tape:
        if graph:
            with torch.enable_grad():
                logits = model(images)
        else:
            with frozen_weights(model), graph_from_last_block(model):
                logits = model(images)
    with torch.enable_grad():
        score = logits.gather(1, target[:, None]).sum()
    return torch.autograd.grad(score, tape.maps[-1], create_graph=graph)[0]


@contextmanager
def graph_from_last_block(model: nn.Module) -> Iterator[None]:
    """Build no autograd graph before the last block of a forward pass."""

    def switch_on(module: nn.Module, args: tuple) -> None:
        torch.set_grad_enabled(True)

    with torch.no_grad():
        handle = model.blocks[-1].register_forward_pre_hook(switch_on)
        try:
            yield
        finally:
            handle.remove()
