"""PACS: seven classes as photographs, art paintings, cartoons and sketches, to be had by anyone.

Source: Li, Yang, Song, Hospedales 2017, Deeper, Broader and Artier Domain Generalization (ICCV).
Class folders below `photo`, `art_painting`, `cartoon` and `sketch`; any part of their pictures.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from filelock import FileLock

from habitats.benchmark import Benchmark, Split
from habitats.photographs import Photographs
from habitats.real.folders import is_picture
from relevit.base.device import choose_device
from relevit.base.files import file_fingerprint, from_project
from relevit.choices.words import MaskSource
from relevit.data.batch import Batch
from relevit.data.image_set import ImageSet, picture_set
from relevit.data.pictures import read_picture
from relevit.masks.automatic import AutomaticMasks, automatic_masks, sound
from relevit.masks.backbone import feature_model, feature_spec
from relevit.masks.stored import MASKS, load_masks, save_masks
from relevit.models.registry import model_spec
from relevit.models.spec import ModelSpec, View
from relevit.protocols import options

PAGE = "https://domaingeneralization.github.io"
DOMAINS = ("photo", "art_painting", "cartoon", "sketch")
CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
TRAIN, VAL = "train", "val"
SHARE = 0.8  # of the source, that originals learn from
FEATURES = ("dinov2-s", 224)  # what TokenCut cuts, and the pixels it is shown
FOUND = "outputs/masks"  # they take minutes: once for all who ask


@dataclass(frozen=True)
class Pacs(Photographs):
    """One domain to learn from, `source`; the others are the test, whole.

    Its pictures are parted once, class by class: `train`, and `val`, which is `validation`, too.
    Masks are TokenCut's. `finetune` are pictures of `train` and `outlined` those of `val` with a
    sound one (`masks.automatic.sound`), `kept` those of `train` that the published code keeps.
    """

    classes: ClassVar = CLASSES
    outlined: ClassVar = "outlined"
    finds_masks: ClassVar = True
    leans: ClassVar = True
    to_crop = Benchmark.to_crop
    masks_for = Benchmark.masks_for

    @property
    def shifted_sets(self) -> tuple[str, ...]:
        """The domains that no model has learnt from."""
        return tuple(name for name in DOMAINS if name != self.params.source)

    @property
    def test_sets(self) -> tuple[str, ...]:
        return ("val", *self.shifted_sets)

    @property
    def rules(self) -> str:
        return f"{self.name} {self.params.source} {self.view} {pictures_of(self.root)}"

    @property
    def options(self) -> dict[str, Any]:
        return {"img_size": self.params.side}

    def spec(self, model: str) -> ModelSpec:
        known = model_spec(model)
        how = {"options": dict(known.options) | self.options, "classes": len(self.classes)}
        return replace(known, image_size=self.params.side, view=self.view, **how)

    def split(self, seed: int) -> Split:
        """All classes are finetuned on."""
        return [*range(len(self.classes))], []

    def order(self, count: int) -> Sequence[int]:
        """Sets are in a random order when they are opened."""
        return range(count)

    def open(self, set_name: str, seed: int) -> ImageSet:
        if set_name in self.shifted_sets:
            found = _domains(self.root, self.view)[set_name]
            return found.select(super().order(len(found)))
        train, val = _parted(self.root, self.view, self.params.source)
        if set_name in (TRAIN, VAL, "validation"):
            return train if set_name == TRAIN else val
        whole, found = self.masked(VAL if set_name == self.outlined else TRAIN)
        if set_name in ("finetune", self.outlined):
            found = sound(found)
        elif set_name != "kept":
            known = (*self.test_sets, TRAIN, "validation", "finetune", "kept", self.outlined)
            raise ValueError(f"pacs: set {set_name!r} is unknown; use one of {known}")
        batch = replace(whole, masks=found.refined).select(found.kept.nonzero()[:, 0])
        return ImageSet(set_name, CLASSES, batch.labels, batch.select)

    def to_finetune(
        self, labels: Sequence[int], seed: int, size: int, masks: MaskSource = "annotated"
    ) -> Batch:
        """The next picture of each label in the order that the seed draws; there may be fewer.

        With masks `tokencut` of all that the published code keeps, wrong ones among them.
        """
        found = self._opened("kept" if masks == "tokencut" else "finetune", seed)
        left = defaultdict(list)
        for place in np.random.default_rng(seed).permutation(len(found))[::-1].tolist():
            left[int(found.labels[place])].append(place)
        return found.read([left[label].pop() for label in labels if left[label]])

    def found_masks(self, count: int) -> AutomaticMasks:
        """Of the first validation images; the sound ones are kept."""
        found = sound(self.masked(VAL)[1])
        return AutomaticMasks(*(part[:count] for part in vars(found).values()))

    def masked(self, part: str) -> tuple[Batch, AutomaticMasks]:
        """A part of the source with TokenCut's masks, as the published code keeps them.

        They are made once: who comes second waits.
        """
        train, val = _parted(self.root, self.view, self.params.source)
        pictures = val if part == VAL else train
        whole, of = pictures.read(range(len(pictures))), "validation" if part == VAL else 0
        how = options("published", "refine")
        made = hashlib.sha256(f"{self.rules} {FEATURES} {how}".encode()).hexdigest()[:12]
        folder = from_project(FOUND) / f"{part}-{made}"
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / "lock"):
            if not (folder / MASKS).is_file():
                name, side = FEATURES
                network = feature_model(name, side, choose_device("auto"))
                found = automatic_masks(network, feature_spec(name), whole.images, **how)
                save_masks(folder, {of: (found, whole.images)})
        return whole, load_masks(folder, of, whole.images)


def read_pacs(root: Path, domain: str, view: View) -> ImageSet:
    """The pictures of a domain.

    Raises: FileNotFoundError where it is not there, which says where PACS is; ValueError for other
    classes; UnreadableImage, when it is read.
    """
    folder = root / domain
    if not folder.is_dir():
        raise FileNotFoundError(
            f"pacs: {root} has no folder {domain}; PACS (Li et al. 2017) is at {PAGE}: give the "
            f"folder that holds {', '.join(DOMAINS)}"
        )
    found = (path.relative_to(folder) for path in folder.glob("*/*") if is_picture(path.name))
    names = sorted(path.as_posix() for path in found)
    classes = [name.partition("/")[0] for name in names]
    if wrong := sorted({*classes} ^ {*CLASSES}):
        raise ValueError(
            f"pacs: {folder}: {wrong[0]} is missing, or none of it; with pictures there are "
            f"{', '.join(CLASSES)} alone"
        )
    labels = [CLASSES.index(name) for name in classes]
    picture = lambda place: read_picture(folder / names[place])  # noqa: E731
    ids = [f"{domain}/{name}" for name in names]
    return picture_set(domain, CLASSES, labels, ids, picture, view)


@lru_cache(maxsize=4)
def pictures_of(root: Path) -> str:
    """Tells folders apart by what is in them. Raises: as `read_pacs`."""
    sets = [read_pacs(root, domain, View()) for domain in DOMAINS]
    lines = [f"{name} {file_fingerprint(root / name)}" for each in sets for name in each.ids]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


@lru_cache(maxsize=2)
def _domains(root: Path, view: View) -> dict[str, ImageSet]:
    """All of them, in memory: a picture that cannot be read is told before any work."""
    return {domain: read_pacs(root, domain, view).kept() for domain in DOMAINS}


@lru_cache(maxsize=2)
def _parted(root: Path, view: View, source: str) -> tuple[ImageSet, ImageSet]:
    """The pictures that originals learn from, and the others; the same for all runs."""
    from sklearn.model_selection import train_test_split

    found, how = _domains(root, view)[source], {"train_size": SHARE, "random_state": 0}
    parts = train_test_split(range(len(found)), stratify=found.labels, **how)
    train, val = (found.select(part).kept() for part in parts)
    return train, val
