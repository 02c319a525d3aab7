"""What evaluation and training need to know of a model: architecture, image size, pixels."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor


@dataclass(frozen=True)
class ModelSpec:
    """One model, as the suite calls it."""

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
        mean, std = _statistics(self.mean, self.std, device)
        moved = images.to(device, non_blocking=device.type == "cuda")
        return ((moved.float() / 255 - mean) / std).to(dtype)

    def denormalise(self, images: Float[Tensor, "batch 3 height width"]) -> Tensor:
        """Back to [0, 1], for pictures."""
        mean, std = _statistics(self.mean, self.std, torch.device("cpu"))
        return (images.float().cpu() * std + mean).clamp(0, 1)


@lru_cache(maxsize=64)
def _statistics(
    mean: tuple[float, ...], std: tuple[float, ...], device: torch.device
) -> tuple[Float[Tensor, "3 1 1"], Float[Tensor, "3 1 1"]]:
    """Both on the device, moved there once: a copy for each batch would stop a GPU."""
    with torch.inference_mode(False):  # a later gradient may need them
        return tuple(torch.tensor(v, device=device).view(3, 1, 1) for v in (mean, std))


IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
HALF = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}
