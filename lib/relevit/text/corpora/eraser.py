"""ERASER's movie reviews: 1,999 texts with the passages that convinced people.

Source: DeYoung et al. 2020, ERASER; reviews of Pang and Lee 2004, passages of Zaidan et al. 2007.
Beyond Intuition Sec. 4.2 measures language reasoning on them. The folder `movies` of the archive
`movies.tar.gz` has `train.jsonl`, `val.jsonl` and `test.jsonl`, one annotation a line, and `docs`,
one review a file, a sentence a line, words parted by single blanks.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relevit.text.documents import Corpus, Document, Span, merged_spans

FOLDER = "movies"
DOCS = "docs"
FILES = {"train": "train.jsonl", "validation": "val.jsonl", "test": "test.jsonl"}
LABELS = {"NEG": 0, "POS": 1}
CLASSES = ("negative", "positive")
AGAIN = "unpack movies.tar.gz of ERASER again"
LICENCE = "ERASER is offered for research; the reviews belong to those who wrote them."


@dataclass(frozen=True)
class Annotation:
    """One line of a jsonl file; `where` names file and line, for errors."""

    where: str
    name: str
    kind: str
    passages: list[dict[str, Any]]


@dataclass(frozen=True)
class Review:
    """A review's text as ERASER's own code counts it, and where each of its words stands."""

    text: str
    words: tuple[Span, ...]


def read_eraser_movies(data_root: Path) -> Corpus:
    """All three splits of `data_root/movies`, passages as spans of characters.

    A text's lines are parted by line breaks, its words by one blank. Passages that overlap are
    joined; a review without any keeps an empty rationale, as one has in the published set.
    Raises: FileNotFoundError for a missing folder, file or review; ValueError, with file and line,
    for a line that is no annotation, an unknown label, a blank review, or a passage that its
    review does not have; ValueError, with the file, for one that is not UTF-8.
    """
    folder = data_root / FOLDER
    for path in (folder, folder / DOCS, *(folder / name for name in FILES.values())):
        if not path.exists():
            raise FileNotFoundError(f"eraser: {path} is missing; {AGAIN} in {data_root}")
    splits = {
        split: tuple(_document(folder, found) for found in _annotations(folder / name))
        for split, name in FILES.items()
    }
    return Corpus(CLASSES, **splits, source="ERASER, Movie Reviews", licence=LICENCE)


def read_review(path: Path) -> Review:
    """The words of one file of `docs`, counted as ERASER does: by line breaks and blanks alone.

    Other white space, which `str.split` and `str.splitlines` would part at, is in some reviews.
    Raises: ValueError, with the file, when it is not UTF-8.
    """
    text, words = "", []
    for line in _read_utf8(path).split("\n"):
        parted = [word for word in line.strip().split(" ") if word]
        for place, word in enumerate(parted):
            text += " " if place else "\n" if text else ""
            words.append((len(text), len(text) + len(word)))
            text += word
    return Review(text, tuple(words))


def _read_utf8(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"eraser: {path} is not UTF-8 ({error}); {AGAIN}") from error


def _annotations(path: Path) -> Iterator[Annotation]:
    for number, line in enumerate(io.StringIO(_read_utf8(path)), start=1):
        where = f"eraser: {path}:{number}"
        try:
            entry = json.loads(line)
            passages = [dict(passage) for group in entry["evidences"] for passage in group]
            name, kind = entry["annotation_id"], entry["classification"]
        except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{where}: {line.strip()[:40]!r} is no annotation with annotation_id, "
                f"classification and evidences ({type(error).__name__}: {error}); {AGAIN}"
            ) from error
        yield Annotation(where, str(name), str(kind), passages)


def _document(folder: Path, found: Annotation) -> Document:
    if found.kind not in LABELS:
        raise ValueError(
            f"{found.where}: classification {found.kind!r}; it must be one of {sorted(LABELS)}: "
            f"{AGAIN}"
        )
    path = folder / DOCS / found.name
    if not path.is_file():
        raise FileNotFoundError(f"{found.where}: its review {path} is missing; {AGAIN}")
    review = read_review(path)
    if not review.words:
        raise ValueError(f"{found.where}: its review {path} is blank; {AGAIN}")
    spans = [_span(found, review, passage) for passage in found.passages]
    return Document(review.text, LABELS[found.kind], merged_spans(spans), found.name)


def _span(found: Annotation, review: Review, passage: Mapping[str, Any]) -> Span:
    """Characters from the passage's first word to its last. `end_token` is one after the last."""
    first, end, of = (passage.get(key) for key in ("start_token", "end_token", "docid"))
    numbers = isinstance(first, int) and isinstance(end, int)
    if of != found.name or not numbers or not 0 <= first < end <= len(review.words):
        raise ValueError(
            f"{found.where}: a passage has words {first} to {end} of {of!r}; {found.name!r} has "
            f"{len(review.words)} words: {AGAIN}"
        )
    return review.words[first][0], review.words[end - 1][1]
