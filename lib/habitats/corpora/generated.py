"""Generated reviews: a small grammar with exact rationales, for runs without any download.

Every review has facts and one or two opinions of one kind. A third of the opinions turn a word
around ("not good"), so that no single word decides, and the rationale is the whole phrase. The
vocabulary is closed and small; what a model learns here says nothing about real language.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from relevit.text.documents import Corpus, Document, Span
from relevit.text.tokens import word_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

CLASSES = ("negative", "positive")

_SLOTS = {
    "thing": "film movie story plot script ending music acting camera dialogue",
    "person": "director writer actor actress singer editor producer",
    "place": "paris london tokyo rome berlin oslo",
    "figure": "teacher doctor farmer painter pilot clerk soldier nurse",
    "time": "spring summer autumn winter",
    "number": "two three four five six seven",
    "very": "very really quite truly simply",
    "0": "bad boring awful dull weak terrible lame stupid",
    "1": "good great funny lovely clever brilliant charming moving",
}
_WORDS = {slot: words.split() for slot, words in _SLOTS.items()}
_FACTS = (
    "the {thing} was made in {place} .",
    "the {person} lived in {place} for {number} years .",
    "the story follows a {figure} and a {figure} .",
    "it begins in {time} and ends in {time} .",
    "the {person} worked with {number} people .",
    "a {figure} travels from {place} to {place} .",
)
_FRAMES = (
    "the {thing} was <{phrase}> .",
    "i found the {thing} <{phrase}> .",
    "the {person} and the {thing} were <{phrase}> .",
)


def generated_corpus(train: int, validation: int, test: int, *, seed: int = 0) -> Corpus:
    """That many reviews, negative and positive in turn; no text is in two splits, or twice.

    Same seed and numbers, same texts. There are millions of different ones.
    """
    total = train + validation + test
    random = np.random.default_rng(seed)
    found: dict[str, Document] = {}
    while len(found) < total:
        document = _review(random, len(found) % 2)
        found.setdefault(document.text, document)
    documents = tuple(found.values())
    splits = documents[:train], documents[train : train + validation], documents[-test or total :]
    return Corpus(CLASSES, *splits, source=f"generated, seed {seed}", licence="MIT, as the suite")


def generated_tokenizer() -> Tokenizer:
    """Words of the grammar's closed vocabulary; [PAD] is 0, then the other special tokens."""
    return word_tokenizer(vocabulary())


def vocabulary() -> tuple[str, ...]:
    """All words that a review can have, sorted."""
    plain = " ".join((*_FACTS, *_FRAMES, *(word for row in _WORDS.values() for word in row)))
    words = re.sub(r"{\w+}|[<>]", " ", plain).split()
    return tuple(sorted({*words, "not"}))


def _review(random: np.random.Generator, label: int) -> Document:
    facts = [_fill(random, _pick(random, _FACTS)) for _ in range(random.integers(1, 4))]
    opinions = [_opinion(random, label) for _ in range(random.integers(1, 3))]
    sentences = [*facts, *opinions]
    marked = " ".join(sentences[i] for i in random.permutation(len(sentences)))
    text, spans = _spans(marked)
    return Document(text, label, spans)


def _opinion(random: np.random.Generator, label: int) -> str:
    """A sentence with its phrase between < and >."""
    turned = random.integers(3) == 0
    word = _pick(random, _WORDS[str(1 - label if turned else label)])
    before = "not" if turned else _pick(random, _WORDS["very"])
    return _fill(random, _pick(random, _FRAMES).replace("{phrase}", f"{before} {word}"))


def _fill(random: np.random.Generator, frame: str) -> str:
    return re.sub(r"{(\w+)}", lambda slot: _pick(random, _WORDS[slot[1]]), frame)


def _pick(random: np.random.Generator, choices) -> str:
    return choices[int(random.integers(len(choices)))]


def _spans(marked: str) -> tuple[str, tuple[Span, ...]]:
    """The text without its marks, and the characters that were between them."""
    text, spans = "", []
    for place, part in enumerate(re.split("[<>]", marked)):
        if place % 2:
            spans.append((len(text), len(text) + len(part)))
        text += part
    return text, tuple(spans)
