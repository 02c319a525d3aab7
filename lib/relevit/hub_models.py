"""The IAV paper's four ViT-B/16, from timm's hub or from files, for its real data set.

The paper names no checkpoints. Its BEiT is self-supervised, but every BEiT that timm offers was
finetuned with labels after its pretraining; the purely self-supervised one of BEiT's authors,
`beit_base_patch16_224_pt22k`, can be given as a file.
"""

from __future__ import annotations

from pathlib import Path

import timm
import torch
from torch import nn

from relevit.models import HALF, IMAGENET, ModelSpec

HUB_MODELS = {
    spec.name: spec
    for spec in (
        ModelSpec("beit-b", "beit_base_patch16_224.in22k_ft_in22k", 224, **HALF),
        ModelSpec("dino-b", "vit_base_patch16_224.dino", 224, **IMAGENET),
        ModelSpec("deit-b", "deit_base_patch16_224.fb_in1k", 224, **IMAGENET),
        ModelSpec("vit-b-in21k", "vit_base_patch16_224.orig_in21k", 224, **HALF),
    )
}
HUB_KINDS = {
    "beit-b": "self-supervised",
    "dino-b": "self-supervised",
    "deit-b": "supervised",
    "vit-b-in21k": "supervised",
}
FILE_ENDINGS = ("safetensors", "pth", "bin")


def build_hub_model(name: str, classes: int) -> nn.Module:
    """The architecture alone, for weights that were finetuned here. Raises: ValueError."""
    return timm.create_model(_spec(name).timm_name, num_classes=classes)


def load_hub_model(name: str, classes: int, seed: int = 0, folder: Path | None = None) -> nn.Module:
    """A pretrained backbone under a new head for `classes` classes, drawn from `seed`.

    With a `folder`, weights come from its `<name>.safetensors`, `.pth` or `.bin`, whatever of
    timm's or the authors' formats timm reads; a pickled file may hold tensors alone. Without
    one they come from timm's hub, once.
    Raises: ValueError for an unknown name, FileNotFoundError for a folder without the file,
    ConnectionError when the hub cannot be reached.
    """
    timm_name = _spec(name).timm_name
    overlay = {} if folder is None else {"file": str(_file(name, folder)), "hf_hub_id": None}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            return timm.create_model(
                timm_name,
                pretrained=True,
                num_classes=classes,
                pretrained_cfg_overlay=overlay,
            )
        except (OSError, RuntimeError) as error:
            if folder is not None:
                raise ValueError(
                    f"hub_models: {overlay['file']} does not fit {name!r} ({error}); use the "
                    f"checkpoint of {timm_name}"
                ) from error
            raise ConnectionError(
                f"hub_models: the weights of {timm_name} cannot be had "
                f"({str(error).splitlines()[0]}); give weights_root, a folder with "
                f"{name}.safetensors"
            ) from error


def _spec(name: str) -> ModelSpec:
    if name not in HUB_MODELS:
        raise ValueError(f"hub_models: {name!r} is unknown; use one of {sorted(HUB_MODELS)}")
    return HUB_MODELS[name]


def _file(name: str, folder: Path) -> Path:
    for ending in FILE_ENDINGS:
        path = folder.expanduser() / f"{name}.{ending}"
        if path.is_file():
            return path
    raise FileNotFoundError(
        f"hub_models: {folder} has no {name}.safetensors (nor .pth, .bin); put the weights of "
        f"{HUB_MODELS[name].timm_name} there, or leave weights_root empty to fetch them"
    )
