"""ERASER's movie reviews: 1,999 texts with the passages that convinced people.

Source: DeYoung et al. 2020, ERASER; reviews of Pang and Lee 2004, passages of Zaidan et al. 2007.
Beyond Intuition Sec. 4.2 measures language reasoning on them. The folder `movies` of the archive
`movies.tar.gz` has `train.jsonl`, `val.jsonl` and `test.jsonl`, one annotation a line, and `docs`,
one review a file, a sentence a line, words parted by single blanks.
"""

from __future__ import annotations

import io
import json
from pathlib import Path

from relevit.base.errors import one_line
from relevit.text.documents import Corpus, Document, Span

FOLDER = "movies"
DOCS = "docs"
FILES = {"train": "train.jsonl", "validation": "val.jsonl", "test": "test.jsonl"}
LABELS = {"NEG": 0, "POS": 1}
AGAIN = "unpack movies.tar.gz of ERASER again"


def read_eraser_movies(data_root: Path) -> Corpus:
    """All three splits of `data_root/movies`, passages as spans of characters.

    A review without any keeps an empty rationale, as one has in the published set.
    """
    folder = data_root / FOLDER
    return Corpus(
        ("negative", "positive"),
        **{split: _documents(folder, name) for split, name in FILES.items()},
        source="ERASER, Movie Reviews",
        licence="ERASER is offered for research; the reviews belong to those who wrote them.",
    )


def read_review(path: Path) -> tuple[str, list[Span]]:
    """A review's text and where its words stand, as ERASER counts them: by line breaks and blanks.

    Other white space, which `str.split` and `str.splitlines` would part at, is in some reviews.
    """
    text, words = "", []
    for line in path.read_text(encoding="utf-8").split("\n"):
        for place, word in enumerate(word for word in line.strip().split(" ") if word):
            text += " " if place else "\n" if text else ""
            words.append((len(text), len(text) + len(word)))
            text += word
    return text, words


def _documents(folder: Path, name: str) -> tuple[Document, ...]:
    found: list[Document] = []
    where = "eraser"
    try:
        for line in io.StringIO((folder / name).read_text(encoding="utf-8")):
            where = f"eraser: {folder / name}:{len(found) + 1}"
            found.append(_document(folder / DOCS, line))
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{where}: {error.filename} is missing; {AGAIN}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{where}: {name} has no annotation of a review here, with annotation_id, "
            f"classification and evidences ({type(error).__name__}: {one_line(error)}); {AGAIN}"
        ) from error
    return tuple(found)


def _document(docs: Path, line: str) -> Document:
    entry = json.loads(line)
    name, label = entry["annotation_id"], LABELS[entry["classification"]]
    text, words = read_review(docs / name)
    spans = []
    for passage in (passage for group in entry["evidences"] for passage in group):
        # Characters from the passage's first word to its last; `end_token` is one after the last.
        first, end = passage["start_token"], passage["end_token"]
        if passage["docid"] != name or not 0 <= first < end <= len(words):
            raise ValueError(
                f"words {first} to {end} of {passage['docid']}; {name} has {len(words)}"
            )
        spans.append((words[first][0], words[end - 1][1]))
    if not words:
        raise ValueError(f"{name} is blank")
    return Document(text, label, tuple(spans))
