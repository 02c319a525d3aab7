"""Planted rationales: the span is exactly the planted sentence, and nothing else says a thing."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from relevit.text.corpora.planted import clear_sentences, neutral_sentences, opinion_words, plant
from relevit.text.documents import Document

SENTENCES = [
    Document(
        f"sentence {number} is {'good' if label else 'bad'} .", label, name=f"s{number}-{label}"
    )
    for number in range(12)
    for label in (0, 1)
]
FILLERS = tuple(f"Filler {number}." for number in range(9))


def words(text):
    return set(re.findall(r"\w+", text.lower()))


# The lists


def test_neutral_sentences_have_no_opinion():
    found = neutral_sentences()
    assert len(found) == len(set(found)) == 120
    odd = words("love hate war death dead kill murder dark happy sad like nice")
    opinions = opinion_words()["negative"] | opinion_words()["positive"] | odd
    assert [text for text in found if words(text) & opinions] == []
    assert all(re.fullmatch(r"[A-Z][^.!?]+\.", text) for text in found)  # one sentence each


def test_opinion_words_are_in_one_list():
    found = opinion_words()
    assert set(found) == {"negative", "positive", "turning"}
    assert len(frozenset().union(*found.values())) == sum(map(len, found.values()))


@pytest.mark.parametrize(
    ("text", "label", "clear"),
    [
        ("a brilliant and moving film .", 1, True),
        ("a tedious mess of a film .", 0, True),
        ("a brilliant and moving film .", 0, False),  # of the other kind
        ("a brilliant start , then a tedious mess .", 1, False),
        ("this is not a good film at all", 1, False),
        ("this isn't a good film at all", 1, False),
        ("it's a film about a train .", 1, False),
        ("good film .", 1, False),  # too short to be sure of
        ("good " + "and then another thing " * 7, 1, False),
    ],
)
def test_clear_sentences(text, label, clear):
    assert len(clear_sentences([Document(text, label)])) == clear


# Planting


def test_the_rationale_is_the_planted_sentence():
    known = {document.text: document for document in SENTENCES}
    found = plant(SENTENCES, FILLERS, count=12, sentences_around=4)
    for document in found:
        ((start, stop),) = document.rationale
        sentence = known[document.text[start:stop]]
        assert sentence.label == document.label and sentence.name in document.name
        outside = document.text[:start] + document.text[stop:]
        around = re.findall(r"Filler \d\.", outside)
        assert len(set(around)) == 4
        assert outside.split() == " ".join(around).split()


def test_labels_take_turns_and_no_sentence_comes_twice():
    found = plant(SENTENCES, FILLERS, count=24, sentences_around=2)
    assert [document.label for document in found] == [0, 1] * 12
    used = [document.text[slice(*document.rationale[0])] for document in found]
    assert Counter(used) == Counter(document.text for document in SENTENCES)


def test_every_place_is_used():
    many = [Document(f"sentence {i} is {i % 2} .", i % 2) for i in range(200)]
    found = plant(many, FILLERS, count=200, sentences_around=3)
    places = Counter(
        document.text[: document.rationale[0][0]].count("Filler") for document in found
    )
    assert set(places) == {0, 1, 2, 3} and min(places.values()) > 25


def test_same_seed_same_texts_in_whatever_order_they_come():
    some = plant(SENTENCES, FILLERS, count=10, sentences_around=3, seed=4)
    assert some == plant(SENTENCES[::-1], FILLERS[::-1], count=10, sentences_around=3, seed=4)
    assert some != plant(SENTENCES, FILLERS, count=10, sentences_around=3, seed=5)


def test_too_few_sentences_of_a_label():
    text = "plant: 12 different sentences of label 0; 26 texts with 1 each need 13: give more"
    with pytest.raises(ValueError, match=text):
        plant(SENTENCES, FILLERS, count=26, sentences_around=2)
    with pytest.raises(ValueError, match=r"12 different .* 13"):
        plant(SENTENCES * 2, FILLERS, count=26, sentences_around=2)


def test_too_few_fillers():
    with pytest.raises(ValueError, match="plant: 9 different fillers for 10 sentences around"):
        plant(SENTENCES, FILLERS * 2, count=2, sentences_around=10)


@pytest.mark.parametrize("wrong", [{"count": 0}, {"sentences_around": 0}])
def test_numbers_below_one(wrong):
    with pytest.raises(ValueError, match=r"plant: count .*give at least 1 of each"):
        plant(SENTENCES, FILLERS, **{"count": 2, "sentences_around": 2} | wrong)
