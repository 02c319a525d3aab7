"""One's own images as a model sees them, with masks: those beside them, or TokenCut's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
import torch

from relevit.choices.own import OwnChoices
from relevit.data.batch import Batch, join
from relevit.data.image_set import AHEAD
from relevit.data.own.listing import Listing
from relevit.evaluate.predictions import BATCH, predict
from relevit.finetune.own_data import TOKENCUT, OwnData
from relevit.finetune.own_folder import Say
from relevit.masks import AutomaticMasks, automatic_masks, feature_model, feature_spec, sound
from relevit.models.loading import OwnModel
from relevit.models.spec import View
from relevit.protocols import Protocol, options

FEATURES, FEATURE_SIDE = "dinov2-s", 224  # what TokenCut cuts, and the pixels it is shown
SQUEEZED = 256 / 224  # side that training crops from, over the model's (B4)
FEWEST_MAPS = 4  # annotated validation images below which TokenCut makes their masks, too
FEWEST_TO_TELL = 20  # images, whether a head knows the classes
TRIES = 4  # times as many images as asked for, in which TokenCut looks for objects


@dataclass(frozen=True)
class OwnImages:
    """What runs train on and choose on, decoded. The first `maps` of validation have masks."""

    train: Batch
    validation: Batch
    maps: int
    found: AutomaticMasks | None  # of these, where they are TokenCut's
    drawn: Listing | None = None  # those to train on, where TokenCut makes their masks
    looked: int = 0  # images in which it looked for them


def read(part: Listing, view: View) -> Batch:
    return join(list(batches(part, view)))


def batches(part: Listing, view: View) -> Iterator[Batch]:
    """A part's images in its order, with masks where every image has one.

    Those that cannot be read are gone: one that is skipped now would shift all after it.
    """
    return part.image_set(view).batches(BATCH, ahead=AHEAD)


def training_images(
    choices: OwnChoices, data: OwnData, model: OwnModel, device: torch.device, say: Say
) -> OwnImages:
    """Decoded, with their masks; TokenCut's where there are no others."""
    part, annotated, view = data.validation, data.masks != TOKENCUT, model.view
    order = np.random.default_rng(choices.seed).permutation(len(part)).tolist()
    order.sort(key=lambda place: part.masks[place] is None)
    shown = part.select(order[: choices.validation_images])
    masked, maps = int(shown.rows["mask"].notna().sum()), min(choices.validation_maps, len(shown))
    if annotated:
        view = replace(view, **options(choices.protocol, "View.mask"))
    train = read(data.finetuning, _to_crop(view)) if annotated else None
    if annotated and masked >= FEWEST_MAPS:
        halves = [shown.select(range(masked)), shown.select(range(masked, len(shown)))]
        seen = [read(half, view) for half in halves if len(half)]
        kind = seen[0].masks.dtype
        validation = join([replace(each, masks=each.masks.to(kind)) for each in seen])
        return OwnImages(train, validation, min(maps, masked), None)
    validation = read(shown, model.view)
    say(f"TokenCut finds the objects of {maps} validation images")
    found = tokencut_masks(validation.select(range(maps)), device, choices.protocol)
    _need_objects(bool(found.kept.any()), maps, "validation")
    if annotated:
        return OwnImages(train, validation, maps, found)
    own = _with_objects(choices, data.train, view, device, say)
    return OwnImages(validation=validation, maps=maps, found=found, **own)


def _with_objects(
    choices: OwnChoices, part: Listing, view: View, device: torch.device, say: Say
) -> dict[str, Any]:
    """The first images of each class in which TokenCut finds an object: fields of `OwnImages`.

    It looks at no more than TRIES as many as are asked for.
    """
    wanted, labels = choices.images_per_class, part.labels.numpy()
    left = {label: np.flatnonzero(labels == label)[: TRIES * wanted] for label in set(labels)}
    found_in, places, looked = [], [], 0
    missing = dict.fromkeys(left, wanted)
    say(f"TokenCut looks for images of each class with an object: {wanted}")
    while asked := [place for label in left for place in left[label][: missing[label]]]:
        left = {label: row[missing[label] :] for label, row in left.items()}
        looked += len(asked)
        images = read(part.select(asked), view)
        found = tokencut_masks(images, device, choices.protocol)
        kept = found.kept.nonzero()[:, 0]
        found_in.append(replace(images, masks=found.refined).select(kept))
        places += (chosen := [asked[place] for place in kept.tolist()])
        for place in chosen:
            missing[labels[place]] -= 1
    _need_objects(bool(places), looked, "finetuning")
    if lost := looked - len(places):
        say(f"  note: in {lost} of {looked} it found no object, or the background in its place")
    for label, count in missing.items():
        if count:
            say(f"  note: class {part.classes[label]} has {wanted - count} images to finetune on")
    order = np.argsort(places, kind="stable").tolist()  # as they are in the part
    drawn = part.select([places[i] for i in order])
    return {"train": join(found_in).select(order), "drawn": drawn, "looked": looked}


def _need_objects(some: bool, count: int, what: str) -> None:
    """Raise ValueError where no image has a mask that is worth training on (B15, B17)."""
    if not some:
        raise ValueError(
            f"finetune: TokenCut finds no object in any of the {count} {what} images; give "
            "masks, or more images"
        )


def need_knowledge(model: OwnModel, images: Batch, what: str, mend: str) -> None:
    """Raise ValueError for a head that has learned other classes, or these in another order."""
    answers = predict(model.network, model.spec, images.split(BATCH))
    right, classes = int((answers["label_rank"] == 0).sum()), model.spec.classes
    by_chance = scipy.stats.binomtest(right, len(images), 1 / classes, alternative="greater")
    if by_chance.pvalue > 0.05 and len(images) >= FEWEST_TO_TELL:
        raise ValueError(
            f"{what} is right on {right} of {len(images)} images, no more than a guess among its "
            f"{classes} classes; if its head has the classes in another order, {mend}"
        )


def _to_crop(view: View) -> View:
    """Squeezed to more pixels than the model takes, out of which training crops (B4)."""
    side = round(view.crop * SQUEEZED)
    return replace(view, resize=side, crop=side, squash=True)


def tokencut_masks(
    batch: Batch, device: torch.device, protocol: Protocol = "published"
) -> AutomaticMasks:
    """Masks of one's own images, which have no annotation; kept are those of an object."""
    network = feature_model(FEATURES, FEATURE_SIDE, device)
    refining = options(protocol, "refine")
    return sound(automatic_masks(network, feature_spec(FEATURES), batch.images, **refining))
