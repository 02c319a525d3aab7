"""Dual encoders made here: two towers that never met, joined on captioned Cutouts.

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

from relevit.base.extras import text_extra
from relevit.data.foregrounds import CLASSES, Drawings
from relevit.data.textures import FAMILIES
from relevit.evaluate.frozen_features import class_features
from relevit.evaluate.pointing import draw_pairs
from relevit.models.loading import load_model, load_pretrained, model_spec
from relevit.models.spec import ModelSpec
from relevit.text.clip.captions import Captioned, caption, captioned, prompt
from relevit.text.clip.dual import DualEncoder, encode_whole, run_texts, with_head
from relevit.text.clip.joining import JoinSettings, Joint, caption_places, join, join_training_text
from relevit.text.convert import from_bert
from relevit.text.encoder import TextTransformer, build_tiny
from relevit.text.minilm import minilm_folder
from relevit.text.tokens import Tokens, load_tokenizer, word_tokenizer, words_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer

BATCH = 10  # images run at once; with 50 of 224 px one core takes a fifth longer
# Pixels. DINOv2 learned on 224 and more; at 112 an animal is a few patches, and maps of two phrases
# point worse.
WORKSHOP_SIDE = 224
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
        """Tokens of texts. Raises: ValueError as `encode_whole`."""
        return [encode_whole(self.tokenizer, text, self.text.limit) for text in texts]


@dataclass(frozen=True)
class Examples:
    """What the image tower makes of captioned images, run once, with what is written below each.

    `labels` are the classes that the captions name.
    """

    features: Float[Tensor, "images width"]
    captions: tuple[tuple[str, ...], ...]
    labels: Int[Tensor, "images captions"]

    def of_classes(self, wanted: Sequence[int]) -> Examples:
        """Images that show these classes alone. Raises: ValueError when there is none."""
        keep = torch.isin(self.labels, torch.tensor(list(wanted))).all(dim=1)
        places = keep.nonzero()[:, 0].tolist()
        if not places:
            raise ValueError(
                f"Examples: none of {len(self.labels)} images has a class of {list(wanted)[:5]}; "
                "give labels of the images"
            )
        kept = tuple(self.captions[i] for i in places)
        return Examples(self.features[keep.to(self.features.device)], kept, self.labels[keep])


def workshop_towers() -> Towers:
    """DINOv2-S at WORKSHOP_SIDE and MiniLM-L6 with its mean pooling, both out of pinned wheels.

    Raises: ImportError without the extra `text`, ConnectionError when a wheel cannot be had.
    """
    with text_extra("clip"):
        from transformers import BertModel
    folder = minilm_folder()
    encoder = BertModel.from_pretrained(folder, local_files_only=True, use_safetensors=True)
    image = load_pretrained("dinov2-s", image_size=WORKSHOP_SIDE).eval()
    spec = replace(model_spec("dinov2-s"), image_size=WORKSHOP_SIDE)
    text = from_bert(encoder.float().eval(), reads="mean")
    return Towers(image, text, load_tokenizer(folder), spec)


def quick_towers(seed: int = 0, others: Drawings | None = None) -> Towers:
    """The shipped `tiny` ViT, and a text encoder with the captions' words, not their sense.

    `others` are drawings beside the animals whose captions it is to read.
    """
    tokenizer = caption_tokenizer(others)
    text = build_tiny(tokenizer.get_vocab_size(), 1, positions=24, reads="mean", seed=seed)
    return Towers(load_model("tiny"), text, tokenizer, model_spec("tiny"), frozen=False)


def caption_tokenizer(others: Drawings | None = None) -> Tokenizer:
    """Words of all captions and prompts of the animals, and of `others` where these are given.

    [PAD] is 0, then the other special tokens. Raises: ImportError without the extra `text`.
    """
    texts = [caption(i % len(CLASSES), i % len(FAMILIES)) for i in range(len(CLASSES) * 3)]
    texts += [prompt(name) for name in CLASSES] + ["a an some something"]
    if others is not None:
        texts += [caption(i, None, others) for i in range(len(others.classes))]
        texts += [prompt(name) for name in others.classes]
    return word_tokenizer(words_of(texts))


def examples(towers: Towers, shown: Captioned) -> Examples:
    """Run the image tower over captioned images, once for all that is trained on them."""
    batches = (part.images for part in shown.batch.split(BATCH))
    features = class_features(towers.image, towers.spec, batches)
    labels = shown.batch.labels[:, None].expand(-1, len(shown.captions[0]))
    return Examples(features, shown.captions, labels)


def captioned_examples(
    towers: Towers, count: int, *, drawings: Drawings | None = None, seed: int = 0
) -> Examples:
    """`count` images of all animals in turn, half of them in the middle, half small and anywhere.

    The latter as `two_objects` draws its pairs, with draws of their own. `drawings` are shown
    instead of the animals: with the hundred of `things.PRETRAINING` there are more words than
    forty to learn from. Raises: ValueError for fewer than two images.
    """
    if count < 2:
        raise ValueError(f"captioned_examples: {count} images asked for; give at least 2")
    halves = (("train", count - count // 2), ("si_location", count // 2))
    parts = [
        examples(
            towers,
            captioned(
                name, range(many), seed=SEED + seed, size=towers.spec.image_size, drawings=drawings
            ),
        )
        for name, many in halves
    ]
    return together(parts)


def captioned_pairs(
    towers: Towers, count: int, *, seed: int = 0, groups: Sequence[Sequence[int]] | None = None
) -> Examples:
    """`count` images of two animals, each with a caption of its own, drawn as by `two_objects`.

    With `groups` of classes the tower is spared those that show no two of one group: no training
    on one of these groups takes them. Raises: ValueError for a count below 1, or none left.
    """
    pairs = draw_pairs(count, seed=SEED + seed, size=towers.spec.image_size)
    if groups is not None:
        wanted = [torch.tensor(list(group)) for group in groups]
        inside = [torch.isin(pairs.labels, group).all(dim=1) for group in wanted]
        pairs = pairs.select(torch.stack(inside).any(dim=0).nonzero()[:, 0])
        if not len(pairs):
            raise ValueError(
                f"captioned_pairs: none of {count} images shows two classes of one group; draw more"
            )
    captions = tuple(tuple(map(caption, both)) for both in pairs.labels.tolist())
    features = class_features(towers.image, towers.spec, pairs.images.split(BATCH))
    return Examples(features, captions, pairs.labels)


def together(parts: Sequence[Examples]) -> Examples:
    """One after the other; all have as many captions an image."""
    return Examples(
        torch.cat([part.features for part in parts]),
        tuple(forms for part in parts for forms in part.captions),
        torch.cat([part.labels for part in parts]),
    )


def join_towers(
    towers: Towers, parts: Sequence[Examples], settings: JoinSettings
) -> tuple[DualEncoder, Joint]:
    """Train the projections on examples, and the text tower where it is not frozen.

    A tower that is trained is the one in `towers`: begin with new ones for each training.
    Raises: ValueError as `join`.
    """
    shown = together(parts)
    captions, captions_of = caption_places(shown.captions)
    texts = towers.encode(captions)
    if towers.frozen:
        pooled = run_texts(with_head(towers.text, nn.Identity()), texts)
        joint = join(shown.features, pooled, captions_of, settings)
    else:
        joint = join_training_text(shown.features, towers.text, texts, captions_of, settings)
    projections = joint.image_projection, joint.text_projection
    dual = DualEncoder(towers.image, towers.text, *projections, joint.scale, towers.spec)
    return dual, joint
