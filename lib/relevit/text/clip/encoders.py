"""Dual encoders as the parameters of 12_clip ask for them.

Source: Beyond Intuition Sec. 4.2 (CLIP ViT-B/32). Where CLIP is not at hand, two towers that never
met are joined on captioned Cutouts of half of the classes; the other half has no caption in
training and is what zero-shot is about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd
from jaxtyping import Float
from torch import Tensor, nn

from relevit.base.device import choose_device
from relevit.config import ClipParams
from relevit.data import things
from relevit.data.foregrounds import class_split
from relevit.text.clip.captions import names, prompt, published_prompt
from relevit.text.clip.dual import DualEncoder
from relevit.text.clip.from_transformers import clip_folder, load_clip, random_clip
from relevit.text.clip.joining import (
    Examples,
    JoinSettings,
    Towers,
    captioned_examples,
    captioned_pairs,
    join_towers,
    quick_towers,
    together,
    workshop_towers,
)

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
        """Features of phrases, by default of the prompts. Raises: ValueError as `encode`."""
        return self.dual.embed_phrases(self.tokenizer, phrases or self.prompts)

    def classifier(self, phrases: Sequence[str] | None = None) -> nn.Module:
        """The image side as a classifier of these phrases, by default of the prompts."""
        return self.dual.image_classifier(self.texts(phrases))


def begin_towers(cfg: ClipParams, seed: int) -> Towers:
    """Both towers before they are joined, on `cfg.device`. Raises: as the towers' makers."""
    if cfg.dual_model == "dinov2-minilm":
        towers = workshop_towers()
    else:
        towers = quick_towers(seed, things.PRETRAINING if cfg.captioned_things else None)
    device = choose_device(cfg.device)
    towers.image.to(device)
    towers.text.to(device)
    return towers


def draw_examples(cfg: ClipParams, towers: Towers) -> tuple[Examples, Examples | None]:
    """What the image tower makes of captioned animals, all classes, and of captioned things.

    Of two animals it is run where both have captions for at least one of `cfg.head_seeds`.
    """
    animals = captioned_examples(towers, cfg.captioned_images, seed=cfg.seed)
    if cfg.captioned_pairs:
        groups = [class_split(seed)[0] for seed in cfg.head_seeds]
        pairs = captioned_pairs(towers, cfg.captioned_pairs, seed=cfg.seed, groups=groups)
        animals = together([animals, pairs])
    if not cfg.captioned_things:
        return animals, None
    drawings = things.PRETRAINING
    return animals, captioned_examples(
        towers, cfg.captioned_things, drawings=drawings, seed=cfg.seed
    )


def join_encoder(
    cfg: ClipParams, towers: Towers, parts: tuple[Examples, Examples | None], seed: int
) -> Encoder:
    """Train the projections for one seed, which also draws the classes with captions.

    A text tower that learns is begun anew. Raises: ValueError as `join_towers`.
    """
    seen, unseen = class_split(seed)
    animals, others = parts
    if not towers.frozen:
        towers = begin_towers(cfg, seed)
    settings = JoinSettings(
        width=cfg.joint_width,
        epochs=cfg.joining_epochs,
        batch_size=cfg.batch_size,
        lr=cfg.lr,
        temperature=cfg.temperature,
        seed=seed,
    )
    shown = [animals.of_classes(seen)] + ([others] if others is not None else [])
    dual, joint = join_towers(towers, shown, settings)
    return Encoder(
        dual,
        towers.tokenizer,
        tuple(map(prompt, names())),
        {SEEN: seen, UNSEEN: unseen},
        seed,
        joint.history,
    )


def ready_encoder(cfg: ClipParams, classes: Sequence[str]) -> Encoder:
    """CLIP as published, or with `source` random two blocks of its shape, on `cfg.device`.

    Prompts are those of the published script, or with `protocol` described have their own article.
    Raises: as `clip_folder` and `load_clip`.
    """
    prompts = tuple(map(published_prompt if cfg.protocol == "published" else prompt, classes))
    if cfg.source == "random":
        dual, tokenizer = random_clip(prompts, cfg.seed)
    else:
        dual, tokenizer = load_clip(clip_folder(cfg.weights_root))
    dual = dual.to(choose_device(cfg.device))
    return Encoder(dual, tokenizer, prompts, {ALL: tuple(range(len(prompts)))}, cfg.seed)
