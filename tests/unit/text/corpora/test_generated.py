"""The generated corpus: labels follow from phrases, not from words, and its words are all known."""

from __future__ import annotations

import hashlib
import re

import pytest

from relevit.text.corpora.generated import generated_corpus, generated_tokenizer, vocabulary
from relevit.text.tokens import SPECIAL_TOKENS

BAD = set("bad boring awful dull weak terrible lame stupid".split())  # noqa: SIM905
GOOD = set("good great funny lovely clever brilliant charming moving".split())  # noqa: SIM905


@pytest.fixture(scope="module")
def corpus():
    return generated_corpus(300, 50, 101, seed=3)


def test_sizes_labels_and_no_text_twice(corpus):
    splits = (corpus.train, corpus.validation, corpus.test)
    assert [len(split) for split in splits] == [300, 50, 101]
    every = [document.text for split in splits for document in split]
    assert len(set(every)) == len(every)
    for split in splits:
        assert abs(sum(2 * document.label - 1 for document in split)) <= 1


def test_the_rationale_alone_decides(corpus):
    turned = 0
    for document in corpus.train:
        outside, end = "", 0
        for start, stop in document.rationale:
            first, word = document.text[start:stop].split()
            turned += first == "not"
            assert (word in GOOD) != (first == "not") or document.label == 0
            assert (word in BAD) != (first == "not") or document.label == 1
            outside, end = outside + document.text[end:start], stop
        assert not (GOOD | BAD | {"not"}) & set((outside + document.text[end:]).split())
        assert 1 <= len(document.rationale) <= 2
    assert turned > 50  # no single word decides


def test_same_seed_same_bytes(corpus):
    assert generated_corpus(300, 50, 101, seed=3) == corpus
    other = generated_corpus(300, 50, 101, seed=4)
    assert {d.text for d in other.test} != {d.text for d in corpus.test}
    joined = "\n".join(document.text for document in generated_corpus(20, 0, 0, seed=0).train)
    assert hashlib.sha256(joined.encode()).hexdigest()[:16] == "1112d5ae30be7a86"


@pytest.mark.parametrize("sizes", [(4, 2, 0), (0, 0, 3), (0, 0, 0)])
def test_empty_splits(sizes):
    found = generated_corpus(*sizes)
    assert (len(found.train), len(found.validation), len(found.test)) == sizes


def test_vocabulary_is_what_the_texts_use():
    found = generated_corpus(1500, 0, 0).train
    used = {word for document in found for word in document.text.split()}
    assert set(vocabulary()) == used
    assert all(re.fullmatch(r"[a-z]+|\.", word) for word in vocabulary())


def test_tokenizer(corpus):
    pytest.importorskip("tokenizers", reason="needs the extra text: pip install relevit[text]")
    from relevit.text.tokens import encode

    tokenizer = generated_tokenizer()
    assert [tokenizer.id_to_token(i) for i in range(5)] == list(SPECIAL_TOKENS)
    assert SPECIAL_TOKENS[0] == "[PAD]"
    assert tokenizer.get_vocab_size() == len(vocabulary()) + len(SPECIAL_TOKENS)
    for document in corpus.train:
        found = encode(tokenizer, document.text, 64)
        assert found.left_out == 0 and found.unknown_share == 0
        assert found.words[1:-1] == document.text.split()
    found = encode(tokenizer, "The film [SEP] zebra", 64)
    assert found.ids[-1] == 3 and found.ids.count(3) == 1 and found.unknown_share > 0
