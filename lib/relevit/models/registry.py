"""Which models the papers use: architecture, where the weights are, preprocessing, licence.

Two differ from the obvious choice. timm has no tag for the first ViT-L/16 of 2020, which
RobustViT and Beyond Intuition use: it is one file of an old release. OpenAI trained CLIP with
QuickGELU, which timm's plain `vit_base_patch32_clip_224` leaves out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from timm.models import get_pretrained_cfg

from relevit.attention.rows import Pooling
from relevit.config.words import Preprocessing as Preset
from relevit.data.real.image_set import View
from relevit.models.spec import HALF, IMAGENET, ModelSpec

IMAGENET_CLASSES = 1000
CUT = "-cut"  # ends the name of a model with two random blocks
ROBUSTVIT, BEYOND, IAV = "RobustViT", "Beyond Intuition", "IAV"
_TIMM_FILES = "https://github.com/rwightman/pytorch-image-models/releases/download/"
_META_FILES = "https://dl.fbaipublicfiles.com/"


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


_APACHE, _MIT, _NON_COMMERCIAL = "Apache-2.0", "MIT", "CC-BY-NC-4.0"
_MOCO_VIEW = IMAGENET | {"crop_pct": 0.875, "interpolation": "bilinear"}
# Licences: timm's model cards; for DINO, MAE, MoCo-v3, BEiT and CLIP their authors' repositories.
# timm's cards of BEiT and CLIP say Apache-2.0. MAE and MoCo-v3 forbid commercial use.
PAPER_MODELS = {
    model.name: model
    for model in (
        PaperModel(
            "vit-b",
            "vit_base_patch16_224.orig_in21k_ft_in1k",
            {ROBUSTVIT: "ViT-B", BEYOND: "ViT-B"},
            346,
            _APACHE,
        ),
        PaperModel(
            "vit-l",
            "vit_large_patch16_224",
            {ROBUSTVIT: "ViT-L", BEYOND: "ViT-L"},
            1217,
            _APACHE,
            url=_TIMM_FILES + "v0.1-vitjx/jx_vit_large_p16_224-4ee7a4dc.pth",
        ),
        PaperModel(
            "ar-s", "vit_small_patch16_224.augreg_in21k_ft_in1k", {ROBUSTVIT: "AR-S"}, 88, _APACHE
        ),
        PaperModel(
            "ar-b", "vit_base_patch16_224.augreg_in21k_ft_in1k", {ROBUSTVIT: "AR-B"}, 346, _APACHE
        ),
        PaperModel(
            "ar-l", "vit_large_patch16_224.augreg_in21k_ft_in1k", {ROBUSTVIT: "AR-L"}, 1217, _APACHE
        ),
        PaperModel("deit-s", "deit_small_patch16_224.fb_in1k", {ROBUSTVIT: "DeiT-S"}, 88, _APACHE),
        PaperModel(
            "deit-b",
            "deit_base_patch16_224.fb_in1k",
            {ROBUSTVIT: "DeiT-B", IAV: "DeiT"},
            346,
            _APACHE,
        ),
        PaperModel(
            "dino-b",
            "vit_base_patch16_224.dino",
            {ROBUSTVIT: "DINO-B", BEYOND: "ViT-B-DINO", IAV: "DINO"},
            349,
            _APACHE,
            reads="both",
            head_url=_META_FILES + "dino/dino_vitbase16_pretrain/dino_vitbase16_linearweights.pth",
        ),
        PaperModel(
            "mae-b",
            "vit_base_patch16_224.mae",
            {BEYOND: "ViT-MAE"},
            346,
            _NON_COMMERCIAL,
            reads="patches",
            options={"global_pool": "avg"},
            url=_META_FILES + "mae/finetune/mae_finetuned_vit_base.pth",
        ),
        PaperModel(
            "moco-v3-b",
            "vit_base_patch16_224",
            {BEYOND: "MoCo-v3"},
            346,
            _NON_COMMERCIAL,
            own=_MOCO_VIEW,
            url=_META_FILES + "moco-v3/vit-b-300ep/linear-vit-b-300ep.pth.tar",
        ),
        PaperModel(
            "clip-b32",
            "vit_base_patch32_clip_quickgelu_224.openai",
            {BEYOND: "CLIP"},
            351,
            _MIT,
            classes=512,
        ),
        PaperModel(
            "beit-b",
            "beit_base_patch16_224.in22k_ft_in22k",
            {IAV: "BEiT"},
            410,
            _MIT,
            classes=21841,
            reads="patches",
        ),
        PaperModel(
            "vit-b-in21k",
            "vit_base_patch16_224.orig_in21k",
            {IAV: "ImageNet-21K"},
            343,
            _APACHE,
            classes=0,
        ),
    )
}
# True in all but depth and weights: what a rehearsal of a whole run can compute in minutes.
PAPER_MODELS |= {
    name + CUT: replace(
        PAPER_MODELS[name],
        name=name + CUT,
        papers={},
        weights_mb=0,
        options={"depth": 2},
        random=True,
    )
    for name in ("vit-b", "deit-s")
}


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
    size, own = model.image_size, {"mean": cfg["mean"], "std": cfg["std"]}
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
    options = dict(model.options)
    return ModelSpec(name, model.timm_name, model.image_size, how.mean, how.std, options)
