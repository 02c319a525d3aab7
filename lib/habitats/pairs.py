"""Images with two objects of different classes, whose masks are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torchvision.ops import masks_to_boxes

from habitats.cutouts import CUTOUTS
from relevit.data.batch import Batch, join

APART = 4  # pixels that must lie between the two objects' boxes
PART = 100  # images drawn at once; even, as two make a pair


def draw_pairs(count: int, *, seed: int = 0, size: int = 112) -> Batch:
    """Images of the kind `si_location` with a second object of another class pasted in.

    The second comes from another image of that kind, where it does not overlap the first.
    Look-alikes (classes 2k and 2k + 1) are not paired. Each has two masks and two labels, of the
    first object and of the second. Same arguments, same bytes.
    """
    random = np.random.default_rng([seed, 2])
    pairs: list[Batch] = []
    drawn = 0
    while len(pairs) < count:
        wanted = random.integers(len(CUTOUTS.classes), size=2 * count).tolist()
        for start in range(0, len(wanted), PART):
            part = wanted[start : start + PART]
            indices = range(drawn, drawn + len(part))
            pool = CUTOUTS.draw("si_location", indices, labels=part, seed=seed + 1, size=size)
            pairs += [_pasted(two) for two in pool.split(2) if _fit(two)]
            drawn += len(part)
            if len(pairs) >= count:
                break
    return join(pairs[:count])


def _pasted(two: Batch) -> Batch:
    """The first of two images with the object of the second pasted in."""
    first, second = two.select([0]), two.select([1])
    images = torch.where(second.masks, second.images, first.images)
    masks = torch.cat([first.masks, second.masks], dim=1)
    return replace(first, images=images, masks=masks, labels=two.labels[None])


def _fit(two: Batch) -> bool:
    first, second = masks_to_boxes(two.masks[:, 0])  # left, top, right, bottom
    gaps = torch.cat([first[:2] - second[2:], second[:2] - first[2:]])
    return bool((two.labels[0] // 2 != two.labels[1] // 2) & (gaps.max() > APART))
