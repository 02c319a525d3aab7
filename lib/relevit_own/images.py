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

from relevit.data.batch import Batch, join
from relevit.data.image_set import AHEAD
from relevit.evaluate.predictions import BATCH, predict
from relevit.masks import AutomaticMasks, automatic_masks, feature_model, feature_spec, sound
from relevit.models.loading import OwnModel
from relevit.models.spec import View
from relevit.protocols import Protocol, options
from relevit_own.check import Findings, Ledger, apart, examine, need_usable
from relevit_own.choices import OwnChoices
from relevit_own.outputs import find_outputs
from relevit_own.run_folder import Say
from relevit_own.table import SPLITS, Table, read_table

HELD_OUT = "held_out"  # the test images that look like those of training
TOKENCUT = "tokencut"
OF_A_CLASS = 4  # images, where there are more classes than can be shown
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

    train: Table  # what a new head is fitted to
    finetuning: Table
    validation: Table
    test: Mapping[str, Table]
    masks: str  # annotated or tokencut: where those of finetuning come from
    ledger: Ledger
    notes: tuple[str, ...] = ()  # what to know before one reads numbers, the ledger's among it

    @property
    def classes(self) -> tuple[str, ...]:
        return self.train.classes

    @property
    def parts(self) -> dict[str, Table]:
        return {"train": self.train, "validation": self.validation, **self.test}


def examine_first(choices: OwnChoices) -> Findings:
    """What is in the data, or in its part for training."""
    table = table_of(choices)
    return examine(table.of(next(iter(table.splits), None)), corrupted=choices.corrupted)


def divide(choices: OwnChoices) -> OwnData:
    """What each image is for: from the data's own splits, or drawn by the seed, class by class.

    Of data without splits half is trained on, a fifth is for choices and the rest is held out.
    With train and one other split, that one is halved. The images finetuned on are the first
    `images_per_class` of each class of train, those with a mask before the others. A photograph,
    its near copies and its group are in one part alone.
    Raises: ValueError, FileNotFoundError.
    """
    table = table_of(choices)
    own = table.splits
    found = examine(with_shifted(table, choices), corrupted=choices.corrupted)
    need_usable(found)
    table = found.table.relabelled(_ordered(table.classes, choices))
    shifted = {Path(path).name: table.of(Path(path).name) for path in choices.shifted}
    train, validation, held_out = _three({name: table.of(name) for name in own or (None,)}, choices)
    parts = {"train": train, "validation": validation, HELD_OUT: held_out} | shifted
    parts = apart(parts)
    train, validation, *tested = parts.values()
    if empty := [name for name, part in parts.items() if not len(part)]:
        raise ValueError(
            f"finetune: {choices.data}: {len(train)} images to train on, {len(validation)} for "
            f"choices and {len(tested[0])} held out, and {empty[0]} has none; each needs some: "
            + "; ".join(["give more images of a class", *Ledger.of(parts).told()])
        )
    outlined = found.rows["mask"].notna().any()
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
    # A split of which nothing was left is no part, and its files are told all the same.
    unseen = table.gone["split"].notna() & ~table.gone["split"].isin([*own, *shifted])
    lost = replace(table, rows=table.rows[:0], gone=table.gone[unseen])
    ledger = Ledger.of(parts | {"": lost})
    notes = [*ledger.told(), *_few(chosen, choices.images_per_class)]
    notes += found.doubts if masks == "annotated" else []
    tested = dict(list(parts.items())[2:])
    return OwnData(train, chosen, validation, tested, masks, ledger, tuple(notes))


def numbered(data: OwnData, model: OwnModel, choices: OwnChoices) -> OwnData:
    """The same images, labelled by the outputs of a model's head. Raises: as `find_outputs`."""
    there = set().union(*(part.rows["label"] for part in data.parts.values()))
    classes = tuple(name for name in data.classes if name in there)

    def shown() -> Batch:
        parts = (each.relabelled(classes) for each in (data.train, data.validation))
        seen = (sample_evenly(part, SETTLING, choices.seed) for part in parts)
        return join([decoded(part, model.view) for part in seen])

    _, names, note = find_outputs(classes, choices.head_classes, model, shown)
    return replace(
        data,
        train=data.train.relabelled(names),
        validation=data.validation.relabelled(names),
        finetuning=data.finetuning.relabelled(names),
        test={name: part.relabelled(names) for name, part in data.test.items()},
        notes=(*([note] if note else []), *data.notes),
    )


def _few(chosen: Table, wanted: int) -> list[str]:
    """A sentence on the classes that have fewer images to finetune on than were asked for."""
    counts = chosen.rows["label"].value_counts()
    few = [f"{name} {count}" for name, count in counts.items() if count < wanted]
    return [f"fewer than {wanted} images to finetune on: {', '.join(few)}"] if few else []


def table_of(choices: OwnChoices) -> Table:
    """The table of `data`, as `read_table` finds it."""
    if not choices.data:
        raise ValueError("finetune: data is empty; give a folder, a table or a COCO file of images")
    masks = choices.masks if choices.masks not in ("", TOKENCUT) else None
    return read_table(choices.data, masks, images=choices.images_folder or None)


def with_shifted(table: Table, choices: OwnChoices) -> Table:
    """The table with further sets to test with, each a split of its own."""
    names = [Path(path).name for path in choices.shifted]
    if len(set(names)) < len(names) or {HELD_OUT, *SPLITS.values()} & set(names):
        raise ValueError(
            f"finetune: shifted = {choices.shifted}: two sets of one name, or one called "
            f"{HELD_OUT}, train, validation or test; rename a folder"
        )
    sets = [table]
    for name, path in zip(names, choices.shifted, strict=True):
        one = read_table(path, least_classes=1)
        rows, gone = (each.assign(split=name) for each in (one.rows, one.gone))
        sets.append(replace(one, rows=rows, gone=gone).relabelled(table.classes))
    rows, gone = (
        pd.concat([getattr(one, each) for one in sets], ignore_index=True)
        for each in ("rows", "gone")
    )
    return replace(table, rows=rows, gone=gone)


def sample(part: Table, count: int, seed: int) -> Table:
    """At most so many images, drawn by the seed, in the order of the part."""
    places = np.random.default_rng(seed).permutation(len(part))[:count]
    return part.select(sorted(places.tolist()))


def sample_evenly(part: Table, most: int, seed: int) -> Table:
    """At most so many images, as even over the classes as can be, and OF_A_CLASS of each at least.

    So of very many classes some are drawn: a background gap needs two images of a class.
    """
    rng = np.random.default_rng(seed)
    classes = rng.permutation(part.labels.unique().numpy())[: max(2, most // OF_A_CLASS)]
    rows = pd.DataFrame({"label": part.labels}).sample(frac=1, random_state=rng)
    rows = rows[rows["label"].isin(classes)]
    order = rows.groupby("label").cumcount().sort_values(kind="stable")
    return part.select(sorted(order.index[:most]))


def _ordered(classes: tuple[str, ...], choices: OwnChoices) -> tuple[str, ...]:
    """The classes in the order of the head: as told, ImageNet's for its synsets, or by name."""
    if choices.head_classes:
        return tuple(choices.head_classes)
    synsets = tuple(ImageNetInfo("imagenet-1k").label_names())
    return synsets if not choices.new_head and set(classes) <= set(synsets) else classes


def _three(parts: Mapping[str | None, Table], choices: OwnChoices) -> tuple[Table, ...]:
    if None in parts:
        own = parts[None]
        table = own.select(np.flatnonzero(own.rows["split"].isna()))
        table = replace(table, gone=own.gone[own.gone["split"].isna()])
        return _drawn(table, choices.seed, SHARES)
    if "train" not in parts or len(parts) < 2:
        raise ValueError(
            f"finetune: the images have the parts {list(parts)}; needed are train and one of "
            "validation and test, or no parts at all"
        )
    train, *others = (parts[name] for name in ("train", "validation", "test") if name in parts)
    if len(others) == 2:
        return train, *others
    return train, *_drawn(others[0], choices.seed, (0.5, 0.5))[:2]


def _drawn(part: Table, seed: int, shares: tuple[float, float]) -> tuple[Table, ...]:
    """Three parts of each class at random; at least one image in each as long as there are.

    A group is drawn as one, of the first class that has it.
    """
    labels, groups = part.labels.numpy(), part.rows["group"].to_numpy()
    places: tuple[list[int], ...] = ([], [], [])
    taken: dict[str, int] = {}
    for label in np.unique(labels).tolist():
        mine = np.random.default_rng([seed, label]).permutation(np.flatnonzero(labels == label))
        first = max(1, round(shares[0] * len(mine)))
        second = first + max(1, round(shares[1] * len(mine)))
        count = 0
        for place in mine.tolist():
            group, drawn = groups[place], 0 if count < first else 1 if count < second else 2
            if group not in taken:
                count += int((groups[mine] == group).sum()) if group else 1
            if group:
                drawn = taken.setdefault(group, drawn)
            places[drawn].append(place)
    found = [part.select(sorted(chosen)) for chosen in places]
    # What was left out before is told of the first part alone.
    return found[0], *(replace(each, gone=each.gone[:0]) for each in found[1:])


# As a model sees them


@dataclass(frozen=True)
class OwnImages:
    """What runs train on and choose on, decoded. The first `maps` of validation have masks."""

    train: Batch
    validation: Batch
    maps: int
    found: AutomaticMasks | None  # of these, where they are TokenCut's
    drawn: Table | None = None  # those to train on, where TokenCut makes their masks
    looked: int = 0  # images in which it looked for them


def decoded(part: Table, view: View) -> Batch:
    return join(list(batches(part, view)))


def batches(part: Table, view: View) -> Iterator[Batch]:
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
    train = decoded(data.finetuning, _to_crop(view)) if annotated else None
    if annotated and masked >= FEWEST_MAPS:
        halves = [shown.select(range(masked)), shown.select(range(masked, len(shown)))]
        seen = [decoded(half, view) for half in halves if len(half)]
        kind = seen[0].masks.dtype
        validation = join([replace(each, masks=each.masks.to(kind)) for each in seen])
        return OwnImages(train, validation, min(maps, masked), None)
    validation = decoded(shown, model.view)
    say(f"TokenCut finds the objects of {maps} validation images")
    found = tokencut_masks(validation.select(range(maps)), device, choices.protocol)
    _need_objects(bool(found.kept.any()), maps, "validation")
    if annotated:
        return OwnImages(train, validation, maps, found)
    own = _with_objects(choices, data.train, view, device, say)
    return OwnImages(validation=validation, maps=maps, found=found, **own)


def _with_objects(
    choices: OwnChoices, part: Table, view: View, device: torch.device, say: Say
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
        images = decoded(part.select(asked), view)
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
