"""Checks of the exercises on relevance finetuning (02_finetune)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from checks.feedback import choice, compare, passed, result
from relevit import losses
from relevit.attention.token_rows import carry_rows, pool_rows

LAYERS, HEADS, TOKENS = 3, 2, 5


def attention_example() -> tuple[Tensor, Tensor]:
    """Attention maps and gradients of three blocks, with a class token and four patches."""
    draw = torch.Generator().manual_seed(0)
    shape = (LAYERS, HEADS, TOKENS, TOKENS)
    # In the precision of a model and of torch.eye: a right answer need not ask for another.
    attention = torch.randn(shape, generator=draw).softmax(-1)
    return attention, torch.randn(shape, generator=draw)


def gae(answer: Callable) -> None:
    """GAE for one image: attention and gradients, layers x heads x tokens x tokens -> patches."""
    attention, gradients = attention_example()
    product = attention * gradients
    cut_late = product.mean(1).clamp(min=0)
    matrices = product.clamp(min=0).mean(1)
    rows = carry_rows(list(matrices[:, None]), "class_token", 1)
    right = pool_rows(rows, "class_token", 1)[0]
    carried = _carried(matrices)
    compare(result(answer, attention, gradients), right, {
        "Your map is transposed: you read the class token's column. Its row says what it takes "
        "from the patches.": carried[1:, 0],
        "You cut negative values after the mean over heads: then a head that speaks against the "
        "class cancels one that speaks for it. Cut first.": _carried(cut_late)[0, 1:],
        "You left negative products in: keep only what speaks for the class.":
            _carried(product.mean(1))[0, 1:],
        "You multiply from the wrong side: a later block mixes what the earlier ones have made, "
        "so its matrix stands on the left.": _carried(matrices, left=False)[0, 1:],
        "You left the gradients out: this is the same map for every class.":
            _carried(attention.mean(1))[0, 1:],
        "You use the last block alone: carry the relevance through all of them.":
            matrices[-1][0, 1:],
    })  # fmt: skip
    passed("That is GAE: the map that RobustViT finetunes on.")


def background(answer: Callable) -> None:
    """Eq. 1: mean squared relevance off the object. Heatmap and mask, batch x 1 x side x side."""
    heat, mask = _heat_and_mask()
    off = heat * (1 - mask)
    compare(result(answer, heat, mask, shape=()), losses.background_loss(heat, mask), {
        "You punish relevance on the object: the background is 1 - mask.":
            (heat * mask).square().mean(),
        "The relevance is not squared: Eq. 1 is a mean squared error.": off.mean(),
        "You take the sum: the loss is a mean, or a large image would weigh more.":
            off.square().sum(),
        "You divide by the background's pixels alone; Eq. 1 divides by all of them, so that a "
        "small background counts little.": off.square().sum() / (1 - mask).sum(),
    })  # fmt: skip
    passed("That is Eq. 1: it grows with the background's area, since the mean is over all pixels.")


def weights(answer: str | None) -> None:
    """Why the foreground term weighs less than the background term."""
    choice(answer, "b", {
        "a": "It is not the scale: both terms are means of squares of numbers in [0, 1].",
        "b": "Right: a model may know a bird by its beak. What it must not use is the background, "
             "but nothing says that it needs every feather.",
        "c": "Masks are exact here, and in ImageNet-S drawn by people. Weights are the same there.",
    })  # fmt: skip


def _carried(matrices: Tensor, *, left: bool = True) -> Tensor:
    carried = torch.eye(matrices.shape[-1], dtype=matrices.dtype)
    for matrix in matrices:
        carried = carried + (matrix @ carried if left else carried @ matrix)
    return carried


def _heat_and_mask() -> tuple[Tensor, Tensor]:
    heat = torch.rand(2, 1, 4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    mask = torch.zeros_like(heat)
    mask[:, :, 1:3, 1:4] = 1
    return heat, mask
