"""One forward pass over the images, and what the methods read off it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from relevit.attention.recording import Inputs, frozen_weights, need_softmax, record_attention
from relevit.attention.token_rows import (
    Pooling,
    carry_rows,
    head_pooling,
    pool_rows,
    prefix_tokens,
    read_rows,
)
from relevit.attribution.method import Target, checked_target, method

Map = Float[Tensor, "batch patches"]
Rows = Float[Tensor, "batch rows tokens"]
Gradients = Literal["none", "last", "all"]
Matrices = list[Float[Tensor, "batch query key"]]


@dataclass(frozen=True)
class Seen:
    """Attention maps of all blocks, first block first, and what one class's logit owes to each.

    `inputs` are the tokens before each block, `target` the class that is explained, `score` the sum
    of its logits. `gradients` has an entry for each map, for the last one, or none, as asked for.
    """

    maps: list[Float[Tensor, "batch heads query key"]]
    inputs: list[Float[Tensor, "batch tokens width"]]
    logits: Float[Tensor, "batch classes"]
    target: Int[Tensor, " batch"]
    score: Float[Tensor, ""]
    pooling: Pooling
    prefix: int  # tokens before the patches
    gradients: Sequence[Float[Tensor, "batch heads query key"]] = ()

    def rows(self, matrix: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch rows key"]:
        """The rows that the head reads: the class token's, or all patches'."""
        return read_rows(matrix, self.pooling, self.prefix)

    def pool(self, rows: Rows) -> Map:
        """One value a patch from these rows."""
        return pool_rows(rows, self.pooling, self.prefix)

    def propagate(self, matrices: Sequence[Tensor], start_block: int = 1) -> Rows:
        """These rows of (I + A_L) ... (I + A_start), blocks counted from 1."""
        return carry_rows(matrices, self.pooling, self.prefix, start_block)


def average_heads(seen: Seen) -> Matrices:
    """Attention averaged over heads."""
    return [attention.mean(dim=1) for attention in seen.maps]


def run(
    model: nn.Module,
    images: Inputs,
    target: Target,
    *,
    pooling: Pooling | None = None,
    last: int | None = None,
    under: AbstractContextManager[Any] | None = None,
) -> Seen:
    """One forward pass, its graph as the surroundings have it; what runs the model is `under` one.

    `last` records the maps of the last so many blocks alone (None: all).
    Raises: ValueError for a bad target or pooling, or a model without global self-attention.
    """
    pooling = head_pooling(model, pooling)
    with record_attention(model, last=last) as tape, under or nullcontext():
        logits = model(images)
    target = checked_target(logits, target)
    score = logits.gather(1, target[:, None]).sum()
    return Seen(tape.maps, tape.inputs, logits, target, score, pooling, prefix_tokens(model))


def observe(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    gradients: Gradients = "none",
    exact_gradient: bool = False,
    in_graph: bool = False,
    pooling: Pooling | None = None,
    last: int | None = None,
) -> Seen:
    """Run the model once; `pooling` and `last` as `run`.

    With `exact_gradient` maps and gradients are differentiable with respect to the weights, with
    `in_graph` the maps alone; otherwise they are detached and the weights are frozen meanwhile,
    which is cheaper.
    """
    in_graph = in_graph or exact_gradient
    with ExitStack() as stack:
        stack.enter_context(torch.set_grad_enabled(in_graph or gradients != "none"))
        if not in_graph:
            stack.enter_context(frozen_weights(model))
        seen = run(model, images, target, pooling=pooling, last=last)
        wanted = {"none": [], "last": seen.maps[-1:], "all": seen.maps}[gradients]
        if wanted:
            keep = {"retain_graph": in_graph, "create_graph": exact_gradient}
            seen = replace(seen, gradients=torch.autograd.grad(seen.score, wanted, **keep))
    if in_graph:
        return seen
    maps, inputs = ([tensor.detach() for tensor in kept] for kept in (seen.maps, seen.inputs))
    logits, score = seen.logits.detach(), seen.score.detach()
    return replace(seen, maps=maps, inputs=inputs, logits=logits, score=score)


def reads(
    gradients: Gradients = "none", *, softmax: bool = False
) -> Callable[[Callable[..., Map]], Callable[..., Map]]:
    """Make a formula `(seen, **options)` of what one forward pass leaves behind one of METHODS.

    `gradients`, `pooling` and `exact_gradient` as `observe` takes them. Without gradients a map is
    the same for every class. `softmax`: it takes maps for shares, so that differential attention
    is refused. The formula itself is the method's `of_seen`.
    """

    def decorate(formula: Callable[..., Map]) -> Callable[..., Map]:
        @method(of_class=gradients != "none")
        @wraps(formula, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
        def of_model(
            model: nn.Module,
            images: Inputs,
            target: Target = None,
            *,
            pooling: Pooling | None = None,
            exact_gradient: bool = False,
            **options: Any,
        ) -> Map:
            if softmax:
                need_softmax(model, formula.__name__)
            how = dict(gradients=gradients, pooling=pooling, exact_gradient=exact_gradient)
            return formula(observe(model, images, target, **how), **options)

        of_model.of_seen = formula
        return of_model

    return decorate
