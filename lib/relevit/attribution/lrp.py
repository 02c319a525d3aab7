"""Layer-wise relevance propagation: the model runs as it is, and its backward pass is relevance.

Source: Bach et al. 2015; Montavon et al. 2017 (z+ and z^B); Chefer, Gur, Wolf 2021 (CVPR) for
products and sums of two activations. Whatever the model calls has one of RULES, or is refused. The
relevance of what an operation takes sums to that of what it makes, but for values whose denominator
is zero.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from relevit.attribution.backward_rules import Rule, Rules
from relevit.attribution.pixels import need_pixels, sum_over_patches
from relevit.maps import FAMILIES, Inputs, Map, Pooling, Seen, Target, method, over_heads

SMALLEST = 1e-9  # denominators are kept this far from zero


@method(float64=True)
def lrp(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    plain: bool = False,
    mean_shares: bool = True,
    interleaved: bool = True,
) -> Map:
    """Relevance of every patch, the sum over its pixels. Options as `Relevance`.

    Source: Bach et al. 2015 with the rules of Chefer et al. 2021 (CVPR).
    """
    need_pixels(model)
    images = images.detach().requires_grad_()
    rules = Relevance(plain=plain, mean_shares=mean_shares, interleaved=interleaved)
    seen = rules.run(model, images, target)
    return sum_over_patches(model, rules.gradients(seen.score, [images])[0].sum(dim=1))


@method(float64=True)
def partial_lrp(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    pooling: Pooling | None = None,
    **options: bool,
) -> Map:
    """Relevance of the last block's attention map: positive part, mean over heads.

    Source: Voita et al. 2019; Beyond Intuition App. B, whose text calls it class-agnostic:
    its map depends on the class all the same (differences C18). `options` as `Relevance`, whose
    `plain` takes the rules of the first published code, and `pooling` as `observe`.
    """
    rules = Relevance(**options)
    seen = rules.run(model, images.detach(), target, last=1, pooling=pooling)
    (last,) = rules.gradients(seen.score, seen.maps)
    return seen.pool(seen.rows(over_heads(last.clamp(min=0))))


@method(float64=True)
def transformer_attribution(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    start_block: int = 1,
    pooling: Pooling | None = None,
    **options: bool,
) -> Map:
    """R <- R + A_bar R, with A_bar the mean over heads of (grad A * relevance of A)^+.

    Source: Chefer, Gur, Wolf 2021 (CVPR). The published scripts leave out the first block
    (`start_block`, differences C16). `options` as `Relevance`, and `pooling` as `observe`.
    """
    rules, before = Relevance(**options), min(start_block, len(model.blocks)) - 1
    # Nothing is asked of the blocks before.
    last = len(model.blocks) - before
    seen = rules.run(model, images.detach(), target, last=last, pooling=pooling)
    slopes = torch.autograd.grad(seen.score, seen.maps, retain_graph=True)
    pairs = zip(slopes, rules.gradients(seen.score, seen.maps), strict=True)
    matrices = [over_heads((slope * relevance).clamp(min=0)) for slope, relevance in pairs]
    return seen.pool(seen.propagate(matrices, start_block - before))


class Relevance(Rules):
    """RULES for what a model calls inside.

    `plain` takes those of the first published LRP for ViT: linear layers with their parts apart,
    sums without normalising (differences C18). Without `mean_shares` each of the averaged tokens
    gets the whole relevance of their mean, which is not conserved there (F1). DINO's head reads
    class token and mean interleaved; without `interleaved` it is split as if its first half read
    the class token (D5). Each of the two heads of a distilled DeiT gets half of the relevance: a
    choice of ours, that no paper makes (F13). By what each adds to the logit, the sum rule, the
    maps would be others (seen: by 9 to 57 %). The final norm, its eps and its place before or after
    the mean, is the model's own (C17, D4).
    """

    def __init__(
        self, *, plain: bool = False, mean_shares: bool = True, interleaved: bool = True
    ) -> None:
        super().__init__(RULES)
        self.plain, self.mean_shares, self.interleaved = plain, mean_shares, interleaved
        self.model = self.layer = ""  # what is running

    def __torch_function__(self, func, types, args=(), kwargs=None):
        options = kwargs or {}
        parts = [x for arg in args for x in (arg if isinstance(arg, list | tuple) else [arg])]
        if not any(map(_followed, (*parts, *options.values()))):
            return func(*args, **options)
        if func in self.table and any(map(_followed, parts)) and torch.is_grad_enabled():
            return self.table[func](self, func, *args, **options)
        made = func(*args, **options)
        several = made if isinstance(made, list | tuple) else [made]
        if func.__name__ != "__get__" and any(isinstance(one, Tensor) for one in several):
            raise self.unknown(func.__name__)
        return made

    def run(self, model: nn.Module, *args: Any, **how: Any) -> Seen:
        """Gradients are relevance then: 1 at the class's logit.

        Raises: ValueError for a model that computes something the rules do not know.
        """
        self.model = type(model).__name__
        # BERT's residual is inside a part, which has the norm of the sum.
        sums = {path for path, part in model.named_modules() if hasattr(part, "LayerNorm")}
        with ExitStack() as stack:
            for path, part in model.named_modules():
                inside = {path, path.rpartition(".")[0]} & sums
                if inside or re.fullmatch(r"(blocks\.\d+\.)?(?!blocks)\w+", path):
                    for hook, what in (
                        (part.register_forward_pre_hook, "" if path in sums else path),
                        (part.register_forward_hook, ""),
                    ):
                        stack.callback(hook(partial(self._tell, what)).remove)
            return super().run(model, *args, **how)

    def _tell(self, path: str, *_: Any) -> None:
        self.layer = path

    def unknown(self, what: str) -> ValueError:
        """The error that names what has no rule."""
        place = f" in {self.layer}" if self.layer else ""
        return ValueError(
            f"lrp: {what}{place} of this {self.model} has no propagation rule (nor have gates, "
            "SwiGLU, rotary positions, adapters beside a layer); merge an adapter "
            f"(merge_and_unload() in peft), or use a plain timm Vision Transformer ({FAMILIES})"
        )


def _followed(part: Any) -> bool:
    return isinstance(part, Tensor) and part.requires_grad


# What a function of torch makes, and to what that hands its relevance


def moved(rules: Relevance, function: Rule, *args: Any, **options: Any) -> Any:
    """What only moves or copies values: its gradient is its relevance."""
    return function(*args, **options)


def alone(rules: Relevance, function: Rule, *args: Any, **options: Any) -> Tensor:
    """Activations, norms, softmax and scaling: all to the value, or token, that it is made of.

    It may be made of it twice, as x * sigmoid(x).
    """
    made = function(*args, **options | ({"inplace": False} if "inplace" in options else {}))
    parts = [part for part in args if _followed(part)]
    origins = [getattr(part, "origin", part) for part in parts]
    if any(origin is not origins[0] for origin in origins):
        raise rules.unknown(f"{function.__name__} of two activations")
    made = rules.handed(made, lambda relevance: (relevance,), parts[0])
    made.origin = origins[0]
    return made


def linear(
    rules: Relevance, function: Rule, x: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    made = function(x, weight, bias)

    def hand_on(relevance: Tensor) -> tuple[Tensor]:
        # Of the last block only the tokens that the head reads have any relevance.
        live = relevance.flatten(0, -2).any(dim=1)
        parts = relevance, x, made if bias is None else made - bias
        relevance, inputs, outputs = (part.flatten(0, -2)[live] for part in parts)
        found = x.new_zeros(len(live), x.shape[-1])
        found[live] = through_linear(relevance, inputs, weight, outputs, apart=rules.plain)
        return (found.view_as(x),)

    return rules.handed(made, hand_on, x)


def product(rules: Relevance, function: Rule, left: Tensor, right: Tensor) -> Tensor:
    made = function(left, right)
    if not (_followed(left) and _followed(right)):
        raise rules.unknown(f"{function.__name__} with a constant")
    return rules.handed(made, lambda share: through_product(share, left, right, made), left, right)


def added(rules: Relevance, function: Rule, a: Any, b: Any) -> Tensor:
    """A residual and a position have their shares, DeiT's two heads half each, biases none."""
    made, both = function(a, b), _followed(a) and _followed(b)
    if both and rules.layer:  # that is no residual
        raise rules.unknown("a sum of two activations")
    if both and made.ndim == 2:
        return rules.handed(made, lambda relevance: (relevance / 2, relevance / 2), a, b)
    if both or all(isinstance(part, Tensor) and part.ndim == 3 for part in (a, b)):
        share = partial(through_sum, a=a, b=b, normalise=not rules.plain)
        return rules.handed(made, share, a, b)
    return alone(rules, function, a, b)


def averaged(rules: Relevance, function: Rule, tokens: Tensor, dim: Any, **options: Any) -> Tensor:
    made = function(tokens, dim, **options)
    if dim in (-1, (-1,)):  # in a norm, which hands all to what it divides
        made = rules.held(made)
        made.origin = getattr(tokens, "origin", tokens)
        return made
    if dim != 1 or tokens.ndim != 3 or options:
        raise rules.unknown(f"{function.__name__} over axis {dim}")
    if rules.mean_shares:
        return rules.handed(made, lambda share: (through_mean(share, tokens),), tokens)
    return rules.handed(made, lambda whole: (whole[:, None].expand_as(tokens),), tokens)


def stacked(rules: Relevance, function: Rule, parts: list[Tensor], **options: Any) -> Tensor:
    """Class token and mean of DINO's head: interleaved, or as if one stood behind the other."""
    made = function(parts, **options)
    if rules.interleaved:
        return made
    return rules.handed(made, lambda share: share.flatten(1).chunk(len(parts), dim=1), *parts)


def patched(
    rules: Relevance, function: Rule, images: Tensor, weight: Tensor, bias: Any, *how: Any
) -> Tensor:
    if how != (tuple(weight.shape[2:]), (0, 0), (1, 1), 1):
        raise rules.unknown("a convolution of other than patches side by side")
    made = function(images, weight, bias, *how)
    return rules.handed(made, lambda share: (through_patches(share, images, weight),), images)


MOVED = {
    *(getattr(Tensor, name) for name in (
        "reshape", "view", "transpose", "permute", "unbind", "__getitem__", "expand", "flatten",
        "unflatten", "contiguous", "chunk", "split", "unsqueeze", "squeeze", "to",
    )),
    *(torch.cat, torch.flatten, torch.unbind, torch.permute, torch.transpose, F.dropout, F.pad),
}  # fmt: skip
ALONE = {
    *(F.layer_norm, F.rms_norm, Tensor.pow, torch.rsqrt, torch.softmax, Tensor.softmax, F.softmax),
    *(F.gelu, F.silu, F.mish, F.elu, F.hardswish, F.relu, torch.relu, torch.tanh, Tensor.tanh),
    *(torch.sigmoid, Tensor.sigmoid, torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__),
    *(torch.div, Tensor.div, Tensor.__truediv__),
}
RULES: dict[Callable[..., Any], Rule] = {
    **dict.fromkeys(MOVED, moved),
    **dict.fromkeys(ALONE, alone),
    F.linear: linear,
    F.conv2d: patched,
    **dict.fromkeys((torch.matmul, Tensor.matmul, Tensor.__matmul__), product),
    **dict.fromkeys((torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__), added),
    **dict.fromkeys((torch.mean, Tensor.mean), averaged),
    torch.stack: stacked,
}


# The formulas: `relevance` has the shape of what an operation makes


def safe_divide(a: Tensor, b: Tensor) -> Tensor:
    """a / b with b kept away from zero; 0 where b is 0."""
    away = torch.copysign(b.abs().clamp(min=SMALLEST), b)
    return (a / away).masked_fill(b == 0, 0.0)


def through_linear(
    relevance: Float[Tensor, "*batch out"],
    inputs: Float[Tensor, "*batch in"],
    weight: Float[Tensor, "out in"],
    outputs: Float[Tensor, "*batch out"],
    *,
    apart: bool = False,
) -> Float[Tensor, "*batch in"]:
    """The z+ rule (alpha 1, beta 0): only products of equal sign count; biases do not.

    `outputs` are without the bias. `apart` divides the part from positive inputs and the part from
    negative ones by their own sums instead of the common one, so that both receive all the
    relevance: the rule of the first published LRP for ViT (differences C18).
    """
    positive, negative = weight.clamp(min=0), weight.clamp(max=0)
    if apart:
        parts = [(inputs.clamp(min=0), positive), (inputs.clamp(max=0), negative)]
        return sum(x * (safe_divide(relevance, x @ w.T) @ w) for x, w in parts)
    # The products of equal sign are half of all products plus half of their sizes.
    total = (inputs.abs() @ weight.abs().T).add_(outputs).div_(2)
    # Nothing is handed to an output whose sum is 0: none of its products is in the sum.
    share = relevance / total.clamp_(min=SMALLEST)
    return torch.where(inputs > 0, share @ positive, share @ negative).mul_(inputs)


def through_product(
    relevance: Float[Tensor, "*batch n m"],
    left: Float[Tensor, "*batch n k"],
    right: Float[Tensor, "*batch k m"],
    made: Float[Tensor, "*batch n m"],
) -> tuple[Float[Tensor, "*batch n k"], Float[Tensor, "*batch k m"]]:
    """Half to each factor of the matrix product that was `made`, by its share in every sum."""
    share = safe_divide(relevance, made) / 2
    return left * (share @ right.mT), right * (left.mT @ share)


def through_sum(
    relevance: Float[Tensor, "*shape"],
    a: Float[Tensor, "*#shape"],
    b: Float[Tensor, "*#shape"],
    *,
    normalise: bool = True,
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """Each summand by its share; `normalise` then bounds the two parts of an image.

    Where a and b have opposite signs their shares can be huge: the parts are rescaled as the sizes
    of their sums, and add up to the relevance of the image. The published code takes these sums
    over the batch (differences C16).
    """
    share = safe_divide(relevance, a + b)
    parts = a * share, b * share
    if not normalise:
        return parts
    axes = tuple(range(1, relevance.ndim))
    sums = [part.sum(dim=axes, keepdim=True) for part in parts]
    whole, total = sums[0].abs() + sums[1].abs(), relevance.sum(dim=axes, keepdim=True)
    first, second = (
        part * safe_divide(safe_divide(own.abs(), whole) * total, own)
        for part, own in zip(parts, sums, strict=True)
    )
    return first, second


def through_mean(
    relevance: Float[Tensor, "batch width"], tokens: Float[Tensor, "batch tokens width"]
) -> Float[Tensor, "batch tokens width"]:
    """Each token by its share in the mean."""
    share = safe_divide(relevance, tokens.mean(dim=1)) / tokens.shape[1]
    return tokens * share[:, None]


def through_patches(
    relevance: Float[Tensor, "batch channels rows columns"],
    images: Float[Tensor, "batch colours height width"],
    weight: Float[Tensor, "channels colours tall wide"],
) -> Float[Tensor, "batch colours height width"]:
    """The z^B rule from patch tokens to pixels, which lie between their extremes."""
    stride = tuple(weight.shape[2:])
    low, high = (end(images, dim=(1, 2, 3), keepdim=True) for end in (torch.amin, torch.amax))
    bounds = [
        (images, weight, 1),
        (low.expand_as(images), weight.clamp(min=0), -1),
        (high.expand_as(images), weight.clamp(max=0), -1),
    ]
    whole = sum(sign * F.conv2d(x, w, stride=stride) for x, w, sign in bounds) + SMALLEST
    share = relevance / whole
    return sum(sign * x * F.conv_transpose2d(share, w, stride=stride) for x, w, sign in bounds)
