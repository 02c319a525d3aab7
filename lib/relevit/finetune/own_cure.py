"""Which cure a run on one's own images takes, and what each cure is in the settings of a run."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool

from relevit.choices.finetuning import LOSS_WEIGHTS, FinetuneChoices
from relevit.choices.own import OwnChoices
from relevit.choices.words import OWN_CURES, Cure
from relevit.data.batch import Batch
from relevit.data.filling import fit_for_swap
from relevit.data.own.listing import Listing
from relevit.finetune.augmenting import backgrounds


class _Told(dict[str, str]):
    """What is said of each cure; of an extension's the sentence of "" with its name in it."""

    def __missing__(self, cure: str) -> str:
        return self[""].format(cure)


# What tables and folders call the models, and what each cure trains on.
NAMES = _Told({
    "label": "without",
    "relevance": "with relevance",
    "swap": "with swaps",
    "both": "with both",
    "": "with {}",
})  # fmt: skip
ABOUT = _Told({
    "label": "the class term alone",
    "relevance": "the relevance terms",
    "swap": "the class term on swapped backgrounds",
    "both": "the relevance terms on swapped backgrounds",
    "": "the class term on images changed by {}",
})  # fmt: skip
SWAPPED = ("swap", "both")
LOOKING = ("relevance", "both")


def cure_settings(choices: OwnChoices, cure: Cure) -> dict[str, Any]:
    """What `FinetuneSettings` is told by a cure, beside rate and precision."""
    weights = {name.removeprefix("weight_"): getattr(choices, name) for name in LOSS_WEIGHTS}
    if cure not in LOOKING:
        weights["relevance"] = 0.0
    asked = {name: getattr(choices, name) for name in FinetuneChoices.model_fields}
    if cure not in SWAPPED:
        asked["augmentation"] = "none" if cure in OWN_CURES else cure
    return asked | {"weights": weights | choices.more_losses}


def taken_cure(choices: OwnChoices, train: Batch, drawn: Listing | None) -> tuple[Cure, str]:
    """The cure of a run on the images `train`, and why it is that one.

    `drawn` has their masks as they are on disk, None where TokenCut made them. Source of what
    `auto` takes: docs/cures.md and docs/photographs.md.
    Raises: as `backgrounds`, where a swap is asked for and there is nothing to swap.
    """
    count = int(fit_for_swap(train).sum())
    asked = {choices.cure, choices.against if choices.control else ""}
    if count < 2 and asked & set(SWAPPED):
        backgrounds(train, choices.augmentation)  # which says why not
    if choices.cure != "auto":
        return choices.cure, "as asked"
    if drawn is not None and all(is_box(drawn.mask(place)) for place in range(len(drawn))):
        return "relevance", "the masks are boxes, with which no other was better on drawings"
    if count < 2:
        found = f"{count} of {len(train)} training images have a mask and a background beside it"
        return "relevance", f"{found}, and a swap needs two"
    return "swap", "what led on photographs (docs/photographs.md)"


def is_box(mask: Bool[np.ndarray, "height width"]) -> bool:
    """Whether an object fills its bounding box; an empty mask says nothing against it."""
    if not mask.any():
        return True
    rows, columns = (mask.any(axis=axis).nonzero()[0] for axis in (1, 0))
    return bool(mask[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].all())
