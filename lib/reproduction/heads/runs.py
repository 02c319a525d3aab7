"""The finetuned models that IAV compares: how they are made, and how they are found again.

A run is one finetuning of one pretrained model, with the weights of every epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

from torch import nn

from habitats.benchmark import Benchmark
from habitats.cutouts import CUTOUTS
from habitats.drawings import CLASSES
from habitats.real.catalogue import CATALOGUE
from relevit.base.device import choose_device
from relevit.base.files import file_fingerprint, from_project, run_folder
from relevit.choices.words import HUB, KINDS
from relevit.data.batch import Batch
from relevit.data.image_set import ImageSet
from relevit.finetune.epochs import History, epoch_file
from relevit.models.layouts import find_weights
from relevit.models.loading import load_model
from relevit.models.registry import model_spec, shipped_weights
from relevit.models.spec import ModelSpec, View
from reproduction.config import IavParams
from reproduction.training.classifier import TrainSettings, train_classifier

EXPLAINED_CLASSES = 10


@dataclass(frozen=True)
class FinetunedRun:
    """One finetuning of one model; `folder` holds its log and the weights of every epoch."""

    model: str
    seed: int
    folder: Path
    classes: tuple[str, ...]

    @property
    def name(self) -> str:
        """Of its folder, and of files about it."""
        return self.folder.name

    @property
    def columns(self) -> dict[str, Any]:
        """What tables name the run by; the kind says whether the pretraining had labels."""
        return {"model": self.model, "kind": KINDS[self.model], "seed": self.seed}

    @property
    def spec(self) -> ModelSpec:
        return model_spec(self.model)

    def load(self, epoch: int, device: str = "auto") -> nn.Module:
        """The model after an epoch, in eval mode; 0: before finetuning, with an untrained head."""
        how = {"classes": len(self.classes), "pixels": "own", "device": device}
        return load_model(self.model, epoch_file(self.folder, epoch), **how)


def compared_runs(cfg: IavParams) -> list[FinetunedRun]:
    """Every model of the parameters with every seed, models first."""
    classes = test_pictures(cfg, 1, model_spec("tiny").image_size).classes
    runs = []
    for name, seed in product(cfg.models, cfg.model_seeds):
        folder = run_folder(cfg.preset, cfg.notebook, f"{name}.seed{seed}", cfg.output_root)
        runs.append(FinetunedRun(name, seed, folder, classes))
    return runs


def test_pictures(cfg: IavParams, count: int, size: int) -> ImageSet:
    """The first pictures that no finetuning has seen, `size` pixels a side: `val` of Cutouts, or
    so many of CIFAR-10's test set, drawn once from seed 0 as its file has no useful order."""
    if cfg.data == "cutouts":
        return CUTOUTS.pictures("val", count, size=size)
    return _cifar10(cfg, size)[1].sample(count, seed=0)


def _cifar10(cfg: IavParams, size: int) -> list[ImageSet]:
    """Training and test set, whole pictures enlarged (bicubic): IAV does not say how.

    The middle alone, as larger pictures are cut, would lose the border of these small ones.
    """
    view = View(resize=size, crop=size, interpolation="bicubic")
    root = from_project(cfg.data_root)
    return [CATALOGUE["cifar10"].read(root, view, call=call) for call in (0, 1)]


def pictures_to_explain(cfg: IavParams, size: int) -> Batch:
    """The test pictures of 08_iav, `size` pixels a side; those of CIFAR-10 have no masks.

    Of Cutouts ten classes, as many as CIFAR-10 has, so that a class has enough pictures for its
    structure in IAV space to be seen; fewer where a class would have less than two.
    """
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


def finetune_run(
    cfg: IavParams, run: FinetunedRun, on_epoch: Callable[[dict[str, Any]], None] = lambda row: None
) -> History:
    """Finetune one model and keep every epoch's weights; a finished run is only read.

    Source: IAV Sec. V, all weights and a new head, on a cosine schedule, 30 epochs of CIFAR-10 in
    batches of 768 at 1e-5 (the optimiser is not given: AdamW here). Cutouts are drawn anew in
    each epoch. The seed draws the head and the order, and of Cutouts the images.
    """
    model, origin = _pretrained(cfg, run)
    device = choose_device(cfg.device)
    fresh = cfg.data == "cutouts"
    own = {"images": cfg.training_images, "seed": run.seed, "fresh": fresh}
    settings = TrainSettings.from_params(cfg, device, **own)
    train, validation = _training_pictures(cfg, run)
    return train_classifier(
        model.to(device),
        run.spec,
        settings,
        run.folder,
        train=train,
        validation=validation,
        identity={"kind": "iav", "data": cfg.data, "origin": origin, "validation": len(validation)},
        keep_epochs=True,
        on_epoch=on_epoch,
    )


def _pretrained(cfg: IavParams, run: FinetunedRun) -> tuple[nn.Module, str]:
    """The model under a new head, and a word for the weights it starts from."""
    root = from_project(cfg.weights_root) if cfg.weights_root else None
    path = find_weights(root, run.model) if root else None
    if run.model not in HUB:
        path = path or shipped_weights(f"{run.model}-pretrained")
    how = {"classes": len(run.classes), "new_head": True, "pixels": "own", "seed": run.seed}
    model = load_model(run.model, path or root, **how)  # a root without the file is refused there
    return model, "hub" if path is None else file_fingerprint(path)


@lru_cache(maxsize=2)
def _cutouts(set_name: str, count: int, seed: int, size: int) -> ImageSet:
    """Drawn once for all models of a seed: training and validation images."""
    return CUTOUTS.pictures(set_name, count, seed=seed, size=size).kept()


def _training_pictures(cfg: IavParams, run: FinetunedRun) -> tuple[ImageSet, ImageSet]:
    """Pictures to learn from, and those for top-1 after each epoch."""
    size = run.spec.image_size
    if cfg.data == "cutouts":
        train = _cutouts("train", cfg.training_images * cfg.epochs, run.seed, size)
        return train, _cutouts("validation", cfg.validation_images, 0, size)
    train, test = _cifar10(cfg, size)
    return train, test.sample(cfg.validation_images, seed=0)
