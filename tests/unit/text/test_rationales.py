"""Agreement with rationales, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from relevit.text.documents import Document
from relevit.text.rationales import rationale_f1, rationale_rows, rationale_table, rationale_tokens
from relevit.text.tokens import Texts

from .builders import spelled

#       0123456789 123456789 12345
TEXT = "an awful film, it was dull"
SPANS = ((0, 2), (3, 5), (5, 8), (9, 13), (13, 14), (15, 17), (18, 21), (22, 26))
MARKED = ((3, 8), (22, 26))  # awful, dull: tokens 2, 3 and 8 with [CLS] as token 0


def read(text=TEXT, spans=SPANS):
    return spelled(text, *(text[start:end] for start, end in spans))


def document(rationale=MARKED, text=TEXT):
    return Document(text, 0, tuple(rationale))


def relevance(*values, special=9e9):
    return torch.tensor([special, *values, special])


#                 an  aw ##ful film ,  it  was dull
VALUES = relevance(5.0, 6.0, 1.0, 3.0, 0.0, 2.0, -1.0, 4.0)


def one(ks, values=VALUES, **options):
    return rationale_f1(read(), values, document(), ks, **options)


@pytest.mark.parametrize(
    ("rationale", "expected"),
    [
        (MARKED, [2, 3, 8]),
        ([(4, 5)], [2]),
        ([(7, 10)], [3, 4]),  # one letter is enough
        ([(8, 9)], []),  # the blank between two tokens, which touches both
        ([(0, 1)], [1]),  # special tokens stand at (0, 0) and share nothing
        ([], []),
    ],
)
def test_rationale_tokens_share_a_character(rationale, expected):
    found = rationale_tokens(read(), document(rationale))
    assert found.nonzero().flatten().tolist() == expected


def test_f1_by_hand():
    """In order: aw, an, dull, film, it, ##ful, the comma, was; aw, ##ful, dull are right.

    A text shorter than k gives all it has: its precision is 3 / 8, not 3 / 80.
    """
    rows = one([1, 2, 3, 6, 8, 80])
    assert list(rows) == ["k", "precision", "recall", "f1", "pointed"]
    assert rows["precision"].tolist() == pytest.approx([1, 1 / 2, 2 / 3, 3 / 6, 3 / 8, 3 / 8])
    assert rows["recall"].tolist() == pytest.approx([1 / 3, 1 / 3, 2 / 3, 1, 1, 1])
    assert rows["f1"].tolist() == pytest.approx([1 / 2, 2 / 5, 2 / 3, 2 / 3, 6 / 11, 6 / 11])
    assert rows["pointed"].all()
    missed = one([1], relevance(9, 0, 0, 0, 0, 0, 0, 0))
    assert missed["f1"].tolist() == [0] and not missed["pointed"].any()


def test_words_count_by_their_highest_token():
    """Words: an 5, awful 6, film, 3 (with its comma), it 2, was 0 (not -1), dull 4."""
    rows = one([1, 2, 3, 4], counted="word")
    assert rows["f1"].tolist() == pytest.approx([2 / 3, 1 / 2, 4 / 5, 4 / 6])
    summed = relevance(3.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0)  # awful: 2, not 4
    assert one([1], summed, counted="word")["precision"].tolist() == [0]


@pytest.mark.parametrize("value", [0.0, float("nan")])
def test_ties_are_shuffled_and_not_in_the_order_of_the_text(value):
    text = "a " * 200
    spans = tuple((2 * i, 2 * i + 1) for i in range(200))
    half = document([(0, 200)], text)
    rows = rationale_f1(read(text, spans), relevance(*200 * [value]), half, [100])
    assert 0.3 < rows["precision"].item() < 0.7


def test_table_has_means_over_documents():
    """Maps of the second method are upside down on one of two documents."""
    texts = Texts((document(), document()), (read(), read()))
    maps = {"ga": [VALUES, VALUES], "gae": [VALUES, -VALUES]}
    rows = rationale_rows(texts, maps, [1, 3], "described")
    assert rows["index"].tolist() == 2 * [0, 0, 1, 1]
    table = rationale_table(rows)
    assert table["method"].tolist() == ["ga", "ga", "gae", "gae"]
    assert table["k"].tolist() == [1, 3, 1, 3] and (table["documents"] == 2).all()
    first, second = rows["f1"][4:6].to_numpy(), rows["f1"][6:].to_numpy()
    assert table["f1_pct"][2:].tolist() == pytest.approx((50 * (first + second)).tolist())
    error = 100 * np.abs(first - second) / 2  # of two: half of their distance
    assert table["standard_error_pts"].tolist() == pytest.approx([0, 0, *error])
    assert table["top_token_pct"].tolist() == [100, 100, 50, 50]
    words = rationale_rows(texts, maps, [1, 3], "published")
    assert words["f1"][:2].tolist() == one([1, 3], counted="word")["f1"].tolist()
