"""Raw attention, rollout, GradCAM, and attention times its gradient, as one forward pass has them.

Each is a formula of what one forward pass leaves behind (`Seen`). GAE and GA are in `gae`.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from relevit.attention.token_rows import pool_rows
from relevit.attribution.seen import Map, Seen, average_heads, reads


@reads()
def raw_attention(
    seen: Seen, *, mean_over: Literal["queries", "keys"] = "queries", scale: bool = False
) -> Map:
    """Attention of the last block, averaged over heads, in the rows that the head reads.

    Source: Beyond Intuition App. B (RAM). The same for every class: `target` is only checked.
    Where the head averages the patches, `mean_over="keys"` averages over keys instead of queries
    (differences D2), which leaves 1 minus the attention to the prefix tokens. `scale` brings each
    map to [0, 1] (C19).
    """
    attention = seen.maps[-1].mean(dim=1)
    if mean_over == "keys" and seen.pooling in ("patches", "both"):
        found = over_keys(attention, seen)
    else:
        found = seen.pool(seen.rows(attention))
    return scaled_to_one(found) if scale else found


@reads(softmax=True)
def rollout(seen: Seen, *, start_block: int = 1, normalise: bool = False) -> Map:
    """Rows of (A_L + I) ... (A_start + I), attention averaged over heads.

    Source: Abnar and Zuidema 2020; Beyond Intuition Sec. 2. `normalise` divides each A + I by
    its row sums (differences C15). The same for every class: `target` is only checked.
    """
    rows = seen.propagate(average_heads(seen), start_block)
    if normalise:
        # Rows of A sum to 1, so that A + I divided by its row sums is half of it.
        rows = rows / 2 ** (len(seen.maps) - start_block + 1)
    return seen.pool(rows)


@reads("last")
def gradcam(
    seen: Seen, *, weigh: Literal["heads", "queries", "map"] = "heads", scale: bool = False
) -> Map:
    """Sum over heads of attention times the head's mean gradient, negative values set to 0.

    Source: Selvaraju et al. 2017 as in Chefer et al. 2021; Beyond Intuition App. B. Where the head
    averages the patches, `weigh="queries"` weights each query instead of each head (differences D3)
    and averages over keys (D2). `map` weights and scales by all queries and keys, the class token's
    among them, as the published code for BERT does (F3). `scale` brings each map to [0, 1], so that
    one whose values are all clamped is NaN (C19).
    """
    if weigh == "map" and seen.pooling == "class_token":
        return by_whole_map(seen)
    if weigh != "heads" and seen.pooling == "patches":
        found = by_query(seen)
    else:
        rows, slopes = (
            seen.rows(matrix)[..., seen.prefix :] for matrix in (seen.maps[-1], seen.gradients[-1])
        )
        cam = (rows * slopes.mean(dim=(2, 3), keepdim=True)).mean(dim=1).clamp(min=0)
        found = pool_rows(cam, seen.pooling, 0)
    return scaled_to_one(found) if scale else found


@reads("last")
def attention_gradient(seen: Seen) -> Map:
    """Attention of the last block times its gradient, clamped at 0, mean over heads.

    In the rows that the head reads: the last step of GAE alone, the plain map that a longer method
    has to beat.
    """
    product = (seen.maps[-1] * seen.gradients[-1]).clamp(min=0)
    return seen.pool(seen.rows(product.mean(dim=1)))


# What published code does otherwise


def over_keys(attention: Float[Tensor, "batch query key"], seen: Seen) -> Map:
    """What each patch attends to the patches, all of them."""
    prefix = seen.prefix
    found = attention[:, prefix:, prefix:].mean(dim=2)
    if prefix == 0:  # every row sums to 1: what differs is rounding, which must not be scaled up
        found = torch.ones_like(found)
    return found + attention[:, 0, prefix:] if seen.pooling == "both" else found


def by_query(seen: Seen) -> Map:
    """GradCAM with a weight for each query of each patch."""
    attention, slope = (
        matrix[:, :, seen.prefix :, seen.prefix :] for matrix in (seen.maps[-1], seen.gradients[-1])
    )
    weight = slope.mean(dim=(1, 3), keepdim=True)
    return torch.mean(weight * attention, dim=(1, 3)).clamp(min=0)


def by_whole_map(seen: Seen) -> Map:
    """The class token's row of the whole map of all queries and keys, scaled as one."""
    weight = seen.gradients[-1].mean(dim=(2, 3), keepdim=True)
    cam = (weight * seen.maps[-1]).mean(dim=1).clamp(min=0)
    return scaled_to_one(cam.flatten(1)).view_as(cam)[:, 0, seen.prefix :]


def scaled_to_one(maps: Map) -> Map:
    """Each map from 0 to 1, as the published code returns some (differences C19).

    A constant map becomes NaN, as it does there.
    """
    low = maps.amin(dim=1, keepdim=True)
    return (maps - low) / (maps.amax(dim=1, keepdim=True) - low)
