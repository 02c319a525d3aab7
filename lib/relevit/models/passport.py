"""A model's passport: what stands beside its weights about what goes in, and what comes out.

Which architecture and options they are of, how pixels were normalised and cut, and what each output
is called, in the head's order. It is read from where people have it: timm's `config.json`, that of
transformers with its `preprocessor_config.json`, a checkpoint of timm's `train.py`, a run of this
suite. It is written as timm's `config.json`, which `timm.create_model("local-dir:...")` reads.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import timm
import torch
from timm.models import get_pretrained_cfg
from torch import Tensor, nn

from relevit.base.errors import one_line
from relevit.base.files import write_atomically
from relevit.choices.words import MORE_MODELS
from relevit.models.foreign import FAMILIES, Foreign
from relevit.models.heads import BOTH, read_both
from relevit.models.spec import IMAGENET, ModelSpec, View

CONFIG, PROCESSOR = "config.json", "preprocessor_config.json"
MODEL_FILE = "model.safetensors"
SEEN = ("mean", "std", "crop_pct", "interpolation", "crop_mode", "input_size")  # of pretrained_cfg
RESAMPLED = {2: "bilinear", 3: "bicubic"}  # Pillow's numbers
RELEVIT = "relevit"  # what timm's form has no place for


@dataclass(frozen=True)
class Passport:
    """What is said beside weights; empty is what is not.

    `pixels` are entries of a `pretrained_cfg`, `classes` the names of the outputs, `outputs` their
    number, 0 where they are no classes. `foreign` says how the tensors get timm's names. What no
    option of timm's says: the `epsilon` of norms, and whether the head reads `both`, class token
    and mean patch, one behind the other.
    """

    place: Path | str
    architecture: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    pixels: Mapping[str, Any] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    outputs: int | None = None
    foreign: Foreign | None = None
    epsilon: float | None = None
    both: bool = False

    def finish(self, network: nn.Module, both: bool) -> None:
        """Make of timm's network what no option says; `both` where its head is not a new one."""
        if both and self.both:
            read_both(network, network.num_classes, behind=True)
        for part in network.modules() if self.epsilon is not None else ():
            if isinstance(part, nn.LayerNorm):
                part.eps = self.epsilon

    def as_timm(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Tensors of a checkpoint under timm's names. Raises: ValueError for what has no place."""
        return self.foreign.named(tensors) if self.foreign else dict(tensors)


def passport_beside(weights: Path) -> Passport | None:
    """That of a folder, or of a file which bears the name that a folder's weights have.

    Raises: ValueError for a config that cannot be read, or of an architecture that is not known.
    """
    folder = weights if weights.is_dir() else weights.parent
    named = weights.is_dir() or weights.stem.partition(".")[0] in ("model", "pytorch_model")
    path = folder / CONFIG
    if not (named or weights.stem == "weights") or not path.is_file():
        return None
    config = _json(path)
    if "model_type" in config:
        beside = folder / PROCESSOR
        return of_transformers(config, _json(beside) if beside.is_file() else {}, path)
    return of_timm(config, path) if "architecture" in config else None


def is_of_transformers(folder: Path) -> bool:
    """Whether a folder's config is of transformers, and not of timm. Raises: ValueError."""
    return "model_type" in _json(folder / CONFIG)


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
        if isinstance(found, dict):
            return found
        raise ValueError(f"it holds a {type(found).__name__}")
    except (OSError, ValueError) as error:
        raise ValueError(
            f"weights: {path} is no config of a model ({one_line(error)}); mend it, or take it out"
        ) from error


def of_timm(config: Mapping[str, Any], place: Path | str) -> Passport:
    """Of timm's `config.json`, as `save_for_hf` writes it; the older form has all in one."""
    cfg = dict(config.get("pretrained_cfg", config))
    outputs = config.get("num_classes", cfg.get("num_classes"))
    names = config.get("label_names", cfg.get("label_names", config.get("labels")))
    about = config.get("label_descriptions", cfg.get("label_descriptions")) or {}
    own = config.get(RELEVIT, {})
    return Passport(
        place,
        str(config["architecture"]) + (f".{cfg['tag']}" if cfg.get("tag") else ""),
        dict(config.get("model_args", {})),
        {key: cfg[key] for key in SEEN if cfg.get(key) is not None},
        _names(names, about, outputs, place),
        outputs,
        epsilon=own.get("epsilon"),
        both=own.get("both", False),
    )


def _names(
    names: Any, about: Mapping[str, str], outputs: int | None, place: Path | str
) -> tuple[str, ...]:
    """The names of outputs; a synset stands before its words. Raises: ValueError for gaps."""
    if not names:
        return ()
    if isinstance(names, Mapping):
        by_number = {int(number): name for number, name in names.items()}
        names = [by_number.get(number) for number in range(max(by_number) + 1)]
    if None in names or len(set(names)) < len(names) or outputs not in (None, len(names)):
        raise ValueError(
            f"weights: {place} names {len(set(names) - {None})} classes for {outputs or len(names)}"
            " outputs; each output needs a name of its own: mend it, or take the names out"
        )
    return tuple(f"{n}, {about[n]}" if about.get(n, n) != n else str(n) for n in names)


def of_transformers(
    config: Mapping[str, Any], processor: Mapping[str, Any], place: Path | str
) -> Passport:
    """Of transformers' `config.json` and `preprocessor_config.json`.

    Raises: ValueError for a family that is not among FAMILIES.
    """
    kind, config = str(config["model_type"]), dict(config)
    if kind not in FAMILIES:
        known = ", ".join(sorted(FAMILIES))
        raise ValueError(
            f"weights: {place} is of transformers' {kind!r}, which is not read here (read are "
            f"{known}); take timm's model of that name, or for an audit the network itself"
        )
    view = _view(processor, int(config.get("vision_config", config).get("image_size", 224)))
    foreign = FAMILIES[kind](config, view.crop)
    names = labels_of(config) if foreign.head else ()
    pixels = pixels_of(processor, view.crop)
    more = (None if foreign.head else 0, foreign, foreign.epsilon, foreign.both)
    return Passport(place, foreign.timm_name, foreign.options, pixels, names, *more)


def labels_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """What a config of transformers calls the outputs; nothing where it only numbers them."""
    labels = {int(k): str(v) for k, v in config.get("id2label", {}).items()}
    told = any(name != f"LABEL_{number}" for number, name in labels.items())
    return _names(labels, {}, None, CONFIG) if told else ()


def pixels_of(processor: Mapping[str, Any], side: int = 224) -> dict[str, Any]:
    """What a processor of transformers says of pixels, as timm's `pretrained_cfg` does."""
    view = _view(processor, side)
    found: dict[str, Any] = {"input_size": (3, view.crop, view.crop)}
    if "image_mean" in processor:
        found |= {"mean": tuple(processor["image_mean"]), "std": tuple(processor["image_std"])}
        found |= {"crop_pct": view.crop_pct, "interpolation": view.interpolation}
        found |= {"crop_mode": view.crop_mode}
    return found


def _view(processor: Mapping[str, Any], side: int) -> View:
    """How a processor of transformers sees a picture, whole or its middle."""
    size, crop = processor.get("size", side), processor.get("crop_size", side)
    pixels = RESAMPLED.get(processor.get("resample", 2), "bilinear")
    shorter = size["shortest_edge"] if isinstance(size, Mapping) and "shortest_edge" in size else 0
    whole = size["height"] if isinstance(size, Mapping) and not shorter else size
    crop = crop["height"] if isinstance(crop, Mapping) else crop
    if not processor.get("do_center_crop", bool(shorter)):
        crop = shorter or whole
    return View(shorter or whole, crop, pixels, squash=not shorter)


def of_checkpoint(found: Mapping[str, Any], place: Path) -> Passport | None:
    """Of a checkpoint of timm's `train.py`: `arch`, and `args` where they are not the default.

    Others write `arch`, too, and mean other things by it: theirs have no `version`.
    """
    arch, args = found.get("arch"), found.get("args")
    if not isinstance(arch, str) or "version" not in found or not timm.is_model(arch):
        return None
    told = {key: value for key, value in vars(args).items() if value is not None} if args else {}
    options = dict(told.get("model_kwargs") or {})
    options |= {"img_size": told["img_size"]} if told.get("img_size") else {}
    cfg = get_pretrained_cfg(arch.partition(".")[0])
    pixels = cfg.to_dict() if cfg is not None else {}
    pixels |= {
        key: told[key] for key in ("mean", "std", "crop_pct", "interpolation") if key in told
    }
    pixels = {key: pixels[key] for key in SEEN if key in pixels and key != "input_size"}
    return Passport(place, arch, options, pixels, (), told.get("num_classes"))


def of_torchvision(place: Path | str) -> Passport:
    """Of a file of torchvision's ViT, which says nothing: all of its weights saw ImageNet's mean,
    and the middle of 256 pixels."""
    pixels = {**IMAGENET, "crop_pct": 0.875, "interpolation": "bilinear", "crop_mode": "center"}
    return Passport(place, pixels=pixels)


def config_of(network: nn.Module, spec: ModelSpec, names: Sequence[str]) -> dict[str, Any]:
    """timm's `config.json` of a network, as `save_for_hf` writes it."""
    view, side = spec.view, spec.image_size
    cfg = {
        "input_size": [3, side, side],
        "mean": list(spec.mean),
        "std": list(spec.std),
        "crop_pct": view.crop_pct,
        "interpolation": view.interpolation,
        "crop_mode": view.crop_mode,
        "num_classes": spec.classes,
        **{key: network.pretrained_cfg.get(key) for key in ("first_conv", "classifier")},
    }
    named = {"label_names": list(names)} if len(names) == spec.classes else {}
    own = {"both": True} if getattr(network, "global_pool", "") == BOTH else {}
    norms = {part.eps for part in network.modules() if isinstance(part, nn.LayerNorm)}
    # Of one that transformers made all norms have one; timm's own, which may have several, makes
    # them anew.
    own |= {"epsilon": min(norms)} if len(norms) == 1 and norms != {1e-6} else {}
    more = {RELEVIT: own} if own else {}
    return {
        "architecture": spec.timm_name.partition(".")[0],
        "num_classes": spec.classes,
        "num_features": getattr(network, "num_features", None),
        "global_pool": str(getattr(network, "global_pool", "")),
        **named,
        "model_args": dict(spec.options),
        "pretrained_cfg": cfg,
        **more,
    }


def write_passport(
    weights: Path, network: nn.Module, spec: ModelSpec, names: Sequence[str]
) -> None:
    """Write `config.json` beside weights, and their file by timm's name for it.

    So plain timm loads the folder, `timm.create_model("local-dir:...", pretrained=True)`. Of a
    network that timm does not make by its name and options the config names no architecture.
    """
    config = config_of(network, spec, names)
    if spec.timm_name not in MORE_MODELS and not _made_by_timm(network, spec):
        config["architecture"] = ""
    write_atomically(weights.with_name(CONFIG), json.dumps(config, indent=2) + "\n")
    write_atomically(weights.with_name(MODEL_FILE), lambda target: _linked(weights, target))


def _linked(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a disk without hard links
        shutil.copyfile(source, target)


def _made_by_timm(network: nn.Module, spec: ModelSpec) -> bool:
    """Whether timm makes a network of these tensors by the spec's name and options."""
    try:
        with torch.device("meta"):
            made = timm.create_model(
                spec.timm_name.partition(".")[0], num_classes=spec.classes, **spec.options
            )
    except (TypeError, ValueError, RuntimeError, AssertionError):
        return False
    if getattr(network, "global_pool", "") == BOTH:
        made.head = nn.Linear(2 * made.embed_dim, spec.classes)
    theirs, ours = ({k: v.shape for k, v in each.state_dict().items()} for each in (made, network))
    return theirs == ours


def need_alike(passport: Passport, timm_name: str, options: Mapping[str, Any]) -> None:
    """Raise ValueError where weights say that they are of another network than is asked for."""
    if passport.foreign or not passport.architecture:
        return
    said, asked = (name.partition(".")[0] for name in (passport.architecture, timm_name))
    if said != asked:
        raise ValueError(
            f"{passport.place} says that they are of {said!r} and not {asked!r}, whose pictures "
            f"may be normalised otherwise; give {said} as the model's name"
        )
    for key, value in options.items():
        if key in passport.options and passport.options[key] != value and key != "img_size":
            raise ValueError(
                f"{passport.place} has {key} = {passport.options[key]!r}, and {value!r} is asked "
                "for; leave the option out"
            )
