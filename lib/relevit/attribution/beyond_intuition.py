"""Beyond Intuition: perception times feedback, token-wise and head-wise.

Source: Chen et al., Rethinking Token Attributions inside Transformers (TMLR 2023), T = P * F_c.
Perception (3.2) is how the tokens that the head reads are made of the patches: one matrix a block,
[batch, query, key], for the recurrence R <- R + A R. Rollout's has the plain mean over heads; ours
differ in how they weigh. Feedback (3.3) is what the class score owes to the last block's attention.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from relevit.attribution.path import (
    Baseline,
    Rule,
    integration_path,
    on_the_way,
    path_baseline,
    sum_over_stops,
)
from relevit.maps import (
    Inputs,
    Map,
    Matrices,
    Pooling,
    Rows,
    Seen,
    Target,
    attention_layers,
    block_part,
    frozen_weights,
    method,
    need_plain,
    observe,
    over_heads,
    record_attention,
    unmixed,
    wide,
)
from relevit.protocols import Options

CHUNK = 40  # images run at once along the path; bounds the memory
PERCEPTIONS = ("none", "last_attention", "avg_attention", "head_wise", "token_wise")
FEEDBACKS = ("none", "gradient", "integrated_gradient")


@method("path")
def token_wise(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    start_block: int = 1,
    after_norm: bool = False,
    after_attention: bool = False,
    feedback: str = "integrated_gradient",
    **how: Any,
) -> Map:
    """Attention whose keys are weighed by the length of their value (Eq. 14), times feedback.

    `start_block` and `feedback` as for `head_wise`, the weights' options in `weigh_tokens`, `how`
    in `express` and `integral`.
    """
    rules = dict(start_block=start_block, after_norm=after_norm, after_attention=after_attention)
    pairs = [("token_wise", feedback)]
    return express(model, images, target, pairs, {"token_wise": rules}, **how)[0]


@method("path")
def head_wise(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    start_block: int = 1,
    inner: bool = True,
    feedback: str = "integrated_gradient",
    **how: Any,
) -> Map:
    """Attention whose heads are weighed by their share in the class score (Eq. 15), times feedback.

    Blocks before `start_block` are left out of the product (differences C3). `feedback` is one of
    FEEDBACKS; `none` is the perception alone, which the published code calls `ssl` (C14). `inner`
    is an option of `weigh_heads`, `how` in `express` and `integral`.
    """
    rules = dict(start_block=start_block, inner=inner)
    pairs = [("head_wise", feedback)]
    return express(model, images, target, pairs, {"head_wise": rules}, **how)[0]


def express(
    model: nn.Module,
    images: Inputs,
    target: Target,
    pairs: Sequence[tuple[str, str]],
    rules: Mapping[str, Options],
    *,
    pooling: Pooling | None = None,
    exact_gradient: bool = False,
    **path: Any,
) -> list[Map]:
    """T = P * F_c for `pairs` of perception and feedback, what they share computed once.

    Entry by entry, in the rows that the head reads (Eq. 16 to 18). P is nowhere negative, so that
    the published `|P|` changes nothing (differences C13). The PERCEPTIONS and FEEDBACKS are the
    rows and columns of the paper's Table 4; `rules` has the options of each perception
    (`method_options`), `path` are those of `integral`. With `exact_gradient` all maps have one
    graph.
    """
    perceptions, feedbacks = (tuple(dict.fromkeys(names)) for names in zip(*pairs, strict=True))
    for what, names, known in (
        ("perception", perceptions, PERCEPTIONS),
        ("feedback", feedbacks, FEEDBACKS),
    ):
        if unknown := [name for name in names if name not in known]:
            raise ValueError(f"{what} {unknown[0]!r} is unknown; use one of {known}")
    last = "none" if set(feedbacks) == {"none"} else "last"
    seen = observe(
        model,
        images,
        target,
        gradients="all" if "head_wise" in perceptions else last,
        pooling=pooling,
        exact_gradient=exact_gradient,
    )
    perceived = {name: perceive(model, seen, name, **rules.get(name, {})) for name in perceptions}
    path["exact_gradient"] = exact_gradient
    fed = {name: feed_back(model, images, seen, name, **path) for name in feedbacks}
    maps = [seen.pool(perceived[perception] * fed[feedback]) for perception, feedback in pairs]
    return maps if exact_gradient else [values.detach() for values in maps]


express_all = method("path")(express)


# Perception


def perceive(
    model: nn.Module, seen: Seen, name: str, *, start_block: int = 1, **rules: Any
) -> Rows:
    """The rows of P that the head reads (Eq. 16); `rules` are those of its matrices.

    Later blocks stand on the left, in the text's Eq. 16 and in the code (differences C4).
    """
    if name == "none":
        return torch.ones_like(seen.rows(seen.maps[-1][:, 0]))
    if name == "last_attention":
        return seen.rows(over_heads(seen.maps[-1]))
    if name == "head_wise":
        matrices = weigh_heads(seen, **rules)
    elif name == "token_wise":
        matrices = weigh_tokens(model, seen, **rules)
    else:
        matrices = [over_heads(attention) for attention in seen.maps]
    return seen.propagate(matrices, start_block)


def weigh_heads(seen: Seen, *, inner: bool = True) -> Matrices:
    """Heads weighed by what the class score owes to each (Eq. 15).

    I_h is the inner product of A and grad A, without its sign as in Michel et al. 2019: weights of
    both signs could cancel in the sum they are divided by (differences F7). `inner=False` takes
    the mean absolute entry of A^T grad A (C5, where the published code sums over the batch, too).
    """
    weighed = []
    for attention, slope in zip(seen.maps, seen.gradients, strict=True):
        attention, slope = (each.to(wide(each)) for each in (attention, slope))
        with unmixed(attention.device):
            if inner:
                importance = (attention * slope).sum(dim=(2, 3)).abs()
            else:
                importance = (attention.transpose(-1, -2) @ slope).abs().mean(dim=(2, 3))
            total = importance.sum(dim=1, keepdim=True)
            # No gradient at all: no head is better than another.
            some, even = total > 0, 1 / importance.shape[1]
            share = torch.where(some, importance / torch.where(some, total, 1.0), even)
            weighed.append(torch.einsum("bh,bhqk->bqk", share, attention))
    return weighed


def weigh_tokens(
    model: nn.Module, seen: Seen, *, after_norm: bool = False, after_attention: bool = False
) -> Matrices:
    """Attention averaged over heads, each key weighed by how long its value is (Eq. 14).

    `alpha_i = |(Z W)_i| / |Z_i|` with W = W_value W_proj, times LayerScale where the block has one,
    and Z the tokens before the block. The plain mean over heads is the published choice, where the
    text has none (differences C8). In the numerator alone, `after_norm` takes LayerNorm(Z) and the
    value's bias (C7; BERT has no norm there), `after_attention` the tokens after the block's
    attention in place of Z (D12).
    """
    if any(getattr(layer, "gate", None) is not None for layer in attention_layers(model)):
        raise ValueError(
            f"token_wise: the attention of this {type(model).__name__} has gates, by which a value "
            "is as long as the token says that reads it; use another method, such as gae"
        )
    weighed = []
    for i, (block, tokens) in enumerate(zip(model.blocks, seen.inputs, strict=True)):
        source, name = tokens, f"token_wise: blocks.{i}.attn.%s of this {type(model).__name__}"
        if after_attention:
            source = _after_attention(model, block, tokens, seen.maps[i], name % "qkv")
        norm = block_part(model, block, "norm1") or nn.Identity()
        source = norm(source) if after_norm else source
        values = values_of(model, block, source, name % "qkv", with_bias=after_norm)
        back = need_plain(block_part(model, block, "attn.proj"), name % "proj")
        moved = values @ back.weight.T
        gain = scale_branch(block, 1, moved).norm(dim=-1) / tokens.norm(dim=-1)
        weighed.append(over_heads(seen.maps[i]) * gain[:, None, :])
    return weighed


def _after_attention(
    model: nn.Module, block: nn.Module, tokens: Tensor, attention: Tensor, name: str
) -> Tensor:
    """The tokens after a block's attention and its residual."""
    names = ("norm1", "attn.norm", "attn.proj", "post_norm1")  # BERT's last is behind the sum
    before, inner, proj, after = (block_part(model, block, each) or nn.Identity() for each in names)
    values = values_of(model, block, before(tokens), name)
    mixed = attention @ values.unflatten(2, (attention.shape[1], -1)).transpose(1, 2)
    attended = proj(inner(mixed.transpose(1, 2).flatten(2)))
    return after(tokens + scale_branch(block, 1, attended))


def scale_branch(block: nn.Module, branch: int, values: Tensor) -> Tensor:
    """LayerScale of the block's attention (1) or MLP (2), where it has one."""
    layer = getattr(block, f"ls{branch}", None)
    if layer is not None:
        return layer(values)
    gamma = getattr(block, f"gamma_{branch}", None)  # BEiT
    return values if gamma is None else gamma * values


def values_of(
    model: nn.Module, block: nn.Module, tokens: Tensor, name: str, *, with_bias: bool = True
) -> Float[Tensor, "batch tokens width"]:
    """The values of these tokens, all heads side by side: of a layer of their own, or out of timm's
    joint layer."""
    layer, read = (block_part(model, block, each) for each in ("attn", "attn.qkv"))
    read = need_plain(read, name)
    weight, bias = read.weight, read.bias
    if layer.qkv is None:  # a layer of its own
        return nn.functional.linear(tokens, weight, bias if with_bias else None)
    start = 2 * weight.shape[0] // 3
    own = getattr(layer, "v_bias", None)  # BEiT's
    own = bias[start:] if own is None and bias is not None else own
    return nn.functional.linear(tokens, weight[start:], own if with_bias else None)


# Feedback


def feed_back(model: nn.Module, images: Inputs, seen: Seen, name: str, **path: Any) -> Rows:
    """The rows of F_c (Eq. 17) that the head reads, for one of FEEDBACKS.

    The gradient, or its mean along the path, is clamped to be positive and then averaged over
    heads (differences C12); `none` is 1 everywhere. The gradient is that of the class's logit in
    text and code, though the text says loss (C11, F8).
    """
    if name == "none":
        return torch.ones_like(seen.rows(seen.maps[-1][:, 0]))
    gradient = seen.gradients[-1]
    if name == "integrated_gradient":
        gradient = integral(model, images, seen, **path)
    return seen.rows(over_heads(gradient.clamp(min=0)))


def integral(
    model: nn.Module,
    images: Inputs,
    seen: Seen,
    *,
    steps: int = 7,
    rule: Rule = "trapezoid",
    baseline: Baseline = "empty",
    chunk: int = CHUNK,
    exact_gradient: bool = False,
) -> Float[Tensor, "batch heads query key"]:
    """The integral of Eq. 17, which prints the points k / K from 1 on (differences F6).

    `steps` and `rule` as `integration_path`, `baseline` as `path_baseline`; `chunk` images are run
    at once. The point 1 of a path is the image itself, whose gradient `seen` holds already.
    """
    pairs = list(zip(*integration_path(steps, rule), strict=True))
    share = sum(weight for point, weight in pairs if point == 1)
    points, weights = zip(*[pair for pair in pairs if pair[0] != 1], strict=True)
    stop = on_the_way(images, path_baseline(model, images, baseline), points)

    def gradient(inputs: Tensor, rows: Tensor) -> Tensor:
        return last_gradient(model, inputs, seen.target[rows], exact_gradient)

    found = seen.gradients[-1]
    total = torch.zeros_like(found, dtype=wide(found))
    before = sum_over_stops(total, images, stop, weights, chunk, gradient)
    return found * share + before


def last_gradient(
    model: nn.Module, images: Inputs, target: Int[Tensor, " batch"], exact_gradient: bool
) -> Float[Tensor, "batch heads query key"]:
    """Gradient of the target's logit with respect to the last block's attention map.

    Without `exact_gradient` only the last block keeps a graph, from its attention map on.
    """
    with record_attention(model, last=1) as tape:
        if exact_gradient:
            with torch.enable_grad():
                logits = model(images)
        else:
            with frozen_weights(model), graph_from_last_block(model):
                logits = model(images)
    with torch.enable_grad():
        score = logits.gather(1, target[:, None]).sum()
    return torch.autograd.grad(score, tape.maps[-1], create_graph=exact_gradient)[0]


@contextmanager
def graph_from_last_block(model: nn.Module) -> Iterator[None]:
    """Build no autograd graph before the last block of a forward pass."""

    def switch_on(module: nn.Module, args: tuple) -> None:
        torch.set_grad_enabled(True)

    with torch.no_grad():
        handle = model.blocks[-1].register_forward_pre_hook(switch_on)
        try:
            yield
        finally:
            handle.remove()
