"""Beyond Intuition: perception times feedback, token-wise and head-wise.

Source: Chen et al., Rethinking Token Attributions inside Transformers (TMLR 2023), T = P * F_c.
Perception (3.2) is how the tokens that the head reads are made of the patches: one matrix a block,
[batch, query, key], for the recurrence R <- R + A R. Rollout's has the plain mean over heads; ours
differ in how they weigh. Feedback (3.3) is what the class score owes to the last block's attention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from relevit.attention.recording import Inputs, frozen_weights, record_attention
from relevit.attention.token_rows import Pooling, carry_rows, pool_rows, read_rows
from relevit.attribution.observe import Observation, first_block, model_family, observe
from relevit.attribution.path import Quadrature, Rule, check_chunk, integration_path, path_baseline
from relevit.attribution.replay import replay, scale_branch, value_projection
from relevit.config.words import Protocol
from relevit.relevance import Target, explaining

CHUNK = 40  # images run at once along the path; bounds the memory
FEEDBACKS = ("none", "gradient", "integrated_gradient")
Matrices = list[Float[Tensor, "batch _query tokens"]]


def token_wise(
    model: nn.Module, images: Inputs, target: Target = None, **options: Any
) -> Float[Tensor, "batch patches"]:
    """Attention whose keys are weighed by the length of their value (Eq. 14), times feedback.

    `options` and errors: as `express_all`.
    """
    return express(model, images, target, perception="token_wise", **options)


def head_wise(
    model: nn.Module, images: Inputs, target: Target = None, **options: Any
) -> Float[Tensor, "batch patches"]:
    """Attention whose heads are weighed by their share in the class score (Eq. 15), times feedback.

    `options` and errors: as `express_all`.
    """
    return express(model, images, target, perception="head_wise", **options)


def express(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    perception: str,
    feedback: str = "integrated_gradient",
    **options: Any,
) -> Float[Tensor, "batch patches"]:
    """T = P * F_c, entry by entry, in the rows that the head reads (Eq. 16 to 18).

    P is nowhere negative, so that the published |P| changes nothing (differences C13). The feedback
    `none` is P alone, which the published code calls `ssl` (C14).
    `perception` is one of PERCEPTIONS, `feedback` one of FEEDBACKS: together the rows and
    columns of the paper's Table 4. `options` and errors: as `express_all`.
    """
    (made,) = express_all(model, images, target, pairs=[(perception, feedback)], **options)
    return made


@explaining
def express_all(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    pairs: Sequence[tuple[str, str]],
    protocol: Protocol = "published",
    start_block: int | None = None,
    pooling: Pooling | None = None,
    steps: int | None = None,
    rule: Rule | None = None,
    baseline: Float[Tensor, "*start"] | None = None,
    chunk: int = CHUNK,
    create_graph: bool = False,
) -> list[Float[Tensor, "batch patches"]]:
    """`express` for several pairs of perception and feedback; each part is computed once.

    `start_block` as in `first_block` (differences C3, C4: later blocks stand on the left, in text
    and code). `steps`, `rule`, `baseline`: the path, see `integration_path` and `path_baseline`.
    `chunk` images are run at once along it. With `create_graph` all maps have one graph.
    Raises: ValueError without pairs, for an unknown part, and as `observe`, `first_block`,
    `integration_path`.
    """
    if not pairs:
        raise ValueError("pairs: none given; give one perception and feedback or more")
    perceptions, feedbacks = (tuple(dict.fromkeys(names)) for names in zip(*pairs, strict=True))
    _check_parts("perception", perceptions, tuple(PERCEPTIONS))
    _check_parts("feedback", feedbacks, FEEDBACKS)
    starts = {name: first_block(model, start_block, protocol, name) for name in perceptions}
    path = integration_path(protocol, steps, rule)
    check_chunk(chunk)
    # Asked for only where there is a path: not every model knows what black is.
    black = None
    if "integrated_gradient" in feedbacks:
        black = path_baseline(model, images, protocol, baseline)
    parts = [PERCEPTIONS[name] for name in perceptions]
    last = "none" if set(feedbacks) == {"none"} else "last"
    gradients = "all" if any(part.needs_gradients for part in parts) else last
    # The published rule for CLIP computes the attention of every token again (D12).
    moved = any(part.moves_tokens for part in parts)
    seen = observe(
        model,
        images,
        target,
        gradients=gradients,
        pooling=pooling,
        whole=moved and model_family(model) == "clip" and protocol == "published",
        create_graph=create_graph,
    )
    seen_rows = {name: perceive(model, seen, name, protocol, starts[name]) for name in perceptions}
    fed_rows = {
        name: feed_back(model, images, seen, name, path, black, chunk, create_graph)
        for name in feedbacks
    }
    made = [seen_rows[perception] * fed_rows[feedback] for perception, feedback in pairs]
    pooled = [pool_rows(rows, seen.pooling, seen.prefix) for rows in made]
    return pooled if create_graph else [values.detach() for values in pooled]


def _check_parts(kind: str, names: Iterable[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"{kind} {name!r} is unknown; use one of {known}")


# Perception


class Perception(NamedTuple):
    """Rule for the matrices; whether it needs the gradients of all maps, or whole maps of CLIP."""

    matrices: Callable[[nn.Module, Observation, Protocol], Matrices]
    needs_gradients: bool = False
    moves_tokens: bool = False


def perceive(
    model: nn.Module, seen: Observation, name: str, protocol: Protocol, start_block: int
) -> Float[Tensor, "batch rows tokens"]:
    """The rows of P that the head reads (Eq. 16), for one of PERCEPTIONS.

    `last_attention` is the last block's attention alone; `none` is 1 everywhere. Blocks before
    `start_block` are left out.
    """
    matrices = PERCEPTIONS[name].matrices(model, seen, protocol)
    if name == "last_attention":
        return read_rows(matrices[-1], seen.pooling, seen.prefix)
    if name == "none":
        return torch.ones_like(read_rows(matrices[-1], seen.pooling, seen.prefix))
    return carry_rows(matrices, seen.pooling, seen.prefix, start_block)


def average_matrices(model: nn.Module, seen: Observation, protocol: Protocol) -> Matrices:
    """Attention averaged over heads."""
    return [attention.mean(dim=1) for attention in seen.maps]


def head_wise_matrices(model: nn.Module, seen: Observation, protocol: Protocol) -> Matrices:
    """Heads weighed by what the class score owes to each (Eq. 15).

    `published`: the mean absolute entry of A^T grad A, divided by its sum over the heads of one
    image (differences C5, where the published code also sums over the batch). `described`: the
    inner product of A and grad A, without its sign as in Michel et al. 2019: weights of both
    signs could cancel in the sum they are divided by (F7).
    """
    pairs = zip(seen.maps, seen.gradients, strict=True)
    return [_weigh_heads(attention, slope, protocol) for attention, slope in pairs]


def _weigh_heads(attention: Tensor, slope: Tensor, protocol: Protocol) -> Tensor:
    if protocol == "published":
        importance = (attention.transpose(-1, -2) @ slope).abs().mean(dim=(2, 3))
    else:
        importance = (attention * slope).sum(dim=(2, 3)).abs()
    total = importance.sum(dim=1, keepdim=True)
    # No gradient at all: no head is better than another.
    some = total > 0
    share = torch.where(some, importance / torch.where(some, total, 1.0), 1 / importance.shape[1])
    return torch.einsum("bh,bhqk->bqk", share, attention)


def token_wise_matrices(model: nn.Module, seen: Observation, protocol: Protocol) -> Matrices:
    """Attention averaged over heads, each key weighed by how long its value is (Eq. 14).

    The plain mean over heads is the published choice, where the text has none (differences C8).
    alpha_i = |(Z W)_i| / |Z_i| with W = W_value W_proj, times LayerScale where the block has
    one. `described` takes Z, the tokens before the block, and no biases; `published` takes
    LayerNorm(Z) and the value's bias in the numerator alone (C7). BERT has no norm
    there. For CLIP `published` takes the tokens after the block's attention in place of Z (D12).
    """
    averages = average_matrices(model, seen, protocol)
    after = protocol == "published" and model_family(model) == "clip"
    gains = []
    for block, tokens, attention in zip(model.blocks, seen.inputs, seen.maps, strict=True):
        source = replay(block, tokens, attention).middle if after else tokens
        gains.append(value_gain(block, tokens, protocol, source))
    return [matrix * gain[:, None, :] for matrix, gain in zip(averages, gains, strict=True)]


def value_gain(
    block: nn.Module,
    tokens: Float[Tensor, "batch tokens width"],
    protocol: Protocol,
    source: Float[Tensor, "batch tokens width"] | None = None,
) -> Float[Tensor, "batch tokens"]:
    """alpha of every token for one block; `source` is what the values are made of, if not they."""
    source, bias = tokens if source is None else source, None
    weight, value_bias = value_projection(block.attn)
    if protocol == "published":
        source, bias = block.norm1(source), value_bias
    moved = nn.functional.linear(source, weight, bias) @ block.attn.proj.weight.T
    moved = scale_branch(block, 1, moved)
    return moved.norm(dim=-1) / tokens.norm(dim=-1)


PERCEPTIONS: dict[str, Perception] = {
    "none": Perception(average_matrices),
    "last_attention": Perception(average_matrices),
    "avg_attention": Perception(average_matrices),
    "head_wise": Perception(head_wise_matrices, needs_gradients=True),
    "token_wise": Perception(token_wise_matrices, moves_tokens=True),
}


# Feedback


def feed_back(
    model: nn.Module,
    images: Inputs,
    seen: Observation,
    name: str,
    path: Quadrature,
    baseline: Float[Tensor, "*start"] | None,
    chunk: int,
    create_graph: bool = False,
) -> Float[Tensor, "batch rows tokens"]:
    """The rows of F_c (Eq. 17) that the head reads, for one of FEEDBACKS.

    The gradient, or its mean along the path, is clamped to be positive and then averaged over
    heads (differences C12); `none` is 1 everywhere. The gradient is that of the class's logit in
    both protocols, though the text says loss (C11, F8). The point 1 of a path is the
    image itself, whose gradient `seen` holds already. Only `integrated_gradient` needs the
    `baseline`.
    """
    if name == "none":
        return torch.ones_like(read_rows(seen.maps[-1][:, 0], seen.pooling, seen.prefix))
    gradient = seen.gradients[-1]
    if name == "integrated_gradient":
        pairs = list(zip(*path, strict=True))
        share = sum(weight for point, weight in pairs if point == 1)
        before = Quadrature(*zip(*(pair for pair in pairs if pair[0] != 1), strict=True))
        gradient = gradient * share + path_gradients(
            model, images, seen, before, baseline, chunk, create_graph
        )
    return read_rows(gradient.clamp(min=0).mean(dim=1), seen.pooling, seen.prefix)


def path_gradients(
    model: nn.Module,
    images: Inputs,
    seen: Observation,
    path: Quadrature,
    baseline: Float[Tensor, "*start"],
    chunk: int,
    create_graph: bool = False,
) -> Float[Tensor, "batch heads query tokens"]:
    """Weighted sum over the path of the gradient of each image's logit of its class.

    All points of all images form one long batch, run `chunk` at a time. Without
    `create_graph` only the last block keeps a graph, from its attention map on.
    """
    total = torch.zeros_like(seen.gradients[-1])
    pairs = [(i, p, w) for i in range(len(images)) for p, w in zip(*path, strict=True)]
    for start in range(0, len(pairs), chunk):
        rows, points, weights = zip(*pairs[start : start + chunk], strict=True)
        rows = torch.tensor(rows, device=images.device)
        share = images.new_tensor(points).view(-1, *[1] * (images.ndim - 1))
        stops = torch.lerp(baseline.expand_as(images[:1]), images[rows], share)
        slopes = last_gradient(model, stops, seen.target[rows], seen, create_graph)
        slopes = slopes * images.new_tensor(weights).view(-1, 1, 1, 1)
        total = total.index_add(0, rows, slopes.to(total))  # autocast may have two kinds
    return total


def last_gradient(
    model: nn.Module, images: Inputs, target: Int[Tensor, " batch"], seen: Observation, graph: bool
) -> Float[Tensor, "batch heads query tokens"]:
    """Gradient of the target's logit with respect to the last block's attention map."""
    short = seen.maps[-1].shape[2] == 1
    with record_attention(model, last_only=True, class_row=short) as tape:
        if graph:
            with torch.enable_grad():
                logits = model(images)
        else:
            with frozen_weights(model), graph_from_last_block(model):
                logits = model(images)
    with torch.enable_grad():
        score = logits.gather(1, target[:, None]).sum()
    return torch.autograd.grad(score, tape.maps[-1], create_graph=graph)[0]


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
