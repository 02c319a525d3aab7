"""Planted rationales: sentences of known sentiment put into neutral text, so the span is exact.

These are ours, not ERASER's: there people marked what convinced them in real reviews. Here nothing
but the planted sentence can show the label, and a method that finds it is right without anyone's
judgement. The neutral sentences are written for this purpose (plain facts of plots and of making
films) and chosen without any model; the planted ones are real and held out from training.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import numpy as np

from relevit.text.documents import Document, Span

NEUTRAL = "neutral_sentences.txt"
OPINIONS = "opinion_words.txt"
SHORTEST, LONGEST = 4, 25  # words of a planted sentence


def neutral_sentences() -> tuple[str, ...]:
    """120 plain sentences about films that praise and blame nothing."""
    return _lines(NEUTRAL)


@cache
def opinion_words() -> dict[str, frozenset[str]]:
    """Words that are surely `negative` or `positive`, and `turning` ones, which make it unsure.

    Few on purpose: they need not find every opinion. Beside "not" or "but" a word may mean its
    opposite, or count for little.
    """
    rows = (line.partition(": ") for line in _lines(OPINIONS))
    return {kind: frozenset(words.split()) for kind, _, words in rows}


def clear_sentences(documents: Sequence[Document]) -> tuple[Document, ...]:
    """Those of one short sentence whose words leave no doubt about their label.

    They have an opinion of their label's kind, none of the other and no word that turns one
    around. Words decide, never a model: what is judged has no say in what it is judged by.
    """
    return tuple(document for document in documents if _is_clear(document))


def _is_clear(document: Document) -> bool:
    words = re.findall(r"\w+(?:'t)?", document.text.lower())
    known = opinion_words()
    kinds = ("negative", "positive")
    own, other = known[kinds[document.label]], known[kinds[1 - document.label]]
    unsure = other | known["turning"]
    short = SHORTEST <= len(words) <= LONGEST
    sure = not unsure.intersection(words) and not any(word.endswith("'t") for word in words)
    return short and sure and bool(own.intersection(words))


def _lines(name: str) -> tuple[str, ...]:
    path = files("relevit").joinpath("assets", "text", name)
    return tuple(path.read_text(encoding="utf-8").splitlines())


def plant(
    sentences: Sequence[Document],
    fillers: Sequence[str],
    *,
    count: int,
    sentences_around: int,
    planted: int = 1,
    seed: int = 0,
) -> tuple[Document, ...]:
    """`count` texts of `sentences_around` neutral sentences, each with `planted` of one label.

    Places are drawn, the first and the last included. Labels take turns, 0 first; no sentence is
    planted twice, and no text has a filler twice. The rationale are the planted sentences,
    character by character, in their order. Same seed, same texts.
    Raises: ValueError for too few sentences of a label or too few fillers, or a number below 1.
    """
    if min(count, sentences_around, planted) < 1:
        raise ValueError(
            f"plant: count {count}, sentences_around {sentences_around}, planted {planted}; give "
            "at least 1 of each"
        )
    if len(set(fillers)) < sentences_around:
        raise ValueError(
            f"plant: {len(set(fillers))} different fillers for {sentences_around} sentences "
            "around; give more fillers or ask for fewer sentences"
        )
    random = np.random.default_rng(seed)
    drawn = {label: _draw(sentences, label, count, planted, random) for label in (0, 1)}
    unique = sorted(set(fillers))
    documents = []
    for number in range(count):
        chosen = [drawn[number % 2].pop() for _ in range(planted)]
        around = [unique[i] for i in random.permutation(len(unique))[:sentences_around]]
        places = sorted(random.permutation(sentences_around + planted)[:planted].tolist())
        documents.append(_joined(number, chosen, around, places))
    return tuple(documents)


def _draw(
    sentences: Sequence[Document], label: int, count: int, planted: int, random: np.random.Generator
) -> list[Document]:
    """The label's sentences in random order, without repeats, when there are enough."""
    needed = (count + 1 - label) // 2 * planted
    known = {document.text: document for document in sentences if document.label == label}
    if len(known) < needed:
        raise ValueError(
            f"plant: {len(known)} different sentences of label {label}; {count} texts with "
            f"{planted} each need {needed}: give more sentences or ask for fewer texts"
        )
    texts = sorted(known)
    return [known[texts[i]] for i in random.permutation(len(texts))]


def _joined(
    number: int, chosen: Sequence[Document], around: Sequence[str], places: Sequence[int]
) -> Document:
    """One text: `chosen` at `places` among the sentences `around`, a blank between two."""
    parts = list(around)
    for place, document in zip(places, chosen, strict=True):
        parts.insert(place, document.text)
    spans: list[Span] = []
    start = 0
    for place, part in enumerate(parts):
        if place in places:
            spans.append((start, start + len(part)))
        start += len(part) + 1
    names = ", ".join(document.name for document in chosen)
    name = f"planted-{number} ({names})"
    return Document(" ".join(parts), chosen[0].label, tuple(spans), name)
