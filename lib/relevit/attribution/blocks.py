"""What timm's families keep in different places of a block: LayerScale and the biases of BEiT."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from relevit.attention.recording import FAMILIES


def scale_branch(block: nn.Module, branch: int, values: Tensor) -> Tensor:
    """LayerScale of the block's attention (1) or MLP (2), where it has one."""
    layer = getattr(block, f"ls{branch}", None)
    if layer is not None:
        return layer(values)
    gamma = getattr(block, f"gamma_{branch}", None)  # BEiT
    return values if gamma is None else gamma * values


def qkv_bias(layer: nn.Module) -> Tensor | None:
    """Bias of the joint layer of queries, keys and values."""
    if layer.qkv.bias is None and getattr(layer, "q_bias", None) is not None:  # BEiT
        return torch.cat([layer.q_bias, torch.zeros_like(layer.v_bias), layer.v_bias])
    return layer.qkv.bias


def value_projection(layer: nn.Module) -> tuple[Tensor, Tensor | None]:
    """Weight [width of all heads, width] and bias of the values, out of timm's joint layer.

    Raises: ValueError where queries, keys and values have separate layers.
    """
    if not hasattr(layer.qkv, "weight"):
        raise ValueError(
            f"token_wise: {type(layer).__name__} has no joint qkv layer to take the values' "
            f"weights from; use a plain timm Vision Transformer ({FAMILIES})"
        )
    weight, bias = layer.qkv.weight, qkv_bias(layer)
    start = 2 * weight.shape[0] // 3
    return weight[start:], None if bias is None else bias[start:]
