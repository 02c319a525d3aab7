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

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from sklearn.metrics import average_precision_score
from torch import Tensor

from relevit.evaluate.erasing import erased_parts, erasing_ranks
from relevit.evaluate.intervals import LEVEL_PCT, RESAMPLES, bootstrap_interval, need_columns
from relevit.relevance import Protocol, check_protocol
from relevit.text.documents import Document
from relevit.text.tokens import Tokens

KS = tuple(range(10, 90, 10))  # the axis of Fig. 6
SCORES = ("precision", "recall", "f1")
Unit = tuple[Float[Tensor, " parts"], Bool[Tensor, " parts"]]


def rationale_tokens(tokens: Tokens, document: Document) -> Bool[Tensor, " tokens"]:
    """Which tokens share a character with the document's rationale; special ones never do."""
    own = ~torch.tensor(tokens.special)
    start, end = torch.tensor(tokens.offsets).unbind(dim=1)
    first, stop = torch.tensor(document.rationale, dtype=torch.long).reshape(-1, 2).unbind(dim=1)
    shared = (start[:, None] < stop) & (first < end[:, None])
    return shared.any(dim=1) & own


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


def rationale_f1(
    tokens: Sequence[Tokens],
    maps: Sequence[Float[Tensor, " tokens"]],
    documents: Sequence[Document],
    ks: Sequence[int] = KS,
    *,
    shares_pct: Sequence[float] | None = None,
    protocol: Protocol = "described",
    first_index: int = 0,
    tie_seed: int = 0,
) -> pd.DataFrame:
    """How well the k highest tokens of each document agree with its rationale.

    `maps` have one value a token, as `attribute` gives them. A document of fewer than k tokens
    gives all it has, so that its precision is that of everything. For short texts `shares_pct`
    takes shares of the document's tokens instead of `ks`, rounded down, one token at least.
    Equal values go by a shuffled order, as in `relevit.evaluate.erasing`; so does a map that is
    not finite.

    One row a document and k: index (from `first_index` on), k, precision, recall, f1, all three
    in 0..1; with `shares_pct` the column `share_pct` comes before k, the tokens it makes.
    Raises: ValueError for documents without a rationale that was read (`with_rationale` chooses),
    and for maps, tokens, ks or shares that do not fit.
    """
    tests = ks if shares_pct is None else shares_pct
    _check_tests(tests, shares_pct is not None)
    rows = []
    for i, (values, truth) in enumerate(_units(tokens, maps, documents, protocol)):
        ranks = erasing_ranks(values[None], "positive", tie_seed)[0]
        for test in tests:
            k = test if shares_pct is None else max(1, erased_parts(len(truth), test))
            chosen = ranks < k
            hits, count, marked = int((chosen & truth).sum()), int(chosen.sum()), int(truth.sum())
            scores = (hits / count, hits / marked, 2 * hits / (count + marked))
            rows.append((first_index + i, test, k, *scores))
    table = pd.DataFrame(rows, columns=["index", "share_pct", "k", *SCORES])
    return table if shares_pct is not None else table.drop(columns="share_pct")


def rationale_scores(
    tokens: Sequence[Tokens],
    maps: Sequence[Float[Tensor, " tokens"]],
    documents: Sequence[Document],
    *,
    protocol: Protocol = "described",
    first_index: int = 0,
    tie_seed: int = 0,
) -> pd.DataFrame:
    """Agreement of each map with the rationale without a k to choose, one row a document.

    Columns: index; marked (share of the tokens in the rationale, in 0..1: what a random order
    gets in the other two); average_precision (scikit-learn's, in 0..1); pointed (the highest
    token lies in the rationale: the pointing game). Arguments and errors as `rationale_f1`.
    """
    rows = []
    for i, (values, truth) in enumerate(_units(tokens, maps, documents, protocol)):
        ranks = erasing_ranks(values[None], "positive", tie_seed)[0]
        useful = values.double() if values.isfinite().all() else torch.zeros(len(values))
        precision = average_precision_score(truth.numpy(), useful.numpy())
        pointed = bool(truth[ranks.argmin()])
        rows.append((first_index + i, float(truth.double().mean()), float(precision), pointed))
    return pd.DataFrame(rows, columns=["index", "marked", "average_precision", "pointed"])


def rationale_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Means of `rationale_f1` over documents, one row a k (or share): documents, *_pct, error.

    Columns: k (or share_pct), documents, precision_pct, recall_pct, f1_pct, standard_error_pts
    (of the F1 over documents; NaN for one). Raises: ValueError for missing columns, or documents
    that repeat or lack a k.
    """
    by = "share_pct" if "share_pct" in rows else "k"
    need_columns("rationale_table", rows, ["index", by, *SCORES])
    tests = rows.groupby(by, sort=True)
    if rows.empty or rows.duplicated(["index", by]).any() or tests.size().nunique() != 1:
        raise ValueError(
            f"rationale_table: {len(rows)} rows, {rows.duplicated(['index', by]).sum()} of them "
            f"repeated, with {sorted(set(tests.size()))} documents a {by}; needed is each document "
            f"once for every {by}: give the rows of one method, numbered with first_index"
        )
    table = pd.DataFrame({"documents": tests.size()})
    for name in SCORES:
        table[f"{name}_pct"] = 100 * tests[name].mean()
    return table.assign(standard_error_pts=100 * tests["f1"].sem()).reset_index()


def method_differences(
    rows: pd.DataFrame,
    value: str,
    against: str,
    by: Sequence[str] = (),
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level_pct: float = LEVEL_PCT,
) -> pd.DataFrame:
    """Each method's mean of `value` minus that of the method `against`, on the same documents.

    `rows` have the columns method, index (the document), `by` (as k or direction) and `value`.
    The interval is `relevit.evaluate.intervals.bootstrap_interval` of the differences, document by
    document: what is hard for all methods drops out. Columns: method, against, `by`, documents,
    difference, low, high, in units of `value`.
    Raises: ValueError for a missing column or method, fewer than two documents, and methods that
    were not run on the same documents.
    """
    need_columns("method_differences", rows, ["method", "index", *by, value])
    keys = [*by, "index"]
    names = [name for name in dict.fromkeys(rows["method"]) if name != against]
    repeated = rows.duplicated(["method", *keys]).any()
    wide = None if repeated else rows.pivot(index=keys, columns="method", values=value)
    if wide is None or against not in wide or not names or wide.isna().any(axis=None):
        raise ValueError(
            f"method_differences: methods {sorted(set(rows['method']))} against {against!r}; "
            f"needed are that one and others, each once for every document {list(by)}"
        )
    wide = wide.astype(float)
    groups = wide.groupby(level=list(by), sort=False) if by else [((), wide)]
    table = []
    for place, part in groups:
        for name in names:
            change = torch.tensor((part[name] - part[against]).to_numpy())
            low, high = bootstrap_interval(change, resamples, seed, level_pct)
            table.append((name, against, *place, len(change), float(change.mean()), low, high))
    columns = ["method", "against", *by, "documents", "difference", "low", "high"]
    return pd.DataFrame(table, columns=columns)


def _units(
    tokens: Sequence[Tokens],
    maps: Sequence[Tensor],
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
    own = ~torch.tensor(tokens.special)
    return values[own], truth[own]


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


def _check_tests(tests: Sequence[float], shares: bool) -> None:
    if not len(tests) or (np.diff([0, *tests]) <= 0).any() or (shares and tests[-1] > 100):
        raise ValueError(
            f"rationales: {'shares_pct' if shares else 'ks'} {list(tests)}; needed are rising "
            f"numbers above 0{' and up to 100' if shares else ''}"
        )
