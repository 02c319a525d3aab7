"""The IAV paper's four ViT-B/16, from timm's hub or from files, for its real data set.

The paper names no checkpoints. Its BEiT is self-supervised, but every BEiT that timm offers was
finetuned with labels after its pretraining; the purely self-supervised one of BEiT's authors,
`beit_base_patch16_224_pt22k`, can be given as a file.
"""

from __future__ import annotations

import argparse
import pickle
import sys
from pathlib import Path
from typing import Any

import timm
import torch
from torch import Tensor, nn

from relevit.checkpoints import read_tensors
from relevit.config.iav import KINDS
from relevit.errors import one_line
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
HUB_KINDS = {name: KINDS[name] for name in HUB_MODELS}
FILE_ENDINGS = ("safetensors", "pth", "bin")
NEW = {"head.weight", "head.bias", "fc_norm.weight", "fc_norm.bias"}  # may start untrained
SHARED_TABLE = "rel_pos_bias.relative_position_bias_table"


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
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if path is not None:
            return _filled(timm.create_model(timm_name, num_classes=classes), path, name)
        try:
            return timm.create_model(timm_name, pretrained=True, num_classes=classes)
        except (OSError, RuntimeError) as error:
            raise ConnectionError(
                f"hub_models: the weights of {timm_name} cannot be had ({one_line(error)}); "
                f"give weights_root, a folder with {name}.safetensors"
            ) from error


def weights_file(name: str, folder: Path) -> Path:
    """The file `<name>.safetensors`, `.pth` or `.bin` of a folder. Raises: FileNotFoundError."""
    for ending in FILE_ENDINGS:
        path = folder.expanduser() / f"{name}.{ending}"
        if path.is_file():
            return path
    raise FileNotFoundError(
        f"hub_models: {folder} has no {name}.safetensors (nor .pth, .bin); put the weights of "
        f"{_spec(name).timm_name} there, or leave weights_root empty to fetch them"
    )


def _spec(name: str) -> ModelSpec:
    if name not in HUB_MODELS:
        raise ValueError(f"hub_models: {name!r} is unknown; use one of {sorted(HUB_MODELS)}")
    return HUB_MODELS[name]


def _filled(model: nn.Module, path: Path, name: str) -> nn.Module:
    """`model` with all weights of a file but its head's.

    timm itself would leave at random whatever it does not find, without an error, because the
    head does not fit; and its older releases (1.0.15) run what a pickle holds.
    """
    try:
        tensors = _each_block_a_table(_read(path), len(model.blocks))
        renamed = sys.modules[type(model).__module__].checkpoint_filter_fn(tensors, model)
        own = model.state_dict()
        lacking = sorted(own.keys() - renamed.keys() - NEW)
        lacking += sorted(key for key in renamed.keys() - own.keys() if key.startswith("blocks."))
        if lacking:
            raise ValueError(f"{lacking[0]} and {len(lacking) - 1} more are in one of them alone")
        both = [key for key in own if key in renamed and not key.startswith("head.")]
        model.load_state_dict(own | {key: renamed[key] for key in both})
    except (ValueError, RuntimeError, AttributeError, KeyError) as error:  # timm's, on odd names
        raise ValueError(
            f"hub_models: {path} does not fit {name!r} ({one_line(error)}); use the "
            f"checkpoint of {HUB_MODELS[name].timm_name}"
        ) from error
    return model


def _read(path: Path) -> dict[str, Any]:
    """What a file holds; of a pickled one nothing is run."""
    if path.suffix == ".safetensors":
        return read_tensors(path)[0]
    try:
        with torch.serialization.safe_globals([argparse.Namespace]):  # the authors' settings
            found = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, EOFError) as error:
        raise ValueError("it is damaged or holds more than tensors, and was not run") from error
    if not isinstance(found, dict):
        raise ValueError(f"it holds a {type(found).__name__} and not tensors by name")
    return found


def _each_block_a_table(found: dict[str, Any], blocks: int) -> dict[str, Tensor]:
    """BEiT's pretraining shares one table of relative positions, of which finetuning gives each
    block a copy, as in its authors' code."""
    tensors = dict(found.get("model", found))
    table = tensors.pop(SHARED_TABLE, None)
    if table is None:
        return tensors
    name = SHARED_TABLE.rpartition(".")[2]
    return tensors | {f"blocks.{i}.attn.{name}": table.clone() for i in range(blocks)}
