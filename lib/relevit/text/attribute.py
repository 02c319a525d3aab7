"""Attributions of whole texts: one value a token, for texts of any length at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from relevit.attribution import METHODS
from relevit.relevance import checked_target
from relevit.text.encoder import TextTransformer
from relevit.text.tokens import Tokens

# Those of Beyond Intuition Sec. 4.2; the others explain pixels.
TEXT_METHODS = (
    "raw_attention",
    "rollout",
    "gradcam",
    "partial_lrp",
    "transformer_attribution",
    "ga",
    "gae",
    "head_wise",
    "token_wise",
)
_SCALED = ("raw_attention", "gradcam")  # from 0 to 1 as published (differences C19)
CHUNK_TOKENS = 2048  # in one call of a method; bounds the memory


def attribute(
    model: TextTransformer,
    tokens: Sequence[Tokens],
    method: str,
    target: Int[Tensor, " texts"] | None = None,
    *,
    chunk_tokens: int = CHUNK_TOKENS,
    progress: Callable[[int], object] | None = None,
    **options: Any,
) -> list[Float[Tensor, " tokens"]]:
    """What each token of each text contributes to a class, by one of TEXT_METHODS, on the CPU.

    Texts of one length are run together, without padding, so that a map does not depend on
    the batch and padding can get nothing. Special tokens get 0: they are no part of the text
    (Beyond Intuition keeps the class token out; differences D9). `target` None is the class
    that is predicted. `progress` is told the number of texts done. `options` go to the method.
    Raises: ValueError for another method, no texts, a bad target, or a model whose answers are
    not finite, as after a training that diverged.
    """
    if method not in TEXT_METHODS:
        raise ValueError(f"text: method {method!r} explains no text; use one of {TEXT_METHODS}")
    if not tokens:
        raise ValueError("text: no texts to explain; give at least one")
    if target is not None:  # before long work
        checked_target(torch.zeros(len(tokens), model.classes), target)
    device = model.embedding.words.weight.device
    maps: list[Tensor] = [torch.empty(0)] * len(tokens)
    for places in same_length(tokens, chunk_tokens):
        ids = torch.tensor([tokens[i].ids for i in places], device=device)
        wanted = None if target is None else target[torch.tensor(places)].to(device)
        with _finite_answers(model):
            found = METHODS[method](model, model.embed(ids).detach(), wanted, **options)
        if method in _SCALED:  # a constant map, which they make NaN: no token stands out
            found = found.nan_to_num(nan=0.0)
        for i, values in zip(places, in_order(model, found.cpu()), strict=True):
            maps[i] = values.masked_fill(torch.tensor(tokens[i].special), 0.0)
        if progress is not None:
            progress(len(places))
    return maps


@contextmanager
def _finite_answers(model: TextTransformer) -> Iterator[None]:
    """Look at the model's answers while a method asks for them: NaN would pass for C19's."""

    def look(module: Any, inputs: Any, logits: Tensor) -> None:
        if bad := int((~logits.isfinite()).any(dim=1).sum()):
            raise ValueError(
                f"text: the model's answers to {bad} of {len(logits)} texts are not finite; its "
                "weights or its training are broken: train it again, with a lower learning rate"
            )

    handle = model.register_forward_hook(look)
    try:
        yield
    finally:
        handle.remove()


def same_length(tokens: Sequence[Tokens], chunk_tokens: int) -> list[list[int]]:
    """Places of texts with equal numbers of tokens, short ones first, a chunk at a time."""
    by_length: dict[int, list[int]] = {}
    for place, one in enumerate(tokens):
        by_length.setdefault(len(one.ids), []).append(place)
    chunks = []
    for length in sorted(by_length):
        size, places = max(1, chunk_tokens // length), by_length[length]
        chunks += [places[i : i + size] for i in range(0, len(places), size)]
    return chunks


def in_order(
    model: TextTransformer, values: Float[Tensor, "batch patches"]
) -> Float[Tensor, "batch tokens"]:
    """One value a token in the order of the text; the token that the head reads gets 0."""
    read = torch.zeros_like(values[:, : model.num_prefix_tokens])
    parts = [values, read] if model.reads == "last" else [read, values]
    return torch.cat(parts, dim=1)
