"""Weights as their authors published them: read without running code, named as timm names them.

Layouts that are known, all of them torch files:

| of | tensors are under | their names |
|---|---|---|
| timm, DINO's and CLIP's image tower from timm's hub | the file itself | timm's |
| RobustViT's runs | `state_dict`, beside epoch, optimizer | timm's, often after `module.` |
| DeiT, MAE, BEiT | `model` | timm's; `encoder` and `decoder` of a pretraining |
| DINO, full checkpoint | `teacher`, beside `student` | `backbone.`; `head.` is its projection |
| MoCo-v3, pretraining | `state_dict` | `module.base_encoder.`, and a projection |
| linear heads of DINO and MoCo-v3 | `state_dict` | `module.linear.`, `module.head.` |
| CLIP | the file itself | OpenAI's, `visual.` |
"""

from __future__ import annotations

import argparse
import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from relevit.models.checkpoints import need_sound, read_tensors

ENDINGS = ("safetensors", "pth", "bin", "pth.tar")
HEAD = {"head.weight", "head.bias"}
NEW = HEAD | {"fc_norm.weight", "fc_norm.bias"}  # may start untrained, under a new head
WRAPPERS = ("state_dict", "model", "module", "teacher", "student")  # first found, first taken
# Before all names, in this order; the second are networks beside, such as DINO's projection.
PREFIXES = {
    "module.": (),
    "base_encoder.": ("momentum_encoder.", "predictor."),
    "backbone.": ("head.",),
}
PRETRAINING = ("mask_token", "decoder", "lm_head.")  # what only a pretraining needs
HEADED = ("head.", "pre_logits.")  # what a new head replaces
BARE_NORM = ("norm.weight", "norm.bias")  # replaced by fc_norm in models that pool the mean
SHARED_TABLE = "rel_pos_bias.relative_position_bias_table"
# timm would resample these without a word when their size is another; OpenAI's name beside its own.
SIZED = {
    "pos_embed": "visual.positional_embedding",
    "patch_embed.proj.weight": "visual.conv1.weight",
}


class Misfit(ValueError):
    """Names that only the model (`missing`) or only the file (`left`) has."""

    def __init__(self, missing: list[str], left: list[str]) -> None:
        parts = [f"it lacks {missing[0]} ({len(missing)} in all)"] if missing else []
        parts += [f"{left[0]} is left over ({len(left)} in all)"] if left else []
        super().__init__("; ".join(parts))
        self.missing, self.left = missing, left


def find_weights(folder: Path, name: str) -> Path | None:
    """The file `<name>.safetensors` of a folder, else `.pth`, `.bin` or `.pth.tar`, or none."""
    paths = (folder.expanduser() / f"{name}.{ending}" for ending in ENDINGS)
    return next((path for path in paths if path.is_file()), None)


def read_checkpoint(path: Path, trust: bool = False) -> dict[str, Any]:
    """What a file of weights holds, whatever its layout; of a pickled one nothing is run.

    `trust` runs what the pickle says, as torch.load did for years: only for a file whose origin
    you know. It also opens OpenAI's TorchScript archives of CLIP.
    Raises: FileNotFoundError; ValueError for a damaged file, one that holds more than tensors
    and plain values, or no names.
    """
    if not path.is_file():
        raise FileNotFoundError(f"published_weights: {path} is missing; check its name")
    if path.suffix == ".safetensors":
        return read_tensors(path)[0]
    try:
        with torch.serialization.safe_globals([argparse.Namespace]):  # the authors' settings
            found = torch.load(path, map_location="cpu", weights_only=not trust)
    except (pickle.UnpicklingError, EOFError, RuntimeError, LookupError, OSError) as error:
        more = "" if trust else " or holds more than tensors, and was not run"
        raise ValueError(f"it is damaged{more}") from error
    if isinstance(found, nn.Module):
        found = found.state_dict()
    if not isinstance(found, Mapping):
        raise ValueError(f"it holds a {type(found).__name__} and not tensors by name")
    return dict(found)


def named_tensors(found: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors of a checkpoint without what is around them and before their names.

    Of DINO's two networks it is the teacher, of MoCo-v3's the base encoder; their projections,
    which are no classifiers, are left out. Raises: ValueError when there is more than tensors.
    """
    while wrapper := next((w for w in WRAPPERS if isinstance(found.get(w), Mapping)), None):
        found = found[wrapper]
    tensors = dict(found)
    for key, value in tensors.items():
        if not isinstance(value, Tensor):
            raise ValueError(f"{key!r} is of type {type(value).__name__} and not a tensor")
    for prefix, beside in PREFIXES.items():
        inside = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        if inside and all(k.startswith((prefix, *beside)) for k in tensors):
            tensors = inside
    return {k: v for k, v in tensors.items() if k in HEAD or not k.startswith("head.")}


def head_tensors(found: Mapping[str, Any]) -> dict[str, Tensor]:
    """`head.weight` and `head.bias` of a linear classifier's file, or of a whole model's.

    Raises: ValueError when it has none, or anything but a matrix and a vector.
    """
    tensors = named_tensors(found)
    for name in ("linear", "head"):
        head = {f"head.{kind}": tensors.get(f"{name}.{kind}") for kind in ("weight", "bias")}
        weight, bias = head.values()
        if weight is not None and bias is not None and (weight.ndim, bias.ndim) == (2, 1):
            return head
    raise ValueError("it has no linear.weight and linear.bias, nor head.weight and head.bias")


def fill(model: nn.Module, tensors: Mapping[str, Tensor], *, keep_head: bool) -> None:
    """Give a timm `model` all tensors of a checkpoint (`named_tensors`), and leave none over.

    timm itself would leave at random whatever it does not find, as soon as the head is another,
    and resample what has another size. Without `keep_head` the head stays as it was made, with
    the norm after the pooling where the file has none; parts that only a pretraining needs are
    put aside. Raises: Misfit; ValueError for another type of numbers (half precision may fill
    single), NaN, infinity or another size.
    """
    own = model.state_dict()
    tensors = _each_block_a_table(tensors, len(model.blocks))
    aside = PRETRAINING if keep_head else PRETRAINING + HEADED
    if not keep_head and "norm.weight" not in own:
        aside += BARE_NORM
    tensors = {k: v for k, v in tensors.items() if not k.startswith(aside)}
    named = _named_as_timm(tensors, model)
    if not keep_head:  # CLIP's has another name before
        named = {k: v for k, v in named.items() if k not in HEAD}
    left = [key for key in named if key not in own]
    left += [key for key in tensors if key.startswith("pre_logits.")]  # timm drops it
    missing = [k for k in own if k not in named and (keep_head or k not in NEW)]
    if missing or left:
        raise Misfit(missing, left)
    need_sound(named, own)
    try:
        model.load_state_dict(own | named)
    except RuntimeError as error:
        raise ValueError(str(error).splitlines()[-1].strip()) from error


def _named_as_timm(tensors: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    try:
        named = sys.modules[type(model).__module__].checkpoint_filter_fn(dict(tensors), model)
    except (RuntimeError, AttributeError, KeyError):  # timm's, on odd names: they are named later
        return tensors
    named |= {key: tensors[key] for key in HEAD & tensors.keys()}  # before CLIP's projection
    for key, value in named.items():
        before = tensors.get(key, tensors.get(SIZED.get(key, key)))
        if before is not None and before.numel() != value.numel():
            raise ValueError(
                f"size mismatch for {key}: {tuple(before.shape)} in the file, "
                f"{tuple(value.shape)} in the model"
            )
    return named


def _each_block_a_table(tensors: Mapping[str, Tensor], blocks: int) -> dict[str, Tensor]:
    """BEiT's pretraining shares one table of relative positions, of which finetuning gives each
    block a copy, as in its authors' code."""
    tensors = dict(tensors)
    table = tensors.pop(SHARED_TABLE, None)
    tensors.pop("rel_pos_bias.relative_position_index", None)
    if table is None:
        return tensors
    name = SHARED_TABLE.rpartition(".")[2]
    return tensors | {f"blocks.{i}.attn.{name}": table.clone() for i in range(blocks)}
