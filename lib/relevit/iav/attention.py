"""Which patches every head of every layer looks at: the rows that IA-scores are made of."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from relevit.attention.recording import record_attention
from relevit.attention.rows import Pooling, head_pooling, pool_rows, prefix_tokens, read_rows
from relevit.attribution.path import check_chunk

CHUNK = 50  # images run at once; bounds the memory


@torch.no_grad()
def class_attention(
    model: nn.Module,
    images: Float[Tensor, "batch 3 height width"],
    *,
    chunk: int = CHUNK,
    pooling: Pooling | None = None,
) -> Float[Tensor, "batch layers heads patches"]:
    """Attention from the class token to the patches, layer by layer and head by head.

    Source: IAV Eq. 1, the class token's row of each head. Values are the softmax's own, so a
    row sums to 1 less what the class token, a distillation token and registers get; these
    are left out because an attribution has no value for them. `images` are normalised.
    A model whose head averages the patches has no class token that anybody reads. What its
    head reads of the last layer is the mean of the patches' outputs, and that is the values
    weighed by the mean of the patches' rows. So this mean is taken, in every layer, so that
    layers can be compared. `both` is the sum of the two (differences D5). The paper has
    class-token models only. `pooling` asks for other rows than those that the head reads.
    `chunk` images run at once, whose maps are all in memory together: chunk x layers x heads x
    tokens squared numbers. Results do not depend on it beyond rounding. The model runs in the
    mode it is in: use eval mode where it has dropout. Modes and hooks stay as they were.
    Raises: ValueError for a chunk below 1, as `head_pooling` and as `record_attention`.
    """
    check_chunk(chunk)
    pooling, prefix = head_pooling(model, pooling), prefix_tokens(model)
    return torch.cat([_rows(model, part, pooling, prefix) for part in images.split(chunk)])


def _rows(
    model: nn.Module, images: Tensor, pooling: Pooling, prefix: int
) -> Float[Tensor, "batch layers heads patches"]:
    # One row of the last map is enough where only the class token's is read.
    with record_attention(model, class_row=pooling == "class_token") as tape:
        model(images)
    layers = []
    for attention in tape.maps:
        rows = read_rows(attention.flatten(0, 1), pooling, prefix)
        layers.append(pool_rows(rows, pooling, prefix).unflatten(0, attention.shape[:2]))
    return torch.stack(layers, dim=1)
