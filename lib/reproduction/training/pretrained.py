"""The models that IAV compares: pretrained in several ways, finetuned in one, every epoch kept."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from torch import nn

from habitats.cutouts import CUTOUTS
from habitats.real.catalogue import CATALOGUE
from relevit.base.device import choose_device
from relevit.base.files import file_fingerprint, from_project
from relevit.choices.words import HUB
from relevit.data.image_set import ImageSet
from relevit.finetune.epochs import History, epoch_file
from relevit.models.layouts import find_weights
from relevit.models.loading import load_model
from relevit.models.registry import model_spec, shipped_weights
from relevit.models.spec import View
from reproduction.params.cells import Params
from reproduction.training.classifier import TrainSettings, train_classifier

FROM_HUB = "hub"  # in place of the fingerprint of weights that timm fetches


def finetune_pretrained(cfg: Params, folder: Path) -> History:
    """Finetune one model and keep every epoch's weights in `folder`; a finished run is only read.

    Source: IAV Sec. V, all weights and a new head, on a cosine schedule, 30 epochs of CIFAR-10 in
    batches of 768 at 1e-5 (the optimiser is not given: AdamW here). Cutouts are drawn anew in
    each epoch. Raises: as `load_model` and `fit`.
    """
    start, device = pretrained_file(cfg), choose_device(cfg.device)
    root = from_project(cfg.weights_root) if cfg.weights_root else None
    how = {"new_head": True, "pixels": "own", "seed": cfg.seed}
    # A root without the file is refused there.
    model = load_model(cfg.model, start or root, classes=len(learned_classes(cfg)), **how)
    own = {"images": cfg.training_images, "fresh": cfg.data == "cutouts"}
    train, validation = training_pictures(cfg)
    origin = file_fingerprint(start) if start else FROM_HUB
    identity = {"kind": "iav", "data": cfg.data, "origin": origin}
    return train_classifier(
        model.to(device),
        model_spec(cfg.model),
        TrainSettings.from_params(cfg, device, **own),
        folder,
        train=train,
        validation=validation,
        identity=identity | {"validation": len(validation)},
        keep_epochs=True,
    )


def after_epoch(cfg: Params, folder: Path, epoch: int) -> nn.Module:
    """A model that was made in `folder`, in eval mode; 0: before, with an untrained head."""
    how = {"classes": len(learned_classes(cfg)), "pixels": "own", "device": cfg.device}
    return load_model(cfg.model, epoch_file(folder, epoch), **how)


def pretrained_file(cfg: Params) -> Path | None:
    """The weights that a model starts from; None where `weights_root` or timm's hub has to."""
    found = find_weights(from_project(cfg.weights_root), cfg.model) if cfg.weights_root else None
    return found or (None if cfg.model in HUB else shipped_weights(f"{cfg.model}-pretrained"))


def learned_classes(cfg: Params) -> tuple[str, ...]:
    """The name of each label."""
    return test_pictures(cfg, 1, model_spec(cfg.model).image_size).classes


def test_pictures(cfg: Params, count: int, size: int) -> ImageSet:
    """The first pictures that no finetuning has seen, `size` pixels a side: `val` of Cutouts, or
    so many of CIFAR-10's test set, drawn once from seed 0 as its file has no useful order."""
    if cfg.data == "cutouts":
        return CUTOUTS.pictures("val", count, size=size)
    return _cifar10(cfg.data_root, size)[1].sample(count, seed=0)


def training_pictures(cfg: Params) -> tuple[ImageSet, ImageSet]:
    """Pictures to learn from, and those for top-1 after each epoch."""
    size = model_spec(cfg.model).image_size
    if cfg.data == "cutouts":
        train = _cutouts("train", cfg.training_images * cfg.epochs, cfg.seed, size)
        return train, _cutouts("validation", cfg.validation_images, 0, size)
    train, test = _cifar10(cfg.data_root, size)
    return train, test.sample(cfg.validation_images, seed=0)


@lru_cache(maxsize=2)
def _cutouts(set_name: str, count: int, seed: int, size: int) -> ImageSet:
    """Drawn once for all models of a seed: training and validation images."""
    return CUTOUTS.pictures(set_name, count, seed=seed, size=size).kept()


@lru_cache(maxsize=2)
def _cifar10(data_root: str, size: int) -> list[ImageSet]:
    """Training and test set, whole pictures enlarged (bicubic): IAV does not say how.

    The middle alone, as larger pictures are cut, would lose the border of these small ones.
    """
    view = View(resize=size, crop=size, interpolation="bicubic")
    root = from_project(data_root)
    return [CATALOGUE["cifar10"].read(root, view, call=call) for call in (0, 1)]
