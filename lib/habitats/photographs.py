"""Photographs on a disk: the papers' own sets below one folder, or what a reader gives.

A reader of one's own (`READERS`) is a function of a set's name, the folder `data_root`
and the view, how a picture becomes the square that a model takes; it gives an `ImageSet`. Notebooks
ask for the sets `finetune`, with masks, `validation`, and those that they test on
(`cutouts.TEST_SETS`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from habitats.benchmark import Benchmark, Split
from habitats.cutouts import SHIFTED_SETS, TEST_SETS
from habitats.real.catalogue import CATALOGUE
from habitats.real.classes import IMAGENET_INDEX, SHORT_NAMES, split_classes
from relevit.base.files import from_project
from relevit.choices.words import PACS, READERS, Protocol
from relevit.data.batch import Batch
from relevit.data.image_set import AHEAD, ImageSet
from relevit.models.registry import Pixels, model_spec
from relevit.models.spec import ModelSpec, View
from relevit.protocols import Options, options

TO_CROP = 256  # pixels of both sides of a photograph out of which training crops (B4)
SQUARES = "outputs/squares"  # of the sets that many models answer
PIXELS: dict[str, Pixels] = {"published": "half", "timm": "own"}  # B5
# Sets of the benchmark that have another name in the catalogue, or are a part of a set there.
PARTS: dict[str, tuple[str, Options]] = {
    **dict.fromkeys(("train", "finetune", "validation"), ("imagenet_s", {})),
    "imagenet_s": ("imagenet_s", {"part": "validation"}),
}


def open_photographs(params: Any) -> Photographs:
    """The papers' sets below `data_root`, PACS, or what a reader of READERS finds there.

    All models share one view of the pictures: with preprocessing timm it is that of `view_of`, with
    published it is one for all (differences B5). PACS is seen whole, at `side` pixels, as DINOv2
    sees its pictures.
    """
    if params.data == PACS:
        from habitats.real.pacs import Pacs
        from habitats.real.pacs_homes import PacsHomes

        view = View(params.side, params.side, "bicubic")
        kind = PacsHomes if params.composed else Pacs
        return kind(from_project(params.data_root), view, params)
    spec = model_spec(params.view_of or "vit-b", pixels=PIXELS[params.preprocessing])
    kind = Photographs if params.data in READERS else ImageNet
    return kind(from_project(params.data_root), spec.view, params)


@dataclass(frozen=True)
class Photographs(Benchmark):
    """The sets of one folder, each opened when it is first asked for."""

    root: Path
    view: View
    params: Any  # as of `open_benchmark`
    keeping: bool = False  # squares in SQUARES

    test_sets: ClassVar = TEST_SETS
    shifted_sets: ClassVar = SHIFTED_SETS
    outlined: ClassVar[str] = "val"
    composable: ClassVar = False
    dino_pair: ClassVar = ("dino-b", "deit-b")
    ahead: ClassVar = AHEAD

    @property
    def name(self) -> str:
        return self.params.data

    @property
    def classes(self) -> tuple[str, ...]:
        return self._opened("finetune", 0).classes

    @property
    def example_sets(self) -> tuple[str, ...]:
        return self.shifted_sets

    @property
    def outlined_sets(self) -> tuple[str, ...]:
        return (self.outlined,)

    @property
    def skips(self) -> bool:
        return self.params.corrupted == "skip"

    @property
    def rules(self) -> str:
        """The choices of the preset that answers depend on."""
        return f"{self.name} {self.view} {self.params.corrupted}"

    def open(self, set_name: str, seed: int) -> ImageSet:
        """A set as the reader gives it. Raises: ValueError for a reader that gives none."""
        found = READERS[self.name](set_name, self.root, self.view)
        if not isinstance(found, ImageSet):
            raise ValueError(
                f"{self.name}: its reader gives a {type(found).__name__} for {set_name!r}; needed "
                "is an ImageSet, such as picture_set makes"
            )
        return found

    def spec(self, model: str) -> ModelSpec:
        return model_spec(model, pixels=PIXELS[self.params.preprocessing])

    def split(self, seed: int) -> Split:
        """The first half of the classes, or one drawn by the seed, and the others."""
        order = list(range(len(self.classes)))
        if seed:
            order = np.random.default_rng(seed).permutation(order).tolist()
        half = len(order) // 2
        return sorted(order[:half]), sorted(order[half:])

    def draw(
        self,
        set_name: str,
        indices: Sequence[int],
        *,
        labels: Sequence[int] | None = None,
        seed: int = 0,
        size: int | None = None,
        **masks: Any,
    ) -> Batch:
        """Images of a set by number, in a fixed random order.

        Numbers beyond the last begin anew, but no picture comes twice: of a smaller set there are
        fewer, and what counts images has to count these. Those of `val` are the same squares for
        every test, that which erases them too (F9). With `labels`, an image of each such class
        instead: the first, the second and so on of those that the seed chooses (seed 0: by name),
        for finetuning. `masks` is of `masks_for`.
        """
        self._check(size)
        found = self._opened(set_name, seed, **masks)
        if labels is not None:
            return found.read(_places(found, labels, seed))
        order = self.order(len(found))
        return found.read(
            [order[place] for place in dict.fromkeys(i % len(order) for i in indices)]
        )

    def pictures(
        self, set_name: str, count: int, *, seed: int = 0, size: int | None = None
    ) -> ImageSet:
        self._check(size)
        found = self._opened(set_name, seed)
        if self.keeping:
            found = found.kept_in(from_project(SQUARES), self.rules, self.view.crop)
        return found.select(self.order(len(found))[:count])

    def order(self, count: int) -> Sequence[int]:
        """One fixed random order for a set of this length: its first images are a sample."""
        return _order(count)

    def test_batches(
        self, set_name: str, count: int, batch_size: int, **options: Any
    ) -> Iterable[Batch]:
        """Decoded once for all models (`ImageSet.kept_in`): 46 GB for the nine sets."""
        return replace(self, keeping=True).batches(set_name, count, batch_size, **options)

    def masks_for(self, protocol: Protocol) -> Options:
        """Resizing makes fractions of a mask along its edge.

        `published` leaves them, and they count as object and as background; `described` says a
        mask, which is one or the other (differences A7).
        """
        return options(protocol, "View.mask")

    def to_crop(self, labels: Sequence[int], seed: int, size: int, protocol: Protocol) -> Batch:
        """The same images, whole and squeezed to TO_CROP pixels.

        The published code crops the model's size out of them at random (differences B4); the paper
        describes no augmentation, so both protocols have it.
        """
        larger = replace(self, view=replace(self.view, resize=TO_CROP, crop=TO_CROP, squash=True))
        masks = self.masks_for(protocol)
        return larger.draw("finetune", [], labels=labels, seed=seed, size=TO_CROP, **masks)

    def describe(self) -> str:
        return f"{len(self.classes)} classes of photographs, which have no textures to count"

    def note_empty(self, kept: int, empty: int) -> str:
        return f"{self.outlined}: {kept} images; {empty} without an object left out\n"

    def note_skipped(self, skipped: Mapping[str, Sequence[str]]) -> str:
        counts = [f"{len(ids)} of {name}, the first {ids[0]}" for name, ids in skipped.items()]
        return f"pictures left out, since they cannot be read: {'; '.join(counts) or 'none'}\n"

    def _opened(self, set_name: str, seed: int, **masks: Any) -> ImageSet:
        """A set, kept open; the validation images alone depend on the seed."""
        sets = replace(self, view=replace(self.view, **masks), keeping=False)
        return _opened(sets, set_name, seed if set_name == "validation" else 0)

    def _check(self, size: int | None) -> None:
        if size not in (None, self.view.crop):
            raise ValueError(
                f"{self.name}: images of {size} pixels; the preset's view has {self.view.crop}: "
                "models of one preset need one image size"
            )


@dataclass(frozen=True)
class ImageNet(Photographs):
    """The papers' real sets. Validation images are of the classes that a seed does not finetune."""

    name: ClassVar = "imagenet"
    classes: ClassVar = SHORT_NAMES
    # ObjectNet's authors ask that no picture be shown without the red border.
    example_sets: ClassVar = tuple(name for name in SHIFTED_SETS if name != "objectnet")

    @property
    def outlined(self) -> str:
        return self.params.segmentation_set

    @property
    def rules(self) -> str:
        chosen = self.params
        return f"{self.view} {chosen.ways} {chosen.objectnet} {chosen.corrupted}"

    def split(self, seed: int) -> Split:
        """ImageNet-S's first classes as in the paper (seed 0), or as many drawn by the seed."""
        both = split_classes(self.params.finetuned_classes, seed or None)
        first, others = ([IMAGENET_INDEX[wnid] for wnid in part] for part in both)
        return sorted(first), sorted(others)

    def validation_seed(self, seed: int) -> int:
        """A run's own: its validation images are of the classes that its seed leaves out (B2)."""
        return seed

    def open(self, set_name: str, seed: int) -> ImageSet:
        key, chosen = PARTS.get(set_name, (set_name, {}))
        if key not in CATALOGUE:
            raise ValueError(
                f"imagenet: set {set_name!r} is unknown; use one of {(*CATALOGUE, *PARTS)}"
            )
        if key in ("a", "r"):
            chosen = {"ways": self.params.ways}
        elif key == "objectnet":
            chosen = options(self.params.objectnet, "read_objectnet")
        found = CATALOGUE[key].read(self.root, self.view, **chosen)
        if set_name != "validation":
            return found
        # The first image of each class that runs of this seed do not finetune (A16, B2).
        kept = self.split(seed)[1]
        present = set(found.labels.tolist())
        return found.select(_places(found, [label for label in kept if label in present], seed=0))


@lru_cache(maxsize=32)
def _opened(sets: Photographs, set_name: str, seed: int) -> ImageSet:
    return sets.open(set_name, seed)


def _places(found: ImageSet, labels: Sequence[int], seed: int) -> list[int]:
    """The next unused picture of each label, in the order that the seed gives the class."""
    by_label: dict[int, list[int]] = {}
    for place, label in enumerate(found.labels.tolist()):
        by_label.setdefault(label, []).append(place)
    places, used = [], dict.fromkeys(labels, 0)
    for label in labels:
        mine = by_label.get(label, [])
        if used[label] >= len(mine):
            raise ValueError(
                f"{found.name}: class {found.classes[label]} ({label}) has {len(mine)} images, "
                f"asked for more; give fewer images_per_class, or unpack the archive again"
            )
        if seed:
            mine = [mine[i] for i in np.random.default_rng([seed, label]).permutation(len(mine))]
        places.append(mine[used[label]])
        used[label] += 1
    return places


@lru_cache(maxsize=32)
def _order(count: int) -> list[int]:
    return np.random.default_rng(0).permutation(count).tolist()
