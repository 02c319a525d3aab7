"""Four small ViTs of one size, each pretrained in another way on the same pictures.

The IAV paper compares models that learned with labels and without, of other data, sizes of data
and recipes. Here data, architecture and number of images are the same, and only the task differs:
names (`mini-supervised`), names under DeiT's strong augmentation (`mini-deit`), hidden patches
(`mini-mae`), agreement of two views (`mini-dino`). None of them sees an animal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from relevit.base.files import run_folder, write_atomically
from relevit.base.results import read_rows
from relevit.config import PretrainingParams
from relevit.data.cutouts import drawn
from relevit.data.things import PRETRAINING
from relevit.models.loading import build_model, model_spec, shipped_weights
from relevit.training import masked_autoencoder, self_distillation
from relevit.training.classifier import TrainSettings, train_classifier
from relevit.training.epochs import History

Settings = (
    TrainSettings | masked_autoencoder.PretrainSettings | self_distillation.DistillationSettings
)
IMAGES, EPOCHS = 12_800, 8
STAGE = "07_pretraining"
PRETRAINED = "pretrained"  # its folder for backbones that it pretrains itself

RECIPES: dict[str, Settings] = {
    "mini-supervised": TrainSettings(
        lr=1.0e-3, head_lr=1.0e-3, images=IMAGES, epochs=EPOCHS, batch_size=64, fresh=True
    ),
    "mini-deit": TrainSettings(
        lr=1.0e-3,
        head_lr=1.0e-3,
        images=IMAGES,
        epochs=EPOCHS,
        batch_size=64,
        fresh=True,
        mixing=True,
    ),
    "mini-mae": masked_autoencoder.PretrainSettings(lr=1.5e-3, images=IMAGES, epochs=EPOCHS),
    "mini-dino": self_distillation.DistillationSettings(lr=1.0e-3, images=IMAGES, epochs=EPOCHS),
}


def pretrain(
    name: str,
    folder: Path,
    settings: Settings | None = None,
    *,
    validation_images: int = 400,
    on_epoch: Callable[[dict[str, Any]], None] = lambda row: None,
) -> tuple[nn.Module, History]:
    """Pretrain one of RECIPES from random weights; checkpoints and log go to `folder`.

    `settings` are of the recipe's own kind, by default those that made the shipped weights.
    Every epoch shows new images of PRETRAINING's things. Returns the model, whose head is only
    trained with labels, and the log. Raises: ValueError for an unknown name; as `run_epochs`.
    """
    if name not in RECIPES:
        raise ValueError(f"pretraining: {name!r} is unknown; use one of {sorted(RECIPES)}")
    settings, spec = settings or RECIPES[name], model_spec(name)
    model = build_model(name, settings.seed, classes=len(PRETRAINING.classes))
    draw = partial(drawn, drawings=PRETRAINING, size=spec.image_size)
    train = draw("train", settings.images * settings.epochs, seed=settings.seed)
    shown = draw("validation", validation_images).kept()
    images = {"train": train, "validation": shown, "on_epoch": on_epoch}
    if isinstance(settings, TrainSettings):
        about = {"kind": "pretraining"}
        history = train_classifier(model, spec, settings, folder, identity=about, **images)
    elif isinstance(settings, self_distillation.DistillationSettings):
        history = self_distillation.pretrain(model, spec, settings, folder, **images)
    else:
        history = masked_autoencoder.pretrain(model, spec, settings, folder, **images)
    return model.eval(), history


def make_backbone(
    cfg: PretrainingParams, name: str, on_epoch: Callable[[dict[str, Any]], None] = lambda row: None
) -> History:
    """The log of a mini model's pretraining, which is run where `cfg.source` is 'train'.

    Its backbone is then in `backbone_file`; the shipped one stays in the package.
    """
    if cfg.source == "shipped":
        log = shipped_weights(f"{name}-pretrained").with_name(f"{name}-pretraining.jsonl")
        history = read_rows(log)
        on_epoch(history[-1])
        return history
    settings = replace(RECIPES[name], images=cfg.pretraining_images, epochs=cfg.pretraining_epochs)
    target = backbone_file(cfg, name)
    model, history = pretrain(name, target.parent / name, settings, on_epoch=on_epoch)
    save_backbone(model, target)
    return history


def backbone_file(cfg: PretrainingParams, name: str) -> Path:
    """Where the notebook keeps a backbone that it pretrained itself (source 'train')."""
    folder = run_folder(cfg.preset, STAGE, PRETRAINED, cfg.output_root)
    return folder / f"{name}.safetensors"


def save_backbone(model: nn.Module, path: Path) -> None:
    """Write all weights but the head's in half precision, which halves the file.

    The rounding, 5e-4 of a weight, is far below what the next training step changes.
    """
    state = {
        key: value.detach().cpu().to(torch.float16).contiguous()
        for key, value in model.state_dict().items()
        if not key.startswith("head.")
    }
    write_atomically(path, lambda target: save_file(state, target))
