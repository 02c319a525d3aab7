"""Where a model looks, and whether its answer depends on the background."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from relevit.data import cutouts
from relevit.data.batch import Batch
from relevit.data.foregrounds import CLASSES
from relevit.data.textures import SEEN
from relevit.evaluate import BATCH, predict
from relevit.model_spec import ModelSpec
from relevit.relevance import foreground_iou_pct, gae, to_pixels

RIGHT, WRONG = "#1b7f4b", "#b3261e"


@dataclass(frozen=True)
class Look:
    """Relevance maps of a batch for the predicted classes, and what they say."""

    heatmaps: Float[Tensor, "batch 1 size size"]
    predictions: Int[Tensor, " batch"]
    confidence_pct: Float[Tensor, " batch"]
    iou_pct: Float[Tensor, " batch"]
    on_object_pct: Float[Tensor, " batch"]  # share of all relevance that lies on the mask
    titles: list[str]
    colours: list[str]


def look(model: nn.Module, spec: ModelSpec, batch: Batch, classes: Sequence[str] = CLASSES) -> Look:
    """Explain each image's predicted class, BATCH images at a time; results on the CPU.

    `classes` are the names for the titles.
    """
    device = next(model.parameters()).device
    heatmaps, logits = [], []
    for part in batch.split(BATCH):
        pixels = spec.normalise(part.images.to(device))
        heatmaps.append(to_pixels(gae(model, pixels), pixels.shape[-2:]).cpu())
        with torch.inference_mode():
            logits.append(model(pixels).float().cpu())
    heat = torch.cat(heatmaps)
    confidence, predictions = torch.cat(logits).softmax(dim=1).max(dim=1)
    total = heat.sum(dim=(1, 2, 3)).clamp_min(1e-12)
    return Look(
        heatmaps=heat,
        predictions=predictions,
        confidence_pct=100 * confidence,
        iou_pct=foreground_iou_pct(heat, batch.masks),
        on_object_pct=100 * (heat * batch.masks).sum(dim=(1, 2, 3)) / total,
        titles=[
            f"{classes[p]} {100 * c:.0f} %" for p, c in zip(predictions, confidence, strict=True)
        ],
        colours=[
            RIGHT if p == label else WRONG
            for p, label in zip(predictions, batch.labels, strict=True)
        ],
    )


@dataclass(frozen=True)
class Swap:
    """Answers to the same animals on their home texture and on the other seen ones."""

    right_home_pct: float
    right_other_pct: float
    changed_pct: float  # of the animals, how many get another answer on some texture
    home_images: UInt8[Tensor, "shown 3 size size"]
    other_images: UInt8[Tensor, "shown 3 size size"]
    home_titles: list[str]
    other_titles: list[str]


def background_swap(
    model: nn.Module, spec: ModelSpec, *, images: int, seed: int = 0, shown: int = 10
) -> Swap:
    """Draw `images` validation images on all eight seen textures; all else stays the same."""
    answers, pictures = [], []
    home = [cutouts.home_family(i % len(CLASSES)) for i in range(images)]
    for step in range(len(SEEN)):
        families = [(family + step) % len(SEEN) for family in home]
        batch = cutouts.draw(
            "validation", range(images), families=families, seed=seed, size=spec.image_size
        )
        found = predict(model, spec, batch.split(BATCH))["prediction"]
        answers.append(torch.tensor(found.tolist()))
        pictures.append(batch.images)
    given = torch.stack(answers)  # [textures, images]; row 0 is the home texture
    right = given == batch.labels
    changed = (given[1:] != given[0]).any(dim=0)
    pick = _first(changed & right[0], shown)
    other = [1 + int((given[1:, i] != given[0, i]).int().argmax()) for i in pick]
    return Swap(
        right_home_pct=100 * float(right[0].float().mean()),
        right_other_pct=100 * float(right[1:].float().mean()),
        changed_pct=100 * float(changed.float().mean()),
        home_images=pictures[0][pick],
        other_images=torch.stack([pictures[t][i] for t, i in zip(other, pick, strict=True)]),
        home_titles=[CLASSES[given[0, i]] for i in pick],
        other_titles=[CLASSES[given[t, i]] for t, i in zip(other, pick, strict=True)],
    )


def _first(wanted: Tensor, count: int) -> list[int]:
    """Up to `count` indices, the wanted ones first, then the rest in order."""
    order = torch.argsort(wanted.int(), descending=True, stable=True)
    return order[:count].tolist()
