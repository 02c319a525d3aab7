"""Corpora as the parameters of 09_text ask for them: one reader a name.

Source: Beyond Intuition Sec. 4.2 (Movie Reviews and 20 Newsgroups).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from habitats.corpora.eraser import read_eraser_movies
from habitats.corpora.generated import generated_corpus
from habitats.corpora.movie_reviews import movie_reviews
from relevit.base.files import from_project
from relevit.protocols import options
from relevit.text.documents import Corpus, Document
from reproduction.language.pretrained import TINY
from reproduction.params.cells import Params
from reproduction.params.words import ON_DISK

COUNTS = {"train": "training_texts", "validation": "validation_texts", "test": "held_out_texts"}
CHARACTERS = 4.5  # a token, in English: so long are short texts, which are hardly ever cut


def read_corpora(cfg: Params) -> dict[str, Corpus]:
    """The corpora of `cfg.corpora`, each split with as many documents as `cfg` asks for.

    Of a corpus on the disk these are drawn with `cfg.seed`, and all when it has fewer.
    """
    others = [name for name in cfg.corpora if name != "generated"]
    if cfg.text_model == TINY and others:
        raise ValueError(
            f"09_text: text_model = {TINY} and corpora with {others}; it knows the words of "
            "generated texts alone: choose another model, or corpora = ['generated']"
        )
    made = {name: READERS[name](cfg) for name in cfg.corpora}
    return {name: _drawn(of, cfg) if name in ON_DISK else of for name, of in made.items()}


def reasoning_documents(corpus: Corpus, count: int) -> tuple[Document, ...]:
    """At most `count` held-out documents with a rationale, where there are such."""
    marked = [document for document in corpus.test if document.rationale]
    return tuple(marked[:count])


def two_sentences(corpus: Corpus) -> list[Document]:
    """Reviews that differ in one word; of other corpora the two shortest of its first texts."""
    if corpus.classes == ("negative", "positive"):
        return [Document(f"the film was {word} good .", 0) for word in ("not", "very")]
    return sorted(corpus.test[:50], key=lambda one: len(one.text))[:2]


def read_on_disk(cfg: Params, name: str, where: str = "09_text") -> Corpus:
    """One of ON_DISK (`config.text`) below `cfg.corpus_root`, whole; errors say `where`."""
    try:
        return READERS[name](cfg)
    except (FileNotFoundError, ValueError) as error:
        raise type(error)(f"{where}: corpus_root = {cfg.corpus_root!r}: {error}") from error


def _generated(cfg: Params) -> Corpus:
    counts = (getattr(cfg, key) for key in COUNTS.values())
    return generated_corpus(*counts, seed=cfg.seed)


def _movies(cfg: Params) -> Corpus:
    return read_eraser_movies(from_project(cfg.corpus_root))


def _messages(cfg: Params) -> Corpus:
    from habitats.corpora.newsgroups import read_newsgroups

    rule = options(cfg.protocol, "read_newsgroups")
    root, held = from_project(cfg.corpus_root), cfg.validation_texts
    return read_newsgroups(root, validation=held, seed=cfg.seed, **rule)


def _reviews(cfg: Params) -> Corpus:
    """Reviews of both sources to train on, and those of `cfg.reviews` to test with."""
    longest = CHARACTERS * cfg.train_limit if cfg.short_texts else np.inf
    count = cfg.training_reviews or cfg.training_texts
    learnt = movie_reviews(count, 0, 0, seed=cfg.seed, longest=longest)
    source = None if cfg.reviews == "both" else cfg.reviews
    held = cfg.validation_texts, cfg.held_out_texts
    other = movie_reviews(0, *held, seed=cfg.seed, source=source)
    kind = "short ones of " if cfg.short_texts else ""
    about = f"{kind}{learnt.source}; validation and test: {other.source}"
    return replace(other, train=learnt.train, source=about)


def _drawn(corpus: Corpus, cfg: Params) -> Corpus:
    """So many of each split, in random order: on the disk they lie class by class."""
    splits = {}
    for split, key in COUNTS.items():
        documents = getattr(corpus, split)
        order = np.random.default_rng(cfg.seed).permutation(len(documents))[: getattr(cfg, key)]
        splits[split] = tuple(documents[i] for i in order)
    return replace(corpus, **splits)


READERS: dict[str, Callable[[Params], Corpus]] = {
    "generated": _generated,
    "movie_reviews": _reviews,
    "eraser_movies": _movies,
    "newsgroups": _messages,
}
