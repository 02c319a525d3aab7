"""Language reasoning: do the tokens that a map ranks highest lie where people saw the reason?

Source: Beyond Intuition Sec. 4.2 ("F1 of the top-k tokens", Fig. 6, claims BI-08 to BI-10), after
Chefer, Gur, Wolf 2021 (CVPR) and ERASER (DeYoung et al. 2020: F1 of each text, then the mean).

What paper and code do differently (bert_pipeline.py), and its name here:
`protocol="described"` counts tokens, with the map as it is. `"published"` counts whole words,
parted by blanks, each with the highest value of its tokens, negative values being 0 first; its k
are 5 to 80 in steps of 5. Its truth covers the whole document, cut off or not; here a token that
the model did not read is neither found nor missed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from relevit.evaluate.intervals import need_columns
from relevit.evaluate.perturbation import erasing_ranks
from relevit.protocols import Protocol, check_protocol
from relevit.text.documents import Document
from relevit.text.tokens import Texts, TokenMap, Tokens

KS = tuple(range(10, 90, 10))  # the axis of Fig. 6
FIGURE_LIMIT = 512  # tokens of the texts in Fig. 6
F1 = "f1_pct"
COLUMNS = ["index", "k", "precision", "recall", "f1", "pointed"]
Unit = tuple[Float[Tensor, " parts"], Bool[Tensor, " parts"]]


def rationale_tokens(tokens: Tokens, document: Document) -> Bool[Tensor, " tokens"]:
    """Which tokens share a character with the document's rationale; special ones never do."""
    start, end = torch.tensor(tokens.offsets).unbind(dim=1)
    first, stop = torch.tensor(document.rationale, dtype=torch.long).reshape(-1, 2).unbind(dim=1)
    shared = (start[:, None] < stop) & (first < end[:, None])
    return shared.any(dim=1) & tokens.own


def with_rationale(
    tokens: Sequence[Tokens], documents: Sequence[Document]
) -> tuple[list[int], dict[str, int]]:
    """Which documents can be tested, and how many cannot: they have no rationale that was read.

    The counts are `unmarked` (no rationale at all) and `cut_off` (it lies beyond the last token).
    Raises: ValueError unless each document has the tokens of its own text.
    """
    _check_pairs("with_rationale", tokens, documents)
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


def rationale_f1(
    tokens: Sequence[Tokens],
    maps: Sequence[TokenMap],
    documents: Sequence[Document],
    ks: Sequence[int] = KS,
    *,
    protocol: Protocol = "described",
) -> pd.DataFrame:
    """How well the k highest tokens of each document agree with its rationale.

    `maps` have one value a token, as `attribute` gives them. A document of fewer than k tokens
    gives all it has, so that its precision is that of everything. Equal values go by a shuffled
    order, as in `relevit.evaluate.perturbation`; so does a map that is not finite.

    One row a document and k: index, k, precision, recall, f1, all three in 0..1; pointed (the
    highest token lies in the rationale: the pointing game).
    Raises: ValueError for documents without a rationale that was read (`with_rationale` chooses),
    and for maps, tokens or ks that do not fit.
    """
    if not len(ks) or (np.diff([0, *ks]) <= 0).any():
        raise ValueError(f"rationales: ks {list(ks)}; needed are rising numbers above 0")
    rows = []
    for i, (values, truth) in enumerate(_units(tokens, maps, documents, protocol)):
        ranks = erasing_ranks(values[None], "positive")[0]
        pointed = bool(truth[ranks.argmin()])
        for k in ks:
            chosen = ranks < k
            hits, count, marked = int((chosen & truth).sum()), int(chosen.sum()), int(truth.sum())
            rows.append((i, k, hits / count, hits / marked, 2 * hits / (count + marked), pointed))
    return pd.DataFrame(rows, columns=COLUMNS)


def rationale_rows(
    texts: Texts,
    maps: Mapping[str, Sequence[TokenMap]],
    ks: Sequence[int],
    protocol: Protocol = "published",
) -> pd.DataFrame:
    """Rows of `rationale_f1` for each method, with its name."""
    parts = [
        rationale_f1(texts.tokens, values, texts.documents, ks, protocol=protocol).assign(
            method=name
        )
        for name, values in maps.items()
    ]
    return pd.concat(parts, ignore_index=True)


def rationale_table(rows: pd.DataFrame) -> pd.DataFrame:
    """One row a method and k: method, k, documents, f1_pct, standard_error_pts, top_token_pct.

    The error is that of the mean over documents, NaN for one. Raises: ValueError for missing
    columns, or documents that repeat or lack a k.
    """
    need_columns("rationale_table", rows, ["method", *COLUMNS])
    groups = rows.groupby(["method", "k"], sort=False)
    repeated = rows.duplicated(["method", "index", "k"])
    if rows.empty or repeated.any() or groups.size().nunique() != 1:
        raise ValueError(
            f"rationale_table: {len(rows)} rows, {repeated.sum()} of them repeated, with "
            f"{sorted(set(groups.size()))} documents a k; needed is each document once for every "
            "k: give the rows of all methods on the same documents"
        )
    return pd.DataFrame(
        {
            "documents": groups.size(),
            F1: 100 * groups["f1"].mean(),
            "standard_error_pts": 100 * groups["f1"].sem(),
            "top_token_pct": 100 * groups["pointed"].mean(),
        }
    ).reset_index()


def _units(
    tokens: Sequence[Tokens],
    maps: Sequence[TokenMap],
    documents: Sequence[Document],
    protocol: Protocol,
) -> list[Unit]:
    """Of each document what is ranked, tokens or words, and whether the rationale holds it."""
    check_protocol(protocol)
    _check_pairs("rationales", tokens, documents)
    usable, counts = with_rationale(tokens, documents)
    if not documents or len(usable) < len(documents):
        raise ValueError(
            f"rationales: of {len(documents)} documents {counts['unmarked']} have no rationale and "
            f"{counts['cut_off']} one that lies beyond what the model reads; each needs one: take "
            "those that with_rationale names, and report the others"
        )
    shapes = [tuple(values.shape) for values in maps]
    if shapes != [(len(one.ids),) for one in tokens]:
        raise ValueError(
            f"rationales: maps {shapes[:5]} for texts of {[len(one.ids) for one in tokens][:5]} "
            "tokens; needed is one value a token, special ones included: use attribute"
        )
    unit: Callable[..., Unit] = _words if protocol == "published" else _own_tokens
    return [
        unit(one, values.detach().cpu(), rationale_tokens(one, document))
        for one, values, document in zip(tokens, maps, documents, strict=True)
    ]


def _own_tokens(tokens: Tokens, values: Tensor, truth: Tensor) -> Unit:
    return values[tokens.own], truth[tokens.own]


def _words(tokens: Tokens, values: Tensor, truth: Tensor) -> Unit:
    """Words between blanks: the highest value of each one's tokens, and whether any is marked."""
    values, truth = _own_tokens(tokens, values, truth)
    places = [place for place, special in enumerate(tokens.special) if not special]
    offsets = [tokens.offsets[place] for place in places]
    # Byte-level tokenizers keep the blank before a word as its first character.
    gaps = [tokens.text[end : start + 1] for (_, end), (start, _) in pairwise(offsets)]
    new = [False, *(any(map(str.isspace, gap)) for gap in gaps)]
    word = torch.tensor(np.cumsum(new))
    count = int(word[-1]) + 1
    # The highest of them and 0, so that negative values are 0.
    highest = torch.zeros(count, dtype=values.dtype).scatter_reduce(0, word, values, "amax")
    marked = torch.zeros(count).scatter_reduce(0, word, truth.float(), "amax") > 0
    return highest, marked


def _check_pairs(where: str, tokens: Sequence[Tokens], documents: Sequence[Document]) -> None:
    same = [one.text == document.text for one, document in zip(tokens, documents, strict=False)]
    if len(tokens) != len(documents) or not all(same):
        raise ValueError(
            f"{where}: {len(tokens)} texts and {len(documents)} documents, {sum(same)} with the "
            "same text in the same place; needed are the tokens of these documents, in their order"
        )
