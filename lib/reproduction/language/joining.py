"""Join two towers that never met: projections, trained to tell which caption is whose.

Source of the loss: the symmetric contrastive one of CLIP (Radford et al. 2021, Fig. 3). Images are
run through their tower once, and captions too where the text tower is frozen, so that training
takes seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from relevit.finetune.epochs import Losses, Numbers, Row, descend, train_epochs
from relevit.text.clip.dual import DualEncoder, with_head
from relevit.text.encoder import text_logits
from relevit.text.tokens import padded
from reproduction.language.towers import Examples, Towers
from reproduction.params.cells import Params

WEIGHT_DECAY = 0.05
LARGEST_SCALE = 100.0  # as CLIP's


def contrastive_loss(
    images: Float[Tensor, "pairs features"],
    texts: Float[Tensor, "pairs features"],
    scale: Float[Tensor, ""] | float,
    true: Bool[Tensor, "pairs pairs"],
) -> Float[Tensor, ""]:
    """Mean cross-entropy of finding the text of an image, and the image of a text, in nats.

    `true` [image, text] says which texts of the batch are true of which images. One that is true
    of another image too is no wrong answer there: the pair is left out of both choices.
    """
    logits = scale * normalize(images, dim=1) @ normalize(texts, dim=1).T
    own = torch.eye(len(logits), dtype=torch.bool, device=logits.device)
    logits = logits.masked_fill(true & ~own, -torch.inf)
    right = torch.arange(len(logits), device=logits.device)
    return (cross_entropy(logits, right) + cross_entropy(logits.T, right)) / 2


def join_towers(
    cfg: Params, towers: Towers, shown: Examples, seed: int
) -> tuple[DualEncoder, pd.DataFrame]:
    """Train the projections, and the text tower in place where it is not frozen.

    AdamW with a cosine to zero. `seed` draws weights and batches; torch's own is left alone.
    Returns the encoder and a row an epoch: epoch (from 1), loss (nats, mean of both directions),
    scale (what cosines are multiplied by).
    """
    captions = sorted({text for forms in shown.captions for text in forms})
    place = {text: i for i, text in enumerate(captions)}
    own = torch.tensor([[place[text] for text in forms] for forms in shown.captions])
    pooled, learning = _text_features(towers, captions)
    random = torch.Generator().manual_seed(seed)
    widths = shown.features.shape[1], towers.text.words.embedding_dim
    image, text = (_linear(w, cfg.joint_width, random).to(shown.features) for w in widths)
    log_scale = nn.Parameter(shown.features.new_tensor(-math.log(cfg.temperature)))
    weights = [*image.parameters(), *text.parameters(), *learning]
    groups = [{"params": weights}, {"params": [log_scale], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=cfg.joining_lr, weight_decay=WEIGHT_DECAY)
    count = -(-len(own) // cfg.joining_batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, cfg.joining_epochs * count)

    @torch.no_grad()
    def after_step(*_: object) -> None:
        schedule.step()
        log_scale.clamp_(max=math.log(LARGEST_SCALE))

    def batches(epoch: int) -> tuple[Tensor, ...]:
        return torch.randperm(len(own), generator=random).chunk(count)

    def step(places: Tensor) -> Losses:
        chosen, true = _draw_captions(own[places], random)
        seen = image(shown.features[places.to(shown.features.device)])
        told = text(pooled(chosen.to(seen.device)))
        loss = contrastive_loss(seen, told, log_scale.exp(), true.to(seen.device))
        return descend(optimizer, {"loss": loss}) | {"pairs": len(places)}

    def summary(steps: Sequence[Numbers]) -> Row:
        *_, total = accumulate(one["loss"] * one["pairs"] for one in steps)
        return {"loss": total / len(own), "scale": log_scale.exp().item()}

    optimizer.register_step_post_hook(after_step)
    heads, epochs = nn.ModuleList([image, text]), range(1, cfg.joining_epochs + 1)
    rows = [*train_epochs(heads, optimizer, batches, step, epochs, summary=summary)]
    history = pd.DataFrame(rows)
    last = rows[-1]
    if not math.isfinite(last["loss"]):
        raise ValueError(
            f"09_text: the loss of joining became {last['loss']}; take a lower joining_lr"
        )
    sides = ((towers.image, image), (towers.text, text))
    joined = (with_head(tower, layer.requires_grad_(False)) for tower, layer in sides)
    return DualEncoder(*joined, last["scale"], towers.spec), history


def _text_features(
    towers: Towers, captions: list[str]
) -> tuple[Callable[[Tensor], Tensor], list[nn.Parameter]]:
    """What the text tower pools of the captions at some places, and what it learns meanwhile."""
    texts = towers.encode(captions)
    tower = with_head(towers.text, nn.Identity())
    if towers.frozen:
        once = text_logits(tower, texts)
        return lambda places: once[places], []
    ids, mask = (part.to(tower.device) for part in padded(texts, tower.pad_id))

    def pooled(places: Tensor) -> Tensor:
        return tower(tower.embed(ids[places], mask[places]), mask[places])

    return pooled, list(tower.parameters())


def _draw_captions(
    own: Int[Tensor, "pairs forms"], random: torch.Generator
) -> tuple[Int[Tensor, " pairs"], Bool[Tensor, "pairs pairs"]]:
    """One of each image's captions, and which of those drawn are true of which image."""
    form = torch.randint(own.shape[1], (len(own), 1), generator=random)
    chosen = own.gather(1, form)[:, 0]
    return chosen, (own[:, :, None] == chosen).any(dim=1)


def _linear(inputs: int, outputs: int, random: torch.Generator) -> nn.Linear:
    layer = nn.utils.skip_init(nn.Linear, inputs, outputs)
    limit = inputs**-0.5  # as torch draws them
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.rand(parameter.shape, generator=random) * 2 * limit - limit)
    return layer
