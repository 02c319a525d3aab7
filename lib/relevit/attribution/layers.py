"""A layer is called, not read: what a method takes for its weight must be what the layer does.

An adapter that is not merged (LoRA), a quantised layer or a hook leaves `.weight` as it is and
computes something else: a method that reads it would explain another model, without a word.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear


def matrix_of(layer: nn.Module, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Weight [out, in] and bias of what a layer does to such `inputs`, whatever does it.

    Found by calling it on nothing and on each unit vector, in the graph of all its parts. Of one
    that does anything else it is no description.
    """
    width = inputs.shape[-1]
    asked = torch.eye(width + 1, width + 1, dtype=inputs.dtype, device=inputs.device)[:, 1:]
    rows = layer(asked.reshape(*[1] * (inputs.ndim - 2), width + 1, width)).flatten(0, -2)
    return (rows[1:] - rows[0]).T, rows[0]


def need_matrix(layer: nn.Module | None, inputs: Tensor, name: str) -> tuple[Tensor, Tensor | None]:
    """Of torch's own layer its parameters, else as `matrix_of`.

    Raises: ValueError for a layer that does more, by its `name`.
    """
    if is_plain(layer):
        return layer.weight, layer.bias
    if layer is not None:
        found = matrix_of(layer, inputs)
        if alike(linear(inputs, *found), layer(inputs)):
            return found
    kind = "is missing" if layer is None else f"is a {type(layer).__name__}"
    raise ValueError(
        f"{name} {kind}, where the method needs a layer of a matrix and a bias; merge an adapter "
        "(merge_and_unload() in peft) or put its dropout into eval mode, dequantise, remove hooks, "
        "or take a method that needs no matrix, such as gae"
    )


def alike(found: Tensor, made: Tensor) -> bool:
    """Equal to half the digits of their type: sums may be taken in another order."""
    limit = torch.finfo(made.dtype).eps ** 0.5 * made.abs().amax()
    return bool((found - made).abs().amax() <= limit)


def is_plain(layer: nn.Module | None) -> bool:
    """torch's own linear layer, which nobody has changed: nothing has to be computed."""
    changed = ("forward", "_forward_hooks", "_forward_pre_hooks")
    return (
        type(layer) is nn.Linear
        and type(layer.weight) is nn.Parameter
        and not any(layer.__dict__.get(name) for name in changed)
    )
