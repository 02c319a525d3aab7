"""The perturbation test on texts, with a bag of words whose logits can be added up by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from relevit.evaluate.perturbation import accuracy_curves, auc_table, erasing_ranks
from relevit.text.documents import Document
from relevit.text.encoder import build_tiny
from relevit.text.token_perturbation import (
    SHARES_PCT,
    own_answers,
    text_areas,
    token_perturbation_rows,
)
from relevit.text.tokens import Texts

from .builders import tokens

PAD, CLS, SEP = range(3)


class Bag(nn.Module):
    """Class 1 has the summed weight of the words that are seen, class 0 has half a point."""

    reads, device = "first", torch.device("cpu")

    def __init__(self, weights):
        super().__init__()
        # The special tokens weigh much: who erases or drops one gets other logits.
        self.weights = torch.tensor([1e6, 100.0, -100.0, 1e3, *weights]).double()
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


def run(model, tokens, maps, label=1, **options):
    texts = Texts(tuple(Document("", label) for _ in tokens), tuple(tokens))
    return token_perturbation_rows(model, texts, maps, **options)


def logits(rows, direction, shares):
    rows = rows[rows["direction"] == direction].set_index("share_pct")
    return rows.loc[shares, "logit"].tolist()


# What is erased

QUARTERS = [0, 30, 50, 80, 100]  # of four words none, one, two, three, all


def test_logits_add_up_over_the_tokens_that_are_left():
    """The map is the weight itself, so the order is the best one; specials never go."""
    weights = [3.0, -6.0, 5.0, 2.0]
    rows = run(Bag(weights), [text(0, 1, 2, 3)], [relevance(*weights)])
    for direction, left in (("positive", [4, -1, -4, -6, 0]), ("negative", [4, 10, 8, 5, 0])):
        assert logits(rows, direction, QUARTERS) == pytest.approx(left)
    assert rows["hit"].tolist() == (rows["logit"] > 0.5).tolist()


@pytest.mark.parametrize(
    ("words", "gone"), [(10, range(11)), (3, [0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3])]
)
def test_shares_count_the_texts_own_tokens_rounded_down(words, gone):
    model = Bag(words * [1.0])
    rows = run(model, [text(*range(words))], [relevance(*range(words))])
    assert logits(rows, "positive", list(SHARES_PCT)) == [words - n for n in gone]
    for n in gone:  # the highest went, the others kept their places
        left = [(0, CLS), *((1 + i, 4 + i) for i in range(words - n)), (words + 1, SEP)]
        assert left in model.seen


@pytest.mark.parametrize("reads", ["first", "mean", "last"])
def test_pad_is_the_padding_id_and_a_mask_in_place_whatever_is_run_together(reads):
    """As published: the whole input is run with ids 0 and attention mask 0 (D10)."""
    model = build_tiny(30, 3, width=16, heads=2, positions=20, reads=reads).double()
    random, lengths = torch.Generator().manual_seed(0), (3, 9, 1, 6, 9, 14)
    texts = [text(*torch.randint(26, (n,), generator=random).tolist()) for n in lengths]
    maps = [torch.rand(n + 2, generator=random) - 0.3 for n in lengths]
    rows = run(model, texts, maps)
    rows = rows[rows["direction"] == "positive"]
    for i, one in enumerate(texts):
        ids, own = torch.tensor([one.ids]), len(one.ids) - 2
        predicted = model(model.embed(ids)).argmax().item()
        order = 1 + maps[i][1:-1].argsort(descending=True)
        for share, row in zip(SHARES_PCT, rows[rows["index"] == i].itertuples(), strict=True):
            mask = torch.ones_like(ids, dtype=torch.bool)
            mask[0, order[: int(own * share / 100)]] = False
            embedded = model.embed(torch.where(mask, ids, model.pad_id))
            if reads == "last":
                mask = mask.roll(1, dims=1)
            logit = model(embedded, mask)[0, predicted].item()
            assert row.logit == pytest.approx(logit, rel=1e-5, abs=1e-7)


# Order


def test_clamp_ranks_negative_values_as_zero():
    weights, values = [1.0, 2.0, 4.0, 8.0], [-1.0, -5.0, 0.0, 2.0]
    ranked, clamped = (
        run(Bag(weights), [text(0, 1, 2, 3)], [relevance(*values)], clamp=clamp)
        for clamp in (False, True)
    )
    assert logits(ranked, "negative", QUARTERS[:-1]) == [15, 13, 12, 8]
    ranks = erasing_ranks(torch.tensor([values]).clamp(min=0), "negative")[0].tolist()
    expected = [sum(w for w, r in zip(weights, ranks, strict=True) if r >= k) for k in range(4)]
    assert logits(clamped, "negative", QUARTERS[:-1]) == expected != [15, 13, 12, 8]


# Areas


def test_curves_and_areas_by_hand():
    """Text 0 goes wrong at once when the best words go; text 1 has two words, both for class 1."""
    weights = [2.0, 4.0, -1.0, -3.0]
    maps = [relevance(*weights), relevance(*weights[:2])]
    rows = run(Bag(weights), [text(0, 1, 2, 3), text(0, 1)], maps)
    hits = rows["hit"].to_numpy().reshape(2, 2, 11).astype(int).tolist()
    late = [1] * 10 + [0]
    assert hits == [[[1] * 3 + [0] * 8, late], [late, late]]
    curves = accuracy_curves(rows)["accuracy_pct"].tolist()
    assert curves == [100] * 3 + [50] * 7 + [0] + [100] * 10 + [0]
    assert auc_table(rows)["auc_pct"].tolist() == pytest.approx([55, 90])
    areas = text_areas(rows.assign(method="ga")).sort_values(["direction", "index"])
    assert areas["auc_pct"].tolist() == pytest.approx([90, 90, 20, 90])
    assert areas["first_half_auc_pct"].tolist() == pytest.approx([100, 100, 50, 100])
    wrong = run(Bag(weights), [text(0, 1, 2, 3), text(0, 1)], maps, label=0)
    assert (wrong["hit"] != rows["hit"]).all(), "what changes becomes right"
    assert (own_answers(wrong)["hit"] == rows["hit"]).all(), "and is no more the model's own"
