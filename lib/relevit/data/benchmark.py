"""The images of a preset: drawn here, as Cutouts or Habitats, or the papers' own, from disk.

All have the same nine test sets (`cutouts.TEST_SETS`), images to finetune on with masks, and
images for choices during training, so that a notebook asks for them by name and does not know
which it has. What differs between them is asked of the benchmark too. Which one it is
says the parameter `benchmark`; a notebook opens it once and hands it on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

from relevit.base.files import from_project
from relevit.config import BenchmarkParams, Common
from relevit.config.words import Corrupted, Preprocessing, Protocol
from relevit.data import cutouts
from relevit.data.batch import Batch, join
from relevit.data.cutouts import FIRST, World
from relevit.data.foregrounds import class_split
from relevit.data.habitats import HOMES, habitats
from relevit.data.labelled import Labelled
from relevit.data.real import decoding
from relevit.data.real.classes import IMAGENET_INDEX, IMAGENET_NAMES, SHORT_NAMES, split_classes
from relevit.data.real.gtsegs import read_gtsegs
from relevit.data.real.image_set import ImageSet
from relevit.data.real.imagenet import read_imagenet
from relevit.data.real.imagenet_s import read_imagenet_s
from relevit.data.real.objectnet import read_objectnet
from relevit.data.real.shifted import (
    read_imagenet_a,
    read_imagenet_r,
    read_si_score,
    read_sketch,
    read_v2,
)
from relevit.data.textures import FAMILIES, SEEN
from relevit.data.things import OBJECTS
from relevit.models.loading import model_spec
from relevit.models.registry import PAPER_MODELS, paper_spec, preprocessing
from relevit.models.spec import ModelSpec, View

Split = tuple[list[int], list[int]]
TO_CROP = 256  # pixels of both sides of a photograph out of which training crops (B4)
READ = 100  # images with masks in one reading
PROBED = 100  # validation images on which bfloat16 is compared with float32
FRESH = 400  # validation images before those that no choice was made on


class Benchmark:
    """What notebooks ask for: images of a set, classes by name, and which of them to finetune."""

    name: str
    classes: tuple[str, ...]  # name of each label
    outlined: str  # a test set whose masks are exact
    outlined_sets: tuple[str, ...]  # all of them
    example_sets: tuple[str, ...] = cutouts.SHIFTED_SETS  # those of which single images are shown
    composable: bool  # background, size, place and number of objects are chosen by who draws
    of_the_papers: bool  # the papers' own images: their numbers can be held against ours
    all_classes_everywhere: bool  # each test set has images of every class
    dino_pair: tuple[str, str]  # self-supervised and supervised model that stand for the papers'
    challenging: bool = False  # it has the sets of the backgrounds challenge
    rules: str = ""  # what decides an answer beside the model: kept answers hold for these alone

    def draw(self, set_name: str, indices: Sequence[int], **options: Any) -> Batch:
        """Images of a set by number; options and errors as `cutouts.draw`."""
        raise NotImplementedError

    def batches(
        self, set_name: str, count: int, batch_size: int, **options: Any
    ) -> Iterable[Batch]:
        """The first images of a set; options and errors as `cutouts.batches`."""
        raise NotImplementedError

    def test_batches(
        self, set_name: str, count: int, batch_size: int, **options: Any
    ) -> Iterable[Batch]:
        """As `batches`, for a set that many models answer one after the other."""
        return self.batches(set_name, count, batch_size, **options)

    def labels(self, set_name: str, count: int) -> Int[Tensor, " count"]:
        """The labels of the first images of a set, as of `draw`."""
        raise NotImplementedError

    def split(self, seed: int) -> Split:
        """Labels to finetune on (A), and the others (B)."""
        raise NotImplementedError

    def validation_seed(self, seed: int) -> int:
        """The seed of `draw` for the validation images of a run: the same ones for all runs.

        Those of drawings are drawn for validation alone, whatever their class.
        """
        return 0

    def spec(self, model: str) -> ModelSpec:
        """How a model sees these images."""
        return model_spec(model)

    def to_finetune(self, labels: Sequence[int], seed: int, size: int) -> Batch:
        """An image of each of these labels, with its mask."""
        return self.draw("finetune", range(len(labels)), labels=labels, seed=seed, size=size)

    def to_crop(self, labels: Sequence[int], seed: int, size: int, protocol: Protocol) -> Batch:
        """The images of `to_finetune` as training crops them at random: these or larger ones (B4).

        Masks as the losses of the protocol have them (`masks_for`).
        """
        return self.to_finetune(labels, seed, size)

    def masks_for(self, protocol: Protocol) -> dict[str, bool]:
        """What `draw` is told for masks as the losses of a protocol have them.

        Resizing makes fractions of a photograph's mask along its edge. `published` leaves them, and
        they count as object and as background; `described` says a mask, which is one or the other
        (differences A7). Drawings have exact masks for both.
        """
        return {}

    def probe(self, spec: ModelSpec) -> Iterator[Batch] | None:
        """Images that no test uses, for `evaluate.make_classifier`; None: its own draws."""
        return None

    def with_masks(
        self, count: int, *, seed: int = 0, size: int | None = None
    ) -> tuple[Batch, int]:
        """The first `count` images of the outlined set, or all of a smaller one, each once.

        Those whose mask is empty have no object to find: they are left out, and counted.
        Raises: ValueError when none is left.
        """
        batch = join(list(self.batches(self.outlined, count, READ, seed=seed, size=size)))
        outlined = batch.masks.flatten(1).any(dim=1)
        if not bool(outlined.any()):
            raise ValueError(
                f"{self.name}: {self.outlined} has no object in {len(batch)} masks; take more "
                "images, or another segmentation_set"
            )
        return batch.select(outlined), int((~outlined).sum())

    def fresh(self, count: int, *, seed: int = 0, size: int) -> Batch:
        """Images with masks that neither training nor a choice has seen."""
        return self.with_masks(count, size=size)[0]

    def names(self, labels: Sequence[int]) -> list[str]:
        """The classes' names; -1 for a picture without a label."""
        return [self.classes[int(label)] if label >= 0 else "unknown" for label in labels]

    def describe(self) -> str:
        """What the classes are, in a line or two."""
        raise NotImplementedError

    def texture_shares_pct(self, count: int) -> pd.DataFrame | None:
        """On which background each class is found in training; None: photographs have none."""
        return None

    def homes(self) -> pd.DataFrame | None:
        """Where the classes are at home, and what stands about there; None: they have no homes."""
        return None

    def note_empty(self, kept: int, empty: int) -> str:
        """A line on images left out by `with_masks`; nothing where no image can lack an object."""
        return ""

    def note_skipped(self, skipped: Mapping[str, Sequence[str]]) -> str:
        """A line on images that could not be read, by set; nothing where none is read."""
        return ""


@dataclass(frozen=True)
class Cutouts(Benchmark):
    """The embedded benchmark, drawn here: its first generation, or Habitats by their world."""

    world: World = FIRST

    outlined = "val"
    outlined_sets = cutouts.TEST_SETS
    composable, of_the_papers, all_classes_everywhere = True, False, True
    dino_pair = ("dinov2-s", "tiny")

    @property
    def name(self) -> str:
        return self.world.name or "cutouts"

    @property
    def classes(self) -> tuple[str, ...]:
        return self.world.classes

    @property
    def challenging(self) -> bool:
        return self.world.things is not None

    @property
    def rules(self) -> str:
        """What images of other worlds by the same number would differ in."""
        return "" if self.world is FIRST else self.world.identity

    def draw(self, set_name: str, indices: Sequence[int], **options: Any) -> Batch:
        return cutouts.draw(set_name, indices, world=self.world, **options)

    def batches(
        self, set_name: str, count: int, batch_size: int, **options: Any
    ) -> Iterable[Batch]:
        return cutouts.batches(set_name, count, batch_size, world=self.world, **options)

    def test_batches(
        self, set_name: str, count: int, batch_size: int, *, skipped: object = None, **options: int
    ) -> Iterable[Batch]:
        """The nine sets stay in memory once they are drawn."""
        return _drawn(set_name, count, batch_size, world=self.world, **options)

    def labels(self, set_name: str, count: int) -> Int[Tensor, " count"]:
        return torch.arange(count) % len(self.classes)

    def labelled(self, set_name: str, count: int, *, seed: int = 0, size: int = 112) -> Labelled:
        """The first `count` images of a set, drawn when they are read."""
        return cutouts.drawn(set_name, count, seed=seed, size=size, world=self.world)

    def split(self, seed: int) -> Split:
        return class_split(seed)

    def probe(self, spec: ModelSpec) -> Iterator[Batch] | None:
        """New draws of the shifted sets' kinds."""
        if self.world is FIRST:
            return None
        parts = (self.batches(n, 16, 16, seed=1, size=spec.image_size) for n in self.example_sets)
        return (batch for part in parts for batch in part)

    def fresh(self, count: int, *, seed: int = 0, size: int) -> Batch:
        return self.draw("validation", range(FRESH, FRESH + count), seed=seed, size=size)

    def describe(self) -> str:
        home = [cutouts.home_family(label) for label in range(len(self.classes))]
        shared = sorted({home.count(family) for family in range(len(SEEN))})
        return (
            f"{len(self.classes)} classes, {len(SEEN)} textures seen in training\n"
            f"classes that share a texture: {shared}\n"
            f"at home in {100 * self.world.home_share:.0f} % of the training images"
        )

    def homes(self) -> pd.DataFrame | None:
        if self.world is FIRST:
            return None
        names = np.array(self.classes)
        live = np.array([cutouts.home_family(label) for label in range(len(names))])
        rows = [
            (home.name, home.texture, ", ".join(home.props), ", ".join(names[live == family]))
            for family, home in enumerate(HOMES[: len(SEEN)])
        ]
        return pd.DataFrame(rows, columns=["home", "texture", "things", "classes"])

    def texture_shares_pct(self, count: int) -> pd.DataFrame | None:
        drawn = self.draw("train", range(count), size=16)
        table = pd.crosstab(drawn.labels.numpy(), drawn.families.numpy(), normalize="index") * 100
        return table.set_axis([FAMILIES[i].name for i in table.columns], axis=1)


CUTOUTS = Cutouts()


@lru_cache(maxsize=len(cutouts.TEST_SETS))
def _drawn(*asked: str | int, **options: Any) -> tuple[Batch, ...]:
    return tuple(cutouts.batches(*asked, **options))


def open_benchmark(cfg: Common) -> Benchmark:
    """The images that a notebook's parameters name. Raises: as `from_project`."""
    params = cfg.benchmark
    if params.data == "habitats":
        drawings = OBJECTS if params.classes == "objects" else None
        return Cutouts(habitats(params.home_share, params.opacity, drawings))
    return CUTOUTS if params.data == "cutouts" else imagenet(params)


def imagenet(params: BenchmarkParams) -> ImageNet:
    """ImageNet, ImageNet-S and the shifted sets below `data_root`, as the preset has them.

    All models share one view of the pictures: with preprocessing timm it is that of `view_of`,
    with published it is one for all (differences B5).
    """
    return ImageNet(
        from_project(params.data_root),
        preprocessing(params.view_of or "vit-b", params.preprocessing).view,
        params.preprocessing,
        params.ways,
        params.objectnet,
        params.corrupted,
        params.segmentation_set,
        params.finetuned_classes,
    )


@dataclass(frozen=True)
class ImageNet(Benchmark):
    """The real sets of one folder, each opened when it is first asked for."""

    root: Path
    view: View
    preprocessing: Preprocessing
    ways: int  # classes among which the answers of -A and -R are sought (B6)
    objectnet: Protocol  # published: the first label counts, borders are left (B7)
    corrupted: Corrupted
    segmentation_set: str
    finetuned: int  # classes

    name = "imagenet"
    classes = SHORT_NAMES
    # ObjectNet's authors ask that no picture be shown without the red border.
    example_sets = tuple(name for name in cutouts.SHIFTED_SETS if name != "objectnet")
    composable, of_the_papers, all_classes_everywhere = False, True, False
    dino_pair = ("dino-b", "deit-b")

    @property
    def outlined(self) -> str:
        return self.segmentation_set

    @property
    def outlined_sets(self) -> tuple[str, ...]:
        return (self.segmentation_set,)

    @property
    def rules(self) -> str:
        """The choices of the preset that answers depend on."""
        return f"{self.view} {self.ways} {self.objectnet} {self.corrupted}"

    def spec(self, model: str) -> ModelSpec:
        return paper_spec(model, self.preprocessing) if model in PAPER_MODELS else model_spec(model)

    def split(self, seed: int) -> Split:
        """ImageNet-S's first classes as in the paper (seed 0), or as many drawn by the seed."""
        both = split_classes(self.finetuned, seed or None)
        first, others = ([IMAGENET_INDEX[wnid] for wnid in part] for part in both)
        return sorted(first), sorted(others)

    def validation_seed(self, seed: int) -> int:
        """A run's own: its validation images are of the classes that its seed leaves out (B2)."""
        return seed

    def draw(
        self,
        set_name: str,
        indices: Sequence[int],
        *,
        labels: Sequence[int] | None = None,
        families: Sequence[int] | None = None,
        seed: int = 0,
        size: int | None = None,
        soft: bool = False,
    ) -> Batch:
        """Images of a set by number, in a fixed random order; numbers beyond the last begin anew.

        Those of `val` are the same squares for every test, that which erases them too (F9); those
        of `validation` are of the classes that the seed does not finetune. With `labels`, an image
        of each such class instead: the first, the second and so on of those that the seed chooses
        (seed 0: by name), for finetuning. `soft` as `decoding.draw`.
        Raises: ValueError for textures, which photographs have not, a size that is not the
        view's, or a class without enough images.
        """
        if families is not None:
            raise ValueError("imagenet: photographs have no textures to choose; use cutouts")
        self._check(size)
        found = self._set(set_name, seed)
        if labels is None:
            return decoding.draw(found, _in_order(found, indices), soft=soft)
        return decoding.draw(found, _places(found, labels, seed), soft=soft)

    def labels(self, set_name: str, count: int) -> Int[Tensor, " count"]:
        found = _opened(self, set_name)
        return found.labels[_in_order(found, range(count))]

    def masks_for(self, protocol: Protocol) -> dict[str, bool]:
        return {"soft": protocol == "published"}

    def to_crop(self, labels: Sequence[int], seed: int, size: int, protocol: Protocol) -> Batch:
        """The same images, whole and squeezed to TO_CROP pixels.

        The published code crops the model's size out of them at random (differences B4); the paper
        describes no augmentation, so both protocols have it.
        """
        view = replace(self.view, resize=TO_CROP, crop=TO_CROP, squash=True)
        found = replace(_opened(self, "finetune"), view=view)
        return decoding.draw(found, _places(found, labels, seed), **self.masks_for(protocol))

    def batches(
        self,
        set_name: str,
        count: int,
        batch_size: int,
        *,
        seed: int = 0,
        size: int | None = None,
        skipped: dict[int, str] | None = None,
    ) -> Iterator[Batch]:
        """The first `count` images of a set in that order, or all of a smaller one.

        `seed` as `draw`. Where the preset has corrupted: skip, images that cannot be read are left
        out, and `skipped` gets their numbers and ids; the others' numbers stay.
        """
        self._check(size)
        found = self._set(set_name, seed)
        chosen = found.select(_order(len(found))[:count])
        masks = chosen.masks is not None
        return decoding.batches(
            chosen, batch_size, corrupted=self.corrupted, skipped=skipped, masks=masks
        )

    def probe(self, spec: ModelSpec) -> Iterator[Batch] | None:
        """Validation images, read when asked for: in float32 nothing is compared."""
        return (self.draw("validation", places, size=spec.image_size) for places in [range(PROBED)])

    def describe(self) -> str:
        return f"{len(self.classes)} classes of photographs, which have no textures to count"

    def note_empty(self, kept: int, empty: int) -> str:
        return f"{self.outlined}: {kept} images; {empty} without an object left out\n"

    def note_skipped(self, skipped: Mapping[str, Sequence[str]]) -> str:
        counts = [f"{len(ids)} of {name}, the first {ids[0]}" for name, ids in skipped.items()]
        return f"pictures left out, since they cannot be read: {'; '.join(counts) or 'none'}\n"

    def _set(self, set_name: str, seed: int) -> ImageSet:
        """A set; the validation images depend on the seed."""
        if set_name == "validation" and seed:
            return _opened(self, set_name, seed)
        return _opened(self, set_name)

    def _check(self, size: int | None) -> None:
        if size not in (None, self.view.crop):
            raise ValueError(
                f"imagenet: images of {size} pixels; the preset's view has {self.view.crop}: "
                "models of one preset need one image size"
            )


READERS: dict[str, Callable[..., ImageSet]] = {
    "val": read_imagenet,
    "a": read_imagenet_a,
    "r": read_imagenet_r,
    "sketch": read_sketch,
    "v2": read_v2,
    "objectnet": read_objectnet,
    "si_location": partial(read_si_score, factor="location"),
    "si_rotation": partial(read_si_score, factor="rotation"),
    "si_size": partial(read_si_score, factor="area"),
    "imagenet_s": partial(read_imagenet_s, part="validation"),
    "gtsegs": read_gtsegs,
    "finetune": read_imagenet_s,
    "train": read_imagenet_s,
    "validation": read_imagenet_s,
}


@lru_cache(maxsize=2 * len(READERS))
def _opened(sets: ImageNet, set_name: str, seed: int = 0) -> ImageSet:
    if set_name not in READERS:
        raise ValueError(f"imagenet: set {set_name!r} is unknown; use one of {tuple(READERS)}")
    options: dict[str, object] = {"ways": sets.ways} if set_name in ("a", "r") else {}
    if set_name == "objectnet" and sets.objectnet == "published":
        options = {"answers": "first", "border": 0}
    view = sets.view
    if set_name == "gtsegs":  # picture and mask are squashed to a square, masks pixel by pixel (E4)
        view = replace(view, resize=view.crop, squash=True, mask_pixels="nearest")
    found = READERS[set_name](sets.root, view, **options)
    if set_name != "validation":
        return found
    # The first image of each class that runs of this seed do not finetune (A16, B2).
    kept = sets.split(seed)[1]
    present = set(found.labels.tolist())
    return found.select(_places(found, [label for label in kept if label in present], seed=0))


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
                f"{found.name}: class {IMAGENET_NAMES[label]} ({label}) has {len(mine)} images, "
                f"asked for more; give fewer images_per_class, or unpack the archive again"
            )
        if seed:
            mine = [mine[i] for i in np.random.default_rng([seed, label]).permutation(len(mine))]
        places.append(mine[used[label]])
        used[label] += 1
    return places


def _in_order(found: ImageSet, indices: Iterable[int]) -> list[int]:
    order = _order(len(found))
    return [order[i % len(order)] for i in indices]


@lru_cache(maxsize=len(READERS))
def _order(count: int) -> list[int]:
    """One fixed random order for a set of this length, so that its first images are a sample."""
    return np.random.default_rng(0).permutation(count).tolist()
