"""Another backward pass of a model that runs as it is: what LRP, AttnLRP and LibraGrad share.

A mode watches the functions that the model calls. Where a rule is known, what is made stays the
same but for rounding, and what the backward pass hands to what it was made of is the rule's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from relevit.attention.recording import Inputs, frozen_weights, last_blocks, record_attention
from relevit.attention.token_rows import Pooling, head_pooling, prefix_tokens
from relevit.attribution.method import Target, checked_target
from relevit.attribution.seen import Seen

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

    def halved(self, tensor: Tensor) -> Tensor:
        """The same, with half of the gradient where rules are in force."""
        return self.handed(tensor, lambda slope: (slope * 0.5,), tensor)

    def gradients(
        self, score: Tensor, tensors: Sequence[Tensor], **options: bool
    ) -> tuple[Tensor, ...]:
        """What the rules make of the gradient of the `score`; `options` of `autograd.grad`."""
        self.in_force = True
        try:
            return torch.autograd.grad(score, tensors, **options)
        finally:
            self.in_force = False


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


class Run(NamedTuple):
    """A forward pass under rules: the sum of the logits explained, and what it comes from."""

    score: Float[Tensor, ""]
    images: Inputs
    seen: Seen


def run_by_rules(
    model: nn.Module,
    images: Inputs,
    target: Target,
    rules: Rules,
    *,
    of_images: bool = False,
    last: int | None = None,
    in_graph: bool = False,
    pooling: Pooling | None = None,
) -> Run:
    """Run the model once, with a graph from the images or from the tokens before some blocks.

    These are the `last` so many (None: all). Only with `in_graph` are the weights in the graph.
    Raises: ValueError for a bad target or pooling, or a model without global self-attention.
    """
    pooling = head_pooling(model, pooling)
    with ExitStack() as stack:
        stack.enter_context(torch.enable_grad())
        if not in_graph:
            stack.enter_context(frozen_weights(model))
        images = images.detach().requires_grad_(of_images)
        first = model.blocks[last_blocks(len(model.blocks), last)[0]]
        stack.callback(first.register_forward_pre_hook(_need_gradient).remove)
        with record_attention(model, last=last) as tape, rules:
            logits = model(images)
        target = checked_target(logits, target)
        score = logits.gather(1, target[:, None]).sum()
    kept = Seen(tape.maps, [], tape.inputs, logits, target, pooling, prefix_tokens(model))
    return Run(score, images, kept)


@torch.enable_grad()
def explain_by_rules(
    model: nn.Module,
    images: Inputs,
    target: Target,
    rules: Rules,
    *,
    of: Literal["images", "tokens"],
    last: int | None = None,
    in_graph: bool = False,
) -> tuple[list[Tensor], Float[Tensor, "batch classes"]]:
    """Each value times its gradient by the rules for one class's logit, and the logits.

    Of the images, or of the tokens before each of the `last` blocks (None: all), first block first.
    With `in_graph` both may be differentiated; otherwise they are detached, which is cheaper.
    Raises: as `run_by_rules`.
    """
    how = {"of_images": of == "images", "last": last, "in_graph": in_graph}
    run = run_by_rules(model, images, target, rules, **how)
    wanted = [run.images] if of == "images" else run.seen.inputs
    slopes = rules.gradients(run.score, wanted, create_graph=in_graph)
    found = [values * slope for values, slope in zip(wanted, slopes, strict=True)]
    if in_graph:
        return found, run.seen.logits
    return [values.detach() for values in found], run.seen.logits.detach()


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
    return rules.halved(made) if both and a.ndim == b.ndim else made


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
