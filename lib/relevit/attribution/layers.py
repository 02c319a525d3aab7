"""A layer is called, not read: what a method reads as a weight must be what the layer does.

An adapter that is not merged (LoRA), a quantised layer or a hook leaves `.weight` as it is and
computes something else: a method that reads it would explain another model, without a word.
So a method calls the layer (`matrix_of`), or refuses one that is more than its weight.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, linear


def block_layers(model: nn.Module, *parts: str) -> list[str]:
    """Paths in the model of these parts of every block."""
    return [f"blocks.{i}.{part}" for i in range(len(model.blocks)) for part in parts]


def check_weights(model: nn.Module, paths: Iterable[str], method: str) -> None:
    """Refuse a model one of whose layers does not do what its weight does.

    Raises: ValueError naming the first such layer of `paths`, for the `method` that reads them.
    """
    for path in paths:
        layer = _find(model, path)
        if not does_its_weight(layer):
            kind = "is missing" if layer is None else f"is a {type(layer).__name__}"
            raise ValueError(
                f"{method}: {path} of this {type(model).__name__} {kind}, where the method reads "
                "the .weight of a layer that does no more than its weight; merge an adapter "
                "(merge_and_unload() in peft), dequantise, remove hooks, or take a method that "
                "reads no weights, such as gae"
            )


def matrix_of(layer: nn.Module, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Weight [out, in] and bias of what a layer does to such `inputs`, whatever does it.

    Found by calling it on nothing and on each unit vector, in the graph of all its parts. Of one
    that does anything else it is no description.
    """
    width = inputs.shape[-1]
    asked = torch.eye(width + 1, width + 1, dtype=inputs.dtype, device=inputs.device)[:, 1:]
    made = layer(asked.reshape(*[1] * (inputs.ndim - 2), width + 1, width)).flatten(0, -2)
    return (made[1:] - made[0]).T, made[0]


@torch.no_grad()
def does_its_weight(layer: nn.Module | None) -> bool:
    """Whether a layer makes of random inputs what `linear` (or `conv2d`) makes by its weight.

    To half the digits of its output's type: sums may be taken in another order. A weight that is
    computed (`parametrize`, `weight_norm`, pruning) is read after the call that computes it.
    """
    if is_plain(layer):
        return True
    if not _is_matrix(getattr(layer, "weight", None)):
        return False
    weight = layer.weight
    random = torch.Generator().manual_seed(0)
    inputs = torch.randn((2, *weight.shape[1:]), generator=random).to(weight)
    made, bias = layer(inputs), getattr(layer, "bias", None)
    if weight.ndim == 2:
        wanted = linear(inputs, layer.weight, bias)
    else:
        wanted = conv2d(inputs, layer.weight, bias, stride=layer.stride)
    if made.shape != wanted.shape:
        return False
    limit = torch.finfo(made.dtype).eps ** 0.5 * wanted.abs().amax()
    return bool((made - wanted).abs().amax() <= limit)


def is_plain(layer: nn.Module | None) -> bool:
    """torch's own linear layer, which nobody has changed: nothing has to be computed."""
    changed = ("forward", "_forward_hooks", "_forward_pre_hooks")
    return (
        type(layer) is nn.Linear
        and type(layer.weight) is nn.Parameter
        and not any(layer.__dict__.get(name) for name in changed)
    )


def _is_matrix(weight: object) -> bool:
    """Quantised weights are subclasses, packed integers, or behind a method."""
    plain = type(weight) in (Tensor, nn.Parameter)
    return plain and weight.is_floating_point() and weight.ndim in (2, 4)


def _find(model: nn.Module, path: str) -> nn.Module | None:
    try:
        return model.get_submodule(path)
    except AttributeError:  # some BEiTs have three layers in place of qkv
        return None
