"""Which rows of a token-by-token matrix a model's head reads, and how they go through the blocks.

Relevance recursions multiply one matrix a block, R <- R + A R, and keep only some rows of the
result: the class token's, or, for a head that averages the patches, the patches'. Carrying
these rows from the last block to the first gives the same numbers and multiplies vectors
instead of matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from relevit.attention.recording import attention_layers

Pooling = Literal["class_token", "distilled", "patches", "all_tokens", "both"]


def prefix_tokens(model: nn.Module) -> int:
    """How many tokens stand before the patches: class token, distillation token, registers."""
    return int(getattr(model, "num_prefix_tokens", 1))


def need_head(model: nn.Module) -> None:
    """Raise ValueError for a model without a head: its outputs are features, and no classes."""
    head = getattr(model, "head", None)
    if isinstance(head, nn.Identity) or (head is None and getattr(model, "num_classes", 1) == 0):
        raise ValueError(
            f"target: this {type(model).__name__} has no head (num_classes=0), so that its outputs "
            "are features and no classes; load it with weights that have a head, or train one: "
            "load_model(..., classes=N, new_head=True). Raw attention and rollout need none, "
            "without a target"
        )


def head_pooling(model: nn.Module, pooling: Pooling | None = None) -> Pooling:
    """The rows that the head of `model` reads, or `pooling` when it is given.

    `class_token`: its row. `distilled`: the mean of the class and the distillation token's, of
    DeiT's two heads, whose answers are averaged (F13). `patches`: the mean over the patches' rows
    (Beyond Intuition Eq. 8; differences D1). `all_tokens`: that over the rows of class token and
    registers, too. `both`: the sum of class token and mean, the published rule for DINO's linear
    classifier, which reads both (D5). timm models tell by `global_pool` and `pool_include_prefix`.
    Raises: ValueError for an unknown pooling, one that the model's tokens do not allow, a head
    that pools in another way, or a model without global self-attention.
    """
    attention_layers(model)
    said = getattr(model, "global_pool", "token")
    if said in ("map", "prr") or getattr(model, "attn_pool", None) is not None:
        raise ValueError(
            f"pooling: the head of this {type(model).__name__} is an attention-pooling head "
            f"(global_pool={said!r}, as SigLIP's), whose own attention no method here explains; "
            "use a model that pools by its class token or by the mean of its patches"
        )
    kinds = {"token": "class_token", "avg": "patches", "both": "both"}
    if getattr(model, "pool_include_prefix", False):
        kinds["avg"] = "all_tokens"
    found = pooling or kinds.get(said)
    if pooling is None and found == "class_token" and hasattr(model, "head_dist"):
        return "distilled"
    if found not in get_args(Pooling):
        raise ValueError(
            f"pooling: {pooling or said!r} is unknown; use a model "
            f"that pools by its class token or by the mean, or choose one of {get_args(Pooling)}"
        )
    of_class_token = found not in ("patches", "all_tokens")
    if of_class_token and not getattr(model, "has_class_token", prefix_tokens(model) > 0):
        raise ValueError(
            f"pooling: this {type(model).__name__} has no class token, whose row was asked for; "
            "use pooling='patches' or a model with class_token=True"
        )
    return found


def read_rows(
    matrix: Float[Tensor, "*batch query tokens"], pooling: Pooling, prefix: int
) -> Float[Tensor, "*batch rows tokens"]:
    """The rows that `pooling` needs."""
    if pooling == "all_tokens":
        return matrix
    if pooling in ("class_token", "distilled"):
        return matrix[..., : 2 if pooling == "distilled" else 1, :]
    patches = matrix[..., prefix:, :]
    return patches if pooling == "patches" else torch.cat([matrix[..., :1, :], patches], dim=-2)


def carry_rows(
    matrices: Sequence[Float[Tensor, "batch tokens tokens"]],
    pooling: Pooling,
    prefix: int,
    start_block: int = 1,
) -> Float[Tensor, "batch rows tokens"]:
    """The read rows of (I + A_L) ... (I + A_start), blocks counted from 1."""
    batch, _, tokens = matrices[0].shape
    unit = torch.eye(tokens, dtype=matrices[-1].dtype, device=matrices[-1].device)
    rows = read_rows(unit.expand(batch, tokens, tokens), pooling, prefix)
    for matrix in reversed(matrices[start_block - 1 :]):
        rows = rows + rows @ matrix
    return rows


def pool_rows(
    rows: Float[Tensor, "batch rows tokens"], pooling: Pooling, prefix: int
) -> Float[Tensor, "batch patches"]:
    """One value a patch: the mean over the rows; of `both`, class token plus the patches' mean."""
    patches = rows[:, :, prefix:]
    if pooling == "both":
        return patches[:, 0] + patches[:, 1:].mean(dim=1)
    return patches.mean(dim=1)
