"""Attributions of whole texts, one value a token, and where the class token looks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from relevit.attribution import METHODS, VARIANTS, explain_all
from relevit.maps import record_attention
from relevit.protocols import Protocol
from relevit.text.encoder import TextTransformer
from relevit.text.tokens import Texts, TokenMap, Tokens, same_length

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
RANDOM = "random"  # any order at all: the floor
Maps = dict[str, list[TokenMap]]


def attribute(
    model: TextTransformer,
    tokens: Sequence[Tokens],
    method: str,
    target: Int[Tensor, " texts"] | None = None,
    **options: Any,
) -> list[TokenMap]:
    """What each token of each text contributes to a class, by one of TEXT_METHODS, on the CPU.

    Texts of one length are run together, without padding, so that a map does not depend on
    the batch and padding can get nothing. Special tokens get 0: they are no part of the text
    (Beyond Intuition keeps the class token out; differences D9). `target` None is the class
    that is predicted. `options` go to the method, `protocol` among them.
    """
    if method not in TEXT_METHODS:
        raise ValueError(f"text: method {method!r} explains no text; use one of {TEXT_METHODS}")

    def rule(embedded: Tensor, wanted: Tensor | None) -> dict[str, Tensor]:
        return {method: METHODS[method](model, embedded, wanted, **options)}

    return _of_texts(model, tokens, [method], rule, target)[method]


def method_maps(
    model: TextTransformer,
    texts: Texts,
    *,
    protocol: Protocol = "published",
    seed: int = 0,
    on_method: Callable[[], object] = lambda: None,
) -> Maps:
    """Maps of each method for the predicted class, and of a RANDOM order.

    The published scripts explain the label instead; on texts answered rightly it is the same.
    """
    maps: Maps = {}
    # The variants share their path, which is most of the work.
    alone = [(name,) for name in TEXT_METHODS if name not in VARIANTS]
    for names in (*alone, VARIANTS):
        rule = partial(explain_all, model, methods=names, protocol=protocol)
        maps |= _of_texts(model, texts.tokens, names, rule)
        for _ in names:
            on_method()
    random = torch.Generator().manual_seed(seed)
    maps[RANDOM] = [torch.rand(len(one), generator=random) for one in texts.tokens]
    return maps


def attention_by_block(model: TextTransformer, tokens: Tokens) -> Float[Tensor, "blocks tokens"]:
    """How much the class token attends to each token in each block, mean over heads."""
    ids = torch.tensor([tokens.ids], device=model.device)
    with torch.no_grad(), record_attention(model) as tape:
        model(model.embed(ids))
    return torch.stack([attention[0, :, 0].mean(dim=0).cpu() for attention in tape.maps])


def _of_texts(
    model: TextTransformer,
    tokens: Sequence[Tokens],
    names: Sequence[str],
    rule: Callable[[Tensor, Tensor | None], dict[str, Tensor]],
    target: Int[Tensor, " texts"] | None = None,
) -> Maps:
    """What `rule` makes of embedded tokens and classes under each name, text by text."""
    _need_readable(model, tokens)
    maps: Maps = {name: [torch.empty(0)] * len(tokens) for name in names}
    for places in same_length(tokens):
        ids = torch.tensor([tokens[i].ids for i in places], device=model.device)
        wanted = None if target is None else target[torch.tensor(places)].to(model.device)
        for name, found in rule(model.embed(ids).detach(), wanted).items():
            if name in _SCALED:  # a constant map, which they make NaN: no token stands out
                found = found.nan_to_num(nan=0.0)
            for i, values in zip(places, _in_text_order(model, found.cpu()), strict=True):
                maps[name][i] = values.masked_fill(torch.tensor(tokens[i].special), 0.0)
    return maps


def _need_readable(model: TextTransformer, tokens: Sequence[Tokens]) -> None:
    known = model.words.num_embeddings
    for one in tokens:
        if len(one) > model.limit or not 0 <= min(one.ids) <= max(one.ids) < known:
            raise ValueError(
                f"text: {one.text[:30]!r} has {len(one)} tokens, with ids up to {max(one.ids)}; "
                f"this model reads at most {model.limit}, with ids in 0..{known - 1}: cut texts "
                "with encode, and use the tokenizer that came with the model"
            )


def _in_text_order(
    model: TextTransformer, values: Float[Tensor, "batch patches"]
) -> Float[Tensor, "batch tokens"]:
    """One value a token in the order of the text; the token that the head reads gets 0."""
    read = torch.zeros_like(values[:, : model.num_prefix_tokens])
    parts = [values, read] if model.reads == "last" else [read, values]
    return torch.cat(parts, dim=1)
