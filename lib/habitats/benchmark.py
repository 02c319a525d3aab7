"""The images of a preset: drawn here, the papers' own, or one's own, from disk.

All have test sets, mostly the nine of `cutouts.TEST_SETS`, images to finetune on with masks, and
images for choices during training, so that a notebook asks for them by name and does not know
which it has. What differs between them is asked of the benchmark too. Which one it is
says the parameter `benchmark`; a notebook opens it once and hands it on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from relevit.choices.words import MaskSource, Protocol
from relevit.data.batch import Batch, join
from relevit.data.image_set import ImageSet
from relevit.masks.automatic import AutomaticMasks
from relevit.models.registry import model_spec
from relevit.models.spec import ModelSpec
from relevit.protocols import Options, options

Split = tuple[list[int], list[int]]
READ = 100  # images with masks in one reading


class Benchmark:
    """What notebooks ask for: images of a set, classes by name, and which of them to finetune."""

    name: str
    classes: tuple[str, ...]  # name of each label
    test_sets: tuple[str, ...]  # what runs answer
    shifted_sets: tuple[str, ...]  # those of them whose mean is the headline
    outlined: str  # a test set whose masks are exact
    outlined_sets: tuple[str, ...]  # all of them
    example_sets: tuple[str, ...]  # shifted sets of which single images are shown
    composable: bool  # background, size, place and number of objects are chosen by who draws
    dino_pair: tuple[str, str]  # self-supervised and supervised model that stand for the papers'
    ahead: int = 0  # batches that are read before they are asked for
    skips: bool = False  # pictures that cannot be read are left out
    challenging: bool = False  # it has the sets of the backgrounds challenge
    leans: bool = False  # that is composed of its pictures, by their masks (`evaluate.lean`)
    finds_masks: bool = False  # by TokenCut, where no others are: without 01_masks
    options: Mapping[str, Any] = {}  # of timm's model for these images
    rules: str  # what decides an answer beside the model: kept answers hold for these alone

    def draw(self, set_name: str, indices: Sequence[int], **options: Any) -> Batch:
        """Images of a set by number, none twice; options as `Cutouts.draw`.

        A set on disk that is smaller than what is asked for gives fewer.
        """
        raise NotImplementedError

    def pictures(
        self, set_name: str, count: int, *, seed: int = 0, size: int | None = None
    ) -> ImageSet:
        """The first images of a set, or all of a smaller one, read when they are asked for."""
        raise NotImplementedError

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
        """`pictures` in batches.

        Where the benchmark skips what cannot be read, `skipped` gets the numbers and ids of it;
        the others' numbers stay.
        """
        found = self.pictures(set_name, count, seed=seed, size=size)
        lost = {} if skipped is None else skipped
        return found.batches(batch_size, ahead=self.ahead, skipped=lost if self.skips else None)

    def test_batches(
        self, set_name: str, count: int, batch_size: int, **options: Any
    ) -> Iterable[Batch]:
        """As `batches`, for a set that many models answer one after the other."""
        return self.batches(set_name, count, batch_size, **options)

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
        return model_spec(model, **options("published", "model_spec"))

    def to_finetune(
        self, labels: Sequence[int], seed: int, size: int, masks: MaskSource = "annotated"
    ) -> Batch:
        """An image of each of these labels, with its mask; whose alone matters to `finds_masks`."""
        return self.draw("finetune", range(len(labels)), labels=labels, seed=seed, size=size)

    def to_crop(self, labels: Sequence[int], seed: int, size: int, protocol: Protocol) -> Batch:
        """The images of `to_finetune` as training crops them at random: these or larger ones (B4).

        Masks as the losses of the protocol have them (`masks_for`).
        """
        return self.to_finetune(labels, seed, size)

    def found_masks(self, count: int) -> AutomaticMasks | None:
        """Of the first validation images, where it `finds_masks`."""
        return None

    def masks_for(self, protocol: Protocol) -> Options:
        """What `draw` is told for masks as a protocol has them; drawings have exact ones (A7)."""
        return {}

    def with_masks(
        self, count: int, *, seed: int = 0, size: int | None = None
    ) -> tuple[Batch, int]:
        """The first `count` images of the outlined set, or all of a smaller one, each once.

        Those whose mask is empty have no object to find: they are left out, and counted.
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

    def homes(self) -> pd.DataFrame | None:
        """Where the classes are at home, and what stands about there; None: they have no homes."""
        return None

    def note_empty(self, kept: int, empty: int) -> str:
        """A line on images left out by `with_masks`; nothing where no image can lack an object."""
        return ""

    def note_skipped(self, skipped: Mapping[str, Sequence[str]]) -> str:
        """A line on images that could not be read, by set; nothing where none is read."""
        return ""


def open_benchmark(cfg: Any) -> Benchmark:
    """The images that a notebook's parameters name; what the others need is not loaded.

    `cfg.benchmark` has what a preset may say under `benchmark`: data, data_root and so on.
    """
    params = cfg.benchmark
    if params.data != "habitats":
        from habitats.photographs import open_photographs

        return open_photographs(params)
    from habitats.drawings import ANIMALS, OBJECTS
    from habitats.homes import habitats

    drawings = OBJECTS if params.classes == "objects" else ANIMALS
    return habitats(params.home_share, params.opacity, drawings)
