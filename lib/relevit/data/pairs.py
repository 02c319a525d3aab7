"""Images with two objects of different classes, whose masks are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int, UInt8
from torch import Tensor

from relevit.data import cutouts
from relevit.data.batch import Batch
from relevit.data.foregrounds import CLASSES

APART = 4  # pixels that must lie between the two objects' boxes
PART = 100  # images drawn at once; even, as two make a pair


@dataclass(frozen=True)
class Pairs:
    """Images with two objects; masks and labels of the first and of the second."""

    images: UInt8[Tensor, "pairs 3 size size"]
    masks: Bool[Tensor, "pairs 2 size size"]
    labels: Int[Tensor, "pairs 2"]

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, rows: Tensor | Sequence[int]) -> Pairs:
        """The pairs of these rows, in their order."""
        rows = torch.as_tensor(rows)
        return Pairs(self.images[rows], self.masks[rows], self.labels[rows])


def draw_pairs(count: int, *, seed: int = 0, size: int = 112) -> Pairs:
    """Images of the kind `si_location` with a second object of another class pasted in.

    The second comes from another image of that kind, where it does not overlap the first.
    Look-alikes (classes 2k and 2k + 1) are not paired. Same arguments, same bytes.
    Raises: ValueError for a count below 1.
    """
    if count < 1:
        raise ValueError(f"draw_pairs: {count} pairs asked for; give at least 1")
    random = np.random.default_rng([seed, 2])
    pairs: list[tuple[Tensor, Tensor, Tensor]] = []
    drawn = 0
    while len(pairs) < count:
        wanted = [int(x) for x in random.integers(len(CLASSES), size=2 * count)]
        for start in range(0, len(wanted), PART):
            part = wanted[start : start + PART]
            indices = range(drawn, drawn + len(part))
            pool = cutouts.draw("si_location", indices, labels=part, seed=seed + 1, size=size)
            pairs += _pasted(pool)
            drawn += len(part)
            if len(pairs) >= count:
                break
    return Pairs(*(torch.stack(parts) for parts in zip(*pairs[:count], strict=True)))


def _pasted(pool: Batch) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Image, masks and labels of each two images of the pool that make a pair."""
    made = []
    for first in range(0, len(pool) - 1, 2):
        second = first + 1
        alike = pool.labels[first] // 2 == pool.labels[second] // 2
        if alike or not _apart(pool.masks[first, 0], pool.masks[second, 0]):
            continue
        mask = pool.masks[second]
        image = torch.where(mask, pool.images[second], pool.images[first])
        made.append((image, torch.cat([pool.masks[first], mask]), pool.labels[[first, second]]))
    return made


def _apart(a: Bool[Tensor, "size size"], b: Bool[Tensor, "size size"]) -> bool:
    boxes = [(m.any(1).nonzero(), m.any(0).nonzero()) for m in (a, b)]
    gaps = [
        max(int(boxes[i][axis].min()) - int(boxes[1 - i][axis].max()) for i in (0, 1))
        for axis in (0, 1)
    ]
    return max(gaps) > APART
