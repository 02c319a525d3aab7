"""Documents, corpora and spans: what is refused."""

from __future__ import annotations

import pytest

from relevit.text.documents import Corpus, Document, merged_spans


def corpus(**splits):
    empty = {"train": (), "validation": (), "test": ()}
    return Corpus(("negative", "positive"), **empty | splits, source="here", licence="MIT")


@pytest.mark.parametrize("rationale", [(), ((0, 4),), ((0, 1), (1, 2), (3, 4))])
def test_good_rationales(rationale):
    assert Document("good", 1, rationale).rationale == rationale


@pytest.mark.parametrize(
    "rationale", [((0, 5),), ((-1, 2),), ((2, 2),), ((3, 2),), ((0, 2), (1, 3)), ((2, 3), (0, 1))]
)
def test_bad_rationales(rationale):
    with pytest.raises(ValueError, match=r"document r1: rationale .* in a text of 4 characters"):
        Document("good", 1, rationale, "r1")


@pytest.mark.parametrize("text", ["", " \n"])
def test_blank_text(text):
    with pytest.raises(ValueError, match="document r1: its text is blank; leave it out"):
        Document(text, 0, name="r1")


def test_label_below_zero():
    with pytest.raises(ValueError, match="document 'good': label -1; labels begin with 0"):
        Document("good", -1)


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_label_without_a_class(split):
    good, bad = Document("good", 1), Document("good", 2, name="r2")
    corpus(train=(good,), validation=(good,), test=(good,))
    text = f"corpus: document 'r2' of {split} has label 2; there are 2 classes"
    with pytest.raises(ValueError, match=text):
        corpus(**{split: (good, bad)})


def test_merged_spans():
    assert merged_spans([]) == ()
    assert merged_spans([(5, 9), (0, 3), (2, 4)]) == ((0, 4), (5, 9))
    assert merged_spans([(0, 9), (2, 3), (9, 11)]) == ((0, 11),)  # inside, and touching
