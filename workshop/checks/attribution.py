"""Checks of the exercises on attribution (06_attribution)."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import torch
from torch import Tensor

from checks.feedback import choice, compare, guess, passed, result
from relevit.attention.token_rows import carry_rows, pool_rows
from relevit.attribution.beyond_intuition import weigh_heads
from relevit.attribution.seen import Seen

LAYERS, HEADS, TOKENS = 3, 2, 5


def attention_example() -> Tensor:
    """Attention maps of three blocks, with a class token and four patches."""
    draw = torch.Generator().manual_seed(0)
    # In the precision of a model and of torch.eye: a right answer need not ask for another.
    return (3 * torch.randn(LAYERS, HEADS, TOKENS, TOKENS, generator=draw)).softmax(-1)


def rollout(answer: Callable) -> None:
    """Rollout for one image: attention, layers x heads x tokens x tokens -> patches."""
    attention = attention_example()
    mean = attention.mean(1)
    rows = carry_rows(list(mean[:, None]), "class_token", 1)
    right = pool_rows(rows, "class_token", 1)[0] / 2**LAYERS
    halved = (mean + torch.eye(TOKENS, dtype=mean.dtype)) / 2
    largest = (attention.amax(1) + torch.eye(TOKENS, dtype=mean.dtype)) / 2
    compare(result(answer, attention), right, {
        "Your map is transposed: you read the class token's column. Its row says what it takes "
        "from the patches.": _product(halved)[1:, 0],
        f"Your map is {2**LAYERS} times too large: the rows of each A + I sum to 2. Halve it in "
        "every block, so that the shares of all tokens sum to 1.": right * 2**LAYERS,
        "You left the identity out: a token keeps itself when it goes past the attention.":
            _product(mean)[0, 1:],
        "You multiply from the wrong side: a later block mixes what the earlier ones have made, "
        "so its matrix stands on the left.": _product(halved.flip(0))[0, 1:],
        "You take the largest head: rollout takes the mean over heads.":
            _product(largest)[0, 1:],
        "You use the last block alone: go through all of them, the first one first.":
            halved[-1][0, 1:],
    })  # fmt: skip
    passed("That is rollout: where the class token's content comes from, whatever the class.")


def pointing(prediction: tuple, table: pd.DataFrame) -> None:
    """How many maps point at their own animal: rollout and GAE, in percent; and the truth."""
    share = table.set_index("method")["own_object_pct"]
    first, second = prediction
    same = (
        "Rollout's two maps are equal, so they point at one place. It lies nearer to one of the "
        "animals: one map is right, and one is wrong."
    )
    guess(first, share["rollout"], within=0.5, unit="% for rollout", low=same, high=same)
    guess(
        second, share["gae"], within=7.5, unit="% for GAE",
        low="GAE's gradients are those of the class that is asked for: it does better than that.",
        high="The class moves it, but not always: where all blocks look at one animal, their "
             "gradients can do little about it.",
    )  # fmt: skip


def same_map(answer: str | None) -> None:
    """Why raw attention and rollout give one map for all classes."""
    choice(answer, "b", {
        "a": "Rows that sum to 1 do not matter here: GAE starts from the same rows, and its maps "
             "differ between the classes.",
        "b": "Right: attention is computed before anything is asked. The classes part only in the "
             "head, and these two maps never look at it. GAE does, through its gradients.",
        "c": "It is not the mean: each single head is the same for both classes, too.",
    })  # fmt: skip


def head_wise(answer: Callable) -> None:
    """A block's head-wise matrix: attention and gradient, heads x tokens x tokens -> tokens^2."""
    attention, gradient = _block()
    seen = Seen(
        maps=[attention[None]], gradients=[gradient[None]], inputs=[], logits=torch.zeros(1, 2),
        target=torch.zeros(1, dtype=torch.long), pooling="class_token", prefix=1,
    )  # fmt: skip
    right, published = (weigh_heads(seen, inner=inner)[0][0] for inner in (True, False))
    product = attention * gradient
    inner = product.sum((1, 2))
    compare(result(answer, attention, gradient, shape=(TOKENS, TOKENS)), right, {
        "Your weights keep their sign: then heads of both signs cancel in the sum. Take the "
        "absolute value of each inner product first.": _weighed(inner / inner.sum(), attention),
        "You take the absolute value of each entry; Eq. 15 takes the inner product first, and "
        "its absolute value after that.": _weighed(_shares(product.abs().sum((1, 2))), attention),
        "Your weights do not sum to 1: divide them by their sum over the heads.":
            _weighed(inner.abs(), attention),
        "All heads weigh the same in yours: this is rollout's mean, without any gradient.":
            attention.mean(0),
        "You use a softmax: Eq. 15 divides by the sum.":
            _weighed(inner.abs().softmax(0), attention),
        "You weigh every entry by its own gradient, as GAE does. Here a head has one weight for "
        "all its entries.": product.mean(0),
        "You left attention out of the weights: it is the inner product of A and its gradient.":
            _weighed(_shares(gradient.sum((1, 2)).abs()), attention),
        "This is what the published code does (difference C5): entries of a matrix product. The "
        "text's inner product is the sum of A times its gradient, entry by entry.": published,
    })  # fmt: skip
    passed("That is Eq. 15: heads that the class owes more to are heard more.")


def _product(matrices: Tensor) -> Tensor:
    carried = torch.eye(matrices.shape[-1], dtype=matrices.dtype)
    for matrix in matrices:
        carried = matrix @ carried
    return carried


def _block() -> tuple[Tensor, Tensor]:
    """Attention of one block with three heads, whose inner products have both signs."""
    draw = torch.Generator().manual_seed(2)
    shape = (3, TOKENS, TOKENS)
    attention = torch.randn(shape, generator=draw, dtype=torch.float64).softmax(-1)
    return attention, torch.randn(shape, generator=draw, dtype=torch.float64)


def _shares(weights: Tensor) -> Tensor:
    return weights / weights.sum()


def _weighed(weights: Tensor, attention: Tensor) -> Tensor:
    return torch.einsum("h,hqk->qk", weights, attention)
