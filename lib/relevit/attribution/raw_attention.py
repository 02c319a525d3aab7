"""Raw attention: how much the last block's class token attends to each patch."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from relevit.attention.recording import Inputs
from relevit.attention.token_rows import Pooling
from relevit.attribution.method import Target, method
from relevit.attribution.seen import Map, Seen, observe


@method()
def raw_attention(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    mean_over: Literal["queries", "keys"] = "queries",
    scale: bool = False,
    pooling: Pooling | None = None,
    exact_gradient: bool = False,
) -> Map:
    """Attention of the last block, averaged over heads, in the rows that the head reads.

    Source: Beyond Intuition App. B (RAM). The same for every class: `target` is only checked.
    Where the head averages the patches, `mean_over="keys"` averages over keys instead of queries
    (differences D2), which leaves 1 minus the attention to the prefix tokens. `scale` brings each
    map to [0, 1] (C19).
    """
    seen = observe(model, images, target, pooling=pooling, exact_gradient=exact_gradient)
    attention = seen.maps[-1].mean(dim=1)
    if mean_over == "keys" and seen.pooling in ("patches", "both"):
        found = over_keys(attention, seen)
    else:
        found = seen.pool(seen.rows(attention))
    return scaled_to_one(found) if scale else found


def over_keys(attention: Float[Tensor, "batch query key"], seen: Seen) -> Map:
    """What each patch attends to the patches, all of them."""
    prefix = seen.prefix
    found = attention[:, prefix:, prefix:].mean(dim=2)
    if prefix == 0:  # every row sums to 1: what differs is rounding, which must not be scaled up
        found = torch.ones_like(found)
    return found + attention[:, 0, prefix:] if seen.pooling == "both" else found


def scaled_to_one(maps: Map) -> Map:
    """Each map from 0 to 1, as the published code returns some (differences C19).

    A constant map becomes NaN, as it does there.
    """
    low = maps.amin(dim=1, keepdim=True)
    return (maps - low) / (maps.amax(dim=1, keepdim=True) - low)
