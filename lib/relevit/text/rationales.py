"""Language reasoning: do the tokens that a map ranks highest lie where people saw the reason?

Source: Beyond Intuition Sec. 4.2 ("F1 of the top-k tokens", Fig. 6, claims BI-08 to BI-10), after
Chefer, Gur, Wolf 2021 (CVPR) and ERASER (DeYoung et al. 2020: F1 of each text, then the mean).
The published truth covers the whole document, cut off or not; here a token that the model did not
read is neither found nor missed. Its k are 5 to 80 in steps of 5.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from relevit.evaluate.perturbation import erasing_ranks
from relevit.protocols import Protocol, options
from relevit.text.documents import Document
from relevit.text.tokens import Texts, TokenMap, Tokens

KS = tuple(range(10, 90, 10))  # the axis of Fig. 6
FIGURE_LIMIT = 512  # tokens of the texts in Fig. 6
Counted = Literal["token", "word"]


def rationale_f1(
    tokens: Tokens,
    values: TokenMap,
    document: Document,
    ks: Sequence[int],
    *,
    counted: Counted = "token",
) -> pd.DataFrame:
    """How well the k highest parts of a document agree with its rationale.

    `values` have one a token, as `attribute` gives them. Parts are tokens, or as published whole
    words (`counted="word"`). A document of fewer than k parts gives all it has, so that its
    precision is that of everything. Ties as in `relevit.evaluate.perturbation`.

    One row a k: k, precision, recall, f1, all three in 0..1; pointed (the highest part lies in
    the rationale: the pointing game).
    """
    values = values.detach().cpu()[tokens.own]
    truth = rationale_tokens(tokens, document)[tokens.own]
    if counted == "word":
        values, truth = whole_words(tokens, values, truth)
    ranks = erasing_ranks(values[None], "positive")[0]
    pointed = bool(truth[ranks.argmin()])
    rows = []
    for k in ks:
        chosen = ranks < k
        hits, count, marked = int((chosen & truth).sum()), int(chosen.sum()), int(truth.sum())
        rows.append((k, hits / count, hits / marked, 2 * hits / (count + marked), pointed))
    return pd.DataFrame(rows, columns=["k", "precision", "recall", "f1", "pointed"])


def rationale_tokens(tokens: Tokens, document: Document) -> Bool[Tensor, " tokens"]:
    """Which tokens share a character with the document's rationale; special ones never do."""
    start, end = torch.tensor(tokens.offsets).unbind(dim=1)
    first, stop = torch.tensor(document.rationale, dtype=torch.long).reshape(-1, 2).unbind(dim=1)
    shared = (start[:, None] < stop) & (first < end[:, None])
    return shared.any(dim=1) & tokens.own


def whole_words(
    tokens: Tokens, values: Float[Tensor, " tokens"], truth: Bool[Tensor, " tokens"]
) -> tuple[Float[Tensor, " words"], Bool[Tensor, " words"]]:
    """Words between blanks: the highest of their tokens' values and 0, and whether one is marked.

    `values` and `truth` are of a text's own tokens, whose words the tokenizer's offsets tell.
    """
    starts = [word.start() for word in re.finditer(r"\S+", tokens.text)]
    own = torch.tensor(tokens.offsets)[tokens.own, 0].numpy()
    parts = pd.DataFrame({"value": values.clamp(min=0).numpy(), "marked": truth.numpy()})
    words = parts.groupby(np.searchsorted(starts, own, side="right")).max()
    return torch.tensor(words["value"].to_numpy()), torch.tensor(words["marked"].to_numpy())


def with_rationale(
    tokens: Sequence[Tokens], documents: Sequence[Document]
) -> tuple[list[int], dict[str, int]]:
    """Which documents can be tested, and how many cannot: they have no rationale that was read.

    The counts are `unmarked` (no rationale at all) and `cut_off` (it lies beyond the last token).
    """
    seen = [bool(rationale_tokens(*pair).any()) for pair in zip(tokens, documents, strict=True)]
    unmarked = sum(not document.rationale for document in documents)
    counts = {"unmarked": unmarked, "cut_off": len(seen) - sum(seen) - unmarked}
    return [i for i, usable in enumerate(seen) if usable], counts


def top_counts(limit: int) -> tuple[int, ...]:
    """How many top tokens are taken: those of Fig. 6, in proportion for shorter texts.

    8 numbers that rise; 10 to 80 for a `limit` of 512 tokens or more.
    """
    share = min(1.0, limit / FIGURE_LIMIT)
    return tuple(max(place, round(k * share)) for place, k in enumerate(KS, start=1))


def rationale_rows(
    texts: Texts,
    maps: Mapping[str, Sequence[TokenMap]],
    ks: Sequence[int],
    protocol: Protocol = "published",
) -> pd.DataFrame:
    """Rows of `rationale_f1` with `index` (the document) and `method`; all need a rationale."""
    rule = options(protocol, "rationale_f1")
    parts = []
    for name, values in maps.items():
        for i, one in enumerate(zip(texts.tokens, values, texts.documents, strict=True)):
            rows = rationale_f1(*one, ks, **rule)
            rows.insert(0, "index", i)
            parts.append(rows.assign(method=name))
    return pd.concat(parts, ignore_index=True)


def rationale_table(rows: pd.DataFrame) -> pd.DataFrame:
    """One row a method and k: method, k, documents, f1_pct, standard_error_pts, top_token_pct.

    The error is that of the mean over documents, NaN for one.
    """
    groups = rows.groupby(["method", "k"], sort=False)
    return pd.DataFrame(
        {
            "documents": groups.size(),
            "f1_pct": 100 * groups["f1"].mean(),
            "standard_error_pts": 100 * groups["f1"].sem(),
            "top_token_pct": 100 * groups["pointed"].mean(),
        }
    ).reset_index()
