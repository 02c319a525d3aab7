"""Pictures on disk with ImageNet-1k labels: what every reader of a real data set gives.

A reader lists its set once, in a fixed order, and decodes nothing; a picture is opened when it
is asked for. Images are 8 bits a channel, normalised by the model's own spec.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from PIL import Image
from torch import Tensor
from torch.nn.functional import interpolate

from relevit.base.errors import one_line

Interpolation = Literal["bilinear", "bicubic"]
Mask = Bool[np.ndarray, "height width"]
OPENING = (OSError, ValueError, SyntaxError, Image.DecompressionBombError)  # Pillow's, all of them


class UnreadableImage(ValueError):
    """A picture that cannot be decoded; `place` is its number in the set."""

    def __init__(self, message: str, place: int) -> None:
        super().__init__(message)
        self.place = place


@dataclass(frozen=True)
class View:
    """How a picture becomes a square: resized, then its middle cut out.

    Source: RobustViT's published code, 256 -> 224 bilinear (differences B5); timm's models say
    their own. `squash` resizes both sides to `resize`, so that the aspect changes (B4).
    """

    resize: int = 256  # pixels of the shorter side
    crop: int = 224  # pixels
    interpolation: Interpolation = "bilinear"
    squash: bool = False

    def picture(self, image: Image.Image) -> UInt8[Tensor, "3 crop crop"]:
        """The square of a picture in any mode; grey and CMYK ones become RGB."""
        how = Image.Resampling[self.interpolation.upper()]
        square = self._cut(image.convert("RGB"), how)
        return torch.from_numpy(np.array(square)).permute(2, 0, 1)

    def mask(self, mask: Mask) -> Float[Tensor, "1 crop crop"]:
        """The same square of a mask: how much of each pixel is object."""
        grey = Image.fromarray(mask.astype(np.float32), mode="F")
        square = self._cut(grey, Image.Resampling.BILINEAR)
        return torch.from_numpy(np.array(square))[None].clamp(0, 1)

    def soft_mask(self, mask: Mask) -> Float[Tensor, "1 crop crop"]:
        """The same square of a mask as the published code has it: fractions along its edge (A7).

        Bilinear without antialiasing, as tensors were resized by the torchvision that it asks for:
        no more pixels are fractions than that makes so.
        """
        width, height = self._size(mask.shape[1], mask.shape[0])
        values = torch.from_numpy(mask.astype(np.float32))[None, None]
        resized = interpolate(values, (height, width), mode="bilinear", antialias=False)[0]
        left, top = self._corner(width, height)
        return resized[:, top : top + self.crop, left : left + self.crop].clamp(0, 1)

    def _cut(self, image: Image.Image, how: Image.Resampling) -> Image.Image:
        size = self._size(*image.size)
        left, top = self._corner(*size)
        return image.resize(size, how).crop((left, top, left + self.crop, top + self.crop))

    def _size(self, width: int, height: int) -> tuple[int, int]:
        if self.squash:
            return self.resize, self.resize
        scale = self.resize / min(width, height)
        # torchvision's rounding: the longer side is cut down to whole pixels.
        return max(self.resize, int(width * scale)), max(self.resize, int(height * scale))

    def _corner(self, width: int, height: int) -> tuple[int, int]:
        return round((width - self.crop) / 2), round((height - self.crop) / 2)


@dataclass(frozen=True)
class ImageSet:
    """A real data set: labels at once, pictures when they are asked for.

    `ids` are names for people and files, relative to the set's folder. `accepted` gives, for a
    label, all indices that count as right (ObjectNet, merged classes); a label without an entry
    accepts itself. `candidates` are the classes among which the answer is sought; none: all
    1,000. `masks` opens the object mask of a picture, in the picture's own size.
    """

    name: str
    ids: tuple[str, ...]
    labels: Int[Tensor, " images"]  # ImageNet-1k
    open: Callable[[int], Image.Image]
    view: View = field(default_factory=View)
    accepted: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    candidates: tuple[int, ...] = ()
    masks: Callable[[int], Mask] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, place: int) -> UInt8[Tensor, "3 size size"]:
        """One picture, cut to the view. Raises: UnreadableImage naming set, file and remedy."""
        try:
            with self.open(place) as image:
                return self.view.picture(image)
        except OPENING as error:
            raise UnreadableImage(
                f"{self.name}: {self.ids[place]} cannot be read ({one_line(error)}); unpack it "
                "again, or give corrupted='skip' to leave such pictures out and count them",
                place,
            ) from error

    def mask(self, place: int, *, soft: bool = False) -> Float[Tensor, "1 size size"]:
        """The object's mask, cut to the view; `soft` as `View.soft_mask`.

        Raises: ValueError for a set without masks.
        """
        if self.masks is None:
            raise ValueError(f"{self.name}: has no masks; use imagenet_s or gtsegs")
        try:
            cut = self.view.soft_mask if soft else self.view.mask
            return cut(self.masks(place))
        except OPENING as error:
            raise UnreadableImage(
                f"{self.name}: the mask of {self.ids[place]} cannot be read ({one_line(error)}); "
                "unpack it again",
                place,
            ) from error

    def select(self, places: Sequence[int]) -> ImageSet:
        """The pictures at these places, in this order, as a set of their own."""
        places = [int(place) for place in places]
        masks = self.masks
        return replace(
            self,
            ids=tuple(self.ids[place] for place in places),
            labels=self.labels[places],
            open=lambda place: self.open(places[place]),
            masks=None if masks is None else lambda place: masks(places[place]),
        )

    def right(self, predictions: Int[Tensor, " images"]) -> Bool[Tensor, " images"]:
        """Which predictions (ImageNet-1k) are right, several indices a label allowed."""
        pairs = zip(self.labels.tolist(), predictions.tolist(), strict=True)
        return torch.tensor([guess in self.accepted.get(label, (label,)) for label, guess in pairs])
