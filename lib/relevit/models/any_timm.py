"""Any Vision Transformer of timm as a model of one's own: by name, from a file, or as it is.

What comes back is timm's model and nothing else: `timm.create_model` with the same name, options
and weights gives the same bits without this package. How it wants its pictures is read from its
`pretrained_cfg`.
"""

from __future__ import annotations

import copy
import difflib
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import timm
import torch
from timm.data import resolve_data_config
from timm.models import get_pretrained_cfg
from torch import Tensor, nn

from relevit.attention.recording import FAMILIES, attention_layers, record_attention
from relevit.attention.token_rows import head_pooling, prefix_tokens
from relevit.base.device import choose_device
from relevit.base.errors import one_line
from relevit.base.seeding import seeded
from relevit.config.words import DINOV2
from relevit.models.checkpoints import read_tensors
from relevit.models.dinov2 import load_dinov2
from relevit.models.loading import MINI_KINDS, MODELS, shipped_weights
from relevit.models.published_weights import fill, find_weights, named_tensors, read_checkpoint
from relevit.models.registry import PAPER_MODELS
from relevit.models.spec import Interpolation, ModelSpec, View

NEW_HEAD = "new_head=True (--new-head)"
RESERVED = {  # what options may not set, and what does
    "num_classes": "give classes",
    "pretrained": "leave out weights",
    "pretrained_cfg": "choose a tag in the model's name",
    "checkpoint_path": "give weights",
    "in_chans": "pictures have three channels",
    "features_only": "the whole model is needed",
}
SIZES = ("img_size", "patch_size")  # options for which positions and patches are resampled
NEAREST = 5  # names that an error offers


@dataclass(frozen=True)
class OwnModel:
    """A network in eval mode, what code needs to know of it, and how it wants its pictures.

    `timm.create_model(spec.timm_name, num_classes=spec.classes, **spec.options)` makes the same
    architecture. `new_head`: the head is untrained.
    """

    network: nn.Module
    spec: ModelSpec
    view: View
    new_head: bool


def open_model(
    model: str | nn.Module,
    weights: Path | str | None = None,
    *,
    classes: int | None = None,
    new_head: bool = False,
    options: Mapping[str, Any] = {},
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> OwnModel:
    """A Vision Transformer ready to be explained or finetuned, on `device` in eval mode.

    `model`: one of the suite's names (`relevit.models.MODELS`), any name of timm's with or without
    a tag, or a module, which is used as it is and must have timm's `pretrained_cfg`. `weights`: a
    file in any layout of `relevit.models.published_weights`, one of this suite included, or a
    folder with `model.safetensors`; nothing pickled is run. Without it, weights are those of timm's
    hub; of `dinov2-s` and `dinov2-s8` DINOv2, of `tiny` and `tiny-mae` those trained on Cutouts.
    `classes`: none for those of the head that comes with the weights. `new_head` puts an untrained
    one in its place, drawn from `seed`. `options` go to `timm.create_model`; with `img_size` or
    `patch_size` among them, weights of another size are resampled as timm does.
    Raises: ValueError for an unknown name or option, weights that do not fit, another number of
    classes, or a model whose attention is not global; FileNotFoundError; ConnectionError.
    """
    where = choose_device(device) if isinstance(device, str) else device
    weights = None if weights is None else Path(weights)
    if isinstance(model, nn.Module):
        found = _given(model, weights, classes, new_head, options, seed)
    else:
        found = _named(model, weights, classes, new_head, options, seed)
    found.network.eval().to(where)
    return found


def _named(
    model: str,
    weights: Path | None,
    classes: int | None,
    new_head: bool,
    options: Mapping[str, Any],
    seed: int,
) -> OwnModel:
    asked, (timm_name, options) = options, _known(model, options)
    tensors, held = _tensors_and_classes(model, timm_name, weights)
    count = _head_size(model, held, classes, new_head)
    network = _built(model, timm_name, count, options, seed)
    if model in MODELS:
        own = MODELS[model]  # learns whole pictures: nothing is cut off
        network.pretrained_cfg.update(mean=own.mean, std=own.std, crop_pct=1.0)
    found = _described(model, timm_name, network, options, count, new_head)
    if tensors is None:
        _fetch(network, model, timm_name, held, options, new_head)
    else:
        if weights is None and model in DINOV2:  # cut to the blocks that there are
            tensors = {key: tensors[key] for key in network.state_dict() if key in tensors}
        # A file is resampled only where that is asked for; DINOv2 has another size than ours.
        place, sizes = (f"the weights of {model}", options) if weights is None else (weights, asked)
        _fill(network, tensors, place, sizes, new_head)
    return found


def _known(name: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """timm's name of a model and all options that make it. Raises: ValueError."""
    for option in options:
        if option in RESERVED:
            raise ValueError(f"model {name!r}: option {option!r} is set here: {RESERVED[option]}")
    if name in MODELS:
        own = MODELS[name]
        return own.timm_name, {"img_size": own.image_size, **own.options, **options}
    if name in PAPER_MODELS:
        raise ValueError(
            f"model {name!r} is the papers' name; use timm's: {PAPER_MODELS[name].timm_name!r}"
        )
    if not timm.is_model(name):
        names = [*MODELS, *timm.list_models(), *timm.list_pretrained()]
        near = difflib.get_close_matches(name, names, NEAREST, cutoff=0.4)
        raise ValueError(
            f"model {name!r} is unknown; use a name of timm's or of {list(MODELS)}; nearest are "
            f"{', '.join(near) or 'none'}"
        )
    try:
        cfg = get_pretrained_cfg(name)
    except RuntimeError as error:
        raise ValueError(
            f"model {name!r} has no such weights in timm; use {_tagged(name) or 'weights'}"
        ) from error
    if cfg is not None and "img_size" not in options:  # before a large model is made
        _need_square(*cfg.input_size[1:], name)
    return name, dict(options)


def _tagged(name: str) -> list[str]:
    """The names with weights of the same architecture."""
    return timm.list_pretrained(f"{name.partition('.')[0]}.*")


def _tensors_and_classes(
    name: str, timm_name: str, weights: Path | None
) -> tuple[dict[str, Tensor] | None, int]:
    """The tensors, but for those of timm's hub, and how many classes their head has, 0 for none."""
    if weights is not None:
        tensors = _read(name, timm_name, weights)
    elif name in DINOV2:
        tensors = load_dinov2()
    elif name in MODELS:
        stem = f"{name}-pretrained" if name in MINI_KINDS else name
        tensors = read_tensors(shipped_weights(stem))[0]
    else:
        cfg = get_pretrained_cfg(name)
        if cfg is None or not cfg.has_weights:
            tagged = f" or one of {_tagged(name)}" if _tagged(name) else ""
            raise ValueError(f"model {name!r} has no weights in timm; give weights, a file{tagged}")
        return None, cfg.num_classes
    head = tensors.get("head.weight")
    return tensors, 0 if head is None else len(head)


def _read(name: str, timm_name: str, weights: Path) -> dict[str, Tensor]:
    path = weights
    if weights.is_dir():
        path = find_weights(weights, "model")
        if path is None:
            raise FileNotFoundError(
                f"model {name!r}: {weights} has no model.safetensors (nor .pth, .bin); give a file"
            )
    try:
        if path.suffix != ".safetensors":
            return named_tensors(read_checkpoint(path))
        tensors, facts = read_tensors(path)
        written_for = facts.get("architecture", timm_name)
        if _architecture(written_for) != _architecture(timm_name):
            raise ValueError(f"it was written for {written_for!r}")
        return named_tensors(tensors)
    except ValueError as error:
        raise ValueError(
            f"model {name!r}: {path} cannot be used ({one_line(error)}); give weights of "
            f"{_architecture(timm_name)}"
        ) from error


def _architecture(name: str) -> str:
    """timm's name without its tag, of any name of the suite."""
    found = MODELS.get(name) or PAPER_MODELS.get(name)
    return (found.timm_name if found else name).partition(".")[0]


def _head_size(name: str, held: int, classes: int | None, new_head: bool) -> int:
    """How many classes the model has, of which its weights hold `held`. Raises: ValueError."""
    if classes is not None and (isinstance(classes, bool) or classes < 1):
        raise ValueError(f"model {name!r}: classes {classes!r}; give a whole number from 1")
    count = held if classes is None else classes
    if count < 1:
        raise ValueError(
            f"model {name!r}: its weights have no head; give classes and {NEW_HEAD}, and train it"
        )
    if not new_head and count != held:
        has = f"a head of {held} classes" if held else "no head"
        raise ValueError(
            f"model {name!r}: its weights have {has} and {count} are asked for; give {NEW_HEAD} "
            f"for an untrained one, or weights that have {count}"
        )
    return count


def _built(
    name: str, timm_name: str, count: int, options: Mapping[str, Any], seed: int
) -> nn.Module:
    """timm's model, untrained. Raises: ValueError that names the option."""
    try:
        with seeded(seed):
            return timm.create_model(timm_name, num_classes=count, **options).eval()
    except (TypeError, ValueError, ArithmeticError, AssertionError, RuntimeError) as error:
        unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if unknown:
            what = f"option {unknown[1]!r} is unknown to timm's {timm_name}; leave it out"
        else:
            what = f"timm cannot make it with {dict(options)} ({one_line(error)}); change them"
        raise ValueError(f"model {name!r}: {what}") from error


def _given(
    model: nn.Module,
    weights: Path | None,
    classes: int | None,
    new_head: bool,
    options: Mapping[str, Any],
    seed: int,
) -> OwnModel:
    """A module as it is; a copy of it where weights or a new head are asked for."""
    name = type(model).__name__
    cfg = getattr(model, "pretrained_cfg", None)
    if not isinstance(cfg, Mapping) or not {"mean", "std"} <= cfg.keys():
        raise ValueError(
            f"model {name}: how its pixels were normalised is unknown; set model.pretrained_cfg, "
            "such as {'mean': (0.5, 0.5, 0.5), 'std': (0.5, 0.5, 0.5), 'input_size': (3, 224, 224)}"
        )
    if options:
        raise ValueError(f"model {name}: options {sorted(options)} are for models made by name")
    timm_name = str(cfg.get("architecture", name))
    name = f"{timm_name}.{cfg['tag']}" if cfg.get("tag") else timm_name
    if weights is None:
        held, tensors = int(getattr(model, "num_classes", 0)), None
    else:
        tensors, held = _tensors_and_classes(name, timm_name, weights)
    count = _head_size(name, held, classes, new_head)
    if new_head or weights is not None:
        model = copy.deepcopy(model)
    if new_head or (weights is not None and count != getattr(model, "num_classes", count)):
        if not hasattr(model, "reset_classifier"):
            raise ValueError(f"model {name}: it has no reset_classifier; replace its head yourself")
        with seeded(seed):
            model.reset_classifier(count)
    size = _image_size(name, model)
    usual = tuple(cfg.get("input_size", (3, size, size)))[-1]
    made_with = {} if size == usual else {"img_size": size}
    found = _described(name, timm_name, model.eval(), made_with, count, new_head)
    if tensors is not None:
        _fill(model, tensors, weights, {}, new_head)
    return found


def _described(
    name: str,
    timm_name: str,
    network: nn.Module,
    options: Mapping[str, Any],
    count: int,
    new_head: bool,
) -> OwnModel:
    """The model with its spec and view, once it is known to be one that can be explained."""
    size = _image_size(name, network)
    try:
        attention_layers(network)
        _try_it(network, size)
    except (ValueError, RuntimeError, AssertionError, TypeError) as error:
        told = "" if FAMILIES in str(error) else f"; use another: {FAMILIES}"
        reason = " ".join(str(error).split())
        raise ValueError(f"model {name!r} has no relevance maps: {reason}{told}") from error
    how = resolve_data_config(pretrained_cfg=network.pretrained_cfg)
    wanted = {"interpolation": get_args(Interpolation), "crop_mode": ("center", "squash")}
    for key, allowed in wanted.items():
        if how[key] not in allowed:
            raise ValueError(
                f"model {name!r}: its pretrained_cfg has {key} {how[key]!r}, which is not known "
                f"here; set model.pretrained_cfg[{key!r}] to one of {allowed} and give the model"
            )
    view = View(
        math.floor(size / how["crop_pct"]),
        size,
        how["interpolation"],
        squash=how["crop_mode"] == "squash",
    )
    mean, std = (tuple(map(float, how[key])) for key in ("mean", "std"))
    spec = ModelSpec(name, timm_name, size, mean, std, dict(options), count)
    return OwnModel(network, spec, view, new_head)


def _image_size(name: str, network: nn.Module) -> int:
    """Pixels of a side. Raises: ValueError for pictures that are not square."""
    made_for = getattr(getattr(network, "patch_embed", None), "img_size", None)
    size = made_for or network.pretrained_cfg.get("input_size", (3, 224, 224))[1:]
    _need_square(*size, name)
    return int(size[0])


def _need_square(height: int, width: int, name: str) -> None:
    if height != width:
        raise ValueError(
            f"model {name!r}: its pictures are {height} x {width} pixels, and relevance maps need "
            f"squares; give the option img_size, such as {min(height, width)}"
        )


def _try_it(network: nn.Module, size: int) -> None:
    """One black picture through the model. Raises: ValueError or RuntimeError."""
    head_pooling(network)
    black = torch.zeros(1, 3, size, size).to(next(network.parameters()))
    with torch.no_grad(), record_attention(network) as tape:
        logits = network(black)
    if not isinstance(logits, Tensor) or logits.ndim != 2:
        raise ValueError("it gives no logits, [batch, classes]")
    patches = tape.inputs[-1].shape[1] - prefix_tokens(network)
    if math.isqrt(patches) ** 2 != patches:
        raise ValueError(f"its {patches} patches form no square")


def _fetch(
    network: nn.Module,
    name: str,
    timm_name: str,
    held: int,
    options: Mapping[str, Any],
    new_head: bool,
) -> None:
    """Fill the network with the weights of timm's hub, fetched once."""
    try:
        with seeded(0):
            made = timm.create_model(timm_name, pretrained=True, num_classes=held, **options)
    except (OSError, RuntimeError) as error:
        if "state_dict" in str(error):
            raise ValueError(
                f"model {name!r}: timm's weights do not fit its options {dict(options)} "
                f"({one_line(error)}); leave out those that change the architecture"
            ) from error
        raise ConnectionError(
            f"model {name!r}: its weights cannot be had from timm's hub ({one_line(error)}); "
            "connect, or fetch them elsewhere and give weights, their file"
        ) from error
    ours = _classifier(network) if new_head else ()
    body = {k: v for k, v in made.state_dict().items() if not k.startswith(ours)}
    network.load_state_dict(network.state_dict() | body)


def _fill(
    network: nn.Module,
    tensors: Mapping[str, Tensor],
    place: Path | str,
    options: Mapping[str, Any],
    new_head: bool,
) -> None:
    """Fill the network with the tensors of a file. Raises: ValueError when they do not fit."""
    try:
        if any(option in options for option in SIZES):
            tensors = _resampled(network, tensors)
        if new_head:
            ours = _classifier(network)
            kept = {k: v for k, v in tensors.items() if not k.startswith(ours)}
            made = {k: v for k, v in network.state_dict().items() if k.startswith(ours)}
            tensors = kept | made
        fill(network, tensors, keep_head=not new_head)
    except (ValueError, RuntimeError) as error:
        raise ValueError(
            f"model: {place} does not fit {type(network).__name__} with {dict(options)} "
            f"({one_line(error)}); give the options that the weights were made with, such as "
            "img_size, or other weights"
        ) from error


def _resampled(network: nn.Module, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Positions and patches at the network's sizes, by timm, as it does for its own weights."""
    convert = getattr(sys.modules[type(network).__module__], "checkpoint_filter_fn", None)
    return tensors if convert is None else convert(dict(tensors), network)


def _classifier(network: nn.Module) -> tuple[str, ...]:
    """What the names of the head's weights begin with: two of them in a distilled DeiT."""
    names = network.pretrained_cfg.get("classifier", "head")
    listed: Sequence[str] = (names,) if isinstance(names, str) else names
    return tuple(f"{name}." for name in listed)
