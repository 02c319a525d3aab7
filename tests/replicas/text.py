"""Small replicas of ERASER's movie reviews and of 20 Newsgroups, as their archives unpack.

The texts come from the generated corpus, so that a small model can learn them.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from habitats.corpora.eraser import DOCS, FILES, FOLDER
from habitats.corpora.generated import generated_corpus
from habitats.corpora.newsgroups import TEST, TRAIN
from relevit.text.documents import Document

QUERY = "What is the sentiment of this review?"
GROUPS = ("alt.atheism", "comp.graphics", "rec.autos", "sci.space")
# White space that is no blank: part of a word for ERASER, and many functions part there.
ODD_WORD = "caf\xe9\x0clate\u2028night"


def write_eraser_movies(
    data_root: Path, *, train: int = 8, validation: int = 4, test: int = 4, seed: int = 0
) -> Path:
    """Write `movies` with that many reviews a split; gives its folder.

    Odd cases, as in the published set or near them: blank lines and blanks in a row, a word with
    white space in it, passages that overlap, and in each split's third review none at all.
    """
    folder = data_root / FOLDER
    (folder / DOCS).mkdir(parents=True, exist_ok=True)
    corpus = generated_corpus(train, validation, test, seed=seed)
    for split, name in FILES.items():
        lines = []
        for place, document in enumerate(getattr(corpus, split)):
            kind = "POS" if document.label else "NEG"
            docid = f"{kind.lower()}R_{place:03}_{split}.txt"
            words, review = _review(document)
            (folder / DOCS / docid).write_text(review, encoding="utf-8", newline="\n")
            marked = [] if place == 2 else _passages(document, words, docid)
            lines.append(_annotation(docid, kind, marked))
        (folder / name).write_text("".join(lines), encoding="utf-8")
    return folder


def write_newsgroups(
    data_root: Path, *, per_group: int = 4, groups: Sequence[str] = GROUPS, seed: int = 0
) -> Path:
    """Write both folders of 20 Newsgroups with `per_group` messages a group each; gives data_root.

    Messages have headers, a byte that is no UTF-8, and one in each folder says nothing below its
    header. Beside the messages lies a file that is none.
    """
    texts = iter(generated_corpus(2 * per_group * len(groups), 0, 0, seed=seed).train)
    for name in (TRAIN, TEST):
        for group in groups:
            folder = data_root / name / group
            folder.mkdir(parents=True, exist_ok=True)
            for number in range(per_group):
                blank = group == groups[0] and number == 0
                body = "" if blank else f"{next(texts).text}\nAndr\xe9\n"
                header = f"From: someone@example.org\nSubject: about {group}\nLines: 2\n\n"
                path = folder / str(50000 + 7 * number)
                path.write_bytes((header + body).encode("latin1"))
    (data_root / TRAIN / groups[0] / ".listing").write_text("no message\n")
    return data_root


def _review(document: Document) -> tuple[list[str], str]:
    """A document's words, and its file: a sentence a line, and the odd word at the front."""
    words = [ODD_WORD, *document.text.split()]
    text = " ".join(words).replace(" . ", " .\n\n")
    return words, f" {text} \n".replace("the ", "the  ")


def _passages(document: Document, words: Sequence[str], docid: str) -> list[list[dict[str, Any]]]:
    """Each span as a group of one; the first a second time, a word longer at its front."""
    groups = []
    for place, (start, stop) in enumerate(document.rationale):
        first = 1 + len(document.text[:start].split())  # 1: the odd word
        end = first + len(document.text[start:stop].split())
        groups.append([_passage(words, docid, first, end)])
        if place == 0:
            groups.append([_passage(words, docid, first - 1, end)])
    return groups


def _passage(words: Sequence[str], docid: str, first: int, end: int) -> dict[str, Any]:
    sentence = words[:first].count(".")
    return {
        "docid": docid,
        "end_sentence": sentence + 1,
        "end_token": end,
        "start_sentence": sentence,
        "start_token": first,
        "text": " ".join(words[first:end]),
    }


def _annotation(docid: str, kind: str, evidences: list[list[dict[str, Any]]]) -> str:
    entry = {
        "annotation_id": docid,
        "classification": kind,
        "docids": None,
        "evidences": evidences,
        "query": QUERY,
        "query_type": None,
    }
    return json.dumps(entry, sort_keys=True) + "\n"
