"""Weights as their authors published them: read without running code, named as timm names them.

One rule finds the network in a file, whatever lies around it: a wrapper counts as a prefix, and a
name that ends in one of ANCHORS tells by what stands before it which names are the network's. So
are read the files of timm, RobustViT's runs (`state_dict`, after `module.`), DeiT, MAE and BEiT
(`model`), DINO's full checkpoint (`teacher`, after `backbone.`), MoCo-v3 (`state_dict`, after
`module.base_encoder.`), the linear heads of the last two, Lightning and compiled models; the names
of OpenAI's CLIP are known to timm. Of several networks the first of FIRST counts, without MoCo's
MOMENTUM; others beside it, averaged weights under a name that timm does not know among them, leave
in doubt which is meant, and that is refused.
"""

from __future__ import annotations

import argparse
import pickle
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from relevit.models.checkpoints import need_sound, read_tensors

ENDINGS = ("safetensors", "pth", "bin", "pth.tar")
ANCHOR = "patch_embed.proj.weight"
ANCHORS = (ANCHOR, "embeds.proj.weight", "visual.class_embedding")  # of timm, NaFlex, OpenAI's CLIP
# As `timm.models.load_checkpoint` takes them, averaged weights before plain ones; then DINO's.
FIRST = ("state_dict_ema", "model_ema", "state_dict", "model", "teacher", "student")
MOMENTUM = "momentum_encoder."
HEAD = {"head.weight", "head.bias"}
# A layer beside a network that is its head, and no projection of a pretraining.
HEADLIKE = re.compile(r"(?:^|\.)(?!\w*proj)(?:\w*(?:head|fc|class|linear|logit)\w*|\d+)\.weight$")
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
    """The tensors of the network in a checkpoint, by timm's names for them or its authors'.

    The one linear layer beside it that reads its features is its head; of several none is.
    Raises: ValueError when there is no Vision Transformer, or more than one that may be meant.
    """
    flat = dict(_flat(found))
    networks = {
        name.removesuffix(anchor): value.shape[:1]  # its width
        for anchor in ANCHORS
        for name, value in flat.items()
        if f".{name}".endswith(f".{anchor}")
    }
    if not networks:
        raise ValueError(f"it holds no Vision Transformer: no name ends in {ANCHOR}")
    wrappers = tuple(f"{key}." for key in FIRST if isinstance(found.get(key), Mapping))
    first = next((w for w in wrappers if any(n.startswith(w) for n in networks)), "")
    kept = [n for n in networks if n.startswith(first) or not n.startswith(wrappers)]
    kept = [name for name in kept if MOMENTUM not in name] or kept
    if len(kept) > 1:
        names = " and ".join(f"{name}blocks" for name in kept)
        raise ValueError(
            f"it holds several networks, {names}: save the state_dict of the one that you mean "
            "alone, of plain and averaged weights mostly the averaged"
        )
    (prefix,) = kept
    tensors = {k.removeprefix(prefix): v for k, v in flat.items() if k.startswith(prefix)}
    beside = {} if "head.weight" in tensors else _beside(flat, prefix, networks[prefix])
    return tensors | beside


def _flat(found: Mapping[Any, Any], inside: str = "") -> Iterator[tuple[str, Tensor]]:
    """All tensors, named with what they are wrapped in; without the parts of a name that begin
    with `_`, such as `_orig_mod`, which compiling and sharding put there."""
    for key, value in found.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{inside}{key}.")
        elif key == "shadow_params":  # torch_ema's
            raise ValueError(
                f"it has averaged weights without names ({inside}{key}), so that it is in doubt "
                "which are meant: save the network's state_dict alone"
            )
        elif isinstance(value, Tensor):
            yield inside + re.sub(r"(?<![^.])_\w+\.", "", str(key)), value


def _beside(flat: Mapping[str, Tensor], prefix: str, width: tuple[int, ...]) -> dict[str, Tensor]:
    """The linear layer on a network's features, beside it or further out; of several names."""
    before = {name: re.sub(r"[^.]+\.weight$", "", name) for name in flat}
    beside = [n for n, outer in before.items() if outer != prefix and prefix.startswith(outer)]
    beside = [n for n in beside if HEADLIKE.search(n) and flat[n].shape[1:] == width]
    heads = {n: head for n in beside if (head := _linear(flat, n))}
    return heads.popitem()[1] if len(heads) == 1 else {f"head.{n}": flat[n] for n in heads}


def head_tensors(found: Mapping[str, Any]) -> dict[str, Tensor]:
    """`head.weight` and `head.bias` of a linear classifier's file, or of a whole model's.

    Raises: ValueError when it has none, or anything but a matrix and a vector.
    """
    flat, ends = dict(_flat(found)), (".linear.weight", ".head.weight")
    for name in (name for end in ends for name in flat if f".{name}".endswith(end)):
        if head := _linear(flat, name):
            return head
    raise ValueError("it has no linear.weight and linear.bias, nor head.weight and head.bias")


def _linear(flat: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """The head that a weight and its bias are; none where they are no matrix and vector."""
    weight, bias = flat[name], flat.get(f"{name.removesuffix('weight')}bias")
    found = bias is not None and (weight.ndim, bias.ndim) == (2, 1)
    return {"head.weight": weight, "head.bias": bias} if found else {}


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
    aside = (*PRETRAINING, "head.") if keep_head else PRETRAINING + HEADED + classifier
    if not keep_head and "norm.weight" not in own:
        aside += BARE_NORM
    kept = HEAD if keep_head else ()
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
