"""Corpora and classifiers as the parameters of 11_text ask for them.

Source: Beyond Intuition Sec. 4.2 (BERT-base on Movie Reviews and 20 Newsgroups). What is then
asked of the classifiers is in `relevit.text.comparison`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Int
from scipy.stats import binomtest
from torch import Tensor

from relevit.base.device import choose_device
from relevit.base.files import from_project
from relevit.config import TextParams
from relevit.models.dinov2 import fingerprint
from relevit.text.documents import Corpus, Document
from relevit.text.encoder import TextTransformer
from relevit.text.eraser import read_eraser_movies
from relevit.text.generated import generated_corpus
from relevit.text.movie_reviews import SOURCES, SPLITS, movie_reviews
from relevit.text.newsgroups import TooFewMessages, read_newsgroups
from relevit.text.planted import clear_sentences, neutral_sentences, plant
from relevit.text.pretrained import TINY, build_encoder
from relevit.text.tokens import Tokens, encode
from relevit.text.train import text_logits, train_text_classifier
from relevit.training.classifier import TrainSettings
from relevit.training.epochs import History

if TYPE_CHECKING:
    from tokenizers import Tokenizer

COUNTS = dict(zip(SPLITS, ("training_texts", "validation_texts", "held_out_texts"), strict=True))
ALL_REVIEWS = 23_500  # nearly all that there are to train on
CHARACTERS = 4.5  # a token, in English: so long are short texts, which are hardly ever cut
SCORED = 2  # texts, at least: an interval over them needs as many
SENTENCES = 1600  # held-out ones of Rotten Tomatoes, from which those to plant are taken


@dataclass(frozen=True)
class Texts:
    """Documents as a model reads them; of `unreadable` others it knew no word."""

    documents: tuple[Document, ...]
    tokens: tuple[Tokens, ...]
    unreadable: int = 0

    @property
    def labels(self) -> Int[Tensor, " texts"]:
        """The label of each."""
        return torch.tensor([document.label for document in self.documents])

    def __len__(self) -> int:
        return len(self.documents)

    def select(self, places: Sequence[int]) -> Texts:
        """The texts at these places, in their order."""
        documents, tokens = ([kept[i] for i in places] for kept in (self.documents, self.tokens))
        return Texts(tuple(documents), tuple(tokens))


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
    trained on are planted among neutral ones (`relevit.text.planted`): these rationales are ours.
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


def read_texts(
    tokenizer: Tokenizer, documents: Sequence[Document], limit: int, counted_by: str = ""
) -> Texts:
    """`documents` cut to `limit` tokens, without those that cannot be read (`tokens.encode`).

    `counted_by` names the parameter that says how many texts are scored; SCORED are then needed.
    Raises: ValueError when fewer are left, else when none is, with the reason of the last.
    """
    needed = SCORED if counted_by else 1
    kept: list[tuple[Document, Tokens]] = []
    reason = "there is none"
    for document in documents:
        try:
            kept.append((document, encode(tokenizer, document.text, limit)))
        except ValueError as error:
            reason = str(error)
    if len(kept) < needed:
        found = f"{len(kept) or 'none'} of {len(documents)} texts can be read ({reason})"
        more = f"raise {counted_by}, or " if counted_by else ""
        raise ValueError(
            f"11_text: {counted_by and counted_by + ': '}{found}; at least {needed} must be: "
            f"{more}choose another corpus or model"
        )
    readable, tokens = zip(*kept, strict=True)
    return Texts(readable, tokens, len(documents) - len(kept))


def train(
    cfg: TextParams,
    name: str,
    corpus: Corpus,
    tokenizer: Tokenizer,
    folder: Path,
    on_step: Callable[[int, int, float], None] = lambda step, steps, loss: None,
) -> tuple[TextTransformer, History]:
    """A classifier of one corpus, on `cfg.device`, and its log; its files go to `folder/name`.

    A run that was stopped goes on where it was, and one that has ended is only read, when texts,
    labels, weights at the start and settings are the same.
    Raises: as `build_encoder`, `read_texts` and `train_text_classifier`.
    """
    device = choose_device(cfg.device)
    model = build_encoder(cfg, tokenizer, len(corpus.classes))
    start = fingerprint(model.state_dict())
    model = model.to(device)
    if cfg.frozen_words:
        model.embedding.requires_grad_(False)
    texts = read_texts(tokenizer, corpus.train, cfg.train_limit)
    validation = read_texts(tokenizer, corpus.validation, cfg.train_limit)
    about = {"source": cfg.source, "corpus": corpus.source, "start": start}
    about |= {"train": _texts_hash(texts), "validation": _texts_hash(validation)}
    about |= {key: getattr(cfg, key) for key in ("train_limit", "dropout", "frozen_words")}
    history = train_text_classifier(
        model,
        TrainSettings.from_params(cfg, device, images=len(texts)),
        folder / name,
        name=cfg.text_model,
        train=texts.tokens,
        labels=texts.labels,
        validation=validation.tokens,
        validation_labels=validation.labels,
        identity=about,
        on_step=on_step,
    )
    return model.eval(), history


def accuracy(model: TextTransformer, texts: Texts, level_pct: float = 95.0) -> dict[str, float]:
    """Top-1 on `texts`: texts, accuracy_pct, low_pct, high_pct (Wilson's binomial interval)."""
    hits = text_logits(model, texts.tokens).argmax(dim=1) == texts.labels
    found = binomtest(int(hits.sum()), len(texts))
    low, high = found.proportion_ci(level_pct / 100, method="wilson")
    return {
        "texts": len(texts),
        "accuracy_pct": 100 * found.statistic,
        "low_pct": 100 * float(low),
        "high_pct": 100 * float(high),
    }


def cut_counts(texts: Texts) -> dict[str, float]:
    """What of `texts` the model does not read.

    texts; unreadable; mean_tokens (of the whole texts, without special ones); cut (texts that
    are longer than the limit); left_out_pct (share of all tokens that these lose); unknown_pct
    (share of the tokens read that the vocabulary lacks).
    """
    own = np.array([len(one) - sum(one.special) for one in texts.tokens])
    left_out = np.array([one.left_out for one in texts.tokens])
    unknown = np.array([one.unknown_share for one in texts.tokens])
    return {
        "texts": len(texts),
        "unreadable": texts.unreadable,
        "mean_tokens": float((own + left_out).mean()),
        "cut": int((left_out > 0).sum()),
        "left_out_pct": float(100 * left_out.sum() / (own + left_out).sum()),
        "unknown_pct": float(100 * (unknown * own).sum() / own.sum()),
    }


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


def _texts_hash(texts: Texts) -> str:
    """SHA-256 over the token ids and the labels, text by text."""
    found = hashlib.sha256()
    for one, label in zip(texts.tokens, texts.labels.tolist(), strict=True):
        found.update(np.array([label, len(one), *one.ids], dtype="<i8").tobytes())
    return found.hexdigest()


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
