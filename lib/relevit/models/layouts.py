"""Weights as their authors published them: read without running code, named as timm names them.

One table says where a network lies, WRAPPERS: in timm's own files and in the papers'.
RobustViT's runs have it in `state_dict`, DeiT, MAE and BEiT in `model`, DINO's full checkpoint as
`teacher`, after `backbone.`, MoCo-v3 in `state_dict`, after `base_encoder.`; the linear heads of
the last two are files of their own. timm names the tensors of MAE, BEiT, DINOv2 and OpenAI's CLIP.
A file with a second network, such as averaged weights under a name that timm does not know, leaves
in doubt which is meant, and is refused.
"""

from __future__ import annotations

import argparse
import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import timm
import torch
from torch import Tensor, nn

from relevit.models.checkpoints import need_sound, read_tensors

ENDINGS = ("safetensors", "pth", "bin", "pth.tar")
ANCHOR = "patch_embed.proj.weight"
ANCHORS = (ANCHOR, "embeds.proj.weight", "visual.class_embedding")  # of timm, NaFlex, OpenAI's CLIP
# What a network is wrapped in, the first that is there: as `timm.models.load_state_dict` takes
# them, averaged weights before plain ones; then DINO's.
WRAPPERS = ("state_dict_ema", "model_ema", "state_dict", "model", "teacher")
SECOND = ("student", "momentum_encoder.")  # networks that DINO and MoCo-v3 have beside their own
HEAD = {"head.weight", "head.bias"}
NEW = HEAD | {"fc_norm.weight", "fc_norm.bias"}  # may start untrained, under a new head
POINTER = b"version https://git-lfs"
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
    with path.open("rb") as file:
        if file.read(len(POINTER)) == POINTER:
            raise ValueError("it is a pointer of Git LFS; fetch what it points to: git lfs pull")
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
    """The tensors of the network in a checkpoint, by timm's names for them or its authors'.

    Whatever stands before the names, as Lightning's `model.`, is taken off.
    Raises: ValueError when there is no Vision Transformer, or more than one that may be meant.
    """
    state = unwrapped_state(found)
    before = [prefix for prefix in _networks(state) if prefix not in SECOND]
    beside = [
        f"{key}."
        for key, value in found.items()
        if isinstance(value, Mapping) and key not in (*WRAPPERS, *SECOND)
        if _networks(value) or "shadow_params" in value  # torch_ema's, which have no names
    ]
    if len(before) + len(beside) > 1:
        names = " and ".join(f"{name}blocks" for name in (*before, *beside))
        raise ValueError(
            f"it holds several networks, {names}: save the state_dict of the one that you mean "
            "alone, of plain and averaged weights mostly the averaged"
        )
    if not before:
        raise ValueError(
            f"it holds no Vision Transformer: no name is {ANCHOR}; save the network's state_dict "
            "alone, with timm's names"
        )
    return {k.removeprefix(before[0]): v for k, v in state.items() if k.startswith(before[0])}


def unwrapped_state(found: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors of the first of WRAPPERS, or of what has none, without `module.` and the like."""
    inside = next((found[key] for key in WRAPPERS if isinstance(found.get(key), Mapping)), found)
    named = {k: v for k, v in inside.items() if isinstance(k, str) and isinstance(v, Tensor)}
    return timm.models.clean_state_dict(named)


def _networks(state: Mapping[Any, Any]) -> list[str]:
    """What stands before the names of each network."""
    names = [name for name in state if isinstance(name, str)]
    found = (n.removesuffix(a) for a in ANCHORS for n in names if f".{n}".endswith(f".{a}"))
    return list(dict.fromkeys(found))


def has_anchor(state: Mapping[str, Tensor]) -> bool:
    """Whether there is a Vision Transformer among the tensors, by timm's names or its authors'."""
    return bool(_networks(state))


def head_tensors(found: Mapping[str, Any]) -> dict[str, Tensor]:
    """`head.weight` and `head.bias` of a linear classifier's file, or of a whole model's.

    Raises: ValueError when it has none, or anything but a matrix and a vector.
    """
    state = unwrapped_state(found)
    for name in ("linear", "head"):
        weight, bias = state.get(f"{name}.weight"), state.get(f"{name}.bias")
        if weight is not None and bias is not None and (weight.ndim, bias.ndim) == (2, 1):
            return {"head.weight": weight, "head.bias": bias}
    raise ValueError("it has no linear.weight and linear.bias, nor head.weight and head.bias")


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
    if not hasattr(model, "blocks"):
        _fill_plainly(model, tensors, () if keep_head else classifier)
        return
    tensors = _each_block_a_table(tensors, len(model.blocks))
    aside = (*PRETRAINING, "head.") if keep_head else PRETRAINING + HEADED + classifier
    if not keep_head and "norm.weight" not in own:
        aside += BARE_NORM
    kept = HEAD | own.keys() if keep_head else ()
    tensors = {k: v for k, v in tensors.items() if k in kept or not k.startswith(aside)}
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


def _fill_plainly(model: nn.Module, tensors: Mapping[str, Tensor], new: tuple[str, ...]) -> None:
    """All tensors of a network that is no Vision Transformer, but for a head that is `new`."""
    own = model.state_dict()
    odd = sorted(k for k in own.keys() ^ tensors.keys() if not k.startswith(new or "\0"))
    if odd:
        raise ValueError(f"{odd[0]} is in one of them alone ({len(odd)} in all)")
    kept = {k: v for k, v in tensors.items() if not k.startswith(new or "\0")}
    need_sound(kept, own)
    model.load_state_dict(own | kept)


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
