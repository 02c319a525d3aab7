"""Tokenizers and encoders by the names that 09_text knows: tiny, MiniLM-L6, BERT-base."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from habitats.corpora.generated import generated_tokenizer
from relevit.base.errors import PACKAGES, need_packages
from relevit.base.seeding import seeded
from relevit.text.documents import Corpus
from relevit.text.encoder import TextTransformer, build_tiny, from_bert
from relevit.text.files import CUT_BLOCKS, model_folder, read_weights
from relevit.text.minilm import minilm_folder
from relevit.text.tokens import load_tokenizer, word_tokenizer, words_of
from reproduction.params.cells import Params

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TINY, MINILM, BERT = "tiny-bert", "minilm-l6", "bert-base"
TINY_POSITIONS = 128
TINY_PLACES = 0.2  # size of the tiny model's embedded positions, in that of its words
BERT_HUB = "google-bert/bert-base-uncased"
BERT_FILES = ("config.json", "model.safetensors", "tokenizer.json")


def load_reader(cfg: Params, corpora: Mapping[str, Corpus]) -> Tokenizer:
    """The tokenizer of `cfg.text_model`; a random BERT-base knows the training texts' words."""
    if cfg.text_model == TINY:
        return generated_tokenizer()
    if cfg.source == "random":
        documents = [document for corpus in corpora.values() for document in corpus.train]
        return word_tokenizer(words_of(document.text for document in documents))
    return load_tokenizer(_folder(cfg))


def build_encoder(cfg: Params, tokenizer: Tokenizer, classes: int) -> TextTransformer:
    """The encoder of `cfg.text_model` under a new head for `classes`, on the CPU.

    `source="random"` gives BERT-base's width and heads in CUT_BLOCKS random blocks, and needs no
    file; the tiny model is always random. A pooler that the file lacks is drawn from `cfg.seed`.
    """
    if cfg.text_model == TINY:
        model = build_tiny(
            tokenizer.get_vocab_size(),
            classes,
            positions=TINY_POSITIONS,
            drop=cfg.dropout,
            seed=cfg.seed,
        )
        # As large as the words', random positions let it learn a few texts by heart instead.
        model.embedding.position_embeddings.weight.data *= TINY_PLACES
    else:
        model = from_bert(_bert(cfg, tokenizer), classes=classes, seed=cfg.seed)
        if cfg.text_model == MINILM:
            pass_on(model.fc_norm)
    for key in ("train_limit", "held_out_limit", "limit"):
        if getattr(cfg, key) > model.limit:
            raise ValueError(
                f"09_text: {key} = {getattr(cfg, key)}; {cfg.text_model} reads at most "
                f"{model.limit} tokens: lower {key}"
            )
    return model


@torch.no_grad()
def pass_on(pooler: nn.Module) -> None:
    """Make the pooler hand on the class token, through its tanh alone.

    MiniLM's was never trained: sentences were made of the mean over tokens, and its weights are
    noise without bias. Finetuning few texts through it costs three points of accuracy.
    """
    nn.init.eye_(pooler.dense.weight)
    nn.init.zeros_(pooler.dense.bias)


def bert_folder(weights_root: str) -> Path:
    """Folder with BERT_FILES: `bert-base` below `weights_root`, or fetched from the hub once."""
    return model_folder("09_text", weights_root, BERT, BERT_HUB, BERT_FILES)


def _folder(cfg: Params) -> Path:
    return minilm_folder() if cfg.text_model == MINILM else bert_folder(cfg.weights_root)


def _bert(cfg: Params, tokenizer: Tokenizer) -> nn.Module:
    """transformers' encoder without a head."""
    need_packages("09_text", "text", *PACKAGES)
    from transformers import BertConfig, BertModel

    dropout = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), cfg.dropout)
    if cfg.source == "random":
        config = BertConfig(
            vocab_size=tokenizer.get_vocab_size(), num_hidden_layers=CUT_BLOCKS, **dropout
        )
        with seeded(cfg.seed):
            return BertModel(config)
    with seeded(cfg.seed):  # draws a pooler that the file lacks
        return read_weights("09_text", BertModel, _folder(cfg), **dropout)
