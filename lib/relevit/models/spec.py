"""What evaluation and training need to know of a model: architecture, classes, and how a picture
becomes what the model reads."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import timm
import torch
from jaxtyping import Bool, Float, UInt8
from PIL import Image
from torch import Tensor
from torchvision.transforms import InterpolationMode, functional

from relevit.choices.words import MORE_MODELS
from relevit.maps import patch_grid

Interpolation = Literal["bilinear", "bicubic"]
Mask = Bool[np.ndarray, "height width"]
IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
HALF = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}
LONGEST = 100  # times the shorter side: of a longer picture the middle alone is looked at
WHITES = (255, 1023, 4095, 16383, 65535)  # of greys of 8, 10, 12, 14 and 16 bits
DEEP_COLOURS = "16 bits a colour"  # in the `info` of an image of which Pillow keeps the upper 8
LIGHT = 64  # of 255: a colour that uses all of its 16 bits gets there


@dataclass(frozen=True)
class View:
    """How a picture becomes a square: resized, then its middle cut out.

    Source: RobustViT's published code, 256 -> 224 bilinear (differences B5); timm's models say
    their own. `squash` resizes both sides to `resize`, so that the aspect changes (B4).
    `mask_pixels` says how masks are resized: to shares of the object, cut at one half; to the
    nearest pixel (E4); or as the published code has them to train on, with fractions along their
    edge (A7).
    """

    resize: int = 256  # pixels of the shorter side
    crop: int = 224  # pixels
    interpolation: Interpolation = "bilinear"
    squash: bool = False
    # Not in the text of a view, by which answers are kept: these do not depend on masks.
    mask_pixels: Literal["bilinear", "nearest", "soft"] = field(default="bilinear", repr=False)

    @property
    def crop_pct(self) -> float:
        """timm's share that is cut out, from which it finds the same whole pixels again."""
        for digits in (2, 3, 4):
            share = round(self.crop / self.resize, digits)
            if math.floor(self.crop / share) == self.resize:
                return share
        return round(self.crop / (self.resize + 0.5), 6)

    @property
    def crop_mode(self) -> str:
        return "squash" if self.squash else "center"

    def picture(self, image: Image.Image) -> UInt8[Tensor, "3 crop crop"]:
        """The square of a picture in any mode, as RGB. Raises: as `as_rgb`."""
        square = self._cut(as_rgb(image), self.interpolation)
        return torch.from_numpy(np.array(square)).permute(2, 0, 1)

    def mask(self, mask: Mask) -> Bool[Tensor, "1 crop crop"] | Float[Tensor, "1 crop crop"]:
        """The same square of a mask."""
        grey = mask.astype(np.float32)
        if self.mask_pixels == "soft":
            # Without antialiasing, as tensors were resized by the torchvision of 2022: no more
            # pixels are fractions than that makes so.
            return self._cut(torch.from_numpy(grey)[None], "bilinear").clamp(0, 1)
        square = self._cut(Image.fromarray(grey, mode="F"), self.mask_pixels)
        return torch.from_numpy(np.array(square))[None] > 0.5

    def box(self, width: int, height: int) -> tuple[float, float, float, float]:
        """The part of a picture of this size that is seen: left, top, right, bottom, in pixels."""
        shorter = min(width, height)
        (left, right), (top, bottom) = (self._seen(side, shorter) for side in (width, height))
        return left, top, right, bottom

    def _seen(self, side: int, shorter: int) -> tuple[float, float]:
        out = self._left_out(side, shorter)
        kept = side - 2 * out
        resized = self.resize if self.squash else int(self.resize * kept / shorter)
        start = round((resized - self.crop) / 2)
        return out + start * kept / resized, out + (start + self.crop) * kept / resized

    def _left_out(self, side: int, shorter: int) -> int:
        """Pixels at both ends of a side that is far longer than the other."""
        return 0 if self.squash else max(0, (side - LONGEST * shorter) // 2)

    def _cut(self, picture: Image.Image | Tensor, how: str) -> Image.Image | Tensor:
        size = [self.resize] * (2 if self.squash else 1)
        # Of a line of one by 60,000 pixels, the whole enlarged would fill the memory.
        _, height, width = functional.get_dimensions(picture)
        top, left = (self._left_out(side, min(height, width)) for side in (height, width))
        if top or left:
            picture = functional.crop(picture, top, left, height - 2 * top, width - 2 * left)
        smooth = isinstance(picture, Image.Image)
        resized = functional.resize(picture, size, InterpolationMode(how), antialias=smooth)
        return functional.center_crop(resized, [self.crop])


def as_rgb(image: Image.Image) -> Image.Image:
    """A picture of any kind as RGB, 8 bits a channel.

    Greys of more than 8 bits are scaled by the smallest of `WHITES` that the picture has no number
    above: a camera of 12 bits fills a file of 16 to 4095 alone. Fractions are from 0 to 1. Pillow
    alone would cut all of them off at 255. What is transparent loses that, as by the loaders that
    models were trained with.
    Raises: ValueError for numbers outside of these ranges, and for colours of 16 bits that are
    nearly black when Pillow has dropped the lower 8.
    """
    if image.mode == "F":
        values = np.array(image)
        _need_range(values, 1, "fractions")
        grey = np.round(values * 255)
    elif is_deep(image):
        values = np.array(image).astype(np.int64)
        _need_range(values, WHITES[-1], "whole numbers")
        white = next(white for white in WHITES if values.max() <= white)
        grey = (values * 255 + white // 2) // white
    else:
        shown = image if image.mode == "RGB" else image.convert("RGB")  # no copy of a large one
        if DEEP_COLOURS in image.info:
            _need_light(shown)
        return shown
    return Image.fromarray(grey.astype(np.uint8)).convert("RGB")


def is_deep(image: Image.Image) -> bool:
    """Whether a picture has whole numbers of more than 8 bits, which have no range of their own."""
    return image.mode == "I" or image.mode.startswith("I;16")


def _need_light(shown: Image.Image) -> None:
    most = max(high for _, high in shown.getextrema())
    if most < LIGHT:
        raise ValueError(
            f"the picture has 16 bits a colour and is nearly black in the upper 8 (0 to {most} of "
            "255), which alone are read; save it in 8 bits a colour"
        )


def _need_range(values: np.ndarray, most: int, what: str) -> None:
    if not (values.min() >= 0 and values.max() <= most):  # NaN compares as neither
        raise ValueError(
            f"the picture has {what} from {values.min():g} to {values.max():g}; needed are 0 to "
            f"{most}: scale them, or save it in 8 bits"
        )


@dataclass(frozen=True)
class ModelSpec:
    """One model, as the suite calls it."""

    name: str
    timm_name: str
    image_size: int  # pixels
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    options: dict[str, Any] = field(default_factory=dict)
    classes: int = 0  # of its head, unless another number is asked for; 0: it has none
    view: View = field(default=View(), repr=False)  # of a picture that was not made for the model
    names: tuple[str, ...] = field(default=(), repr=False)  # of its classes, where they are known

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the patches of a picture, as timm's model has them."""
        size = {} if self.timm_name in MORE_MODELS else {"img_size": self.image_size}
        return _grid(self.timm_name, tuple((size | self.options).items()))

    def normalise(
        self, images: UInt8[Tensor, "batch 3 height width"], like: Tensor | None = None
    ) -> Float[Tensor, "batch 3 height width"]:
        """Scale 0..255 to the statistics the model was trained with.

        Device and dtype are those of `like`; without it, the images' device and float32.
        Raises: ValueError for fractions up to 1, which would turn black.
        """
        if images.is_floating_point() and 0 < images.max() <= 1:
            raise ValueError(
                f"normalise: pixels up to {float(images.max()):g} of {images.dtype}; give 0..255 "
                "of torch.uint8, of fractions (255 * images).round().byte()"
            )
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
def _grid(timm_name: str, options: tuple[tuple[str, Any], ...]) -> tuple[int, int]:
    how = dict(options)
    with torch.device("meta"):  # without any weights
        if timm_name in MORE_MODELS:
            network, spec = MORE_MODELS[timm_name](**how)
            size = spec.image_size
        else:
            network, size = timm.create_model(timm_name, **how), how["img_size"]
        return patch_grid(network, torch.empty(1, 3, size, size))


@lru_cache(maxsize=64)
def _statistics(
    mean: tuple[float, ...], std: tuple[float, ...], device: torch.device
) -> tuple[Float[Tensor, "3 1 1"], Float[Tensor, "3 1 1"]]:
    """Both on the device, moved there once: a copy for each batch would stop a GPU."""
    with torch.inference_mode(False):  # a later gradient may need them
        return tuple(torch.tensor(v, device=device).view(3, 1, 1) for v in (mean, std))
