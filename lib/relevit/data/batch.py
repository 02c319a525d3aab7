"""Pictures in memory, with what is known about them: what models are trained and tested on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

TENSORS = ("images", "masks", "labels", "families", "props", "opacity", "outlined")


@dataclass(frozen=True)
class Batch:
    """Pictures with what is known about them; of pairs (`habitats.pairs`), two masks and
    labels each.

    `accepted` gives, for a label, all classes that count as right (ObjectNet, merged classes); a
    label without an entry accepts itself alone. `candidates` are the classes among which the
    answer is sought; none: all.
    """

    images: UInt8[Tensor, "batch 3 height width"]
    # True on the object: its alpha is above one half. Of photographs to train on, the object's
    # share of each pixel where that is asked for (differences A7).
    masks: Bool[Tensor, "batch objects height width"] | Float[Tensor, "batch objects height width"]
    labels: Int[Tensor, " batch"] | Int[Tensor, "batch objects"]
    # Background, index into textures.FAMILIES; -1: none of them.
    families: Int[Tensor, " batch"] | None = None
    accepted: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    candidates: tuple[int, ...] = ()
    # True on things that go with the class and are not it, where the object does not cover them.
    props: Bool[Tensor, "batch 1 height width"] | None = None
    # With which the object is drawn: 1 hides nothing, 0 all.
    opacity: Float[Tensor, " batch"] | None = None
    # Which have a mask; None: all.
    outlined: Bool[Tensor, " batch"] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, keep: Tensor | Sequence[int]) -> Batch:
        """The images at these places, in this order, or those where a mask is True."""
        keep = torch.as_tensor(keep)
        return replace(self, **{name: found[keep] for name, found in self.tensors().items()})

    def tensors(self) -> dict[str, Tensor]:
        """Those that it has, by name."""
        found = {name: getattr(self, name) for name in TENSORS}
        return {name: tensor for name, tensor in found.items() if tensor is not None}

    def split(self, size: int) -> Iterator[Batch]:
        """Parts of at most `size` images, in order."""
        for start in range(0, len(self), size):
            yield self.select(range(start, min(start + size, len(self))))


def join(parts: Sequence[Batch]) -> Batch:
    """One batch out of parts of one set, in order."""
    names = parts[0].tensors()
    joined = {name: torch.cat([getattr(part, name) for part in parts]) for name in names}
    return replace(parts[0], **joined)
