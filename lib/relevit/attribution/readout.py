"""Read-outs: what each block's tokens would answer, were the head to read them there.

After a block, the model's own last norm and head read the tokens as they read the last one's. The
gradient of that answer by the block's attention A goes through the read tokens alone, one step of
their own path: output layer, MLP, norm, head. With g the gradient by what a head of attention adds
to a token, and V its values, it is

    grad A = g V^T.

So no gradient goes through the blocks behind, attention may stay fused, and for a class token no
map of all queries and keys is ever made.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import dropout, scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from relevit.maps import (
    Inputs,
    Map,
    Target,
    attention_layers,
    checked_target,
    evaluating,
    frozen_weights,
    head_pooling,
    last_blocks,
    method,
    need_global,
    over_heads,
    pool_rows,
    prefix_tokens,
    read_rows,
    switched,
    watched_layers,
    wide,
)

READ = {"class_token": 1, "distilled": 2}  # the first tokens, which alone these heads read


class ReadOut(NamedTuple):
    """A block's attention in the rows that the head reads, and the answer's gradient by it."""

    attention: Float[Tensor, "batch heads rows key"]
    gradient: Float[Tensor, "batch heads rows key"]


@method()
def readout(
    model: nn.Module, images: Inputs, target: Target = None, *, exact_gradient: bool = False
) -> Map:
    """Sum over blocks of (grad A * A)^+, averaged over heads: read out, and not carried on.

    Ours: the product is GAE's (Chefer et al. 2021), and that each block is read out is LeGrad's
    (Bousselham et al. 2024). With `exact_gradient` the map is differentiable.
    Raises: ValueError for a model without a head of its own that reads tokens.
    """
    return read_and_logits(model, images, target, exact_gradient=exact_gradient)[0]


@method()
def legrad(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    exact_gradient: bool = False,
    last: int | None = None,
) -> Map:
    """Sum over the `last` blocks of (grad A)^+, averaged over heads and queries.

    Source: Bousselham, Boggust, Chaybouti, Strobelt, Kuehne 2024, LeGrad, and its code: where the
    head reads a class token, it reads the mean over all tokens of a block instead, and where none
    is said the last two blocks are taken. The scaling to [0, 1] is left to the heatmap. With
    `exact_gradient` the map is differentiable.
    Raises: as `readout`.
    """
    last = min(2, len(attention_layers(model))) if last is None else last
    how = {"mean": True, "exact_gradient": exact_gradient, "last": last}
    return read_and_logits(model, images, target, **how)[0]


def read_and_logits(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    mean: bool = False,
    exact_gradient: bool = False,
    in_graph: bool = False,
    last: int | None = None,
) -> tuple[Map, Float[Tensor, "batch classes"]]:
    """The map of `readout`, or with `mean` that of `legrad`, and the logits.

    `in_graph` and `exact_gradient` as `observe`; the maps are of the `last` so many blocks. In
    train mode tokens and logits have the noise of their one pass (dropout, dropped paths), and each
    block is read out of its tokens without any: a second draw would be of another network.
    """
    pooling, prefix = head_pooling(model), prefix_tokens(model)
    read = None if mean else READ.get(pooling)
    summed: Any = 0
    with ExitStack() as stack:
        stack.enter_context(torch.enable_grad())
        if not (in_graph or exact_gradient):
            stack.enter_context(frozen_weights(model))
        attending = stack.enter_context(_attending(model, read, last))
        attending.of_mean = mean and pooling in READ
        logits = model(images)
        target = checked_target(logits, target)
        stack.enter_context(evaluating(model))
        for found in attending.read_outs(target, exact_gradient):
            if mean:
                positive, kind = found.gradient.clamp(min=0), wide(found.gradient)
                summed = summed + positive.mean(dim=(1, 2), dtype=kind)[:, prefix:]
                continue
            products = over_heads((found.gradient * found.attention).clamp(min=0))
            rows = read_rows(products, pooling, prefix)
            summed = summed + pool_rows(rows, pooling, prefix)
    if in_graph or exact_gradient:
        return summed, logits
    return summed.detach(), logits.detach()


class _Taken(NamedTuple):
    """What a block's attention took in one forward pass, queries of the read tokens alone."""

    block: nn.Module
    tokens: Float[Tensor, "batch read width"]
    query: Float[Tensor, "batch heads read size"]
    key: Float[Tensor, "batch heads key size"]
    value: Float[Tensor, "batch heads key size"]
    bias: Tensor | None


class _Attending(TorchFunctionMode):
    """Sees what fused attention takes, and puts a result in its place where one is given."""

    def __init__(self, model: nn.Module, read: int | None, step_by_step: bool) -> None:
        super().__init__()
        self.model, self.read, self.step_by_step = model, read, step_by_step
        self.block: tuple[nn.Module, Tensor] | None = None  # the one that runs, with its tokens
        self.given: Tensor | None = None
        self.of_mean = False  # whether the head reads the mean of all tokens in its token's place
        self.taken: list[_Taken] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is not scaled_dot_product_attention:
            return func(*args, **kwargs)
        if self.given is not None:
            return self.given
        if self.block is None:
            return func(*args, **kwargs)
        query, key, value = args
        bias = kwargs.get("attn_mask")
        block, tokens = self.block
        shape = (*query.shape[:3], key.shape[2])
        need_global(len(self.taken), block.attn, tokens.shape[1], shape)
        few = bias if bias is None or bias.shape[-2] == 1 else bias[..., : self.read, :]
        self.taken.append(
            _Taken(block, tokens[:, : self.read], query[:, :, : self.read], key, value, few)
        )
        self.block = None
        if not self.step_by_step:
            return func(*args, **kwargs)
        return dropout(_softmax(query, key, bias), kwargs.get("dropout_p", 0.0)) @ value

    def read_outs(self, target: Tensor, exact: bool) -> Iterator[ReadOut]:
        """Of each block that was seen; their gradients are in the graph where they are `exact`."""
        for block, tokens, query, key, value, bias in self.taken:
            attention = _softmax(query, key, bias)
            if not exact:
                tokens, value = tokens.detach(), value.detach()
            mixed = attention @ value
            if not exact:
                mixed = mixed.detach().requires_grad_()
            self.given = mixed
            output = block(tokens)
            self.given = None
            if self.of_mean:
                output = output.mean(dim=1, keepdim=True).expand(-1, 2, -1)
            logits = self.model.forward_head(self.model.norm(output))
            answer = logits.gather(1, target[:, None]).sum()
            [slope] = torch.autograd.grad(answer, mixed, create_graph=exact)
            yield ReadOut(attention, slope.to(value.dtype) @ value.transpose(-1, -2))


def _softmax(query: Tensor, key: Tensor, bias: Tensor | None) -> Tensor:
    scores = query * query.shape[-1] ** -0.5 @ key.transpose(-1, -2)
    return (scores if bias is None else scores + bias).softmax(dim=-1)


@contextmanager
def _attending(model: nn.Module, read: int | None, last: int | None) -> Iterator[_Attending]:
    """Watch the fused attention of the `last` blocks (None: all) in a forward pass made inside.

    On a processor in mixed precision theirs is worked out step by step, which is faster there.
    """
    if not hasattr(model, "forward_head") or not hasattr(model, "norm"):
        raise ValueError(
            f"readout: this {type(model).__name__} has no norm and head (forward_head) that could "
            "read the tokens of a block; take a Vision Transformer of timm, or another map"
        )
    blocks = [model.blocks[i] for i in last_blocks(len(model.blocks), last)]
    on_processor = next(model.parameters()).device.type == "cpu"
    mode = _Attending(model, read, on_processor and torch.is_autocast_enabled("cpu"))

    def note(block: nn.Module, args: tuple) -> None:
        if mode.given is None:
            mode.block = (block, args[0])

    layers = watched_layers(model)
    with switched(layers, "fused_attn", True), ExitStack() as stack:
        for block in blocks:
            stack.callback(block.register_forward_pre_hook(note).remove)
        yield stack.enter_context(mode)
