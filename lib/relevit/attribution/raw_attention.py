"""Raw attention: how much the last block's class token attends to each patch."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from relevit.attention.recording import Inputs
from relevit.attention.token_rows import Pooling, pool_rows, read_rows
from relevit.attribution.observe import baseline_pooling, observe, scaled_to_one
from relevit.relevance import Protocol, Target, explaining


@explaining
def raw_attention(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    protocol: Protocol = "published",
    pooling: Pooling | None = None,
    create_graph: bool = False,
) -> Float[Tensor, "batch patches"]:
    """Attention of the last block, averaged over heads, in the rows that the head reads.

    Source: Beyond Intuition App. B (RAM). The same for every class: `target` is only checked.
    `published` scales each map to [0, 1] (differences C19) and, for average pooling, averages
    over keys instead of queries (D2), which leaves 1 minus the attention to the prefix tokens:
    NaN, as for every constant map, where there are none. For DINO's head, which reads class token
    and mean, it takes the class token's row (D5); with `pooling="both"` the sum of the two.
    Raises: as `observe`.
    """
    pooling = baseline_pooling(model, pooling, protocol)
    seen = observe(model, images, target, pooling=pooling, create_graph=create_graph)
    attention = seen.maps[-1].mean(dim=1)
    if protocol == "described":
        rows = read_rows(attention, seen.pooling, seen.prefix)
        return pool_rows(rows, seen.pooling, seen.prefix)
    return scaled_to_one(_published_rows(attention, seen.pooling, seen.prefix))


def _published_rows(attention: Tensor, pooling: Pooling, prefix: int) -> Tensor:
    if pooling == "class_token":
        return attention[:, 0, prefix:]
    by_query = attention[:, prefix:, prefix:].mean(dim=2)
    if prefix == 0:  # every row sums to 1: what differs is rounding, which must not be scaled up
        by_query = torch.ones_like(by_query)
    return by_query + attention[:, 0, prefix:] if pooling == "both" else by_query
