"""Labelled pictures that are read when they are asked for, whatever they are stored as."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int, UInt8
from PIL import Image
from torch import Tensor

from relevit.models.spec import as_rgb

RESIZED = 256 / 224  # of the side that is kept
Read = Callable[[Sequence[int]], UInt8[Tensor, "batch 3 size size"]]


@dataclass(frozen=True)
class Labelled:
    """A set of pictures with one label each; `read` gives the pictures at the given places."""

    name: str
    classes: tuple[str, ...]
    labels: Int[Tensor, " images"]
    read: Read

    def __len__(self) -> int:
        return len(self.labels)

    def batches(self, size: int) -> Iterator[UInt8[Tensor, "batch 3 side side"]]:
        """All pictures in order, at most `size` at a time."""
        for start in range(0, len(self), size):
            yield self.read(range(start, min(start + size, len(self))))

    def kept(self) -> Labelled:
        """The same pictures, read now and kept in memory."""
        images = self.read(range(len(self)))
        return replace(self, read=lambda wanted: images[list(wanted)])

    def sample(self, count: int, seed: int) -> Labelled:
        """`count` pictures in a random order, each once; all of them when there are fewer.

        Raises: ValueError for a count below 1.
        """
        if count < 1:
            raise ValueError(f"{self.name}: a sample of {count} images; ask for at least 1")
        places = np.random.default_rng(seed).permutation(len(self))[:count]
        labels = self.labels[torch.from_numpy(places)]
        return Labelled(
            self.name, self.classes, labels, lambda wanted: self.read(places[list(wanted)].tolist())
        )


def to_square(picture: Image.Image, size: int) -> UInt8[Tensor, "3 size size"]:
    """The middle of a picture as RGB, `size` pixels a side, after resizing (bicubic).

    As for ImageNet at 224 px: the shorter side to 256/224 of the wanted one, then the middle (the
    papers are silent on this for other sets).
    """
    picture = as_rgb(picture)
    scale = RESIZED * size / min(picture.size)
    width, height = (max(size, round(side * scale)) for side in picture.size)
    picture = picture.resize((width, height), Image.Resampling.BICUBIC)
    left, top = (width - size) // 2, (height - size) // 2
    square = picture.crop((left, top, left + size, top + size))
    return torch.from_numpy(np.array(square)).permute(2, 0, 1)
