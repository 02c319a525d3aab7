"""Which models the papers use: architecture, where the weights are, preprocessing, licence.

The table is `assets/data/models.yaml`. Two differ from the obvious choice. timm has no tag for the
first ViT-L/16 of 2020, which RobustViT and Beyond Intuition use: it is one file of an old release.
OpenAI trained CLIP with QuickGELU, which timm's plain `vit_base_patch32_clip_224` leaves out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any

import yaml
from timm.models import get_pretrained_cfg

from relevit.attention.token_rows import Pooling
from relevit.config.words import Preprocessing as Preset
from relevit.models.spec import HALF, ModelSpec, View

IMAGENET_CLASSES = 1000
CUT = "-cut"  # ends the name of a model with two random blocks
ROBUSTVIT, BEYOND, IAV = "RobustViT", "Beyond Intuition", "IAV"


@dataclass(frozen=True)
class Preprocessing:
    """How a picture becomes what a model reads: its square, then (pixel - mean) / std in [0, 1]."""

    view: View
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


@dataclass(frozen=True)
class PaperModel:
    """One model of the papers, as published."""

    name: str
    timm_name: str
    papers: Mapping[str, str]  # paper -> the model's name in its tables
    weights_mb: int  # 10^6 bytes in float32, head included; training checkpoints are larger
    licence: str  # of the weights, as their authors give it (SPDX)
    classes: int = IMAGENET_CLASSES  # of the published head; CLIP: width of its embedding
    reads: Pooling = "class_token"  # rows of the last block that the published head reads
    url: str = ""  # where timm's hub has other weights, or none
    head_url: str = ""  # where the head is a file of its own
    options: Mapping[str, Any] = field(default_factory=dict)  # of timm.create_model
    own: Mapping[str, Any] = field(default_factory=dict)  # preprocessing that timm does not know
    image_size: int = 224  # pixels
    random: bool = False  # no weights: for rehearsals

    @property
    def source(self) -> str:
        """Where the weights come from, for people."""
        return self.url or f"timm's hub, {get_pretrained_cfg(self.timm_name).hf_hub_id}"


def _stored_models() -> dict[str, PaperModel]:
    table = yaml.safe_load(
        (files("relevit") / "assets" / "data" / "models.yaml").read_text("utf-8")
    )
    models = {name: PaperModel(name, **facts) for name, facts in table.items()}
    # True in all but depth and weights: what a rehearsal of a whole run can compute in minutes.
    facts = {"papers": {}, "weights_mb": 0, "options": {"depth": 2}, "random": True}
    cut = [replace(models[name], name=name + CUT, **facts) for name in ("vit-b", "deit-s")]
    return models | {model.name: model for model in cut}


PAPER_MODELS = _stored_models()


def paper_model(name: str) -> PaperModel:
    """Look a model up by name. Raises: ValueError that lists the names."""
    if name not in PAPER_MODELS:
        raise ValueError(f"paper_models: {name!r} is unknown; use one of {sorted(PAPER_MODELS)}")
    return PAPER_MODELS[name]


def preprocessing(name: str, preset: Preset = "published") -> Preprocessing:
    """What is done to a picture before the model sees it.

    `published`: 256 -> 224 pixels, bilinear, mean and std 0.5 for every Vision Transformer, as in
    the code of RobustViT (differences B5) and Beyond Intuition (D6), whose CLIP alone keeps
    OpenAI's. `timm`: the model's own, as timm gives it (MoCo-v3: as its authors evaluate it).
    """
    model = paper_model(name)
    cfg = get_pretrained_cfg(model.timm_name).to_dict() | model.own
    size, own = model.image_size, {key: tuple(cfg[key]) for key in ("mean", "std")}
    if preset == "timm":
        resize = math.floor(size / cfg["crop_pct"])
        return Preprocessing(View(resize, size, cfg["interpolation"]), **own)
    if preset != "published":
        raise ValueError(f"paper_models: preset {preset!r} is unknown; use published or timm")
    if name == "clip-b32":
        return Preprocessing(View(size, size, "bicubic"), **own)
    return Preprocessing(View(256, size, "bilinear"), **HALF)


def paper_spec(name: str, preset: Preset = "published") -> ModelSpec:
    """The model for code that evaluates and finetunes; its pictures need `preprocessing`'s view."""
    model, how = paper_model(name), preprocessing(name, preset)
    return ModelSpec(
        name,
        model.timm_name,
        model.image_size,
        how.mean,
        how.std,
        options=dict(model.options),
        classes=model.classes,
    )
