"""`load_model`: any Vision Transformer by name, with weights of the package, a hub or a file.

What comes back is timm's model and nothing else: `timm.create_model` with the same name, options
and weights gives the same bits without this package. How it wants its pictures is in its
`pretrained_cfg`. timm makes it, fetches weights and names those of others; read here is what timm
does not read (`models.layouts`), and nothing is left at random that a file should have filled.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import timm
import torch
from timm.models import get_pretrained_cfg
from torch import nn

from relevit.base.device import choose_device
from relevit.base.errors import one_line
from relevit.base.seeding import seeded
from relevit.choices.words import IMAGENET, MORE_MODELS
from relevit.maps import attention_layers, patch_grid, unwrapped
from relevit.models.describing import (
    describe,
    explained,
    image_size,
    need_answers,
    need_classifier,
    need_maps,
    need_square,
    own_cfg,
)
from relevit.models.heads import BOTH, read_both
from relevit.models.layouts import fill, has_anchor
from relevit.models.live import answering, as_timm, options_of
from relevit.models.passport import (
    CONFIG,
    Passport,
    is_of_transformers,
    need_alike,
    passport_beside,
)
from relevit.models.registry import (
    MODELS,
    PAPER_MODELS,
    Model,
    Pixels,
    model_spec,
    nearest,
    pixels_of,
    tagged,
    view_of,
)
from relevit.models.sources import (
    OF_DINOV2,
    Asked,
    Tensors,
    find_tensors,
    fitting,
    folder_of,
    from_file,
    rows,
    shipped_data,
)
from relevit.models.spec import ModelSpec, View

RANDOM = "random"  # in place of weights: drawn from the seed
NEW_HEAD = "classes=N and new_head=True, or relevit finetune --new-head"
RESERVED = {"num_classes", "pretrained", "pretrained_cfg", "checkpoint_path", "in_chans"}
SIZES = ("img_size", "patch_size")  # options for which positions and patches are resampled


@dataclass(frozen=True)
class OwnModel:
    """A network in eval mode, what code needs to know of it, and whether its head is untrained.

    `timm.create_model(spec.timm_name, num_classes=spec.classes, **spec.options)` makes the same
    architecture. `knows` says whose classes the head has, where that is sure: `imagenet`, or the
    images of SHIPPED that weights of the package have learned from; of a file's nobody can tell.
    `no_maps` says why a network that answers has no relevance maps; empty where it has.
    """

    network: nn.Module
    spec: ModelSpec
    new_head: bool
    knows: str = ""
    no_maps: str = ""

    @property
    def view(self) -> View:
        return self.spec.view


def load_model(
    name_or_module: str | nn.Module,
    weights: Path | str | None = None,
    *,
    classes: int | None = None,
    new_head: bool = False,
    options: Mapping[str, Any] = {},
    pixels: Pixels = "half",
    seed: int = 0,
    device: torch.device | str | None = None,
) -> nn.Module:
    """A Vision Transformer ready to be explained or finetuned, on `device` in eval mode.

    `name_or_module`: a name of `models.MODELS` or `MORE_MODELS`, any name of timm's with or without
    a tag, or a module with timm's `pretrained_cfg`, which is used as it is (a copy under a new
    head).
    `weights`: a file with timm's names, one of the papers' (`models.layouts`) or this suite's; a
    folder with `<name>.safetensors` (.pth, .bin, .pth.tar) or `model.safetensors`; "random".
    Without it they come with the package or from timm's hub or the authors' server. Nothing that
    is pickled is run. `classes`: none for those of the head that comes with the weights.
    `new_head` puts an untrained one in its place, drawn from `seed`, on the pretraining: of
    `dinov2-s` and `dinov2-s8` DINOv2's, of `mini-*` the one that is named. `options` go to
    `timm.create_model`; with `img_size` or `patch_size` among them weights of another size are
    resampled as timm does.
    `pixels` is the mean and std in the `pretrained_cfg` of a paper's model (`model_spec`).
    Raises: ValueError for an unknown name or option, weights that do not fit, another number of
    classes, a head that is CLIP's projection (but where `classes` asks for it, or of a name of
    MODELS), or a model whose attention is not global; FileNotFoundError; ConnectionError.
    """
    how = {"classes": classes, "new_head": new_head, "options": options, "pixels": pixels}
    return open_model(name_or_module, weights, device=device, seed=seed, **how).network


def open_model(
    name_or_module: str | nn.Module,
    weights: Path | str | None = None,
    *,
    device: torch.device | str | None = None,
    answers_alone: bool = False,
    **how: Any,
) -> OwnModel:
    """As `load_model`, with what code needs to know of the model.

    With `answers_alone` any classifier will do, and `no_maps` says why one cannot be explained.
    """
    where = choose_device(device) if isinstance(device, str) else device
    weights = weights if weights in (None, RANDOM) else Path(weights).expanduser()
    asked = Asked(weights, **how, answers_alone=answers_alone)
    if isinstance(name_or_module, nn.Module):
        found = _given(unwrapped(name_or_module), asked)
    elif name_or_module in MORE_MODELS:
        found = _added(name_or_module, asked)
    elif name_or_module not in MODELS and (folder := folder_of(name_or_module)) is not None:
        found = _of_folder(name_or_module, folder, asked)
    else:
        found = _named(name_or_module, asked)
    found.network.eval()
    if not (isinstance(name_or_module, str) and name_or_module in MODELS):  # which all have maps
        said = name_or_module if isinstance(name_or_module, str) else found.spec.name
        found = _with_maps(found, said, answers_alone)
    if where is not None:
        found.network.to(where)
    return found


def _with_maps(found: OwnModel, name: str, answers_alone: bool) -> OwnModel:
    """The model, tried. Raises: ValueError where it has no maps, and needs some."""
    try:
        need_maps(name, found.network, found.spec.image_size)
    except ValueError as error:
        if not answers_alone:
            raise
        return replace(found, no_maps=str(error))
    return found


def side_of(name: str, options: Mapping[str, Any]) -> Any:
    """Pixels of a side of the pictures that a model takes, known before it is made.

    Raises: ValueError for an unknown name.
    """
    if name in MORE_MODELS:
        return MORE_MODELS[name](**options)[1].image_size
    if name not in MODELS and (folder := folder_of(name)) is not None:
        passport = passport_beside(folder)
        size = {} if passport is None else dict(passport.options)
        size = {"img_size": "its"} | size | dict(options)
        return size["img_size"]
    return options.get("img_size", (MODELS.get(name) or _of_timm(name, options)).image_size)


# Models by name


def _of_folder(name: str, folder: Path, asked: Asked) -> OwnModel:
    """A model of a folder with a config, timm's, transformers' or a run's. Raises: ValueError."""
    if asked.weights not in (None, RANDOM):
        raise ValueError(f"model {name!r}: it has weights of its own; leave others out")
    try:
        passport = passport_beside(folder)
    except ValueError:  # a family of transformers that has no place in timm's anatomy
        as_it_is = asked.answers_alone and not asked.new_head and asked.weights != RANDOM
        if not (as_it_is and is_of_transformers(folder)):
            raise
        return _given(answering(folder), asked)
    if passport is None:
        raise ValueError(
            f"model {name!r}: {folder / CONFIG} names no architecture of timm's and no model_type "
            "of transformers; give the name of a model, and this folder's file as its weights"
        )
    weights = RANDOM if asked.weights == RANDOM else folder
    architecture = passport.architecture
    if architecture in MORE_MODELS:
        options = dict(passport.options) | dict(asked.options)
        return _added(architecture, replace(asked, weights=weights, options=options))
    if not architecture:
        raise ValueError(
            f"model {name!r}: its network was made by code that timm does not have; make it, fill "
            "it from the folder's model.safetensors, and give the network itself"
        )
    if not timm.is_model(architecture):
        raise ValueError(
            f"model {name!r}: {passport.place} is of {architecture!r}, which timm "
            f"{timm.__version__} does not know; nearest are {nearest(architecture)}"
        )
    tagless = architecture.partition(".")[0]
    known = architecture in timm.list_pretrained(f"{tagless}.*")
    return _named(architecture if known else tagless, replace(asked, weights=weights), True)


def _named(name: str, asked: Asked, whole: bool = False) -> OwnModel:
    """A model by name; with `whole` its options are those that its weights' passport has."""
    read = None
    if isinstance(asked.weights, Path):
        first = MODELS.get(name) or _of_timm(name, {"img_size": 0})
        try:
            read = from_file(first, asked.weights, asked.answers_alone)
        except ValueError:
            if not asked.answers_alone:  # they may be of a network that none would fit
                _need_attention(name, first, asked)
            raise
    passport = read.passport if read else None
    given = _with_passport(name, asked, passport, whole)
    model = MODELS.get(name) or _of_timm(name, given)
    options = _options(model, given)
    if asked.weights == RANDOM or (asked.weights is None and model.begins == RANDOM):
        tensors, place = None, RANDOM
        count = model.classes if asked.classes is None else asked.classes
        wide = count == model.classes
    else:
        first = name not in MODELS and asked.weights is None  # before they are fetched
        if first and not asked.answers_alone:
            with torch.device("meta"):
                empty = _built(model, model.classes, options, asked.seed, both=False)
            side = image_size(name, empty, options.get("img_size"))
            with explained(name):
                attention_layers(empty)
                patch_grid(empty, torch.empty(1, 3, side, side, device="meta"))
        tensors, place = find_tensors(model, asked, options, read)
        elsewhere = _plain_head(model) in tensors and not rows(tensors)
        if tensors and (elsewhere or not has_anchor(tensors)):
            count, wide = _plain_count(model, tensors, asked), False
        else:
            count, wide = _head_size(model, tensors, asked, place), _reads_both(tensors)
    told = passport.outputs if passport and not asked.new_head and asked.classes is None else None
    if told not in (None, 0, count):
        raise ValueError(
            f"model {name!r}: {passport.place} says {told} outputs, and its weights have {count}; "
            "mend the config, or ask for a new head"
        )
    behind = passport is not None and passport.both
    both = (behind or model.reads == BOTH) and not asked.new_head and wide
    network = _built(model, count, options, asked.seed, both)
    if passport is not None:
        passport.finish(network, both)
    if passport is not None and passport.pixels and name not in PAPER_MODELS:
        network.pretrained_cfg.update({**passport.pixels, "label_names": passport.classes})
        spec = describe(name, model.timm_name, network, options, count)
    elif name in MODELS:
        network.pretrained_cfg.update(pixels_of(model, asked.pixels))
        size = int(options.get("img_size", model.image_size))
        changed = {"image_size": size, "view": view_of(network.pretrained_cfg, size)}
        spec = model_spec(name, pixels=asked.pixels)
        spec = replace(spec, classes=count, options=options, **changed)
    else:
        spec = describe(name, model.timm_name, network, options, count)
    # timm has the size of its own weights there, and its transform would make such pictures.
    network.pretrained_cfg["input_size"] = (3, spec.image_size, spec.image_size)
    if tensors is not None:
        keep_head = not asked.new_head and count > 0
        resample = place == OF_DINOV2 or any(option in asked.options for option in SIZES)
        if place == OF_DINOV2:  # cut to the blocks that there are
            tensors = {key: tensors[key] for key in network.state_dict() if key in tensors}
        with fitting(model, place, options):
            fill(network, tensors, keep_head=keep_head, resample=resample)
        if keep_head and asked.classes is None and name not in MODELS:
            need_classifier(name, network)
    came_with_it = asked.weights is None and tensors is not None and not asked.new_head
    whose = shipped_data(name) or (IMAGENET if count == 1000 else "")
    return OwnModel(network, spec, asked.new_head, whose if came_with_it else "")


def _need_attention(name: str, model: Model, asked: Asked) -> None:
    """Raise ValueError for an architecture that has no maps, whatever its weights are."""
    with torch.device("meta"):
        empty = _built(model, model.classes, _options(model, asked.options), asked.seed, both=False)
    with explained(name):
        attention_layers(empty)


def _with_passport(
    name: str, asked: Asked, passport: Passport | None, whole: bool
) -> dict[str, Any]:
    """The options that are asked for, on those that the weights were made with.

    Raises: ValueError where these say that they are of another network, or their outputs are no
    classes.
    """
    if passport is None:
        return dict(asked.options)
    timm_name = MODELS[name].timm_name if name in MODELS else name
    need_alike(passport, timm_name, asked.options)
    if passport.outputs == 0 and not asked.new_head and asked.classes is None:
        raise ValueError(
            f"model {name!r}: {passport.place} is of a network without a head of classes; put an "
            f"untrained one there: {NEW_HEAD}"
        )
    if passport.foreign and whole and "mean" not in passport.pixels:
        raise ValueError(
            f"model {name!r}: {passport.place} has no preprocessor_config.json beside it, so that "
            "how its pixels were normalised is unknown; put it there"
        )
    if not passport.foreign or whole:
        said = {key: value for key, value in passport.options.items() if key not in RESERVED}
        return said | dict(asked.options)
    with torch.device("meta"):
        layer = timm.create_model(timm_name, **asked.options).blocks[0].attn
    if layer.num_heads != (heads := passport.options["num_heads"]):
        raise ValueError(
            f"model {name!r}: {passport.place} has {heads} heads, and it {layer.num_heads}; give "
            f"the folder as the model, {Path(passport.place).parent}"
        )
    return dict(asked.options)


def _plain_count(model: Model, tensors: Tensors, asked: Asked) -> int:
    """Outputs of a network that is no Vision Transformer: its classifier's rows, or those asked."""
    if asked.new_head and asked.classes:
        return asked.classes
    weight = tensors.get(_plain_head(model))
    count = model.classes if weight is None else len(weight)
    if asked.classes not in (None, count):
        raise ValueError(
            f"model {model.name!r}: it has a head of {count} classes and {asked.classes} are asked "
            f"for; put an untrained one there: {NEW_HEAD}"
        )
    return count


def _plain_head(model: Model) -> str:
    """The name of a classifier's weight, which is not `head.weight` in all of timm's networks; of
    several the first's."""
    name = getattr(get_pretrained_cfg(model.timm_name), "classifier", None) or "head.fc"
    return f"{name if isinstance(name, str) else name[0]}.weight"


def _of_timm(name: str, options: Mapping[str, Any]) -> Model:
    """timm's model of a name that the registry has not. Raises: ValueError."""
    if not timm.is_model(name):
        raise ValueError(
            f"models: {name!r} is unknown; use one of {sorted([*MODELS, *MORE_MODELS])} or a name "
            f"of timm's; nearest are {nearest(name)}"
        )
    try:
        cfg = get_pretrained_cfg(name)
    except RuntimeError as error:
        raise ValueError(
            f"model {name!r} has no such weights in timm; use {tagged(name) or 'a file of weights'}"
        ) from error
    if cfg is not None and "img_size" not in options:  # before a large model is made
        need_square(*cfg.input_size[1:], name)
    return Model(
        name, name, 0 if cfg is None else cfg.input_size[-1], getattr(cfg, "num_classes", 0)
    )


def _options(model: Model, options: Mapping[str, Any]) -> dict[str, Any]:
    """All that `timm.create_model` is told. Raises: ValueError for what is set here."""
    if odd := sorted(RESERVED & options.keys()):
        raise ValueError(
            f"model {model.name!r}: leave the option {odd[0]!r} out; it is set by the weights and "
            f"the tag in the model's name (for an untrained head: {NEW_HEAD})"
        )
    cfg = get_pretrained_cfg(model.timm_name)
    usual = cfg is None or model.image_size == cfg.input_size[-1]
    return ({} if usual else {"img_size": model.image_size}) | dict(model.options) | dict(options)


def _built(
    model: Model, count: int, options: Mapping[str, Any], seed: int, both: bool
) -> nn.Module:
    """timm's model, untrained. Raises: ValueError that names the option."""
    try:
        with seeded(seed):
            network = timm.create_model(model.timm_name, num_classes=count, **options)
            if both:
                read_both(network, count)
    except (TypeError, ValueError, ArithmeticError, AssertionError, RuntimeError) as error:
        unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        what = f"timm cannot make it with {dict(options)} ({one_line(error)}); change them"
        if unknown:
            what = f"option {unknown[1]!r} is unknown to timm's {model.timm_name}; leave it out"
        raise ValueError(f"model {model.name!r}: {what}") from error
    return network.eval()


def _reads_both(tensors: Tensors) -> bool:
    head, token = tensors.get("head.weight"), tensors.get("cls_token")
    return head is not None and token is not None and head.shape[1] == 2 * token.shape[-1]


def _head_size(model: Model, tensors: Tensors, asked: Asked, place: Path | str) -> int:
    """How many classes the model has, 0 for no head. Raises: ValueError."""
    held, new_head = rows(tensors), asked.new_head
    bare = model.name in MODELS and model.classes == 0 and not new_head  # published without one
    count = 0 if bare else held or model.classes if new_head else held
    count = count if asked.classes is None else asked.classes
    if (count and (new_head or count == held)) or (count == 0 and (bare or asked.classes == 0)):
        return count
    file = f", the file {model.name}-head from {model.head_url}" if model.head_url else ""
    other = any(key.startswith("head.") for key in tensors)
    has = "a head that is not one linear layer" if other else "no head"
    has = f"a head of {held} classes" if held else has
    wanted = f" and {asked.classes} are asked for" if asked.classes else ""
    raise ValueError(
        f"model {model.name!r}: {place} has {has}{wanted}; give weights with a fitting head{file}, "
        f"or put an untrained one there: {NEW_HEAD}"
    )


# Modules, and those that others add


def _added(name: str, asked: Asked) -> OwnModel:
    """A model of MORE_MODELS, whose spec tells what timm's say in their `pretrained_cfg`."""
    try:
        with seeded(asked.seed):
            network, spec = MORE_MODELS[name](**asked.options)
    except Exception as error:  # whatever the code of others raises
        raise ValueError(
            f"model {name!r}: its function cannot make a network and its ModelSpec with "
            f"{dict(asked.options)} ({one_line(error)}); mend it, or change the options"
        ) from error
    view, size = spec.view, spec.image_size
    if view.crop != size:
        raise ValueError(
            f"model {name!r}: its ModelSpec has image_size {size}, and a view of {view.crop} "
            f"pixels; give it view=View({round(size / 0.875)}, {size})"
        )
    network.pretrained_cfg = {"architecture": name, "input_size": (3, size, size)}
    network.pretrained_cfg |= {"mean": spec.mean, "std": spec.std, "crop_pct": view.crop_pct}
    network.pretrained_cfg |= {"interpolation": view.interpolation, "crop_mode": view.crop_mode}
    weights = None if asked.weights == RANDOM else asked.weights
    found = _given(network, replace(asked, weights=weights, options={}))
    changed = {"options": dict(asked.options), "classes": found.spec.classes}
    return replace(found, spec=replace(spec, name=name, timm_name=name, **changed))


def _given(module: nn.Module, asked: Asked) -> OwnModel:
    """A module as it is; a copy of it where weights or a new head are asked for."""
    name, cfg = type(module).__name__, own_cfg(module)
    module = as_timm(module, asked.answers_alone)
    if asked.options:
        raise ValueError(
            f"model {name}: options {sorted(asked.options)} are for models made by name"
        )
    timm_name = str(cfg.get("architecture", name))
    name = f"{timm_name}.{cfg['tag']}" if cfg.get("tag") else timm_name
    model = Model(name, timm_name, classes=0)
    held = need_answers(name, module, image_size(name, module))
    tensors, place = {"head.weight": torch.empty(held, 0)} if held else {}, "it"
    if asked.weights is not None:
        tensors, place, _ = from_file(model, asked.weights)
    if asked.new_head or asked.weights is not None:
        module = copy.deepcopy(module)
    count = _head_size(model, tensors, asked, place)
    if asked.new_head or count != held:
        if not hasattr(module, "reset_classifier"):
            raise ValueError(f"model {name}: it has no reset_classifier; replace its head yourself")
        with seeded(asked.seed):
            module.reset_classifier(count)
    spec = describe(name, timm_name, module.eval(), options_of(module), count)
    if asked.weights is not None:
        with fitting(model, place, {}):
            fill(module, tensors, keep_head=not asked.new_head)
    return OwnModel(module, spec, asked.new_head)
