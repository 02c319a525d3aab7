"""Four small ViTs of one size, each pretrained in another way on the same pictures.

The IAV paper compares models that learned with labels and without, of other data, sizes of data
and recipes. Here data, architecture and number of images are the same, and only the task differs:
names (`mini-supervised`), names under DeiT's strong augmentation (`mini-deit`), hidden patches
(`mini-mae`), agreement of two views (`mini-dino`). None of them sees an animal.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from habitats.cutouts import Cutouts
from habitats.drawings import PRETRAINING
from pretraining import masked_autoencoder, self_distillation
from pretraining.mixing import mix
from relevit.base.files import write_atomically
from relevit.finetune.epochs import History
from relevit.models.loading import load_model
from relevit.models.registry import model_spec
from reproduction.training.classifier import TrainSettings, train_classifier

IMAGES, EPOCHS = 12_800, 8
WITH_LABELS = TrainSettings(
    lr=1.0e-3, head_lr=1.0e-3, images=IMAGES, epochs=EPOCHS, batch_size=64, fresh=True
)
SETTINGS = {
    "mini-supervised": WITH_LABELS,
    "mini-deit": WITH_LABELS,
    "mini-mae": masked_autoencoder.PretrainSettings(lr=1.5e-3, images=IMAGES, epochs=EPOCHS),
    "mini-dino": self_distillation.DistillationSettings(lr=1.0e-3, images=IMAGES, epochs=EPOCHS),
}
TASKS = {
    "mini-supervised": partial(train_classifier, identity={"kind": "pretraining"}),
    "mini-deit": partial(
        train_classifier, identity={"kind": "pretraining", "mixing": True}, mixing=mix
    ),
    "mini-mae": masked_autoencoder.pretrain,
    "mini-dino": self_distillation.pretrain,
}


def pretrain(
    name: str,
    folder: Path,
    settings: Any = None,
    *,
    validation_images: int = 400,
    on_epoch: Callable[[dict[str, Any]], None] = lambda row: None,
) -> tuple[nn.Module, History]:
    """Pretrain one of SETTINGS from random weights; checkpoints and log go to `folder`.

    `settings` are of its own kind, by default those that made the shipped weights. Every epoch
    shows new images of PRETRAINING's things. Returns the model, whose head is only trained with
    labels, and the log.
    """
    settings, spec = settings or SETTINGS[name], model_spec(name)
    model = load_model(name, "random", classes=len(PRETRAINING.classes), seed=settings.seed)
    drawn = partial(Cutouts(drawings=PRETRAINING).pictures, size=spec.image_size)
    history = TASKS[name](
        model,
        spec,
        settings,
        folder,
        train=drawn("train", settings.images * settings.epochs, seed=settings.seed),
        validation=drawn("validation", validation_images).kept(),
        on_epoch=on_epoch,
    )
    return model.eval(), history


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
