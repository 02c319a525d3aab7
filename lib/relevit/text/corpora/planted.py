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

from relevit.text.documents import Document

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
    seed: int = 0,
) -> tuple[Document, ...]:
    """`count` texts of `sentences_around` neutral sentences, each with one planted among them.

    Places are drawn, the first and the last included. Labels take turns, 0 first; no sentence is
    planted twice, and no text has a filler twice. The rationale is the planted sentence, character
    by character. Same seed, same texts.
    Raises: ValueError for too few sentences of a label or too few fillers, or a number below 1.
    """
    if min(count, sentences_around) < 1:
        raise ValueError(
            f"plant: count {count}, sentences_around {sentences_around}; give at least 1 of each"
        )
    if len(set(fillers)) < sentences_around:
        raise ValueError(
            f"plant: {len(set(fillers))} different fillers for {sentences_around} sentences "
            "around; give more fillers or ask for fewer sentences"
        )
    random = np.random.default_rng(seed)
    drawn = {label: _draw(sentences, label, count, random) for label in (0, 1)}
    unique = sorted(set(fillers))
    documents = []
    for number in range(count):
        chosen = drawn[number % 2].pop()
        around = [unique[i] for i in random.permutation(len(unique))[:sentences_around]]
        place = int(random.permutation(sentences_around + 1)[0])
        before = "".join(f"{filler} " for filler in around[:place])
        after = "".join(f" {filler}" for filler in around[place:])
        span = (len(before), len(before) + len(chosen.text))
        name = f"planted-{number} ({chosen.name})"
        documents.append(Document(before + chosen.text + after, chosen.label, (span,), name))
    return tuple(documents)


def _draw(
    sentences: Sequence[Document], label: int, count: int, random: np.random.Generator
) -> list[Document]:
    """The label's sentences in random order, without repeats, when there are enough."""
    needed = (count + 1 - label) // 2
    known = {document.text: document for document in sentences if document.label == label}
    if len(known) < needed:
        raise ValueError(
            f"plant: {len(known)} different sentences of label {label}; {count} texts with 1 "
            f"each need {needed}: give more sentences or ask for fewer texts"
        )
    texts = sorted(known)
    return [known[texts[i]] for i in random.permutation(len(texts))]
