"""Which class is which output of a head: as its weights say, as told, or by its answers.

A head that says nothing numbers its classes by whoever trained it. There are a few orders that
people have, and images with labels tell between them, where they do beyond doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import scipy
from timm.data import ImageNetInfo
from timm.utils.misc import natural_key

from relevit.data.batch import Batch
from relevit.evaluate.predictions import BATCH, predict
from relevit.models.loading import OwnModel
from relevit_own.table import places_of, some

AS_LISTED = "the order of the folders"
DOUBT = 1e-3  # probability of so many right answers more by chance, below which an order is taken
ASK = "name them with --names, or --set head_classes=[...]"

Places = list[int]


def unnamed(count: int) -> tuple[str, ...]:
    """What outputs are called of which nobody knows the names."""
    return tuple(f"class {place}" for place in range(count))


def known_names(told: Sequence[str], said: Sequence[str], count: int) -> tuple[str, ...]:
    """The names of a head's outputs: those that are told, or that its weights say; or none.

    Raises: ValueError where they part, or there are not as many as outputs.
    """
    if told and len(told) != count:
        raise ValueError(f"names: {len(told)} are told of a head with {count} outputs; give each")
    for place, (one, other) in enumerate(zip(told, said, strict=False)):
        if places_of(one, [other]) != [0] and places_of(other, [one]) != [0]:
            raise ValueError(
                f"names: output {place} is {other!r} by the weights, and {one!r} is told; leave "
                "the names out, or put them right"
            )
    return tuple(told or said)


def possible_places(classes: Sequence[str], names: Sequence[str], count: int) -> dict[str, Places]:
    """Where the classes of images may be among `count` outputs, by the order that puts them there.

    `names` are those of the outputs, empty where nobody says them. By name (`places_of`), by
    ImageNet's synsets, else as they are listed, and as timm's training numbers folders.
    Raises: ValueError where none of this can be, a name may be that of several outputs, or several
    classes have one output.
    """
    synsets = ImageNetInfo("imagenet-1k").label_names()
    if count == len(synsets) and set(classes) <= set(synsets) and not set(classes) <= set(names):
        return {"ImageNet's order": [synsets.index(name) for name in classes]}
    found = {name: places_of(name, names) for name in classes} if names else {}
    for name, places in found.items():
        if len(places) > 1:
            meant = " and ".join(f"{place} {str(names[place])!r}" for place in places)
            raise ValueError(
                f"the class {name!r} of the images may be {meant} of the model; rename the folder "
                "to the whole name, or name the head's classes apart with --names"
            )
    strange = [name for name in classes if not found.get(name)] if names else []
    if strange or (not names and count != len(classes)):
        known = f"{count} that the model knows" + (f", {some([*map(str, names)])}" if names else "")
        raise ValueError(
            f"the classes {some(strange or list(classes))} of the images are none of the {known}; "
            f"rename the folders, {ASK}, or fit a new head first: --new-head"
        )
    if names:
        by_name = {name: place for name, (place,) in found.items()}
        meant = {place: [n for n in by_name if by_name[n] == place] for place in by_name.values()}
        if same := next((each for each in meant.values() if len(each) > 1), None):
            raise ValueError(
                f"the classes {some(same)} of the images are one of the model, "
                f"{str(names[by_name[same[0]]])!r}; put their pictures into one class, or fit a "
                "new head first: --new-head"
            )
        return {"by name": list(by_name.values())}
    timms = sorted(classes, key=lambda name: natural_key(name.lower()))
    listed, sorted_by_timm = list(range(count)), [timms.index(name) for name in classes]
    theirs = {} if sorted_by_timm == listed else {"timm's order": sorted_by_timm}
    return {AS_LISTED: listed} | theirs


def settled(
    possible: Mapping[str, Places], labels: np.ndarray, answers: np.ndarray
) -> tuple[Places, str]:
    """The one that the answers to labelled images speak for, and a note that says so.

    Raises: ValueError that asks, where these leave doubt.
    """
    if len(possible) == 1:
        return next(iter(possible.values())), ""
    right = {way: np.array(places)[labels] == answers for way, places in possible.items()}
    best, second = sorted(right, key=lambda way: -right[way].sum())[:2]
    apart, wins = right[best] != right[second], int((right[best] & ~right[second]).sum())
    counts = (
        f"{right[best].sum()} of {len(labels)} images by {best}, {right[second].sum()} by {second}"
    )
    test = apart.any() and scipy.stats.binomtest(wins, int(apart.sum()), alternative="greater")
    if not test or test.pvalue > DOUBT:
        raise ValueError(
            f"names: the order of the head's classes is not known: right on {counts}; {ASK}"
        )
    return possible[best], f"the head's classes are in {best}, by its answers: right on {counts}"


def find_outputs(
    classes: Sequence[str], told: Sequence[str], model: OwnModel, images: Callable[[], Batch]
) -> tuple[Places, tuple[str, ...], str]:
    """Where the classes are among a model's outputs, the names of all of these, and what to know.

    `told` are names of the outputs, or none. `images`, labelled by `classes`, are answered only
    where several orders are possible.
    Raises: ValueError as `known_names`, `possible_places` and `settled`.
    """
    count = model.spec.classes
    told = () if tuple(told) == unnamed(len(told)) else tuple(told)
    names = known_names(told, model.spec.names, count)
    possible = possible_places(classes, names, count)
    labels = answers = np.empty(0, dtype=int)
    if len(possible) > 1:
        shown = images()
        rows = predict(model.network, model.spec, shown.split(BATCH))
        labels, answers = shown.labels.numpy(), rows["prediction"].to_numpy(dtype=int)
    places, note = settled(possible, labels, answers)
    return places, named_outputs(classes, places, names or unnamed(count)), note


def named_outputs(classes: Sequence[str], places: Places, names: Sequence[str]) -> tuple[str, ...]:
    """The names of all outputs, those of the images' classes as these are called."""
    found = list(names)
    for place, name in zip(places, classes, strict=True):
        found[place] = name
    return tuple(found)
