"""Images together with what is known about them: what models are trained and tested on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

TENSORS = ("images", "masks", "labels", "families", "props")


@dataclass(frozen=True)
class Batch:
    """Images with what is known about them.

    `accepted` and `candidates` are those of `data.real.image_set.ImageSet`; empty, as for
    Cutouts, each label accepts itself alone, and the answer is sought among all classes.
    """

    images: UInt8[Tensor, "batch 3 size size"]
    # True on the object: its alpha is above one half. Of photographs to train on, the object's
    # share of each pixel where that is asked for (differences A7).
    masks: Bool[Tensor, "batch 1 size size"] | Float[Tensor, "batch 1 size size"]
    labels: Int[Tensor, " batch"]
    families: Int[Tensor, " batch"]  # background, index into textures.FAMILIES; -1: none of them
    accepted: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    candidates: tuple[int, ...] = ()
    # True on things that go with the class and are not it, where the object does not cover them.
    props: Bool[Tensor, "batch 1 size size"] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, keep: Tensor | Sequence[int]) -> Batch:
        """The images at these places, in this order, or those where a mask is True."""
        keep = torch.as_tensor(keep)
        return replace(self, **{name: found[keep] for name, found in self._tensors().items()})

    def _tensors(self) -> dict[str, Tensor]:
        found = {name: getattr(self, name) for name in TENSORS}
        return {name: tensor for name, tensor in found.items() if tensor is not None}

    def split(self, size: int) -> Iterator[Batch]:
        """Parts of at most `size` images, in order."""
        for start in range(0, len(self), size):
            yield self.select(range(start, min(start + size, len(self))))


def join(parts: Sequence[Batch]) -> Batch:
    """One batch out of several, in order.

    Raises: ValueError when they differ in the accepted answers or the candidates.
    """
    first = parts[0]
    for part in parts:
        if (part.accepted, part.candidates) != (first.accepted, first.candidates):
            raise ValueError(
                "batch: parts with other accepted answers or candidates cannot be one batch; "
                "join parts of one set alone"
            )
    joined = {name: torch.cat([getattr(part, name) for part in parts]) for name in first._tensors()}
    return replace(first, **joined)
