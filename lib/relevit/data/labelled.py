"""Labelled pictures that are read when they are asked for, whatever they are stored as."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

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
