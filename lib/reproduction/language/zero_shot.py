"""Zero-shot: answers sought among prompts, and the perturbation test on them.

Source: Beyond Intuition Sec. 4.2 (CLIP ViT-B/32, zero-shot on ImageNet), Table 3.
"""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd
import torch
from jaxtyping import Bool
from torch import Tensor

from relevit.data.batch import Batch
from relevit.evaluate.intervals import PERCENT, mean_interval
from relevit.evaluate.perturbation import SHARES_PCT, Erasing, auc_table
from relevit.protocols import Protocol, options
from relevit.text.clip.dual import CLIP_METHODS
from reproduction.language.encoders import Encoder
from reproduction.measures.methods import perturb, perturb_by_label, shared_maps


def right_answers(encoder: Encoder, batches: Iterable[Batch]) -> Bool[Tensor, " images"]:
    """Whether the most similar prompt is that of the class; images without a class are left out."""
    dual, texts, found = encoder.dual, encoder.texts(), []
    for batch in batches:
        known = batch.select(batch.labels >= 0)
        if len(known):
            seen = dual.embed_images(dual.spec.normalise(known.images, like=dual.scale))
            found.append((seen @ texts.T).argmax(dim=1).cpu() == known.labels)
    return torch.cat(found)


def zero_shot_table(encoder: Encoder, right: Bool[Tensor, " images"]) -> pd.DataFrame:
    """Over images, a row: model, images, accuracy_pct, low_pct, high_pct, chance_pct."""
    values = 100 * right.double()
    low, high = mean_interval(values, PERCENT)
    row = (encoder.name, len(right), values.mean().item(), low, high, 100 / len(encoder.prompts))
    columns = ["model", "images", "accuracy_pct", "low_pct", "high_pct", "chance_pct"]
    return pd.DataFrame([row], columns=columns)


def zero_shot_perturbation(
    encoder: Encoder, batch: Batch, *, protocol: Protocol = "published"
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The perturbation test on an image classifier made of prompts, as Beyond Intuition Table 3.

    Maps are by `protocol`, each for the predicted class and, under target `label`, for the right
    one. Erased pixels get the mean colour, as in the script for CLIP; the text names none
    (differences E7). The area is, of the text, the mean over the masked inputs (E6). The script
    goes on to 100 % and measures that end too (E7).
    Returns: the rows of `perturb` with target; and the areas as claims read them: method,
    direction, images, auc_pct, low_pct, high_pct, target, model.
    """
    area = options(protocol, "zero_shot_perturbation")
    erasing = Erasing(fill="mean", shares_pct=area.pop("shares_pct", SHARES_PCT))
    model, spec = encoder.classifier(), encoder.dual.spec
    maps = shared_maps(model, spec, batch.images, CLIP_METHODS, protocol=protocol)
    predicted = perturb(model, spec, batch, maps, erasing)
    by_label = perturb_by_label(model, spec, batch, predicted, erasing, protocol=protocol)
    parts = {"predicted": predicted, "label": by_label}
    columns = ["method", "direction", "images", "auc_pct", "low_pct", "high_pct", "target"]
    areas = pd.concat(
        [
            auc_table(rows[rows["method"] == name], **area).assign(method=name, target=target)
            for target, rows in parts.items()
            for name in CLIP_METHODS
        ],
        ignore_index=True,
    )[columns].assign(model=encoder.name)
    rows = [rows.assign(target=target) for target, rows in parts.items()]
    return pd.concat(rows, ignore_index=True), areas.replace({"target": {"label": "target"}})
