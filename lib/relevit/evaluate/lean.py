"""How much a model leans on context: the same objects on other backgrounds, and gone.

Source: the backgrounds challenge of Xiao et al. 2020, Noise or Signal, on images of one's own with
masks. A pasted object has a seam, and its new background the fill of another object. So what is
compared has both on both sides: the *background gap* is top-1 on the backgrounds of the same class
less that on those of others.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, interpolate

from relevit.attention.recording import evaluating
from relevit.data.batch import Batch
from relevit.data.filling import GREY, fit_for_swap, without_objects
from relevit.evaluate.predictions import BATCH
from relevit.models.answers import need_classes
from relevit.models.spec import ModelSpec

# What each image is shown as: as it is; its object on its own background, filled in (the control);
# on that of another image of its class; of another class; on grey; on its own, blurred; and its
# background alone, the object painted over.
CONDITIONS = ("original", "control", "same", "other", "grey", "blurred", "filled")
BLUR = 8  # fields a side whose means are left of a blurred background


@torch.inference_mode()
def lean_rows(
    model: nn.Module,
    spec: ModelSpec,
    images: UInt8[Tensor, "images 3 height width"],
    masks: Bool[Tensor, "images 1 height width"],
    labels: Int[Tensor, " images"],
    *,
    seed: int = 0,
) -> pd.DataFrame:
    """What the model answers to each image under each of CONDITIONS, a row each.

    Images as `spec` has them in its view, 0 to 255; masks are True on the object. Images without an
    object, or without a background to fill in from, are left out; an only one of its class has no
    row `same`. `seed` draws whose backgrounds are taken.
    Columns: image (its place), label, condition, right, probability (of the right class, 0 to 1)
    and logit: of the class answered for the original, all less their mean over the classes, and
    less that of a grey picture. So 0 is what the model says where there is nothing.
    Raises: ValueError for a head of one output, and where fewer than two classes are left.
    """
    batch = Batch(images, masks, labels)
    places = torch.cat([fit_for_swap(part) for part in batch.split(BATCH)]).nonzero()[:, 0]
    batch = batch.select(places)
    if (classes := batch.labels.unique().numel()) < 2:
        raise ValueError(
            f"lean: {len(batch)} of {len(images)} images have an object and a background beside "
            f"it, of {classes} classes; give such images of two classes or more"
        )
    parts = [without_objects(part.images, part.masks) for part in batch.split(BATCH)]
    behind, rng = torch.cat([part.round().byte() for part in parts]), np.random.default_rng(seed)
    whose = {name: torch.arange(len(batch)) for name in CONDITIONS}
    whose |= {name: _others(batch.labels, name == "same", rng) for name in ("same", "other")}
    logits = {"": _logits(model, spec, torch.full_like(images[:1], round(GREY)))}
    for condition in CONDITIONS:
        found = []
        for part in (whose[condition] >= 0).nonzero()[:, 0].split(BATCH):
            shown, others = batch.select(part), behind[whose[condition][part]]
            found.append(_logits(model, spec, _pictures(condition, shown, others)))
        logits[condition] = torch.cat(found) if found else logits[""][:0]
    answered = logits["original"].argmax(dim=1)
    rows = []
    for condition in CONDITIONS:
        part = (whose[condition] >= 0).nonzero()[:, 0]
        found, right = logits[condition], batch.labels[part, None]
        above = _centred(found) - _centred(logits[""])
        values = {
            "image": places[part],
            "label": right[:, 0],
            "right": found.argmax(dim=1) == right[:, 0],
            "probability": found.softmax(dim=1).gather(1, right)[:, 0],
            "logit": above.gather(1, answered[part, None])[:, 0],
        }
        table = pd.DataFrame({name: value.numpy() for name, value in values.items()})
        table.insert(2, "condition", condition)
        rows.append(table)
    return pd.concat(rows, ignore_index=True)


def _others(
    labels: Int[Tensor, " images"], same: bool, rng: np.random.Generator
) -> Int[Tensor, " images"]:
    """Another image of the same class for each, or one of any other; -1 where there is none."""
    places = []
    for place, label in enumerate(labels):
        fit = (labels == label) == same
        fit[place] = False
        found = fit.nonzero()[:, 0].numpy()
        places.append(int(rng.choice(found)) if len(found) else -1)
    return torch.tensor(places)


def _pictures(
    condition: str, shown: Batch, behind: UInt8[Tensor, "images 3 height width"]
) -> UInt8[Tensor, "images 3 height width"]:
    """The images as the condition shows them; `behind` are the filled backgrounds."""
    if condition in ("original", "filled"):
        return shown.images if condition == "original" else behind
    ground = behind.float()
    if condition == "grey":
        ground = torch.full_like(ground, GREY)
    if condition == "blurred":
        fields, size = adaptive_avg_pool2d(ground, BLUR), ground.shape[-2:]
        ground = interpolate(fields, size, mode="bilinear", align_corners=False)
    over = shown.masks.float()
    return (over * shown.images + (1 - over) * ground).round().byte()


def _logits(
    model: nn.Module, spec: ModelSpec, images: UInt8[Tensor, "images 3 height width"]
) -> Float[Tensor, "images classes"]:
    with evaluating(model):
        logits = model(spec.normalise(images, like=next(model.parameters()))).double().cpu()
    need_classes(logits)
    return logits


def _centred(logits: Float[Tensor, "images classes"]) -> Float[Tensor, "images classes"]:
    return logits - logits.mean(dim=1, keepdim=True)
