"""The IAV paper's four ViT-B/16, from timm's hub or from files, for its real data set.

They are four of `relevit.models.registry`, in timm's preprocessing and without the heads they came
with: IAV finetunes all of them on CIFAR-10. The paper names no checkpoints. Its BEiT is
self-supervised, but every BEiT that timm offers was finetuned with labels after its
pretraining; the purely self-supervised one of BEiT's authors, `beit_base_patch16_224_pt22k`,
can be given as a file.
"""

from __future__ import annotations

from pathlib import Path

import timm
import torch
from torch import nn

from relevit.base.errors import one_line
from relevit.base.seeding import seeded
from relevit.config.words import HUB, KINDS
from relevit.models.published_weights import (
    Misfit,
    fill,
    find_weights,
    named_tensors,
    read_checkpoint,
)
from relevit.models.registry import paper_spec
from relevit.models.spec import ModelSpec

HUB_MODELS = {name: paper_spec(name, "timm") for name in HUB}
HUB_KINDS = {name: KINDS[name] for name in HUB_MODELS}


def build_hub_model(name: str, classes: int) -> nn.Module:
    """The architecture alone, for weights that were finetuned here. Raises: ValueError."""
    with torch.random.fork_rng(devices=[]):
        return timm.create_model(_spec(name).timm_name, num_classes=classes)


def load_hub_model(name: str, classes: int, seed: int = 0, folder: Path | None = None) -> nn.Module:
    """A pretrained backbone under a new head for `classes` classes, drawn from `seed`.

    With a `folder`, weights come from its `weights_file`, in timm's or the authors' format; a
    pickled one may hold tensors alone, and no code. Without one they come from timm's hub, once.
    Raises: ValueError for an unknown name or a file that does not fit, FileNotFoundError for a
    folder without the file, ConnectionError when the hub cannot be reached.
    """
    timm_name = _spec(name).timm_name
    path = None if folder is None else weights_file(name, folder)
    with seeded(seed):
        if path is not None:
            model = timm.create_model(timm_name, num_classes=classes)
            _fill(model, path, name)
            return model
        try:
            model = timm.create_model(timm_name, pretrained=True, num_classes=classes)
            return model
        except (OSError, RuntimeError) as error:
            raise ConnectionError(
                f"hub: the weights of {timm_name} cannot be had ({one_line(error)}); "
                f"give weights_root, a folder with {name}.safetensors"
            ) from error


def weights_file(name: str, folder: Path) -> Path:
    """The file `<name>.safetensors`, `.pth` or `.bin` of a folder. Raises: FileNotFoundError."""
    timm_name = _spec(name).timm_name
    if path := find_weights(folder, name):
        return path
    raise FileNotFoundError(
        f"hub: {folder} has no {name}.safetensors (nor .pth, .bin); put the weights of "
        f"{timm_name} there, or leave weights_root empty to fetch them"
    )


def _spec(name: str) -> ModelSpec:
    if name not in HUB_MODELS:
        raise ValueError(f"hub: {name!r} is unknown; use one of {sorted(HUB_MODELS)}")
    return HUB_MODELS[name]


def _fill(model: nn.Module, path: Path, name: str) -> None:
    """Give `model` all weights of a file but its head's."""
    try:
        fill(model, named_tensors(read_checkpoint(path)), keep_head=False)
    except ValueError as error:
        reason = one_line(error)
        if isinstance(error, Misfit):
            odd = sorted(error.missing) + sorted(error.left)
            reason = f"{odd[0]} and {len(odd) - 1} more are in one of them alone"
        raise ValueError(
            f"hub: {path} does not fit {name!r} ({reason}); use the checkpoint of "
            f"{HUB_MODELS[name].timm_name}"
        ) from error
