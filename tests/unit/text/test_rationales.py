"""Agreement with rationales, counted by hand."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import torch

from relevit.evaluate.intervals import bootstrap_interval
from relevit.text.documents import Document
from relevit.text.rationales import (
    KS,
    method_differences,
    rationale_f1,
    rationale_scores,
    rationale_table,
    rationale_tokens,
    with_rationale,
)
from relevit.text.tokens import Tokens

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
    assert list(rows) == ["index", "k", "precision", "recall", "f1"]
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


def test_shares_of_the_texts_own_tokens():
    rows = one(shares_pct=[5, 25, 49, 100])
    assert list(rows) == ["index", "share_pct", "k", "precision", "recall", "f1"]
    assert rows["k"].tolist() == [1, 2, 3, 8]  # of 8 tokens, not 10; one at least
    assert rows["f1"].tolist() == pytest.approx([1 / 2, 2 / 5, 2 / 3, 6 / 11])


def test_published_protocol_counts_words_by_their_highest_token():
    """Words: an 5, awful 6, film, 3 (with its comma), it 2, was 0 (not -1), dull 4."""
    rows = one([1, 2, 3, 4], protocol="published")
    assert rows["f1"].tolist() == pytest.approx([2 / 3, 1 / 2, 4 / 5, 4 / 6])
    scores = rationale_scores([read()], [VALUES], [document()], protocol="published")
    assert scores["marked"].tolist() == pytest.approx([2 / 6])


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
    scores = rationale_scores([read(text, spans)], [relevance(*200 * [value])], [half])
    assert scores["average_precision"].item() == scores["marked"].item() == 0.5


# Without a k


def test_scores_without_k_by_hand():
    """Hits at places 1, 3 and 6 of 8."""
    best = torch.where(rationale_tokens(read(), document()), 1.0, 0.0)
    rows = rationale_scores(2 * [read()], [VALUES, -best], 2 * [document()], first_index=4)
    assert rows["index"].tolist() == [4, 5]
    assert rows["marked"].tolist() == [3 / 8, 3 / 8]
    expected = [(1 + 2 / 3 + 3 / 6) / 3, 3 / 8]  # the worst order: all three come last, tied
    assert rows["average_precision"].tolist() == pytest.approx(expected)
    assert rows["pointed"].tolist() == [True, False]


# Tables


def test_table_means_over_documents():
    rows = pd.concat([one([1, 3]), one([1, 3], -VALUES, first_index=1)], ignore_index=True)
    table = rationale_table(rows)
    first, second = rows["f1"][:2].to_numpy(), rows["f1"][2:].to_numpy()
    assert table["k"].tolist() == [1, 3] and table["documents"].tolist() == [2, 2]
    assert table["f1_pct"].tolist() == pytest.approx((50 * (first + second)).tolist())
    error = 100 * np.abs(first - second) / 2  # of two: half of their distance
    assert table["standard_error_pts"].tolist() == pytest.approx(error.tolist())
    assert table["precision_pct"].tolist() == pytest.approx([50, 100 * (2 / 3 + 1 / 3) / 2])
    shares = rationale_table(one(shares_pct=[25, 50]))
    assert shares["share_pct"].tolist() == [25, 50] and shares["standard_error_pts"].isna().all()


@pytest.mark.parametrize("spoil", [lambda rows: pd.concat([rows, rows]), lambda rows: rows[:-1]])
def test_table_refuses_repeated_and_missing_documents(spoil):
    rows = pd.concat([one([1, 3]), one([1, 3], first_index=1)], ignore_index=True)
    with pytest.raises(ValueError, match="needed is each document once for every k"):
        rationale_table(spoil(rows))


def methods(values, **columns):
    parts = [
        pd.DataFrame({"method": name, "index": range(len(v)), "f1": v, **columns})
        for name, v in values.items()
    ]
    return pd.concat(parts, ignore_index=True)


def test_differences_are_paired():
    """One method is better by about .1 on documents that differ by far more than that."""
    level = np.linspace(0, 0.8, 20)
    better = level + np.linspace(0.05, 0.15, 20)
    rows = methods({"ga": level, "token_wise": better}, k=10)
    rows = pd.concat([rows, rows.assign(k=20, f1=1 - rows["f1"])]).sample(frac=1, random_state=0)
    table = method_differences(rows, "f1", "ga", ["k"]).sort_values("k")
    assert table["method"].tolist() == ["token_wise"] * 2 and table["against"].eq("ga").all()
    assert table["documents"].tolist() == [20, 20]
    assert table["difference"].tolist() == pytest.approx([0.1, -0.1])
    interval = bootstrap_interval(torch.tensor(better - level))
    assert table[["low", "high"]].iloc[0].tolist() == pytest.approx(interval)
    assert interval[0] > 0.08 and table["high"].iloc[1] < -0.08


def test_differences_without_groups_and_of_booleans():
    rows = methods({"b": [True, True], "a": [True, False], "c": [False, False]})
    table = method_differences(rows, "f1", "a", resamples=10)
    assert list(table) == ["method", "against", "documents", "difference", "low", "high"]
    assert dict(zip(table["method"], table["difference"], strict=True)) == {"b": 0.5, "c": -0.5}


@pytest.mark.parametrize(
    ("rows", "against"),
    [
        (methods({"a": [1.0, 2.0], "b": [1.0, 2.0]}), "c"),
        (methods({"a": [1.0, 2.0]}), "a"),
        (methods({"a": [1.0, 2.0], "b": [1.0]}), "a"),
        (pd.concat(2 * [methods({"a": [1.0], "b": [1.0]})]), "a"),
    ],
)
def test_differences_need_the_same_documents(rows, against):
    with pytest.raises(ValueError, match=f"against '{against}'; needed are that one and others"):
        method_differences(rows, "f1", against)


# Errors


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
        ({"shares_pct": [50, 120]}, "shares_pct [50, 120]; needed are rising numbers above 0 and"),
        ({"protocol": "both"}, "protocol 'both' is unknown"),
    ],
)
def test_errors(change, message):
    given = {"tokens": [read()], "maps": [VALUES], "documents": [document()]} | change
    with pytest.raises(ValueError, match=re.escape(message)):
        rationale_f1(**given)
