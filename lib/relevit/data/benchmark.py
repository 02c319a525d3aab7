"""The images of a preset: Cutouts, drawn here, or the papers' own data sets, from disk.

Both have the same nine test sets (`cutouts.TEST_SETS`), images to finetune on with masks, and
images for choices during training, so that a notebook asks for them by name and does not know
which of the two it has. Which one is said once, in `params/<preset>/pipeline.yaml`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from relevit.base.paths import from_project, project_root
from relevit.config import OriginalParams, PipelineParams
from relevit.config.words import Protocol
from relevit.data import cutouts
from relevit.data.batch import Batch, join
from relevit.data.foregrounds import CLASSES, class_split
from relevit.data.real import loading, selection
from relevit.data.real.classes import IMAGENET_INDEX, IMAGENET_NAMES, SHORT_NAMES
from relevit.data.real.gtsegs import read_gtsegs
from relevit.data.real.image_set import ImageSet, View
from relevit.data.real.imagenet import read_imagenet
from relevit.data.real.imagenet_s import read_imagenet_s
from relevit.data.real.objectnet import read_objectnet
from relevit.data.real.shifted import read_imagenet_a, read_imagenet_r, read_sketch, read_v2
from relevit.data.real.si_score import read_si_score
from relevit.models.loading import model_spec
from relevit.models.registry import PAPER_MODELS, paper_spec, preprocessing
from relevit.models.spec import ModelSpec

Split = tuple[list[int], list[int]]
TO_CROP = 256  # pixels of both sides of a photograph out of which training crops (B4)
READ = 100  # images with masks in one reading
PROBED = 100  # validation images on which bfloat16 is compared with float32


@dataclass(frozen=True)
class Benchmark:
    """What notebooks ask for: images of a set, classes by name, and which of them to finetune."""

    name: str
    classes: tuple[str, ...]  # name of each label
    draw: Callable[..., Batch]  # as `cutouts.draw`
    batches: Callable[..., Iterator[Batch]]  # as `cutouts.batches`
    split: Callable[[int], Split]  # labels to finetune on (A), and the others (B), by seed
    spec: Callable[[str], ModelSpec] = model_spec  # of a model by name
    outlined: str = "val"  # a test set whose masks are exact
    generated: bool = True  # backgrounds and sizes can be chosen, masks are exact everywhere
    to_crop: Callable[..., Batch] | None = None  # larger images to train on, by labels, seed (B4)
    rules: str = ""  # what decides an answer beside the model: kept answers hold for these alone

    def masks_for(self, protocol: Protocol) -> dict[str, bool]:
        """What `draw` and `to_crop` are told for masks as the losses of a protocol have them.

        Resizing makes fractions of a photograph's mask along its edge. `published` leaves them, and
        they count as object and as background; `described` says a mask, which is one or the other
        (differences A7). Drawings have exact masks for both.
        """
        return {} if self.generated else {"soft": protocol == "published"}

    def probe(self, spec: ModelSpec) -> Iterator[Batch] | None:
        """Images that no test uses, for `evaluate.make_classifier`; None: its own draws.

        They are read when asked for: in float32 nothing is compared.
        """
        if self.generated:
            return None
        return (self.draw("validation", places, size=spec.image_size) for places in [range(PROBED)])

    def with_masks(
        self, count: int, *, seed: int = 0, size: int | None = None
    ) -> tuple[Batch, int]:
        """The first `count` images of the outlined set, or all of a smaller one, each once.

        Those whose mask is empty have no object to find: they are left out, and counted.
        Raises: ValueError when none is left.
        """
        parts = self.batches(self.outlined, count, READ, seed=seed, size=size)
        batch = join(list(parts))
        outlined = batch.masks.flatten(1).any(dim=1)
        if not bool(outlined.any()):
            raise ValueError(
                f"{self.name}: {self.outlined} has no object in {len(batch)} masks; take more "
                "images, or another segmentation_set"
            )
        return batch.select(outlined), int((~outlined).sum())

    def names(self, labels: Sequence[int]) -> list[str]:
        """The classes' names; -1 for a picture without a label."""
        return [self.classes[int(label)] if label >= 0 else "unknown" for label in labels]


CUTOUTS = Benchmark("cutouts", CLASSES, cutouts.draw, cutouts.batches, class_split)


def benchmark(preset: str) -> Benchmark:
    """The images of a preset. Raises: ValueError, FileNotFoundError for its parameter files."""
    folder = project_root() / "params" / preset
    if not (folder / "pipeline.yaml").is_file():
        return CUTOUTS  # notebooks alone, which name their data themselves
    params = PipelineParams.from_file(folder / "pipeline.yaml")
    if params.data == "cutouts":
        return CUTOUTS
    return imagenet(params, OriginalParams.from_file(folder / "00_original.yaml").model)


def imagenet(params: PipelineParams, model: str) -> Benchmark:
    """ImageNet, ImageNet-S and the shifted sets below `data_root`, as the preset has them.

    `model` is the preset's own, whose view all its models share: with preprocessing timm it is
    that model's, with published it is one for all (differences B5).
    """
    sets = _Sets(
        from_project(params.data_root),
        preprocessing(model, params.preprocessing).view,
        params.ways,
        params.objectnet,
        params.corrupted,
        params.finetuned_classes,
    )

    def spec(name: str) -> ModelSpec:
        return paper_spec(name, params.preprocessing) if name in PAPER_MODELS else model_spec(name)

    return Benchmark(
        "imagenet",
        SHORT_NAMES,
        sets.draw,
        sets.batches,
        sets.split,
        spec,
        outlined=params.segmentation_set,
        generated=False,
        rules=sets.rules,
        to_crop=sets.to_crop,
    )


@dataclass(frozen=True)
class _Sets:
    """The real sets of one folder, each opened when it is first asked for."""

    root: Path
    view: View
    ways: int  # classes among which the answers of -A and -R are sought (B6)
    objectnet: str  # published: the first label counts, borders are left (B7)
    corrupted: loading.Corrupted
    finetuned: int  # classes

    @property
    def rules(self) -> str:
        """The choices of the preset that answers depend on."""
        return f"{self.view} {self.ways} {self.objectnet} {self.corrupted}"

    def split(self, seed: int) -> Split:
        """ImageNet-S's first classes as in the paper (seed 0), or as many drawn by the seed."""
        both = (part(self.finetuned, seed or None) for part in PARTS)
        first, others = ([IMAGENET_INDEX[wnid] for wnid in part] for part in both)
        return sorted(first), sorted(others)

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

        With `labels`, an image of each such class instead: the first, the second and so on of
        those that the seed chooses (seed 0: by name), for finetuning. `soft` as `loading.draw`.
        Raises: ValueError for textures, which photographs have not, a size that is not the
        view's, or a class without enough images.
        """
        if families is not None:
            raise ValueError("imagenet: photographs have no textures to choose; use cutouts")
        self._check(size)
        found = _opened(self, set_name)
        if labels is None:
            order = _order(len(found))
            return loading.draw(found, [order[i % len(order)] for i in indices], soft=soft)
        return loading.draw(found, _places(found, labels, seed), soft=soft)

    def to_crop(self, labels: Sequence[int], seed: int, *, soft: bool = False) -> Batch:
        """The images that `draw` gives for finetuning, whole and squeezed to TO_CROP pixels.

        The published code crops the model's size out of them at random (differences B4).
        """
        view = replace(self.view, resize=TO_CROP, crop=TO_CROP, squash=True)
        found = replace(_opened(self, "finetune"), view=view)
        return loading.draw(found, _places(found, labels, seed), soft=soft)

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

        Where the preset has corrupted: skip, images that cannot be read are left out, and
        `skipped` gets their numbers and ids; the others' numbers stay.
        """
        self._check(size)
        found = _opened(self, set_name)
        chosen = found.select(_order(len(found))[:count])
        masks = chosen.masks is not None
        return loading.batches(
            chosen, batch_size, corrupted=self.corrupted, skipped=skipped, masks=masks
        )

    def _check(self, size: int | None) -> None:
        if size not in (None, self.view.crop):
            raise ValueError(
                f"imagenet: images of {size} pixels; the preset's view has {self.view.crop}: "
                "models of one preset need one image size"
            )


PARTS = (selection.finetuning_classes, selection.validation_classes)
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


@lru_cache(maxsize=len(READERS))
def _opened(sets: _Sets, set_name: str) -> ImageSet:
    if set_name not in READERS:
        raise ValueError(f"imagenet: set {set_name!r} is unknown; use one of {tuple(READERS)}")
    options: dict[str, object] = {"ways": sets.ways} if set_name in ("a", "r") else {}
    if set_name == "objectnet" and sets.objectnet == "published":
        options = {"answers": "first", "border": 0}
    view = sets.view
    if set_name == "gtsegs":  # picture and mask are squashed to a square (E4)
        view = replace(view, resize=view.crop, squash=True)
    found = READERS[set_name](sets.root, view, **options)
    if set_name != "validation":
        return found
    kept = sets.split(0)[1]  # an image of each class that is never finetuned (B2)
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


@lru_cache(maxsize=len(READERS))
def _order(count: int) -> list[int]:
    """One fixed random order for a set of this length, so that its first images are a sample."""
    return np.random.default_rng(0).permutation(count).tolist()
