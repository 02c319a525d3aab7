"""Attributions of texts: every method, batches and singles, and what decides their maps."""

from __future__ import annotations

import pytest
import torch

from relevit.attribution import METHODS
from relevit.attribution.lrp import Relevance
from relevit.text.documents import Document
from relevit.text.encoder import build_tiny
from relevit.text.token_maps import RANDOM, TEXT_METHODS, attribute, method_maps
from relevit.text.tokens import Texts

from .builders import tokens

WORDS = 40
TEXTS = [tokens(5, 6, 7), tokens(9, 8), tokens(7), tokens(30, 31, 32)]


@pytest.fixture(scope="module")
def model():
    """Of three blocks, in float64, with weights that are far from zero."""
    made = build_tiny(WORDS, 3, width=16, depth=3, positions=32, seed=1).double()
    with torch.no_grad():
        for block in made.blocks:
            own = block.attention.self
            for layer in (own.query, own.key, own.value):
                layer.weight *= 3
    return made


@pytest.mark.parametrize("protocol", ["published", "described"])
@pytest.mark.parametrize("method", TEXT_METHODS)
def test_a_batch_equals_singles_and_specials_get_nothing(model, method, protocol):
    together = attribute(model, TEXTS, method, protocol=protocol)
    for text, found in zip(TEXTS, together, strict=True):
        assert found.shape == (len(text.ids),)
        assert found[torch.tensor(text.special)].eq(0).all()
        assert found.isfinite().all()
        (alone,) = attribute(model, [text], method, protocol=protocol)
        torch.testing.assert_close(found, alone)


def test_one_block_in_closed_form():
    """One block, one head: GAE is attention times its gradient, by hand."""
    model = build_tiny(WORDS, 2, width=8, depth=1, heads=1, seed=3).double()
    embedded = model.embed(torch.tensor([[1, 5, 6, 2]])).detach()
    block = model.blocks[0]
    own, out = block.attention.self, block.attention.output
    with torch.no_grad():
        q, k, v = (layer(embedded) for layer in (own.query, own.key, own.value))
        attention = (q @ k.transpose(1, 2) / 8**0.5).softmax(-1)
    attention.requires_grad_()
    mixed = out.LayerNorm(embedded + out.dense(attention @ v))
    after = block.output(block.intermediate(mixed), mixed)
    score = model.head(torch.tanh(model.fc_norm.dense(after[:, 0])))[0, 1]
    (slope,) = torch.autograd.grad(score, attention)
    row = (slope * attention)[0, 0, 1:].detach()
    target = torch.tensor([1])
    torch.testing.assert_close(METHODS["gae"](model, embedded, target)[0], row.clamp(min=0))


def test_relevance_is_conserved_down_to_the_embedded_tokens(model):
    """LRP with the norms behind the sums and the pooler: what goes in comes out."""
    rules = Relevance()
    seen = rules.run(model, model.embed(torch.tensor([TEXTS[0].ids])))
    for found in rules.gradients(seen.score, seen.inputs):
        torch.testing.assert_close(found.sum(), torch.tensor(1.0).double())


@pytest.mark.parametrize(
    "place", ["attention.self.query", "attention.output.dense", "output.dense"]
)
def test_a_changed_layer_of_bert_is_refused(place):
    class Adapted(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x) + super().forward(x)

    model = build_tiny(WORDS, 2, width=8, depth=1, heads=1)
    block = model.blocks[0]
    layer = block.get_submodule(place)
    layer.__class__ = Adapted
    with pytest.raises(
        ValueError, match=rf"blocks\.0\.{place} of .* is a changed Adapted.* merge an adapter"
    ):
        attribute(model, TEXTS[:1], "transformer_attribution")


def test_the_path_starts_at_nothing_or_at_padding(model):
    """Published: the zero vector. Described: as many padding tokens (differences D9)."""
    ids = torch.tensor([TEXTS[0].ids])
    embedded = model.embed(ids).detach()
    padding = model.embed(torch.zeros_like(ids)).detach()
    for protocol, start in (("published", torch.zeros(1).double()), ("described", padding)):
        default = METHODS["token_wise"](model, embedded, protocol=protocol)
        given = METHODS["token_wise"](model, embedded, protocol=protocol, baseline=start)
        torch.testing.assert_close(default, given)


@pytest.mark.parametrize(
    ("texts", "method", "target", "message"),
    [
        (TEXTS, "smoothgrad", None, "'smoothgrad' explains no text; use one of"),
        (TEXTS[:1], "gae", torch.tensor([3]), r"one class in 0\.\.2"),
        ([tokens(*40 * [5])], "gae", None, "has 42 tokens.* reads at most 32"),
        ([tokens(WORDS)], "gae", None, r"ids up to 40; .* ids in 0\.\.39: .* tokenizer that came"),
    ],
)
def test_wrong_questions_are_refused(model, texts, method, target, message):
    with pytest.raises(ValueError, match=message):
        attribute(model, texts, method, target)


def test_all_methods_at_once_are_each_alone(model):
    """The variants share a path there."""
    texts, heard = Texts(tuple(Document("", 0) for _ in TEXTS), tuple(TEXTS)), []
    maps = method_maps(model, texts, on_method=lambda: heard.append(1))
    assert tuple(maps) == (*TEXT_METHODS, RANDOM) and len(heard) == len(TEXT_METHODS)
    for name in TEXT_METHODS:
        for found, alone in zip(
            maps[name], attribute(model, TEXTS, name, protocol="published"), strict=True
        ):
            torch.testing.assert_close(found, alone)
