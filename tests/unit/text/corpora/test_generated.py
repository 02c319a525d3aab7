"""The generated corpus: labels follow from phrases, not from words, and its words are all known."""

import hashlib

import pytest

from habitats.corpora.generated import generated_corpus

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
