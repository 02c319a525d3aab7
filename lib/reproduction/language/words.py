"""The other side of Fig. 7: the image is held fixed, and the words of its caption are explained."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from habitats.captions import COLOURS, spoken
from habitats.drawings import CLASSES
from habitats.textures import FAMILIES
from relevit.text.clip.dual import CLIP_METHODS, DualEncoder
from relevit.text.token_maps import attribute
from relevit.text.tokens import TokenMap, Tokens

# What a caption says: "a red lady beetle on sand".
KINDS = {
    "class": tuple(map(spoken, CLASSES)),
    "colour": COLOURS,
    "background": tuple(family.name for family in FAMILIES),
}


def word_shares(
    dual: DualEncoder, texts: Sequence[Tokens], image_features: Float[Tensor, "texts features"]
) -> pd.DataFrame:
    """`word_table` of each of CLIP_METHODS for captions held against their own images.

    `image_features[i]` is the image that text i is held against. Maps are as published.
    """
    classifier = dual.text_classifier(image_features)
    own = torch.arange(len(texts))
    parts = [
        word_table(texts, attribute(classifier, texts, name, own)).assign(method=name)
        for name in CLIP_METHODS
    ]
    return pd.concat(parts, ignore_index=True)


def word_table(texts: Sequence[Tokens], maps: Sequence[TokenMap]) -> pd.DataFrame:
    """Which words of captions a method finds: one row a kind of word, and one for all others.

    A text's values, negative ones as 0, are divided by their sum. Columns: kind, tokens (of all
    texts), share_pct (mean over texts of what the kind's tokens have of the sum), highest_pct (of
    the texts, those whose highest token is of this kind). Texts without any positive value are
    left out.
    """
    kind_of = {part: kind for kind, words in KINDS.items() for w in words for part in w.split()}
    rows = {kind: [0, 0.0, 0] for kind in (*KINDS, "other")}
    counted = 0
    for text, values in zip(texts, maps, strict=True):
        values = values.nan_to_num(nan=0.0).clamp(min=0)
        total = float(values.sum())
        if total <= 0:
            continue
        counted += 1
        found = [kind_of.get(_word(text, i), "other") for i in range(len(text))]
        for place in text.own.nonzero()[:, 0].tolist():
            rows[found[place]][0] += 1
            rows[found[place]][1] += float(values[place]) / total
        rows[found[int(values.argmax())]][2] += 1
    most = max(counted, 1)
    table = [
        (kind, n, 100 * share / most, 100 * top / most) for kind, (n, share, top) in rows.items()
    ]
    return pd.DataFrame(table, columns=["kind", "tokens", "share_pct", "highest_pct"])


def _word(text: Tokens, place: int) -> str:
    """The word in lower case that a token is a part of."""
    start, stop = text.offsets[place]
    while start > 0 and text.text[start - 1].isalnum():
        start -= 1
    while stop < len(text.text) and text.text[stop].isalnum():
        stop += 1
    return text.text[start:stop].strip().lower()
