"""Dual encoders as the parameters of 09_text ask for them.

Source: Beyond Intuition Sec. 4.2 (CLIP ViT-B/32). Where CLIP is not at hand, two towers that never
met are joined on captioned Cutouts of half of the classes; the other half has no caption in
training and is what zero-shot is about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd
from jaxtyping import Float
from torch import Tensor, nn

from habitats.captions import prompt
from habitats.drawings import CLASSES, class_split
from relevit.base.device import choose_device
from relevit.protocols import options
from relevit.text.clip.dual import DualEncoder
from relevit.text.clip.from_transformers import clip_folder, load_clip, random_clip
from reproduction.language.joining import join_towers
from reproduction.language.towers import Examples, Towers, begin_towers, draw_examples
from reproduction.params.cells import Params

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SEEN, UNSEEN, ALL = "seen", "unseen", "all"


@dataclass(frozen=True)
class Encoder:
    """A dual encoder with one prompt a class, and which classes had captions in its training."""

    dual: DualEncoder
    tokenizer: Tokenizer
    prompts: tuple[str, ...]
    groups: Mapping[str, Sequence[int]]  # labels by SEEN and UNSEEN, or ALL of one that came ready
    seed: int = 0
    history: pd.DataFrame | None = None

    def texts(self, phrases: Sequence[str] | None = None) -> Float[Tensor, "phrases features"]:
        """Features of phrases, by default of the prompts."""
        return self.dual.embed_phrases(self.tokenizer, phrases or self.prompts)

    def classifier(self, phrases: Sequence[str] | None = None) -> nn.Module:
        """The image side as a classifier of these phrases, by default of the prompts."""
        return self.dual.image_classifier(self.texts(phrases))


def join_encoder(cfg: Params, towers: Towers, drawn: Examples, seed: int) -> Encoder:
    """Train the projections for one seed, which also draws the classes with captions.

    `drawn` is that of `draw_examples`. A text tower that learns is begun anew.
    """
    seen, unseen = class_split(seed)
    if not towers.frozen:
        towers = begin_towers(cfg, seed)
    dual, history = join_towers(cfg, towers, drawn.of_classes(seen), seed)
    prompts = tuple(map(prompt, CLASSES))
    return Encoder(dual, towers.tokenizer, prompts, {SEEN: seen, UNSEEN: unseen}, seed, history)


def join_encoders(cfg: Params) -> tuple[Towers, list[Encoder]]:
    """The towers, and what is joined of them: an encoder for each of `cfg.head_seeds`."""
    towers = begin_towers(cfg, cfg.head_seeds[0])
    drawn = draw_examples(cfg, towers)
    return towers, [join_encoder(cfg, towers, drawn, seed) for seed in cfg.head_seeds]


def ready_encoder(cfg: Params, classes: Sequence[str]) -> Encoder:
    """CLIP as published, or with `source` random two blocks of its shape, on `cfg.device`."""
    prompts = tuple(map(partial(prompt, **options(cfg.protocol, "prompt")), classes))
    if cfg.source == "random":
        dual, tokenizer = random_clip(prompts, cfg.seed)
    else:
        dual, tokenizer = load_clip(clip_folder(cfg.weights_root))
    dual = dual.to(choose_device(cfg.device))
    return Encoder(dual, tokenizer, prompts, {ALL: tuple(range(len(prompts)))}, cfg.seed)
