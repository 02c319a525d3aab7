"""Model names of the suite and what belongs to each: architecture, weights, pixel statistics."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import get_args

import timm
import torch
from timm.layers import resample_abs_pos_embed
from torch import Tensor, nn

from relevit.base.device import choose_device
from relevit.base.seeding import seeded
from relevit.config.words import DINOV2, KINDS, SHIPPED, MiniName
from relevit.models.checkpoints import load_weights, need_sound, read_tensors
from relevit.models.dinov2 import load_dinov2
from relevit.models.paper_models import load_paper_model
from relevit.models.registry import PAPER_MODELS, paper_spec
from relevit.models.spec import HALF, IMAGENET, ModelSpec

_TINY = {"patch_size": 14, "embed_dim": 128, "depth": 6, "num_heads": 4}
# As deep as the IAV paper's models, so that its layers L1 to L12 are ours.
_MINI = {"patch_size": 14, "embed_dim": 64, "depth": 12, "num_heads": 4}
# Four pretrainings of one architecture (`tools/pretraining`), by kind.
MINI_KINDS = {name: KINDS[name] for name in get_args(MiniName)}

MODELS = {
    spec.name: spec
    for spec in (
        ModelSpec("dinov2-s", "vit_small_patch14_dinov2", 112, **IMAGENET),
        # Its first eight blocks, for the quick preset.
        ModelSpec("dinov2-s8", "vit_small_patch14_dinov2", 112, **IMAGENET, options={"depth": 8}),
        ModelSpec("tiny", "vit_tiny_patch16_224", 112, **HALF, options=_TINY),
        # Pretrained without labels and pooled like the papers' MAE.
        ModelSpec(
            "tiny-mae", "vit_tiny_patch16_224", 112, **HALF, options=_TINY | {"global_pool": "avg"}
        ),
        *(
            ModelSpec(name, "vit_tiny_patch16_224", 112, **HALF, options=_MINI)
            for name in MINI_KINDS
        ),
    )
}


def model_spec(name: str) -> ModelSpec:
    """Look a model up by name; the papers' as their code prepares pictures (differences B5).

    Raises: ValueError that lists the names.
    """
    if name in PAPER_MODELS:
        return paper_spec(name)
    if name not in MODELS:
        known = [*sorted(MODELS), *sorted(PAPER_MODELS)]
        raise ValueError(
            f"models: {name!r} is unknown; use one of {known}, or for any ViT of timm's "
            "timm.create_model or relevit.models.any_timm.open_model"
        )
    return MODELS[name]


def build_model(
    name: str, seed: int = 0, classes: int | None = None, image_size: int | None = None
) -> nn.Module:
    """The architecture with random weights drawn from `seed`; torch's own seed is left alone.

    `classes`: none for those of Cutouts, or of a paper's model. `image_size` in pixels: none for
    that of the spec, which a paper's model always has. Its `pretrained_cfg` gives the
    mean and std of the spec, from which others know black.
    """
    if name in PAPER_MODELS:
        return load_paper_model(name, classes=classes, random=True, seed=seed)
    spec = model_spec(name)
    with seeded(seed):
        model = timm.create_model(
            spec.timm_name,
            num_classes=spec.classes if classes is None else classes,
            img_size=image_size or spec.image_size,
            **spec.options,
        )
    model.pretrained_cfg.update(mean=spec.mean, std=spec.std)
    return model


def load_pretrained(
    name: str,
    seed: int = 0,
    classes: int | None = None,
    backbone: Path | str | None = None,
    *,
    image_size: int | None = None,
) -> nn.Module:
    """The model before it has learned the classes: a pretrained backbone under a new head.

    `dinov2-s` starts from DINOv2 with its position embedding resampled to the image size,
    `dinov2-s8` from its first eight blocks and its last norm, the
    `mini` models from the pretraining that comes with the suite; `tiny` has none and starts at
    random. `backbone` is another pretraining of a `mini` model (`save_backbone`).
    `image_size` as in `build_model`, for the DINOv2 models alone.
    Raises: ValueError for an unknown name, for `tiny-mae`, whose pretraining is not shipped, and
    for models of the papers.
    """
    if name in PAPER_MODELS:
        raise ValueError(f"models: {name!r} comes trained with its head; use load_model")
    model = build_model(name, seed, classes, image_size)
    if name == "tiny-mae":
        raise ValueError(
            "models: only the trained 'tiny-mae' comes with the package, not its pretraining; "
            "use source='shipped', or do both with tools/train_shipped.py tiny-mae"
        )
    if name in DINOV2:
        there = model.state_dict()
        tensors = {key: value for key, value in load_dinov2().items() if key in there}
        tensors["pos_embed"] = resample_abs_pos_embed(
            tensors["pos_embed"], list(model.patch_embed.grid_size)
        )
        load_backbone(model, tensors, name)
    if name in MINI_KINDS:
        path = backbone or shipped_weights(f"{name}-pretrained")
        load_backbone(model, read_tensors(path)[0], name)
    return model


def load_backbone(model: nn.Module, tensors: dict[str, Tensor], name: str) -> None:
    """Fill all of `model` but its head. Raises: ValueError for tensors that do not fit."""
    state, given = model.state_dict(), f"models: the tensors of {name!r}"
    odd = sorted(state.keys() ^ tensors.keys() ^ {"head.weight", "head.bias"})
    if odd:
        raise ValueError(f"{given} do not fit timm's model: {odd[0]!r} and {len(odd) - 1} more")
    try:
        need_sound(tensors, state)
        model.load_state_dict(tensors, strict=False)
    except ValueError as error:
        raise ValueError(f"{given} hold {error}") from None
    except RuntimeError as error:  # another size
        size = str(error).splitlines()[-1].strip()
        raise ValueError(f"{given} do not fit timm's model: {size}") from error


def shipped_weights(name: str, data: str = "cutouts") -> Path:
    """Path of the weights that come with the package, trained on the images called `data`.

    Raises: ValueError when there are none.
    """
    folder = Path(str(files("relevit") / "assets" / "weights"))
    path = (folder if data == "cutouts" else folder / data) / f"{name}.safetensors"
    if not path.is_file():
        raise ValueError(
            f"models: no weights of {name!r} for {data} come with the package; "
            "train it with the 00_original notebook"
        )
    return path


def load_model(
    name: str, weights: Path | str | None = None, device: torch.device | str = "cpu"
) -> nn.Module:
    """A model of the embedded benchmark, or one of the papers', in eval mode on `device`.

    `weights` is a file written by the suite; without it, the shipped weights are used, those of
    Cutouts where there are such, or of a paper's model the published ones.
    Raises: ValueError for an unknown name or a file that does not fit, FileNotFoundError; without
    `weights` further as `load_paper_model`; as `choose_device`.
    """
    device = choose_device(device) if isinstance(device, str) else device
    if weights is None and name in PAPER_MODELS:
        return load_paper_model(name).to(device)
    model = build_model(name)
    data = next((data for data, names in SHIPPED.items() if name in names), "cutouts")
    load_weights(weights or shipped_weights(name, data), model, name)
    return model.eval().to(device)
