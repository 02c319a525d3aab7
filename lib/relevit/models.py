"""Model names of the suite and what belongs to each: architecture, weights, pixel statistics."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import timm
import torch
from jaxtyping import Float, UInt8
from timm.layers import resample_abs_pos_embed
from torch import Tensor, nn

from relevit.checkpoints import load_weights, read_tensors
from relevit.config.base import MiniName
from relevit.config.iav import KINDS
from relevit.data.foregrounds import CLASSES
from relevit.dinov2 import load_dinov2


@dataclass(frozen=True)
class ModelSpec:
    """One model of the embedded benchmark."""

    name: str
    timm_name: str
    image_size: int  # pixels
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    options: dict[str, Any] = field(default_factory=dict)

    def normalise(
        self, images: UInt8[Tensor, "batch 3 height width"], like: Tensor | None = None
    ) -> Float[Tensor, "batch 3 height width"]:
        """Scale 0..255 to the statistics the model was trained with.

        Device and dtype are those of `like`; without it, the images' device and float32.
        """
        device, dtype = (
            (images.device, torch.float32) if like is None else (like.device, like.dtype)
        )
        mean, std = (torch.tensor(v, device=device).view(3, 1, 1) for v in (self.mean, self.std))
        return ((images.to(device).float() / 255 - mean) / std).to(dtype)

    def denormalise(self, images: Float[Tensor, "batch 3 height width"]) -> Tensor:
        """Back to [0, 1], for pictures."""
        mean, std = (torch.tensor(v).view(3, 1, 1) for v in (self.mean, self.std))
        return (images.float().cpu() * std + mean).clamp(0, 1)


IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
HALF = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}
_TINY = {"patch_size": 14, "embed_dim": 128, "depth": 6, "num_heads": 4}
# As deep as the IAV paper's models, so that its layers L1 to L12 are ours.
_MINI = {"patch_size": 14, "embed_dim": 64, "depth": 12, "num_heads": 4}
# Four pretrainings of one architecture (`relevit.pretraining`), by kind.
MINI_KINDS = {name: KINDS[name] for name in get_args(MiniName)}

MODELS = {
    spec.name: spec
    for spec in (
        ModelSpec("dinov2-s", "vit_small_patch14_dinov2", 112, **IMAGENET),
        ModelSpec("tiny", "vit_tiny_patch16_224", 112, **HALF, options=_TINY),
        # Pretrained without labels and pooled like the papers' MAE.
        ModelSpec(
            "tiny-mae",
            "vit_tiny_patch16_224",
            112,
            **HALF,
            options=_TINY | {"global_pool": "avg"},
        ),
        *(ModelSpec(name, "vit_tiny_patch16_224", 112, **HALF, options=_MINI)
          for name in MINI_KINDS),
    )
}  # fmt: skip


def model_spec(name: str) -> ModelSpec:
    """Look a model up by name. Raises: ValueError that lists the names."""
    if name not in MODELS:
        raise ValueError(f"models: {name!r} is unknown; use one of {sorted(MODELS)}")
    return MODELS[name]


def build_model(name: str, seed: int = 0, classes: int = len(CLASSES)) -> nn.Module:
    """The architecture with random weights drawn from `seed`; torch's own seed is left alone.

    Its `pretrained_cfg` gives the mean and std of the spec, from which others know black.
    """
    spec = model_spec(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = timm.create_model(
            spec.timm_name,
            num_classes=classes,
            img_size=spec.image_size,
            **spec.options,
        )
    model.pretrained_cfg.update(mean=spec.mean, std=spec.std)
    return model


def load_pretrained(
    name: str, seed: int = 0, classes: int = len(CLASSES), backbone: Path | None = None
) -> nn.Module:
    """The model before it has seen Cutouts: a pretrained backbone under a new head.

    `dinov2-s` starts from DINOv2 with its position embedding resampled to the image size, the
    `mini` models from the pretraining that comes with the suite; `tiny` has none and starts at
    random. `backbone` is another pretraining of a `mini` model (`pretraining.save_backbone`).
    Raises: ValueError for an unknown name and for `tiny-mae`, whose pretraining is not shipped.
    """
    model = build_model(name, seed, classes)
    if name == "tiny-mae":
        raise ValueError(
            "models: only the trained 'tiny-mae' comes with the package, not its pretraining; "
            "use source='shipped', or do both with tools/train_shipped.py tiny-mae"
        )
    if name == "dinov2-s":
        tensors = load_dinov2()
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
    try:
        missing = model.load_state_dict(tensors, strict=False)
    except RuntimeError as error:  # another size
        size = str(error).splitlines()[-1].strip()
        raise ValueError(
            f"models: the tensors of {name!r} do not fit timm's model: {size}"
        ) from error
    if missing.unexpected_keys or set(missing.missing_keys) != {"head.weight", "head.bias"}:
        raise ValueError(f"models: the tensors of {name!r} do not fit timm's model: {missing}")


def shipped_weights(name: str) -> Path:
    """Path of the weights that come with the package. Raises: ValueError when there are none."""
    path = Path(str(files("relevit") / "assets" / "weights" / f"{name}.safetensors"))
    if not path.is_file():
        raise ValueError(
            f"models: no weights of {name!r} come with the package; "
            "train it with the 00_original notebook"
        )
    return path


def load_model(
    name: str, weights: Path | None = None, device: torch.device | str = "cpu"
) -> nn.Module:
    """A model trained on Cutouts, in eval mode on `device`.

    `weights` is a file written by the suite; without it, the shipped weights are used.
    Raises: ValueError for an unknown name or a file that does not fit, FileNotFoundError.
    """
    model = build_model(name)
    load_weights(weights or shipped_weights(name), model, name)
    return model.eval().to(device)
