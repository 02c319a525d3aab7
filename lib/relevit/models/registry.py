"""Which models are known by name: architecture, where the weights are, pixels, licence.

The table is `assets/data/models.yaml`. Two differ from the obvious choice. timm has no tag for the
first ViT-L/16 of 2020, which RobustViT and Beyond Intuition use: it is one file of an old release.
OpenAI trained CLIP with QuickGELU, which timm's plain `vit_base_patch32_clip_224` leaves out.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import timm
import yaml
from timm.models import get_pretrained_cfg

from relevit.choices.words import MORE_MODELS
from relevit.maps import Pooling
from relevit.models.spec import HALF, ModelSpec, View

CUT = "-cut"  # ends the name of a model with two random blocks
ROBUSTVIT, BEYOND, IAV = "RobustViT", "Beyond Intuition", "IAV"
NEAREST = 5  # names that an error offers
# Mean and std 0.5 and 256 -> 224 pixels, bilinear, for every model of the papers, or its own.
Pixels = Literal["half", "own"]


@dataclass(frozen=True)
class Model:
    """One model that is known by name."""

    name: str
    timm_name: str
    image_size: int = 224  # pixels
    classes: int = 1000  # of the head; CLIP: width of its embedding
    options: Mapping[str, Any] = field(default_factory=dict)  # of timm.create_model
    own: Mapping[str, Any] = field(default_factory=dict)  # preprocessing that timm does not know
    # What an untrained head is put on: timm's hub or `url`, DINOv2 out of its wheel, a pretraining
    # or a classifier that comes with the package, or nothing that was trained.
    begins: Literal["hub", "dinov2", "pretrained", "shipped", "random"] = "hub"
    papers: Mapping[str, str] = field(default_factory=dict)  # paper -> the name in its tables
    licence: str = ""  # of a paper's weights, as their authors give it (SPDX)
    reads: Pooling = "class_token"  # rows of the last block that the published head reads
    url: str = ""  # where timm's hub has other weights, or none
    head_url: str = ""  # where the head is a file of its own

    @property
    def source(self) -> str:
        """Where the weights come from, for people."""
        hub = f"timm's hub, {get_pretrained_cfg(self.timm_name).hf_hub_id}"
        return self.url or (hub if self.begins == "hub" else "the package")


def _stored_models() -> dict[str, Model]:
    path = files("relevit") / "assets" / "data" / "models.yaml"
    models = {
        name: Model(name, **facts)
        for name, facts in yaml.safe_load(path.read_text("utf-8")).items()
    }
    # True in all but depth and weights: what a rehearsal of a whole run can compute in minutes.
    facts = {"papers": {}, "options": {"depth": 2}, "begins": "random"}
    cut = [replace(models[name], name=name + CUT, **facts) for name in ("vit-b", "deit-s")]
    return models | {model.name: model for model in cut}


MODELS = _stored_models()
PAPER_MODELS = {name: model for name, model in MODELS.items() if model.licence}


def model_spec(name: str, *, pixels: Pixels = "own") -> ModelSpec:
    """Look a model up by name; how it sees pictures is timm's word, or its authors' evaluation.

    `pixels="half"` is the code of RobustViT (differences B5) and Beyond Intuition (D6): 256 -> 224
    pixels, bilinear, mean and std 0.5 for every Vision Transformer but CLIP, which keeps OpenAI's.
    It says nothing of the embedded benchmark's models. Raises: ValueError that lists the names.
    """
    if name in MORE_MODELS:
        return MORE_MODELS[name]()[1]
    if name not in MODELS:
        known = sorted([*MODELS, *MORE_MODELS])
        raise ValueError(
            f"models: {name!r} is unknown; use one of {known}, or for any ViT of timm's load_model"
        )
    model = MODELS[name]
    how = pixels_of(model, pixels)
    mean, std = tuple(how["mean"]), tuple(how["std"])
    view = view_of(how, model.image_size)
    options = dict(model.options)
    return ModelSpec(
        name, model.timm_name, model.image_size, mean, std, options, model.classes, view
    )


def pixels_of(model: Model, pixels: Pixels) -> dict[str, Any]:
    """What timm's `pretrained_cfg` says of a model's pictures, as `model_spec`."""
    cfg = get_pretrained_cfg(model.timm_name).to_dict() | model.own
    if pixels == "half" and model.name == "clip-b32":
        cfg["crop_pct"] = 1.0
    elif pixels == "half" and model.name in PAPER_MODELS:
        cfg |= HALF | {"crop_pct": 0.875, "interpolation": "bilinear"}
    return {key: cfg[key] for key in ("mean", "std", "crop_pct", "interpolation")}


def view_of(how: Mapping[str, Any], size: int) -> View:
    """The view that a `pretrained_cfg` describes, rounded down as timm does."""
    resize, squash = math.floor(size / how["crop_pct"]), how.get("crop_mode") == "squash"
    return View(resize, size, how["interpolation"], squash=squash)


def shipped_weights(name: str, data: str | None = None) -> Path:
    """Path of the weights that come with the package, trained on the images called `data`.

    Those of a pretraining have no such images. Raises: ValueError when there are none.
    """
    folder = Path(str(files("relevit") / "assets" / "weights"))
    place = folder if data in (None, "cutouts") else folder / data
    path = place / f"{name}.safetensors"
    if not path.is_file():
        have = ", ".join(sorted(each.stem for each in place.glob("*.safetensors"))) or "no model"
        raise ValueError(
            f"models: no weights of {name!r} for {data} come with the package, but of {have}; "
            "train it with the 00_start notebook"
        )
    return path


def nearest(name: str) -> str:
    """Names that look like one that nobody knows."""
    names = [*MODELS, *MORE_MODELS, *timm.list_models(), *timm.list_pretrained()]
    return ", ".join(difflib.get_close_matches(name, names, NEAREST, cutoff=0.4)) or "none"


def tagged(name: str) -> list[str]:
    """The names of timm's with weights of the same architecture."""
    return timm.list_pretrained(f"{name.partition('.')[0]}.*")
