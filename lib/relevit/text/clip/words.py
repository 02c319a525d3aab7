"""The other side of Fig. 7: the image is held fixed, and the words of its caption are explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from relevit.data.textures import FAMILIES
from relevit.relevance import Protocol
from relevit.text.clip.captions import COLOURS, names
from relevit.text.clip.dual import CLIP_METHODS, DualEncoder, check_methods
from relevit.text.token_maps import attribute
from relevit.text.tokens import TokenMap, Tokens

# Beside the class, what a caption says: "a red bus on sand".
WORDS = {"colour": COLOURS, "background": tuple(family.name for family in FAMILIES)}


def word_shares(
    dual: DualEncoder,
    texts: Sequence[Tokens],
    image_features: Float[Tensor, "texts features"],
    methods: Sequence[str] = CLIP_METHODS,
    kinds: Mapping[str, Sequence[str]] | None = None,
) -> pd.DataFrame:
    """`word_table` of each method for captions held against their own images, with its name."""
    kinds = {"class": names()} | WORDS if kinds is None else kinds
    parts = []
    for method in methods:
        maps = word_attributions(dual, texts, image_features, method)
        parts.append(word_table(texts, maps, kinds).assign(method=method))
    return pd.concat(parts, ignore_index=True)


def word_attributions(
    dual: DualEncoder,
    texts: Sequence[Tokens],
    image_features: Float[Tensor, "texts features"],
    method: str,
    *,
    protocol: Protocol = "published",
) -> list[TokenMap]:
    """What each token of each text contributes to the similarity to its own image.

    The other side of Fig. 7: `image_features[i]` is the image that text i is held against. Special
    tokens get 0. Raises: ValueError for another number of images, and as `attribute`.
    """
    if len(image_features) != len(texts):
        raise ValueError(
            f"word_attributions: {len(texts)} texts and {len(image_features)} images; give one "
            "image's features for each text"
        )
    check_methods("word_attributions", [method])
    classifier = dual.text_classifier(image_features)
    target = torch.arange(len(texts))
    return attribute(classifier, texts, method, target, protocol=protocol)


def word_table(
    texts: Sequence[Tokens], maps: Sequence[TokenMap], kinds: Mapping[str, Sequence[str]]
) -> pd.DataFrame:
    """Which words of captions a method finds: one row a kind of word, and one for all others.

    `kinds` has the words of each kind ("class": names of classes, "colour": ...). A text's values,
    negative ones as 0, are divided by their sum. Columns: kind, tokens (of all texts), share_pct
    (mean over texts of what the kind's tokens have of the sum), highest_pct (of the texts, those
    whose highest token is of this kind). Texts without any positive value are left out.
    """
    lists = {kind: {w for word in words for w in _letters(word)} for kind, words in kinds.items()}
    rows = {kind: [0, 0.0, 0] for kind in (*kinds, "other")}
    counted = 0
    for text, values in zip(texts, maps, strict=True):
        found = [_kind(text, i, lists) for i in range(len(text))]
        values = values.nan_to_num(nan=0.0).clamp(min=0)
        total = float(values.sum())
        counted += total > 0
        for place, kind in enumerate(found):
            if kind is None or total <= 0:
                continue
            rows[kind][0] += 1
            rows[kind][1] += float(values[place]) / total
        if total > 0:
            rows[found[int(values.argmax())]][2] += 1
    most = max(counted, 1)
    table = [
        (kind, n, 100 * share / most, 100 * top / most) for kind, (n, share, top) in rows.items()
    ]
    return pd.DataFrame(table, columns=["kind", "tokens", "share_pct", "highest_pct"])


def _letters(word: str) -> list[str]:
    return word.lower().replace("-", " ").split()


def _kind(text: Tokens, place: int, lists: Mapping[str, set[str]]) -> str | None:
    """The kind of the word that a token is a part of; None for special tokens."""
    if text.special[place]:
        return None
    start, stop = text.offsets[place]
    while start > 0 and text.text[start - 1].isalnum():
        start -= 1
    while stop < len(text.text) and text.text[stop].isalnum():
        stop += 1
    word = text.text[start:stop].strip().lower()
    return next((kind for kind, words in lists.items() if word in words), "other")
