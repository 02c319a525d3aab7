"""The perturbation test on texts, with a bag of words whose logits can be added up by hand."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from relevit.evaluate.perturbation import accuracy_curves, auc_table, erasing_ranks, image_auc_pct
from relevit.text.documents import Document
from relevit.text.encoder import build_tiny
from relevit.text.token_perturbation import (
    SHARES_PCT,
    first_half_auc_pct,
    left_after,
    perturb_texts,
    perturbation_table,
    token_perturbation_rows,
)
from relevit.text.tokens import Texts

from .builders import spelled, tokens

PAD, CLS, SEP, MASK = range(4)
COLUMNS = [
    "index",
    "direction",
    "share_pct",
    "hit",
    "logit",
    "probability_pct",
    "top_logit",
    "top_probability_pct",
]


class Bag(nn.Module):
    """Class 1 has the summed weight of the words that are seen, class 0 has half a point."""

    classes, pad_id = 2, PAD

    def __init__(self, weights):
        super().__init__()
        # The special tokens weigh much: who erases or drops one gets other logits.
        self.weights = nn.Parameter(torch.tensor([1e6, 100.0, -100.0, 1e3, *weights]).double())
        self.seen = []

    def embed(self, ids):
        places = torch.arange(ids.shape[1]).expand_as(ids)
        return torch.stack([self.weights[ids], places, ids], dim=2)

    def forward(self, embedded, mask=None):
        mask = torch.ones(embedded.shape[:2], dtype=torch.bool) if mask is None else mask
        for row, keep in zip(embedded, mask, strict=True):
            self.seen.append([tuple(token) for token in row[keep][:, 1:].int().tolist()])
        total = torch.where(mask, embedded[..., 0], 0.0).sum(dim=1)
        return torch.stack([torch.full_like(total, 0.5), total], dim=1)


def text(*words):
    """Tokens of words that are numbered from 0."""
    return tokens(*(4 + word for word in words), ends=(CLS, SEP))


def relevance(*values, special=9e9):
    return torch.tensor([special, *values, special], dtype=torch.float64)


def run(model, tokens, maps, labels=None, **options):
    labels = [1] * len(tokens) if labels is None else labels.tolist()
    texts = Texts(tuple(Document("", label) for label in labels), tuple(tokens))
    return token_perturbation_rows(model, texts, maps, **options)


def some_texts(model, lengths=(3, 9, 1, 6, 9, 14), seed=0):
    random = torch.Generator().manual_seed(seed)
    known = model.embedding.words.num_embeddings - 4
    texts = [text(*torch.randint(known, (n,), generator=random).tolist()) for n in lengths]
    maps = [torch.rand(n + 2, generator=random) - 0.3 for n in lengths]
    labels = torch.randint(0, model.classes, (len(lengths),), generator=random)
    return texts, maps, labels


# What is erased


@pytest.mark.parametrize(
    ("direction", "left"), [("positive", [4, -1, -4, -6, 0]), ("negative", [4, 10, 8, 5, 0])]
)
def test_logits_add_up_over_the_tokens_that_are_left(direction, left):
    """The map is the weight itself, so the order is the best one; specials never go."""
    weights = [3.0, -6.0, 5.0, 2.0]
    shares = [25, 50, 75, 100]
    rows = run(
        Bag(weights),
        [text(0, 1, 2, 3)],
        [relevance(*weights)],
        directions=[direction],
        shares_pct=shares,
    )
    assert list(rows) == COLUMNS
    assert rows["logit"].tolist() == pytest.approx(left)
    assert rows["hit"].tolist() == [total > 0.5 for total in left]


@pytest.mark.parametrize(
    ("words", "share_pct", "gone"), [(10, 50, 5), (10, 59, 5), (10, 99, 9), (3, 33, 0), (3, 34, 1)]
)
def test_shares_count_the_texts_own_tokens_rounded_down(words, share_pct, gone):
    model = Bag(words * [1.0])
    values = relevance(*range(words))
    run(model, [text(*range(words))], [values], directions=["positive"], shares_pct=[share_pct])
    seen = min(model.seen, key=len) if gone else model.seen[0]
    expected = [(0, CLS), *((1 + i, 4 + i) for i in range(words - gone)), (words + 1, SEP)]
    assert seen == expected  # the highest went, the others kept their places


@pytest.mark.parametrize(
    ("erase", "expected"),
    [
        ("pad", [(0, CLS), (2, 5), (4, SEP)]),
        ("mask", [(0, CLS), (1, MASK), (2, 5), (3, MASK), (4, SEP)]),
    ],
)
def test_ways_to_erase(erase, expected):
    model = Bag([0.0, 0.0, 0.0])
    run(
        model,
        [text(0, 1, 2)],
        [relevance(2, 0, 1)],
        directions=["positive"],
        shares_pct=[67],
        mask_id=MASK if erase == "mask" else None,
    )
    assert expected in model.seen


@pytest.mark.parametrize("reads", ["first", "mean", "last"])
def test_pad_is_the_padding_id_and_a_mask_in_place(reads):
    """As published: the whole input is run with ids 0 and attention mask 0 (D10)."""
    model = build_tiny(30, 3, width=16, heads=2, positions=20, reads=reads).double()
    texts, maps, labels = some_texts(model)
    rows = run(model, texts, maps, labels, explained=labels, directions=["positive"])
    for i, one in enumerate(texts):
        ids, own = torch.tensor([one.ids]), len(one.ids) - 2
        order = 1 + maps[i][1:-1].argsort(descending=True)
        for share, row in zip((0, *SHARES_PCT), rows[rows["index"] == i].itertuples(), strict=True):
            gone, mask = order[: own * share // 100], torch.ones_like(ids, dtype=torch.bool)
            mask[0, gone] = False
            embedded = model.embed(torch.where(mask, ids, model.pad_id))
            if reads == "last":
                mask = mask.roll(1, dims=1)
            logit = model(embedded, mask)[0, labels[i]].item()
            assert row.logit == pytest.approx(logit, rel=1e-5, abs=1e-7)


# Order


def test_clamp_ranks_negative_values_as_zero():
    weights, values = [1.0, 2.0, 4.0, 8.0], [-1.0, -5.0, 0.0, 2.0]
    ranked, clamped = (
        run(
            Bag(weights),
            [text(0, 1, 2, 3)],
            [relevance(*values)],
            explained=torch.tensor([1]),
            clamp=clamp,
            directions=["negative"],
            shares_pct=[25, 50, 75],
        )["logit"].tolist()
        for clamp in (False, True)
    )
    assert ranked == [15, 13, 12, 8]
    ranks = erasing_ranks(torch.tensor([values]).clamp(min=0), "negative")[0].tolist()
    expected = [sum(w for w, r in zip(weights, ranks, strict=True) if r >= k) for k in range(4)]
    assert clamped == expected != ranked


@pytest.mark.parametrize("value", [0.0, 0.2, math.nan])
def test_a_map_that_says_nothing_has_equal_curves_and_no_order(value):
    weights = [1.0, 2.0, 4.0, 8.0, 16.0]
    rows = run(
        Bag(weights), [text(*range(5))], [relevance(*5 * [value])], explained=torch.tensor([1])
    )
    positive, negative = rows["logit"].to_numpy().reshape(2, 11)
    assert positive.tolist() == negative.tolist()
    gone = -np.diff(positive[::2])
    assert sorted(gone) == weights and gone.tolist() not in (weights, weights[::-1])


# Batches


@pytest.mark.parametrize("reads", ["first", "mean", "last"])
def test_answers_do_not_depend_on_batches(reads):
    model = build_tiny(30, 3, width=16, heads=2, positions=20, reads=reads).double()
    texts, maps, labels = some_texts(model)
    together = run(model, texts, maps, labels)
    singles = pd.concat(
        run(model, [one], [values], label[None], batch_tokens=1).assign(index=i)
        for i, (one, values, label) in enumerate(zip(texts, maps, labels, strict=True))
    )
    by = ["index", "direction", "share_pct"]
    together, singles = (rows.sort_values(by, ignore_index=True) for rows in (together, singles))
    pd.testing.assert_frame_equal(together, singles, rtol=1e-6)


# Areas


@pytest.fixture
def rows():
    """Text 0 goes wrong at once when the best words go; text 1 has two words, both for class 1."""
    weights = [2.0, 4.0, -1.0, -3.0]
    maps = [relevance(*weights), relevance(*weights[:2])]
    return run(Bag(weights), [text(0, 1, 2, 3), text(0, 1)], maps, shares_pct=[25, 50, 75, 100])


def test_curves_and_areas_by_hand(rows):
    hits = rows["hit"].to_numpy().reshape(2, 2, 5).astype(int).tolist()
    assert hits == [[[1, 0, 0, 0, 0], [1, 1, 1, 1, 0]], [[1, 1, 1, 1, 0], [1, 1, 1, 1, 0]]]
    curves = accuracy_curves(rows)["accuracy_pct"].tolist()
    assert curves == [100, 50, 50, 50, 0, 100, 100, 100, 100, 0]
    assert auc_table(rows)["auc_pct"].tolist() == [37.5, 75]
    first = first_half_auc_pct(rows)
    whole = image_auc_pct(rows)
    pd.testing.assert_frame_equal(first.drop(columns="auc_pct"), whole.drop(columns="auc_pct"))
    assert whole.sort_values(["direction", "index"])["auc_pct"].tolist() == [75, 75, 0, 75]
    assert first.sort_values(["direction", "index"])["auc_pct"].tolist() == [100, 100, 25, 100]


def test_first_half_weighs_by_the_width_between_shares():
    weights = [2.0, 4.0, -1.0, -3.0]  # at 10 % nothing is gone: right at 0 and 10, wrong at 50
    rows = run(
        Bag(weights),
        [text(0, 1, 2, 3)],
        [relevance(*weights)],
        directions=["positive"],
        shares_pct=[10, 50, 75],
    )
    assert first_half_auc_pct(rows)["auc_pct"].tolist() == pytest.approx([60])


def test_numbers_of_the_perturbation_table():
    shares = [0.0, *range(10, 110, 10)]
    hits = {0: [True] * 6 + [False] * 5, 1: [True] * 11}  # up to 50 % erased; always
    table = pd.DataFrame(
        [
            ("ga", i, "positive", share, hit)
            for i, own in hits.items()
            for share, hit in zip(shares, own, strict=True)
        ],
        columns=["method", "index", "direction", "share_pct", "hit"],
    )
    (row,) = perturbation_table(table, torch.tensor([1, 1])).itertuples()
    assert row.auc_pct == pytest.approx(75)  # of 50 % and 100 %
    assert row.standard_error_pts == pytest.approx(25)
    assert (row.first_half_auc_pct, row.final_accuracy_pct, row.chance_pct) == (100, 50, 100)
    assert row.documents == 2


def test_left_after_erases_the_most_relevant_words():
    one = spelled("a b c d", "a", "b", "c", "d")
    values = torch.tensor([9.0, 0.1, 0.4, 0.2, 0.3, 9.0])
    assert left_after(one, values, 50) == "a · c ·"
    assert left_after(one, values, 0) == "a b c d"


def test_a_masked_word_needs_the_tokenizers_id():
    with pytest.raises(ValueError, match="erase='mask' and mask_id=None; erase='mask' needs"):
        perturb_texts(build_tiny(5, 2), Texts((), ()), {}, erase="mask")
