"""Heads that read class token and mean patch, which timm has no option for."""

from __future__ import annotations

from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

BOTH = "both"  # rows that such a classifier reads, in `model.global_pool`

Tokens = Float[Tensor, "batch tokens width"]


def read_both(network: nn.Module, count: int, behind: bool = False) -> None:
    """Put an untrained head of so many classes there that reads both, as DINO's does.

    `behind`: as that of transformers' DINOv2 does.
    """
    network.head = nn.Linear(2 * network.embed_dim, count)
    nn.init.trunc_normal_(network.head.weight, std=0.02)
    nn.init.zeros_(network.head.bias)
    network.num_classes, network.global_pool, network.pool = count, BOTH, class_and_mean
    if behind:
        network.pool = partial(class_then_mean, prefix=network.num_prefix_tokens)
        network.family = "vit"  # what the papers' code does with DINO's own head is not for it


def class_and_mean(tokens: Tokens, pool_type: str | None = None) -> Float[Tensor, "batch features"]:
    """What DINO's linear classifier reads: class token and mean patch, channel by channel in turn.

    Source: DINO's linear evaluation of ViT-B; so does Beyond Intuition's code (differences D5).
    """
    return torch.stack([tokens[:, 0], tokens[:, 1:].mean(dim=1)], dim=-1).flatten(1)


def class_then_mean(
    tokens: Tokens, pool_type: str | None = None, *, prefix: int = 1
) -> Float[Tensor, "batch features"]:
    """What that of transformers' DINOv2 reads: the class token, and behind it the mean patch."""
    return torch.cat([tokens[:, 0], tokens[:, prefix:].mean(dim=1)], dim=1)
