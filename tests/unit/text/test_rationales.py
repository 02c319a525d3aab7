"""Agreement with rationales, counted by hand."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch

from relevit.text.documents import Document
from relevit.text.rationales import (
    KS,
    rationale_f1,
    rationale_rows,
    rationale_table,
    rationale_tokens,
    top_counts,
    with_rationale,
)
from relevit.text.tokens import Texts, Tokens

#       0123456789 123456789 12345
TEXT = "an awful film, it was dull"
SPANS = ((0, 2), (3, 5), (5, 8), (9, 13), (13, 14), (15, 17), (18, 21), (22, 26))
MARKED = ((3, 8), (22, 26))  # awful, dull: tokens 2, 3 and 8 with [CLS] as token 0


def read(text=TEXT, spans=SPANS):
    special = (True, *len(spans) * [False], True)
    return Tokens(text, tuple(range(len(special))), ((0, 0), *spans, (0, 0)), special)


def document(rationale=MARKED, text=TEXT):
    return Document(text, 0, tuple(rationale))


def relevance(*values, special=9e9):
    return torch.tensor([special, *values, special])


#                 an  aw ##ful film ,  it  was dull
VALUES = relevance(5.0, 6.0, 1.0, 3.0, 0.0, 2.0, -1.0, 4.0)


def one(ks=KS, values=VALUES, **options):
    return rationale_f1([read()], [values], [document()], ks, **options)


# Which tokens


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


def test_special_tokens_are_in_no_rationale_wherever_they_stand():
    marked = Tokens("a b", (0, 5, 1), ((0, 1), (2, 3), (2, 3)), (True, False, True))
    assert rationale_tokens(marked, document([(0, 3)], "a b")).tolist() == [False, True, False]


def test_documents_without_a_rationale_are_counted():
    cut = read(spans=SPANS[:4])
    tokens, documents = (
        [read(), read(), cut, cut],
        [document(), document([]), document(), document([(22, 26)])],
    )
    assert with_rationale(tokens, documents) == ([0, 2], {"unmarked": 1, "cut_off": 1})
    with pytest.raises(ValueError, match=r"of 4 documents 1 have no rationale and 1 one that lies"):
        rationale_f1(tokens, [VALUES, VALUES, *2 * [VALUES[:6]]], documents)


# F1


def test_f1_by_hand():
    """In order: aw, an, dull, film, it, ##ful, the comma, was; aw, ##ful, dull are right."""
    rows = one([1, 2, 3, 6, 8])
    assert list(rows) == ["index", "k", "precision", "recall", "f1", "pointed"]
    assert rows["k"].tolist() == [1, 2, 3, 6, 8]
    assert rows["precision"].tolist() == pytest.approx([1, 1 / 2, 2 / 3, 3 / 6, 3 / 8])
    assert rows["recall"].tolist() == pytest.approx([1 / 3, 1 / 3, 2 / 3, 1, 1])
    assert rows["f1"].tolist() == pytest.approx([1 / 2, 2 / 5, 2 / 3, 2 / 3, 6 / 11])


def test_no_hit_is_an_f1_of_zero():
    assert one([1], relevance(9, 0, 0, 0, 0, 0, 0, 0))["f1"].tolist() == [0]


def test_a_text_shorter_than_k_gives_all_it_has():
    rows = one([8, 80])
    assert rows["f1"].tolist() == pytest.approx([6 / 11, 6 / 11])
    assert rows["precision"].tolist() == pytest.approx([3 / 8, 3 / 8])  # not 3 / 80


def test_published_protocol_counts_words_by_their_highest_token():
    """Words: an 5, awful 6, film, 3 (with its comma), it 2, was 0 (not -1), dull 4."""
    rows = one([1, 2, 3, 4], protocol="published")
    assert rows["f1"].tolist() == pytest.approx([2 / 3, 1 / 2, 4 / 5, 4 / 6])


def test_published_words_are_not_summed_and_negative_ones_tie():
    summed = relevance(3.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0)  # awful: 2, not 4
    assert one([1], summed, protocol="published")["precision"].tolist() == [0]
    falling, zeros = -torch.arange(10.0) - 1, torch.zeros(10)
    published = [one([1, 2, 3], v, protocol="published")["f1"].tolist() for v in (falling, zeros)]
    rising = one([1, 2, 3], falling.flip(0), protocol="published")["f1"].tolist()
    assert published[0] == published[1] == rising


def test_a_blank_that_belongs_to_a_token_parts_words():
    """Byte-level tokenizers keep it: `an`, ` awful`; they must not become one word."""
    glued = read("an awful", ((0, 2), (2, 8)))
    rows = rationale_f1(
        [glued], [relevance(1.0, 2.0)], [document([(0, 2)], "an awful")], [1], protocol="published"
    )
    assert rows["precision"].tolist() == [0]


@pytest.mark.parametrize("value", [0.0, float("nan")])
def test_ties_are_shuffled_and_not_in_the_order_of_the_text(value):
    text = "a " * 200
    spans = tuple((2 * i, 2 * i + 1) for i in range(200))
    half = document([(0, 200)], text)
    rows = rationale_f1([read(text, spans)], [relevance(*200 * [value])], [half], [100])
    assert 0.3 < rows["precision"].item() < 0.7


# Tables


def test_the_highest_token_points():
    best = torch.where(rationale_tokens(read(), document()), 1.0, 0.0)
    rows = rationale_f1(2 * [read()], [VALUES, -best], 2 * [document()], [1, 4])
    assert rows["index"].tolist() == [0, 0, 1, 1]
    assert rows["pointed"].tolist() == [True, True, False, False]


def two_methods():
    """Rows of two documents; the maps of the second method are upside down on one of them."""
    texts = Texts((document(), document()), (read(), read()))
    return rationale_rows(texts, {"ga": [VALUES, VALUES], "gae": [VALUES, -VALUES]}, [1, 3])


def test_table_means_over_documents():
    rows = two_methods().assign(pointed=[*4 * [True], False, False, True, True])
    table = rationale_table(rows)
    assert table["method"].tolist() == ["ga", "ga", "gae", "gae"]
    assert table["k"].tolist() == [1, 3, 1, 3] and (table["documents"] == 2).all()
    first, second = rows["f1"][4:6].to_numpy(), rows["f1"][6:].to_numpy()
    assert table["f1_pct"][2:].tolist() == pytest.approx((50 * (first + second)).tolist())
    error = 100 * np.abs(first - second) / 2  # of two: half of their distance
    assert table["standard_error_pts"].tolist() == pytest.approx([0, 0, *error])
    assert table["top_token_pct"].tolist() == [100, 100, 50, 50]
    one_document = rows[rows["index"] == 0]
    assert rationale_table(one_document)["standard_error_pts"].isna().all()


@pytest.mark.parametrize("spoil", [lambda rows: pd.concat([rows, rows]), lambda rows: rows[:-1]])
def test_table_refuses_repeated_and_missing_documents(spoil):
    with pytest.raises(ValueError, match="needed is each document once for every k"):
        rationale_table(spoil(two_methods()))


def test_top_counts_are_those_of_the_figure_in_proportion():
    assert top_counts(512) == top_counts(2048) == KS
    assert top_counts(128) == (2, 5, 8, 10, 12, 15, 18, 20)
    for limit in range(8, 600):
        counts = top_counts(limit)
        assert counts[0] > 0 and all(a < b for a, b in pairwise(counts))


# Errors


@pytest.mark.wrong_types
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokens": []}, "0 texts and 1 documents, 0 with the same text"),
        ({"documents": [document((), "another text")]}, "1 texts and 1 documents, 0 with the same"),
        ({"documents": [document(())]}, "of 1 documents 1 have no rationale"),
        ({"tokens": [], "documents": [], "maps": []}, "of 0 documents"),
        ({"maps": [torch.zeros(8)]}, "maps [(8,)] for texts of [10] tokens"),
        ({"maps": []}, "maps [] for texts"),
        ({"ks": []}, "ks []; needed are rising numbers above 0"),
        ({"ks": [0, 5]}, "ks [0, 5]"),
        ({"ks": [5, 5]}, "ks [5, 5]"),
        ({"protocol": "both"}, "protocol 'both' is unknown"),
    ],
)
def test_errors(change, message):
    given = {"tokens": [read()], "maps": [VALUES], "documents": [document()]} | change
    with pytest.raises(ValueError, match=re.escape(message)):
        rationale_f1(**given)
