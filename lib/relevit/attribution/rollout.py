"""Attention rollout: the product of all blocks' attention maps."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from relevit.attention.recording import Inputs
from relevit.attention.token_rows import Pooling, carry_rows, pool_rows
from relevit.attribution.observe import baseline_pooling, first_block, observe
from relevit.relevance import Protocol, Target, explaining


@explaining
def rollout(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    protocol: Protocol = "published",
    start_block: int | None = None,
    pooling: Pooling | None = None,
    create_graph: bool = False,
) -> Float[Tensor, "batch patches"]:
    """Rows of (A_L + I) ... (A_1 + I), attention averaged over heads.

    Source: Abnar and Zuidema 2020; Beyond Intuition Sec. 2. `published` divides each A + I by
    its row sums and starts at block 2 (differences C15), and reads the class token of DINO (D5);
    `described` does neither. The same for every class: `target` is only checked.
    Raises: as `observe` and `first_block`.
    """
    start = first_block(model, start_block, protocol, "rollout")
    pooling = baseline_pooling(model, pooling, protocol)
    seen = observe(model, images, target, pooling=pooling, create_graph=create_graph)
    matrices = [attention.mean(dim=1) for attention in seen.maps]
    rows = carry_rows(matrices, seen.pooling, seen.prefix, start)
    if protocol == "published":
        # Rows of A sum to 1, so that A + I divided by its row sums is half of it.
        rows = rows / 2 ** (len(matrices) - start + 1)
    return pool_rows(rows, seen.pooling, seen.prefix)
