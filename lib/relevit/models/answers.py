"""From logits to answers: among classes by the softmax, of a single output by the sigmoid."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor


def probabilities(logits: Float[Tensor, "*batch classes"]) -> Float[Tensor, "*batch classes"]:
    """The softmax over classes; of one output, which it would make 1, the sigmoid."""
    return logits.sigmoid() if logits.shape[-1] == 1 else logits.softmax(dim=-1)


def need_classes(logits: Float[Tensor, "*batch classes"]) -> None:
    """Raise ValueError for a single output, which is right whatever it says."""
    if logits.shape[-1] == 1:
        raise ValueError(
            "answers: a head with one output has no classes to compare; give it two, with the "
            "weights [0, w] and biases [0, b]: the softmax of these is the sigmoid of its one"
        )
