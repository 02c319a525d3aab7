"""Dual encoders, their images and their tests as the parameters of 12_clip ask for them.

Source: Beyond Intuition Sec. 4.2 (CLIP ViT-B/32, zero-shot on ImageNet). Where CLIP is not at hand,
two towers that never met are joined on captioned Cutouts of half of the classes; the other half
has no caption in training and is what zero-shot is about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import normalize

from relevit.base.device import choose_device
from relevit.config import ClipParams
from relevit.data import things
from relevit.data.batch import Batch
from relevit.data.foregrounds import class_split
from relevit.evaluate.intervals import bootstrap_interval
from relevit.evaluate.pointing import Pairs, draw_pairs
from relevit.models.spec import ModelSpec
from relevit.text.clip.captions import Captioned, captioned, names, prompt, published_prompt
from relevit.text.clip.dual import DualEncoder
from relevit.text.clip.from_transformers import clip_folder, load_clip
from relevit.text.clip.joining import JoinSettings
from relevit.text.clip.phrases import phrase_pointing
from relevit.text.clip.random_clip import random_clip
from relevit.text.clip.towers import (
    Examples,
    Towers,
    captioned_examples,
    captioned_pairs,
    join_towers,
    quick_towers,
    together,
    workshop_towers,
)
from relevit.text.clip.zero_shot import zero_shot_hits, zero_shot_perturbation, zero_shot_table

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SEEN, UNSEEN, ALL = "seen", "unseen", "all"
ROUNDS = 8  # of draws that look for pairs of a group


@dataclass(frozen=True)
class Encoder:
    """A dual encoder with one prompt a class, and which classes had captions in its training."""

    dual: DualEncoder
    tokenizer: Tokenizer
    prompts: tuple[str, ...]
    groups: Mapping[str, Sequence[int]]  # labels by SEEN and UNSEEN, or ALL of one that came ready
    seed: int = 0
    history: pd.DataFrame | None = None

    def texts(self, phrases: Sequence[str] | None = None) -> Float[Tensor, "phrases width"]:
        """Features of phrases, by default of the prompts. Raises: ValueError as `encode`."""
        return self.dual.embed_phrases(self.tokenizer, phrases or self.prompts)

    def classifier(self, phrases: Sequence[str] | None = None) -> nn.Module:
        """The image side as a classifier of these phrases, by default of the prompts."""
        return self.dual.image_classifier(self.texts(phrases))


# The encoders


def begin(cfg: ClipParams, seed: int) -> Towers:
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
        towers = begin(cfg, seed)
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


# Zero-shot


def held_out(cfg: ClipParams, spec: ModelSpec) -> Captioned:
    """Cutouts of `val`, which no training has, with what could be written below them."""
    return captioned("val", range(cfg.held_out_images), seed=cfg.seed, size=spec.image_size)


def projected(encoder: Encoder, shown: Examples) -> Float[Tensor, "images width"]:
    """Image features out of what the tower, run once for all seeds, made of the images."""
    with torch.no_grad():
        return normalize(encoder.dual.image_projection(shown.features), dim=1)


def embed_batches(
    dual: DualEncoder, batches: Iterable[Batch]
) -> tuple[Float[Tensor, "images width"], Int[Tensor, " images"]]:
    """Features and labels of images that come batch by batch; those of unknown class left out."""
    like, found = next(dual.parameters()), []
    for batch in batches:
        known = batch.select(batch.labels >= 0)
        if len(known):
            pixels = dual.spec.normalise(known.images, like=like)
            found.append((dual.embed_images(pixels), known.labels))
    if not found:
        raise ValueError("12_clip: no image with a known class; choose other held_out_images")
    features, labels = zip(*found, strict=True)
    return torch.cat(features), torch.cat(labels)


def zero_shot_rows(
    cfg: ClipParams,
    encoder: Encoder,
    images: Float[Tensor, "images width"],
    labels: Int[Tensor, " images"],
    phrases: Sequence[str] | None = None,
) -> pd.DataFrame:
    """`zero_shot_table` of the encoder's groups: model, seed, classes (the group), candidates, ...

    Of ALL, which may have classes without an image, the mean and its interval are over images.
    """
    texts = encoder.texts(phrases)
    if ALL in encoder.groups:
        hits = 100 * zero_shot_hits(images, texts, labels, encoder.groups[ALL]).double()
        row = (
            ALL,
            len(texts),
            len(hits),
            hits.mean().item(),
            *bootstrap_interval(hits),
            100 / len(texts),
        )
        columns = ["group", "classes", "images", "accuracy_pct", "low_pct", "high_pct"]
        table = pd.DataFrame([row], columns=[*columns, "chance_pct"])
    else:
        table = zero_shot_table(images, texts, labels, encoder.groups, cfg.seed)
    table = table.rename(columns={"classes": "candidates", "group": "classes"})
    table.insert(0, "seed", encoder.seed)
    table.insert(0, "model", cfg.dual_model)
    return table


# Erasing


def erased_group(zero_shot: pd.DataFrame, seed: int) -> str:
    """The group whose images are to be erased: UNSEEN where its interval is above chance.

    Else SEEN: of an encoder that guesses nothing can be erased. ALL where that is the only one.
    """
    rows = zero_shot[zero_shot["seed"] == seed].set_index("classes")
    if ALL in rows.index:
        return ALL
    unseen = rows.loc[UNSEEN]
    return UNSEEN if unseen["low_pct"] > unseen["chance_pct"] else SEEN


def erased_images(
    cfg: ClipParams, encoder: Encoder, group: str, batch: Batch
) -> tuple[nn.Module, Batch]:
    """A classifier of the classes of a group, and `cfg.images` images of these.

    Labels are places among the group's prompts. Raises: ValueError without such an image.
    """
    classes = torch.tensor(list(encoder.groups[group]))
    places = torch.isin(batch.labels, classes).nonzero()[: cfg.images, 0]
    if not len(places):
        raise ValueError(f"12_clip: no image of the classes {group}; draw more images")
    chosen = batch.select(places)
    labels = torch.searchsorted(classes, chosen.labels)
    chosen = Batch(chosen.images, chosen.masks, labels, chosen.families)
    return encoder.classifier([encoder.prompts[i] for i in classes]), chosen


def perturbation(
    cfg: ClipParams,
    classifier: nn.Module,
    spec: ModelSpec,
    group: str,
    batch: Batch,
    **options: Any,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`zero_shot_perturbation` on images of `group`, with the names that claims read."""
    rows, table = zero_shot_perturbation(classifier, spec, batch, protocol=cfg.protocol, **options)
    table = table.assign(model=cfg.dual_model, classes=group)
    return rows, table.replace({"target": {"label": "target"}})


# Two phrases


def group_pairs(cfg: ClipParams, encoder: Encoder, size: int) -> Pairs:
    """`cfg.pairs` images with two objects for each group, both of the group's classes.

    Raises: ValueError when they do not come up.
    """
    for turn in range(ROUNDS):
        pool = draw_pairs(cfg.pairs * 2 ** (turn + 3), seed=cfg.seed, size=size)
        inside = [
            torch.isin(pool.labels, torch.tensor(list(part))).all(dim=1)
            for part in encoder.groups.values()
        ]
        if min(int(mask.sum()) for mask in inside) >= cfg.pairs:
            keep = torch.cat([mask.nonzero()[: cfg.pairs, 0] for mask in inside])
            return pool.select(keep)
    raise ValueError(
        f"12_clip: pairs = {cfg.pairs} of classes in {list(encoder.groups)}: too few came up; "
        "take fewer pairs"
    )


def likely_pairs(classifier: nn.Module, spec: ModelSpec, batch: Batch, count: int) -> Pairs:
    """The first `count` images (or all) with the two classes they are most similar to.

    These stand in for two known objects. The masks are empty: where photographs show what is not
    known.
    """
    batch = batch.select(range(len(batch))[:count])
    device = next(classifier.parameters()).device
    with torch.no_grad():
        logits = classifier(spec.normalise(batch.images.to(device)))
    masks = torch.zeros(len(batch), 2, *batch.images.shape[-2:], dtype=torch.bool)
    return Pairs(batch.images, masks, logits.topk(2, dim=1).indices.cpu())


def pointing(
    cfg: ClipParams,
    encoder: Encoder,
    pairs: Pairs | None,
    maps: Mapping[str, Tensor],
    logits: Float[Tensor, "pairs classes"] | None = None,
) -> pd.DataFrame:
    """`phrase_pointing` with the names that claims read; empty, with its columns, without pairs.

    Rows whose `phrases` are recognised are of those that the image's `logits` rank high.
    """
    columns = [
        "model",
        "seed",
        "classes",
        "phrases",
        "method",
        "images",
        "own_object_pct",
        "standard_error_pts",
    ]
    if pairs is None:
        return pd.DataFrame(columns=columns)
    table = phrase_pointing(pairs, maps, encoder.groups, logits)
    table = table.rename(columns={"group": "classes", "explanations": "images"})
    return table.assign(model=cfg.dual_model, seed=encoder.seed)[columns]
