"""Objects of PACS's photographs on the backgrounds of other photographs, so that the lean is known.

The home of a class are the backgrounds of its own photographs, with their objects filled in. How
often it stands there in training is said (`home_share`), as it is of the drawings of Habitats.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool

from habitats.benchmark import Benchmark
from habitats.real import pacs
from habitats.real.pacs import Pacs
from relevit.data.batch import Batch, join
from relevit.data.filling import fit_for_swap, without_objects
from relevit.data.image_set import ImageSet
from relevit.masks.automatic import sound

CLASSES = ("dog", "elephant", "giraffe", "horse", "person")
UNSEEN = ("guitar", "house")  # their backgrounds are at nobody's home
LEARN, CHOOSE = 0.4, 0.1  # of a class's photographs; the others are the test
TIMES = 8  # that an object is in `train`, each time on a background that is drawn anew
AT_HOME = {"home": 1.0, "away": 0.0, "never": 0.0}  # others: `home_share`
PARTS = {"train": "learn", "finetune": "learn", "validation": "choose"}  # others: `test`
OF_CLASS = ("learn", "choose", "test")
PHOTO = "photo"


@dataclass(frozen=True)
class PacsHomes(Pacs):
    """CLASSES, each photograph's object on the background of another.

    `val` is as `train`; in `home` all are at home, in `away` none, in `never` all stand on the
    backgrounds of UNSEEN, and `photo` has the photographs of the test as they are: the same objects
    in the same order. No object or background of a test is in training. Masks are TokenCut's,
    sound ones alone.
    """

    classes: ClassVar = CLASSES
    test_sets: ClassVar = ("val", *AT_HOME, PHOTO)
    shifted_sets: ClassVar = ("away", "never")
    outlined: ClassVar = "val"
    leans: ClassVar = False
    found_masks = Benchmark.found_masks

    @property
    def rules(self) -> str:
        return f"{super().rules} homes {self.params.home_share}"

    def open(self, set_name: str, seed: int) -> ImageSet:
        known = (*self.test_sets, *PARTS)
        if set_name not in known:
            raise ValueError(f"pacs: set {set_name!r} is unknown; use one of {known}")
        parts = _parts(Pacs(self.root, self.view, self.params))
        found, behind = parts[PARTS.get(set_name, "test")]
        if set_name == "never":
            _, behind = parts["unseen"]
        if set_name == "train":
            places = np.tile(np.arange(len(found)), TIMES)
            found = found.select(np.random.default_rng(0).permutation(places).tolist())
        if set_name != PHOTO:
            rng = np.random.default_rng(zlib.crc32(set_name.encode()))
            share = AT_HOME.get(set_name, self.params.home_share)
            found = composed(found, behind, rng.random(len(found)) < share, rng)
        return ImageSet(set_name, CLASSES, found.labels, found.select)


def composed(
    objects: Batch, behind: Batch, at_home: Bool[np.ndarray, " objects"], rng: np.random.Generator
) -> Batch:
    """Each object on a background of its own class or, where it is not `at_home`, of another.

    Backgrounds are drawn with return: an object may come on its own, filled in.
    """
    labels, theirs = objects.labels.numpy(), behind.labels.numpy()
    places = [
        rng.choice(np.flatnonzero((theirs == label) == home))
        for label, home in zip(labels, at_home, strict=True)
    ]
    pictures = torch.where(objects.masks > 0.5, objects.images, behind.images[places])
    return replace(objects, images=pictures)


@lru_cache(maxsize=4)
def _parts(photographs: Pacs) -> dict[str, tuple[Batch, Batch]]:
    """By part its photographs, and the same with their objects filled in; `unseen` are UNSEEN's.

    Raises: ValueError where a part lacks a class.
    """
    masked = [photographs.masked(part) for part in (pacs.TRAIN, pacs.VAL)]
    every = join([
        replace(whole, masks=masks.refined).select(sound(masks).kept.nonzero()[:, 0])
        for whole, masks in masked
    ])  # fmt: skip
    every, rng = every.select(fit_for_swap(every)), np.random.default_rng(0)
    places: dict[str, list[int]] = {part: [] for part in (*OF_CLASS, "unseen")}
    for label, name in enumerate(pacs.CLASSES):
        mine = rng.permutation(np.flatnonzero(every.labels == label))
        first = ceil(LEARN * len(mine))
        ends = first, max(first + 1, ceil((LEARN + CHOOSE) * len(mine)))
        kept = dict(zip(OF_CLASS, np.split(mine, ends), strict=True))
        for part, some in ({"unseen": mine} if name in UNSEEN else kept).items():
            if not len(some):
                raise ValueError(
                    f"pacs: {name} has {len(mine)} photographs with a sound mask, and none is left "
                    f"for the part {part}; give all photographs of PACS"
                )
            places[part].extend(some)
    new = torch.tensor([CLASSES.index(n) if n in CLASSES else -1 for n in pacs.CLASSES])
    every = replace(every, labels=new[every.labels])
    places = {part: rng.permutation(some).tolist() for part, some in places.items()}
    filled = without_objects(every.images, every.masks).round().clamp(0, 255).byte()
    behind = replace(every, images=filled)
    return {part: (every.select(some), behind.select(some)) for part, some in places.items()}
