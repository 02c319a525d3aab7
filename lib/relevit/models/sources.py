"""Where a model's weights are: the package, a file, timm's hub, the authors' server."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import timm
import torch
from timm.models import get_pretrained_cfg
from torch import Tensor

from relevit.base.errors import one_line
from relevit.base.hub import A_FOLDER, need_hub
from relevit.base.seeding import seeded
from relevit.choices.words import SHIPPED
from relevit.models.checkpoints import read_tensors
from relevit.models.dinov2 import load_dinov2
from relevit.models.foreign import inside, named_as_timm
from relevit.models.layouts import (
    find_weights,
    has_anchor,
    head_tensors,
    named_tensors,
    read_checkpoint,
    unwrapped_state,
)
from relevit.models.passport import (
    CONFIG,
    PROCESSOR,
    Passport,
    of_checkpoint,
    of_torchvision,
    passport_beside,
)
from relevit.models.registry import MODELS, Model, Pixels, shipped_weights, tagged

Tensors = dict[str, Tensor]
OF_DINOV2 = "DINOv2"


@dataclass(frozen=True)
class Asked:
    """What `load_model` is asked for, beside a name and a device."""

    weights: Path | str | None = None
    classes: int | None = None
    new_head: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    pixels: Pixels = "half"
    seed: int = 0
    answers_alone: bool = False


def find_tensors(
    model: Model, asked: Asked, options: Mapping[str, Any], read: Read | None = None
) -> tuple[Tensors, Path | str]:
    """The tensors by timm's names or their authors', and where they were; of a file as `read`."""
    data, weights, new_head = shipped_data(model.name), asked.weights, asked.new_head
    if read is not None:
        tensors, place = dict(read.tensors), read.place
    elif data and not (new_head and model.begins in ("dinov2", "pretrained")):
        place = shipped_weights(model.name, data)
        tensors = read_tensors(place)[0]
    elif model.begins == "dinov2":
        return load_dinov2() if new_head else {}, OF_DINOV2
    elif model.begins == "pretrained":
        place = shipped_weights(f"{model.name}-pretrained")
        return read_tensors(place)[0], place
    else:
        place = model.source
        tensors = _fetched(model, options)
    wanted = model.classes if asked.classes is None else asked.classes
    if not new_head and wanted and model.name in MODELS and rows(tensors) != wanted:
        tensors |= _head(model, weights, wanted)
    return tensors, place


def shipped_data(name: str) -> str:
    """The images that the weights of a name in the package have learned from; else empty."""
    return next((data for data, names in SHIPPED.items() if name in names), "")


class Read(NamedTuple):
    """What a file holds: tensors by timm's names or their authors', and what it says of them."""

    tensors: Tensors
    place: Path
    passport: Passport | None = None


def from_file(model: Model, weights: Path, plain: bool = False) -> Read:
    """Weights from a file or a folder, with their passport; `plain` takes other networks, too.

    Raises: FileNotFoundError; ValueError.
    """
    path = weights
    if weights.is_dir():
        names = (model.name, "model", "pytorch_model", "weights")
        path = next(filter(None, (find_weights(weights, name) for name in names)), None)
    if path is None:
        raise FileNotFoundError(
            f"model {model.name!r}: {weights} has no {model.name}.safetensors nor "
            f"model.safetensors (nor .pth, .bin, .pth.tar); put the weights there, from "
            f"{model.source}, or give a file"
        )
    passport = passport_beside(weights)
    with fitting(model, path, {}):
        if path.suffix != ".safetensors":
            found = read_checkpoint(path)
            return _read(found, path, passport or of_checkpoint(found, path), plain)
        tensors, facts = read_tensors(path)
        written_for = facts.get("architecture", model.name)
        known = MODELS[written_for].timm_name if written_for in MODELS else written_for
        alike = known.partition(".")[0] == model.timm_name.partition(".")[0]
        both_known = written_for in MODELS and model.name in MODELS
        if written_for != model.name and (both_known or not alike):
            raise ValueError(f"it was written for {written_for!r}")
        return _read(tensors, path, passport, plain)


def _read(found: Mapping[str, Any], path: Path, passport: Passport | None, plain: bool) -> Read:
    """What is in a file, under timm's names."""
    state = unwrapped_state(found)
    theirs = inside(state)
    if theirs is None and plain and not has_anchor(state):  # no Vision Transformer
        return Read(state, path, passport)
    if theirs is None:
        return Read(named_tensors(found), path, passport)
    if passport is not None and passport.foreign:
        return Read(passport.as_timm(theirs), path, passport)
    if passport is None and any(name.endswith("conv_proj.weight") for name in theirs):
        passport = of_torchvision(path)
    return Read(named_as_timm(theirs), path, passport)


def folder_of(name: str) -> Path | None:
    """The folder that a model's name means: `local-dir:FOLDER`, `hf-hub:OWNER/NAME`, which is
    fetched, or a folder with a config. None for other names. Raises: ConnectionError."""
    source, colon, there = name.partition(":")
    if colon and source.lower() in ("hf-hub", "hf_hub"):
        return _of_hub(there)
    folder = Path(there if colon and source.lower() == "local-dir" else name).expanduser()
    if (folder / CONFIG).is_file():
        return folder
    if colon and source.lower() == "local-dir":
        raise FileNotFoundError(f"model {name!r}: {folder} has no {CONFIG}; check its name")
    return None


def _of_hub(repository: str) -> Path:
    """The folder of what the hub has; `repository` may name a revision behind an @, as in timm."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    name, _, revision = repository.partition("@")
    said, log_in = f"model 'hf-hub:{repository}'", "log in with `hf auth login`"
    need_hub(said, name, A_FOLDER)
    try:
        for weights in ("model.safetensors", "pytorch_model.bin"):
            wanted = [CONFIG, PROCESSOR, weights]
            folder = snapshot_download(name, revision=revision or None, allow_patterns=wanted)
            if (Path(folder) / weights).is_file():
                return Path(folder)
    except GatedRepoError as error:
        raise ConnectionError(
            f"{said}: its owner has to let you in; ask on its page of the hub, and {log_in}"
        ) from error
    except (RepositoryNotFoundError, RevisionNotFoundError, HFValidationError) as error:
        raise ValueError(
            f"{said}: the hub shows you no such model; check its name, OWNER/NAME or "
            f"OWNER/NAME@REVISION, and where it is private {log_in}"
        ) from error
    except Exception as error:  # of many kinds: what answers may be no hub
        raise ConnectionError(
            f"{said} cannot be had ({one_line(error)}); connect, or {A_FOLDER}"
        ) from error
    raise ValueError(
        f"{said}: it has no model.safetensors nor pytorch_model.bin in one file; fetch it yourself "
        "and give a folder"
    )


def _fetched(model: Model, options: Mapping[str, Any]) -> Tensors:
    """Weights of the authors' server or of timm's hub, fetched once."""
    cfg = get_pretrained_cfg(model.timm_name)
    if not model.url and (cfg is None or not cfg.has_weights):
        others = f" or one of {tagged(model.name)}" if tagged(model.name) else ""
        raise ValueError(
            f"model {model.name!r} has no weights in timm; give weights, a file{others}"
        )
    if not model.url:
        need_hub(f"model {model.name!r}", cfg.hf_hub_id or "")
    with _connected(model, model.source):
        if model.url:
            return named_tensors(_from_url(model.url))
        with seeded(0):
            made = timm.create_model(
                model.timm_name, pretrained=True, num_classes=cfg.num_classes, **options
            )
        return made.state_dict()


def _from_url(url: str) -> Mapping[str, Any]:
    with torch.serialization.safe_globals([argparse.Namespace]):  # the authors' settings
        return torch.hub.load_state_dict_from_url(
            url, map_location="cpu", progress=False, check_hash=True, weights_only=True
        )


def _head(model: Model, weights: Path | None, wanted: int) -> Tensors:
    """A head that is a file of its own: `<name>-head` beside the weights, or on a server."""
    path = find_weights(weights, f"{model.name}-head") if weights is not None else None
    if path is not None:
        with fitting(model, path, {}):
            return head_tensors(read_checkpoint(path))
    if weights is None and model.head_url and wanted == model.classes:
        with _connected(model, model.head_url):
            return head_tensors(_from_url(model.head_url))
    return {}


def rows(tensors: Tensors) -> int:
    """Classes of the head among the tensors; OpenAI's CLIP names and turns it in its own way."""
    turned = tensors.get("visual.proj")
    weight = tensors.get("head.weight", None if turned is None else turned.T)
    return 0 if weight is None else weight.shape[0]


@contextmanager
def fitting(model: Model, place: Path | str, options: Mapping[str, Any]) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        said = f" with {dict(options)}" if options else ""
        raise ValueError(
            f"model {model.name!r}: {place} does not fit{said} ({one_line(error)}); use weights of "
            f"{model.timm_name}, with the model options, such as img_size, that they were made with"
        ) from error


@contextmanager
def _connected(model: Model, place: str) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError) as error:
        if "state_dict" in str(error):
            raise ValueError(
                f"model {model.name!r}: timm's weights do not fit its options "
                f"({one_line(error)}); leave out those that change the architecture"
            ) from error
        raise ConnectionError(
            f"model {model.name!r}: {place} cannot be had ({one_line(error)}); connect, or fetch "
            f"it elsewhere and give weights, a file or a folder with {model.name}.pth"
        ) from error
