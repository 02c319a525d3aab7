"""Join two towers: two small projections, trained to tell which caption is whose.

Source: the symmetric contrastive loss of CLIP (Radford et al. 2021, Fig. 3). Frozen towers are run
once for each image and each caption, so that training takes seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from relevit.text.encoder import TextTransformer
from relevit.text.tokens import Tokens
from relevit.text.train import padded

LARGEST_SCALE = 100.0  # as CLIP's


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
    images: Float[Tensor, "pairs width"],
    texts: Float[Tensor, "pairs width"],
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
