"""One's own images: what each is for, and as a model sees them, with masks or TokenCut's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy
import torch
from timm.data import ImageNetInfo

from relevit.choices.own import OwnChoices
from relevit.data.batch import Batch, join
from relevit.data.image_set import AHEAD
from relevit.data.own.check import Findings, apart, examine, examine_parts, need_usable
from relevit.data.own.folder import read_data, read_splits
from relevit.data.own.listing import WHOLE, Listing
from relevit.data.own.outlines import MaskValues
from relevit.evaluate.predictions import BATCH, predict
from relevit.finetune.own_folder import Say
from relevit.finetune.own_outputs import find_outputs
from relevit.masks import AutomaticMasks, automatic_masks, feature_model, feature_spec, sound
from relevit.models.loading import OwnModel
from relevit.models.spec import View
from relevit.protocols import Protocol, options

HELD_OUT = "held_out"  # the test images that look like those of training
TOKENCUT = "tokencut"
OF_A_CLASS = 4  # images, where there are more classes than can be shown
FEWEST_IMAGES = 10  # of a set, below which one says nothing
SHARES = (0.5, 0.2)  # of a folder without parts: to train on, to choose on; the rest is held out
FEATURES, FEATURE_SIDE = "dinov2-s", 224  # what TokenCut cuts, and the pixels it is shown
SQUEEZED = 256 / 224  # side that training crops from, over the model's (B4)
FEWEST_MAPS = 4  # annotated validation images below which TokenCut makes their masks, too
FEWEST_TO_TELL = 20  # images, whether a head knows the classes
SETTLING = 100  # images of a part that may tell the order of a head's classes
TRIES = 4  # times as many images as asked for, in which TokenCut looks for objects


@dataclass(frozen=True)
class OwnData:
    """The images by their use. `test` has the held-out ones first, then the shifted sets."""

    train: Listing  # what a new head is fitted to
    finetuning: Listing
    validation: Listing
    test: Mapping[str, Listing]
    masks: str  # annotated or tokencut: where those of finetuning come from
    notes: tuple[str, ...] = ()  # what to know before one reads numbers

    @property
    def classes(self) -> tuple[str, ...]:
        return self.train.classes

    @property
    def parts(self) -> dict[str, Listing]:
        return {"train": self.train, "validation": self.validation, **self.test}


def examine_first(choices: OwnChoices) -> Findings:
    """What is in the data, or in its part for training."""
    return examine(next(iter(read_parts(choices).values())), corrupted=choices.corrupted)


def divide(choices: OwnChoices) -> OwnData:
    """What each image is for: from the folder's own parts, or drawn by the seed, class by class.

    Of a folder without parts half is trained on, a fifth is for choices and the rest is held out.
    With train and one other part, that one is halved. The images finetuned on are the first
    `images_per_class` of each class of train, those with a mask before the others. A photograph
    is in one part alone, whatever its files.
    Raises: ValueError, FileNotFoundError.
    """
    found = examine_parts(read_parts(choices), corrupted=choices.corrupted)
    outlined = any(each.rows["mask"].notna().any() for each in found.values())
    parts = {name: usable(each) for name, each in found.items()}
    first = next(iter(parts.values()))
    classes = _ordered(first.classes, choices)
    parts, twice = apart({name: part.relabelled(classes) for name, part in parts.items()})
    train, validation, held_out = _three(parts, choices.seed)
    if not (len(train) and len(validation) and len(held_out)):
        raise ValueError(
            f"finetune: {choices.data}: {len(train)} images to train on, {len(validation)} for "
            f"choices and {len(held_out)} held out; each needs some: give more images of a class"
            + "".join(f"; {note}" for note in _notes({}, twice))
        )
    divided = {"train": train, "validation": validation, HELD_OUT: held_out}
    others = _shifted(choices, first.white)
    shifted = {name: usable(each) for name, each in others.items()}
    test, again = apart(divided | {n: part.relabelled(classes) for n, part in shifted.items()})
    gone = [name for name, part in test.items() if not len(part)]
    if gone:
        raise ValueError(
            f"finetune: all images of the shifted set {gone[0]!r} are in {choices.data}, too; give "
            "others to test with"
        )
    masks = "annotated" if outlined and choices.masks != TOKENCUT else TOKENCUT
    bare = train.rows.assign(bare=train.rows["mask"].isna(), label=train.labels)
    chosen = train.select(
        bare.sort_values(["label", "bare"], kind="stable")
        .groupby("label")
        .head(choices.images_per_class)
        .index
    )
    without = [name for name, mask in zip(chosen.ids, chosen.masks, strict=True) if mask is None]
    if masks == "annotated" and without:
        raise ValueError(
            f"finetune: {len(without)} of the {len(chosen)} images to finetune on have no mask "
            f"with an object, {without[0]} the first, while others have one; add masks, give a "
            "lower images_per_class, or --masks tokencut to make all of them"
        )
    tested = {name: part for name, part in test.items() if name not in ("train", "validation")}
    seen = {"" if len(found) == 1 else f"{name}: ": each for name, each in found.items()}
    seen |= {f"{name}: ": each for name, each in others.items()}
    unused = [note for place, each in seen.items() for note in each.left_out(place)]
    notes = (*unused, *_notes(divided | tested, twice | again))
    return OwnData(train, chosen, validation, tested, masks, notes)


def numbered(data: OwnData, model: OwnModel, choices: OwnChoices) -> OwnData:
    """The same images, labelled by the outputs of a model's head. Raises: as `find_outputs`."""
    there = set().union(*(part.rows["label"] for part in data.parts.values()))
    classes = tuple(name for name in data.classes if name in there)

    def shown() -> Batch:
        parts = (each.relabelled(classes) for each in (data.train, data.validation))
        return join(
            [read(sample_evenly(part, SETTLING, choices.seed), model.view) for part in parts]
        )

    _, names, note = find_outputs(classes, choices.head_classes, model, shown)
    parts = {name: part.relabelled(names) for name, part in data.parts.items()}
    return replace(
        data,
        train=parts["train"],
        validation=parts["validation"],
        finetuning=data.finetuning.relabelled(names),
        test={name: parts[name] for name in data.test},
        notes=(*([note] if note else []), *data.notes),
    )


def sample(part: Listing, count: int, seed: int) -> Listing:
    """At most so many images, drawn by the seed, in the order of the part."""
    places = np.random.default_rng(seed).permutation(len(part))[:count]
    return part.select(sorted(places.tolist()))


def sample_evenly(part: Listing, most: int, seed: int) -> Listing:
    """At most so many images, as even over the classes as can be, and OF_A_CLASS of each at least.

    So of very many classes some are drawn: a background gap needs two images of a class.
    """
    rng = np.random.default_rng(seed)
    classes = rng.permutation(part.labels.unique().numpy())[: max(2, most // OF_A_CLASS)]
    rows = pd.DataFrame({"label": part.labels}).sample(frac=1, random_state=rng)
    rows = rows[rows["label"].isin(classes)]
    order = rows.groupby("label").cumcount().sort_values(kind="stable")
    return part.select(sorted(order.index[:most]))


def _shifted(choices: OwnChoices, white: int | None) -> dict[str, Findings]:
    """Further sets to test with. Those of greys of more than 8 bits are scaled as `data` is."""
    names = [Path(path).name for path in choices.shifted]
    if len(set(names)) < len(names) or {HELD_OUT, "train", "validation"} & set(names):
        raise ValueError(
            f"finetune: shifted = {choices.shifted}: two sets of one name, or one called "
            f"{HELD_OUT}, train or validation; rename a folder"
        )
    parts = {}
    for name, path in zip(names, choices.shifted, strict=True):
        read = read_data(path, values=_values(choices), least_classes=1)
        seen = examine(read, corrupted=choices.corrupted)
        own = seen.listing.white or 0
        if white and own > white:
            raise ValueError(
                f"finetune: the shifted set {name!r} has greys of 0 to {own}, "
                f"{choices.data} of 0 to {white}; a model sees all by one range: scale both alike"
            )
        parts[name] = replace(seen, listing=replace(seen.listing, white=white or own or None))
    return parts


def _notes(parts: Mapping[str, Listing], twice: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """What to know before one reads numbers: photographs left out, and sets too small to tell."""
    left_out = (
        f"left out of {name}: {len(copies)} photographs that another part has, such as "
        f"{next(iter(copies))}, which is {next(iter(copies.values()))}"
        for name, copies in twice.items()
        if copies
    )
    small = (
        f"{name} has {len(part)} images, too few to tell a change from chance"
        for name, part in parts.items()
        if name != "train" and len(part) < FEWEST_IMAGES
    )
    return (*left_out, *small)


def read_parts(choices: OwnChoices) -> dict[str, Listing]:
    """The parts of `data`, as `read_splits` finds them."""
    if not choices.data:
        raise ValueError("finetune: data is empty; give a folder, a table or a COCO file of images")
    masks = choices.masks if choices.masks not in ("", TOKENCUT) else None
    images = choices.images_folder or None
    return read_splits(choices.data, masks, values=_values(choices), images=images)


def _values(choices: OwnChoices) -> MaskValues:
    return MaskValues(tuple(choices.object_values), tuple(choices.ignored_values))


def usable(found: Findings) -> Listing:
    """The images that can be read; masks without object or without background are none."""
    need_usable(found)
    rows = found.listing.rows
    kept = ~rows["id"].isin(found.useless_masks)
    return replace(found.listing, rows=rows.assign(mask=rows["mask"].where(kept, None)))


def _ordered(classes: tuple[str, ...], choices: OwnChoices) -> tuple[str, ...]:
    """The classes in the order of the head: as told, ImageNet's for its synsets, or by name."""
    if choices.head_classes:
        return tuple(choices.head_classes)
    synsets = tuple(ImageNetInfo("imagenet-1k").label_names())
    return synsets if not choices.new_head and set(classes) <= set(synsets) else classes


def _three(parts: Mapping[str, Listing], seed: int) -> tuple[Listing, Listing, Listing]:
    if WHOLE in parts:
        return _drawn(parts[WHOLE], seed, SHARES)
    if "train" not in parts or len(parts) < 2:
        raise ValueError(
            f"finetune: the images have the parts {list(parts)}; needed are train and one of "
            "validation and test, or no parts at all"
        )
    train, *others = (parts[name] for name in ("train", "validation", "test") if name in parts)
    if len(others) == 2:
        return train, *others
    return train, *_drawn(others[0], seed, (0.5, 0.5))[:2]


def _drawn(part: Listing, seed: int, shares: tuple[float, float]) -> tuple[Listing, ...]:
    """Three parts of each class at random; at least one image in each as long as there are."""
    places: tuple[list[int], ...] = ([], [], [])
    labels = part.labels.numpy()
    for label in np.unique(labels).tolist():
        mine = np.random.default_rng([seed, label]).permutation(np.flatnonzero(labels == label))
        first = max(1, round(shares[0] * len(mine)))
        second = first + max(1, round(shares[1] * len(mine)))
        for place, chosen in zip(places, np.split(mine, [first, second]), strict=True):
            place.extend(chosen.tolist())
    return tuple(part.select(sorted(chosen)) for chosen in places)


# As a model sees them


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
