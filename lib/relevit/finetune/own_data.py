"""What each of one's own images is for: to train on, to choose on, to test with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from timm.data import ImageNetInfo

from relevit.choices.own import OwnChoices
from relevit.data.own.check import Findings, apart, examine, examine_parts, need_usable
from relevit.data.own.folder import read_data, read_splits
from relevit.data.own.listing import WHOLE, Listing, order_note
from relevit.data.own.outlines import MaskValues

HELD_OUT = "held_out"  # the test images that look like those of training
TOKENCUT = "tokencut"
OF_A_CLASS = 4  # images, where there are more classes than can be shown
FEWEST_IMAGES = 10  # of a set, below which one says nothing
SHARES = (0.5, 0.2)  # of a folder without parts: to train on, to choose on; the rest is held out


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
    if (note := order_note(classes)) and not (choices.head_classes or choices.new_head):
        notes = (f"the classes are {note}", *notes)
    return OwnData(train, chosen, validation, tested, masks, notes)


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
