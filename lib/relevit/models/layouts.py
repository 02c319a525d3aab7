"""Weights as their authors published them: read without running code, named as timm names them.

One rule finds the network in a file, whatever lies around it: a name that ends in ANCHOR tells by
what stands before it which names are the network's. Of several networks (DINO's student and
teacher, MoCo-v3's encoders) the first counts that is not one of ASIDE. So are read the files of
timm, RobustViT's runs (`state_dict`, after `module.`), DeiT, MAE and BEiT (`model`), DINO's full
checkpoint (`teacher`, after `backbone.`), MoCo-v3 (`state_dict`, after `module.base_encoder.`) and
the linear heads of the last two; the names of OpenAI's CLIP are known to timm.
"""

from __future__ import annotations

import argparse
import pickle
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from relevit.models.checkpoints import need_sound, read_tensors

ENDINGS = ("safetensors", "pth", "bin", "pth.tar")
ANCHOR, OF_CLIP = "patch_embed.proj.weight", "visual.class_embedding"
ASIDE = ("student.", "momentum_encoder.")
HEAD = {"head.weight", "head.bias"}
NEW = HEAD | {"fc_norm.weight", "fc_norm.bias"}  # may start untrained, under a new head
PRETRAINING = ("mask_token", "decoder", "lm_head.")  # what only a pretraining needs
HEADED = ("head.", "pre_logits.")  # what a new head replaces
BARE_NORM = ("norm.weight", "norm.bias")  # replaced by fc_norm in models that pool the mean
SHARED_TABLE = "rel_pos_bias.relative_position_bias_table"
# timm would resample these without a word when their size is another; OpenAI's name beside its own.
SIZED = {"pos_embed": "visual.positional_embedding", ANCHOR: "visual.conv1.weight"}


def find_weights(folder: Path, name: str) -> Path | None:
    """The file `<name>.safetensors` of a folder, else `.pth`, `.bin` or `.pth.tar`, or none."""
    paths = (folder.expanduser() / f"{name}.{ending}" for ending in ENDINGS)
    return next((path for path in paths if path.is_file()), None)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """What a file of weights holds, whatever its layout; of a pickled one nothing is run.

    Raises: FileNotFoundError; ValueError for a damaged file, one that holds more than tensors
    and plain values, or no names.
    """
    if not path.is_file():
        raise FileNotFoundError(f"weights: {path} is missing; check its name")
    if path.suffix == ".safetensors":
        return read_tensors(path)[0]
    try:
        with torch.serialization.safe_globals([argparse.Namespace]):  # the authors' settings
            found = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, EOFError, RuntimeError, LookupError, OSError) as error:
        text = "it is damaged, or holds more than tensors and was not run"
        raise ValueError(f"{text}: save its state_dict alone, as safetensors") from error
    if not isinstance(found, Mapping):
        raise ValueError(f"it holds a {type(found).__name__} and not tensors by name")
    return dict(found)


def named_tensors(found: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors of the network in a checkpoint, by their names in it; no head of several layers.

    Raises: ValueError when there is no Vision Transformer.
    """
    networks = [pair for anchor in (ANCHOR, OF_CLIP) for pair in _networks(found, anchor)]
    if not networks:
        raise ValueError(f"it holds no Vision Transformer: no name ends in {ANCHOR}")
    first = [pair for pair in networks if not any(word in pair[0] for word in ASIDE)]
    tensors = (first or networks)[0][1]
    return {k: v for k, v in tensors.items() if k in HEAD or not k.startswith("head.")}


def head_tensors(found: Mapping[str, Any]) -> dict[str, Tensor]:
    """`head.weight` and `head.bias` of a linear classifier's file, or of a whole model's.

    Raises: ValueError when it has none, or anything but a matrix and a vector.
    """
    for name in ("linear", "head"):
        for _, tensors in _networks(found, f"{name}.weight"):
            weight, bias = (tensors.get(f"{name}.{kind}") for kind in ("weight", "bias"))
            if bias is not None and (weight.ndim, bias.ndim) == (2, 1):
                return {"head.weight": weight, "head.bias": bias}
    raise ValueError("it has no linear.weight and linear.bias, nor head.weight and head.bias")


def _networks(
    found: Mapping[Any, Any], anchor: str, inside: str = ""
) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """What stands before a network's names, and its tensors; those further out come first."""
    names = [k for k, v in found.items() if isinstance(k, str) and isinstance(v, Tensor)]
    for name in (name for name in names if f".{name}".endswith(f".{anchor}")):
        prefix = name.removesuffix(anchor)
        tensors = {n.removeprefix(prefix): found[n] for n in names if n.startswith(prefix)}
        yield inside + prefix, tensors
    for key, value in found.items():
        if isinstance(value, Mapping):
            yield from _networks(value, anchor, f"{inside}{key}.")


def fill(
    model: nn.Module, tensors: Mapping[str, Tensor], *, keep_head: bool, resample: bool = False
) -> None:
    """Give a timm `model` all tensors of a checkpoint (`named_tensors`), and leave none over.

    timm itself would leave at random whatever it does not find, as soon as the head is another,
    and resample what has another size: here only with `resample`. Without `keep_head` the head
    stays as it was made, with the norm after the pooling where the file has none; parts that only
    a pretraining needs are put aside. Raises: ValueError for tensors that do not fit.
    """
    own, classifier = model.state_dict(), _classifier(model)
    tensors = _each_block_a_table(tensors, len(model.blocks))
    aside = PRETRAINING if keep_head else PRETRAINING + HEADED + classifier
    if not keep_head and "norm.weight" not in own:
        aside += BARE_NORM
    tensors = {k: v for k, v in tensors.items() if not k.startswith(aside)}
    named = _named_as_timm(tensors, model, resample)
    if not keep_head:  # CLIP's has another name before
        named = {k: v for k, v in named.items() if k not in HEAD}
    new = () if keep_head else (*NEW, *(k for k in own if k.startswith(classifier)))
    missing = [k for k in own if k not in named and k not in new]
    left = [key for key in named if key not in own]
    left += [key for key in tensors if key.startswith("pre_logits.")]  # timm drops it
    parts = [f"it lacks {missing[0]} ({len(missing)} in all)"] if missing else []
    parts += [f"{left[0]} is left over ({len(left)} in all)"] if left else []
    if parts:
        raise ValueError("; ".join(parts))
    need_sound(named, own)
    model.load_state_dict(own | named)


def _classifier(model: nn.Module) -> tuple[str, ...]:
    """What the names of the head's weights begin with: two of them in a distilled DeiT."""
    names = model.pretrained_cfg.get("classifier", "head")
    return tuple(f"{name}." for name in ((names,) if isinstance(names, str) else names))


def _named_as_timm(tensors: dict[str, Tensor], model: nn.Module, resample: bool) -> dict[str, Any]:
    try:
        named = sys.modules[type(model).__module__].checkpoint_filter_fn(dict(tensors), model)
    except (RuntimeError, AttributeError, KeyError):  # timm's, on odd names: they are named later
        return tensors
    named |= {key: tensors[key] for key in HEAD & tensors.keys()}  # before CLIP's projection
    for key, value in named.items():
        before = tensors.get(key, tensors.get(SIZED.get(key, key)))
        if not resample and before is not None and before.numel() != value.numel():
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
