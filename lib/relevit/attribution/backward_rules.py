"""Another backward pass of a model that runs as it is: what LRP, AttnLRP and LibraGrad share.

A mode watches the functions that the model calls. Where a rule is known, what is made stays the
same but for rounding, and what the backward pass hands to what it was made of is the rule's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from relevit.maps import Inputs, Seen, Target, frozen_weights, last_blocks, run

Rule = Callable[..., Tensor]


class Rules(TorchFunctionMode):
    """Functions of torch and the rule of each, `rule(rules, function, *arguments)`.

    Rules hold in `gradients` alone: any other backward pass through the same graph has the plain
    gradient, so that one forward pass serves a map and a loss of the logits.
    """

    def __init__(self, table: dict[Callable[..., Any], Rule]) -> None:
        super().__init__()
        self.table, self.in_force, self.paused = table, False, False

    def __torch_function__(self, func, types, args=(), kwargs=None):
        rule = None if self.paused else self.table.get(func)
        return (partial(rule, self, func) if rule else func)(*args, **(kwargs or {}))

    @contextmanager
    def pause(self) -> Iterator[None]:
        """What is computed inside is no part of the model, and has no rules."""
        before, self.paused = self.paused, True
        try:
            yield
        finally:
            self.paused = before

    def handed(
        self, made: Tensor, rule: Callable[[Tensor], Sequence[Tensor]], *origins: Tensor
    ) -> Tensor:
        """What was `made`; where rules are in force its gradient goes by the rule to `origins`."""
        return Handed.apply(self, rule, made, *origins)

    def held(self, tensor: Tensor) -> Tensor:
        """The same, a constant where rules are in force."""
        return self.handed(tensor, lambda slope: ())

    def run(
        self,
        model: nn.Module,
        images: Inputs,
        target: Target = None,
        *,
        last: int | None = None,
        in_graph: bool = False,
        **how: Any,
    ) -> Seen:
        """One forward pass with a graph from the tokens before the `last` blocks (None: all) on.

        Or from the images, where they require a gradient. Only with `in_graph` are the weights in
        it. `how` as `relevit.maps.run`.
        """
        with torch.enable_grad(), ExitStack() as stack:
            if not in_graph:
                stack.enter_context(frozen_weights(model))
            first = model.blocks[last_blocks(len(model.blocks), last)[0]]
            stack.callback(first.register_forward_pre_hook(_need_gradient).remove)
            return run(model, images, target, last=last, under=self, **how)

    def gradients(
        self, score: Tensor, tensors: Sequence[Tensor], **options: bool
    ) -> tuple[Tensor, ...]:
        """What the rules make of the gradient of the `score`; `options` of `autograd.grad`."""
        self.in_force = True
        try:
            return torch.autograd.grad(score, tensors, **options)
        finally:
            self.in_force = False

    def shares(self, score: Tensor, tensors: Sequence[Tensor], **options: bool) -> list[Tensor]:
        """Each value times its gradient by the rules."""
        slopes = self.gradients(score, tensors, **options)
        return [values * slope for values, slope in zip(tensors, slopes, strict=True)]


class Handed(torch.autograd.Function):
    """The identity; where rules are in force its gradient goes to the origins in its place."""

    @staticmethod
    def forward(ctx, rules, rule, made, *origins):
        ctx.rules, ctx.rule, ctx.count = rules, rule, len(origins)
        return made.view_as(made)

    @staticmethod
    def backward(ctx, slope):
        if not ctx.rules.in_force:
            return None, None, slope, *[None] * ctx.count
        return None, None, None, *ctx.rule(slope)


def _need_gradient(block: nn.Module, args: tuple) -> None:
    """What lies before these tokens runs without a graph where nothing there is trained."""
    if not args[0].requires_grad:
        args[0].requires_grad_()


def norm(
    rules: Rules,
    function: Rule,
    values: Tensor,
    shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float | None = 1e-5,
) -> Tensor:
    """Layer norm and RMS norm, whose divisor is a constant."""
    axes, kind = tuple(range(-len(shape), 0)), values.dtype if weight is None else weight.dtype
    values = values.float() if values.dtype in (torch.float16, torch.bfloat16) else values
    if function is F.layer_norm:
        values = values - values.mean(axes, keepdim=True)
    eps = torch.finfo(values.dtype).eps if eps is None else eps
    divisor = (values.square().mean(axes, keepdim=True) + eps).sqrt()
    values = values / rules.held(divisor)
    values = values if weight is None else values * weight
    return (values if bias is None else values + bias).to(kind)


def unit_length(
    rules: Rules, function: Rule, values: Tensor, p: float = 2.0, dim: int = 1, **options: Any
) -> Tensor:
    """Vectors of length 1, whose divisor is a constant."""
    length = values.norm(p, dim, keepdim=True).clamp(min=options.get("eps", 1e-12))
    return values / rules.held(length)


def activation(rules: Rules, function: Rule, values: Tensor, *args: Any, **options: Any) -> Tensor:
    """What a function that is 0 at 0 makes of a value, as a constant multiple of it."""
    made = function(values, *args, **options | ({"inplace": False} if "inplace" in options else {}))
    return values * rules.held(made / torch.where(values == 0, 1.0, values))


def product(rules: Rules, function: Rule, a: Any, b: Any) -> Tensor:
    """Half to each factor that the images have made; gains and positions are none."""
    made = function(a, b)
    both = all(
        isinstance(x, Tensor) and x.requires_grad and x.ndim > 2 and not hasattr(x, "is_constant")
        for x in (a, b)
    )
    if not (both and a.ndim == b.ndim):
        return made
    return rules.handed(made, lambda slope: (slope * 0.5,), made)


def constant(rules: Rules, function: Rule, *args: Any, **options: Any) -> Tensor:
    """A factor that hands nothing on: its product is one of a single factor."""
    made = rules.held(function(*args, **options))
    made.is_constant = True
    return made


# In both papers
SHARED: dict[Callable[..., Any], Rule] = {
    F.layer_norm: norm,
    F.rms_norm: norm,
    F.normalize: unit_length,
    **dict.fromkeys((F.gelu, F.silu, F.mish, F.elu, F.hardswish), activation),
    **dict.fromkeys((torch.tanh, Tensor.tanh, F.tanh), activation),
    **dict.fromkeys((torch.sigmoid, Tensor.sigmoid, F.sigmoid), constant),  # of QuickGELU, gates
    **dict.fromkeys((torch.mul, Tensor.mul, Tensor.__mul__), product),
}
