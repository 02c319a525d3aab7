"""Train a text classifier on labelled documents, and ask it for its answers.

Source: Beyond Intuition Sec. 4.2 (BERT-base on Movie Reviews and 20 Newsgroups).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import scipy
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from relevit.base.device import autocast, choose_device, tensor_float32
from relevit.base.seeding import seeded
from relevit.finetune.epochs import History, Losses, curve, descend, epoch_plan, fit
from relevit.models.dinov2 import fingerprint
from relevit.text.documents import Corpus
from relevit.text.encoder import TextTransformer, text_logits
from relevit.text.tokens import Texts, Tokens, padded, read_texts
from reproduction.language.pretrained import build_encoder
from reproduction.params.cells import Params
from reproduction.training.classifier import TrainSettings, make_optimizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SORTED_TOGETHER = 16  # batches whose texts are dealt out by length


def train_on_corpus(
    cfg: Params,
    name: str,
    corpus: Corpus,
    tokenizer: Tokenizer,
    folder: Path,
    on_step: Callable[[int, int], None] = lambda step, steps: None,
) -> tuple[TextTransformer, History]:
    """A classifier of one corpus, on `cfg.device`, and its log; its files go to `folder/name`.

    A run that was stopped goes on where it was, and one that has ended is only read, when texts,
    labels, weights at the start and settings are the same.
    """
    model = build_encoder(cfg, tokenizer, len(corpus.classes))
    about = {"source": cfg.source, "corpus": corpus.source}
    about["start"] = fingerprint(model.state_dict())
    device = choose_device(cfg.device)
    model = model.to(device)
    if cfg.frozen_words:
        model.embedding.requires_grad_(False)
    train = read_texts(tokenizer, corpus.train, cfg.train_limit)
    validation = read_texts(tokenizer, corpus.validation, cfg.train_limit)
    about |= {"train": _texts_hash(train), "validation": _texts_hash(validation)}
    about |= {key: getattr(cfg, key) for key in ("train_limit", "dropout", "frozen_words")}
    settings = TrainSettings.from_params(cfg, device, images=len(train))  # texts, here
    optimizer = make_optimizer(model, settings)

    def clip(*_: object) -> None:  # as BERT is finetuned
        clip_grad_norm_(model.parameters(), 1.0)

    optimizer.register_step_pre_hook(clip)

    def step(batch: tuple[Tensor, np.random.Generator]) -> Losses:
        rows, noise = batch
        texts = train.select(rows.tolist())
        dropout = seeded(int(noise.integers(2**31)), device)  # the same in a resumed run
        with tensor_float32(device, settings.precision == "tf32"):
            with dropout, autocast(device, settings.precision):
                logits = _answer(model, texts.tokens).float()
            return descend(optimizer, {"loss": cross_entropy(logits, texts.labels.to(device))})

    def validate() -> dict[str, float]:
        found = text_logits(model, validation.tokens).argmax(dim=1).cpu()
        return {"validation_top1_pct": 100 * (found == validation.labels).double().mean().item()}

    history = fit(
        model,
        optimizer,
        folder / name,
        partial(by_length, settings, torch.tensor([len(one) for one in train.tokens])),
        step,
        rate=settings.rate_share,
        summary=curve,
        architecture=cfg.text_model,
        identity=about | asdict(settings),
        epochs=settings.epochs,
        validate=validate,
        on_step=lambda epoch, done, steps, losses: on_step(done, steps),
    )
    return model, history


def train_on_corpora(
    cfg: Params,
    corpora: Mapping[str, Corpus],
    tokenizer: Tokenizer,
    folder: Path,
    on_step: Callable[[], object] = lambda: None,
) -> dict[str, TextTransformer]:
    """A classifier of each corpus, as `train_on_corpus` makes it, by name."""
    return {
        name: train_on_corpus(cfg, name, corpus, tokenizer, folder, lambda *_: on_step())[0]
        for name, corpus in corpora.items()
    }


def by_length(
    settings: TrainSettings, lengths: Int[Tensor, " texts"], epoch: int
) -> list[tuple[Int[Tensor, " rows"], np.random.Generator]]:
    """The epoch's batches, of texts of similar length: padding would cost most of the time.

    Texts are shuffled, sorted by length within SORTED_TOGETHER batches, and these are shuffled.
    """
    shuffled = epoch_plan(settings.images, settings.batch_size, settings.seed, epoch)
    order = torch.cat([rows for rows, _ in shuffled])
    parts = [
        part[lengths[part].argsort(stable=True)]
        for part in order.split(SORTED_TOGETHER * settings.batch_size)
    ]
    batches = [rows for part in parts for rows in part.split(settings.batch_size)]
    places = np.random.default_rng([settings.seed, epoch, len(order)]).permutation(len(batches))
    return [(batches[place], rng) for place, (_, rng) in zip(places, shuffled, strict=True)]


def accuracy(model: TextTransformer, texts: Texts) -> dict[str, float]:
    """Top-1 on `texts`: texts, accuracy_pct, low_pct, high_pct (Wilson's 95 % interval)."""
    hits = text_logits(model, texts.tokens).argmax(dim=1).cpu() == texts.labels
    found = scipy.stats.binomtest(int(hits.sum()), len(texts))
    low, high = found.proportion_ci(0.95, method="wilson")
    return {
        "texts": len(texts),
        "accuracy_pct": 100 * found.statistic,
        "low_pct": 100 * float(low),
        "high_pct": 100 * float(high),
    }


def accuracy_table(
    models: Mapping[str, TextTransformer], texts: Mapping[str, Texts]
) -> pd.DataFrame:
    """`accuracy` of each corpus's own model, a row a corpus."""
    found = {name: accuracy(model, texts[name]) for name, model in models.items()}
    return pd.DataFrame(found).T.rename_axis("corpus").reset_index().astype({"texts": int})


def _texts_hash(texts: Texts) -> str:
    """SHA-256 over the token ids and the labels, text by text."""
    found = hashlib.sha256()
    for one, label in zip(texts.tokens, texts.labels.tolist(), strict=True):
        found.update(np.array([label, len(one), *one.ids], dtype="<i8").tobytes())
    return found.hexdigest()


def _answer(model: TextTransformer, tokens: Sequence[Tokens]) -> Float[Tensor, "batch classes"]:
    ids, mask = (part.to(model.device) for part in padded(tokens, model.pad_id))
    if bool(mask.all()):
        return model(model.embed(ids))
    return model(model.embed(ids, mask), mask)
