"""The finetuned models that IAV compares, rows of the table of runs, and pictures to explain."""

from __future__ import annotations

from typing import Any

from torch import nn

from habitats.benchmark import Benchmark
from habitats.cutouts import CUTOUTS
from habitats.drawings import CLASSES
from relevit.choices.words import KINDS
from relevit.data.batch import Batch
from relevit.models.registry import model_spec
from relevit.models.spec import ModelSpec
from reproduction.params.cells import Params
from reproduction.runs.run import Row, classifiers, read
from reproduction.training.pretrained import after_epoch, test_pictures

EXPLAINED_CLASSES = 10


def compared_runs(cfg: Params) -> list[Row]:
    """Every model of the parameters with every seed, models first."""
    return sorted(classifiers(cfg), key=lambda row: cfg.models.index(row.params.model))


def finetuned(run: Row, epoch: int | None = None) -> nn.Module:
    """The model of a run after an epoch (None: the last). Raises: as `runs.read`."""
    read(run)
    return after_epoch(run.params, run.folder, run.params.epochs if epoch is None else epoch)


def named(run: Row) -> dict[str, Any]:
    """What tables name a run by; the kind says whether the pretraining had labels."""
    model = run.params.model
    return {"model": model, "kind": KINDS[model], "seed": run.params.seed}


def spec_of(run: Row) -> ModelSpec:
    """How the model of a run takes its pictures."""
    return model_spec(run.params.model)


def pictures_to_explain(cfg: Params) -> Batch:
    """The test pictures of 08_iav, as the models take them; those of CIFAR-10 have no masks.

    Of Cutouts ten classes, as many as CIFAR-10 has, so that a class has enough pictures for its
    structure in IAV space to be seen; fewer where a class would have less than two.
    """
    size = model_spec(cfg.reference).image_size
    if cfg.data == "cifar10":
        test = test_pictures(cfg, cfg.images, size)
        return test.read(range(len(test)))
    return drawn_to_explain(CUTOUTS, cfg.images, size, min(EXPLAINED_CLASSES, cfg.images // 2))


def drawn_to_explain(
    images: Benchmark, count: int, size: int, classes: int = EXPLAINED_CLASSES
) -> Batch:
    """Images of `val`: every fourth class in turn, as many of each."""
    step = len(CLASSES) // EXPLAINED_CLASSES
    places = [i // classes * len(CLASSES) + i % classes * step for i in range(count)]
    return images.draw("val", places, size=size)


def outlined_to_explain(images: Benchmark, count: int, size: int) -> Batch:
    """Test images with masks and a known class, for a preset's own model.

    Where they are drawn, of `val`; else of the outlined set, in which an image may lack either.
    """
    if images.composable:
        return drawn_to_explain(images, count, size)
    batch, _ = images.with_masks(4 * count, size=size)
    return batch.select((batch.labels >= 0).nonzero()[:count, 0])
