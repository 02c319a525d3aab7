"""Corpora as the parameters of 11_text ask for them.

Source: Beyond Intuition Sec. 4.2 (Movie Reviews and 20 Newsgroups).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from relevit.base.files import from_project
from relevit.config import TextParams
from relevit.text.corpora.eraser import read_eraser_movies
from relevit.text.corpora.generated import generated_corpus
from relevit.text.corpora.movie_reviews import SOURCES, SPLITS, movie_reviews
from relevit.text.corpora.newsgroups import TooFewMessages, read_newsgroups
from relevit.text.corpora.planted import clear_sentences, neutral_sentences, plant
from relevit.text.documents import Corpus, Document
from relevit.text.pretrained import TINY

COUNTS = dict(zip(SPLITS, ("training_texts", "validation_texts", "held_out_texts"), strict=True))
ALL_REVIEWS = 23_500  # nearly all that there are to train on
CHARACTERS = 4.5  # a token, in English: so long are short texts, which are hardly ever cut
SENTENCES = 1600  # held-out ones of Rotten Tomatoes, from which those to plant are taken


def read_corpora(cfg: TextParams) -> dict[str, Corpus]:
    """The corpora of `cfg.corpora`, each split with as many documents as `cfg` asks for.

    Of a corpus on the disk these are drawn with `cfg.seed`, and all when it has fewer.
    Raises: ValueError when `tiny-bert` is to read anything but generated texts, or for more texts
    than can be made or chosen, with the parameter's name; further as the readers.
    """
    others = [name for name in cfg.corpora if name != "generated"]
    if cfg.text_model == TINY and others:
        raise ValueError(
            f"11_text: text_model = {TINY} and corpora with {others}; it knows the words of "
            "generated texts alone: choose another model, or corpora = ['generated']"
        )
    return {name: _read(cfg, name) for name in cfg.corpora}


def reasoning_documents(cfg: TextParams, name: str, corpus: Corpus) -> tuple[Document, ...]:
    """At most `cfg.planted_texts` held-out documents with a rationale; none for newsgroups.

    ERASER and generated texts have their own. For movie_reviews real sentences that no model was
    trained on are planted among neutral ones (`plant`): these rationales are ours.
    Raises: ValueError for more than there are sentences to plant.
    """
    if name != "movie_reviews":
        marked = [document for document in corpus.test if document.rationale]
        return tuple(marked[: cfg.planted_texts])
    found = movie_reviews(0, 0, SENTENCES, seed=cfg.seed, source=SOURCES[1]).test
    try:
        return plant(
            clear_sentences(found),
            neutral_sentences(),
            count=cfg.planted_texts,
            sentences_around=cfg.neutral_sentences,
            seed=cfg.seed,
        )
    except ValueError as error:
        raise ValueError(
            f"11_text: planted_texts = {cfg.planted_texts}, neutral_sentences = "
            f"{cfg.neutral_sentences}: {error}"
        ) from error


def read_on_disk(cfg: TextParams, name: str, where: str = "11_text") -> Corpus:
    """One of `config.text.ON_DISK` below `cfg.corpus_root`, whole.

    Raises: as its reader, with `where` the parameters stand and the one that it is about.
    """
    root = from_project(cfg.corpus_root)
    try:
        if name == "eraser_movies":
            return read_eraser_movies(root)
        return read_newsgroups(
            root, validation=cfg.validation_texts, protocol=cfg.protocol, seed=cfg.seed
        )
    except TooFewMessages as error:
        raise ValueError(f"{where}: validation_texts = {cfg.validation_texts}: {error}") from error
    except (FileNotFoundError, ValueError) as error:
        kind = FileNotFoundError if isinstance(error, FileNotFoundError) else ValueError
        raise kind(f"{where}: corpus_root = {cfg.corpus_root!r}: {error}") from error


def _read(cfg: TextParams, name: str) -> Corpus:
    wanted = {split: getattr(cfg, key) for split, key in COUNTS.items()}
    if name in ("generated", "movie_reviews"):
        try:
            if name == "generated":
                return generated_corpus(*wanted.values(), seed=cfg.seed)
            return _reviews(cfg, *wanted.values())
        except ValueError as error:
            asked = ", ".join(f"{key} = {getattr(cfg, key)}" for key in COUNTS.values())
            raise ValueError(f"11_text: {asked}: {error}") from error
    return _drawn(read_on_disk(cfg, name), wanted, cfg.seed)


def _reviews(cfg: TextParams, training: int, validation: int, held_out: int) -> Corpus:
    """Reviews of both sources to train on, and those of `cfg.reviews` to test with."""
    learnt = movie_reviews(ALL_REVIEWS if cfg.short_texts else training, 0, 0, seed=cfg.seed)
    if cfg.short_texts:
        longest = CHARACTERS * cfg.train_limit
        learnt = _short(learnt, longest, training)
    source = None if cfg.reviews == "both" else cfg.reviews
    other = movie_reviews(0, validation, held_out, seed=cfg.seed, source=source)
    kind = "short ones of " if cfg.short_texts else ""
    about = f"{kind}{learnt.source}; validation and test: {other.source}"
    return replace(other, train=learnt.train, source=about)


def _short(corpus: Corpus, characters: float, count: int) -> Corpus:
    """`count` training texts of at most so many characters, classes in turn."""
    short = [document for document in corpus.train if len(document.text) <= characters]
    of_class = [[one for one in short if one.label == k] for k in range(len(corpus.classes))]
    turns = [document for turn in zip(*of_class, strict=False) for document in turn]
    if len(turns) < count:
        raise ValueError(
            f"there are {len(turns)} training texts of at most {characters:g} characters, as many "
            "of each class: lower training_texts, or set short_texts to False"
        )
    return replace(corpus, train=tuple(turns[:count]))


def _drawn(corpus: Corpus, wanted: dict[str, int], seed: int) -> Corpus:
    """So many of each split, in random order: on the disk they lie class by class."""
    splits = {}
    for split, count in wanted.items():
        documents = getattr(corpus, split)
        order = np.random.default_rng(seed).permutation(len(documents))[:count]
        splits[split] = tuple(documents[i] for i in order)
    return replace(corpus, **splits)
