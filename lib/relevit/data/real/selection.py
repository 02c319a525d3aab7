"""Which classes of ImageNet-S are finetuned on, and which are kept for validation.

Source: RobustViT Sec. 4, "first 500 classes from ImageNet-S", 3 images each. The published code
takes them in the order in which the disk lists folders (B1), which no one else can repeat. Here
they are sorted, or drawn by a seed: both give the same choice on every machine. So are the images
of a class (`relevit.data.benchmark`).
"""

from __future__ import annotations

import numpy as np

from relevit.data.real.classes import IMAGENET_S_WNIDS, MERGED

TRAIN_CLASSES = 500
# 914: the published code skips all ten tags of the five merged pairs (B2).
CLASSES = tuple(wnid for wnid in IMAGENET_S_WNIDS if wnid not in MERGED.values())


def finetuning_classes(count: int = TRAIN_CLASSES, seed: int | None = None) -> tuple[str, ...]:
    """The wnids to finetune on, sorted: the first `count` of CLASSES, or a draw by `seed`.

    Sorted wnids begin with all 398 animals, so that the first 500 have every animal and the other
    414 have none. A disk's order has no such bias: a draw by seed is nearer to what the published
    code did, though never the same classes.
    Raises: ValueError for a count that leaves no class to finetune on or to validate with.
    """
    return _split(count, seed)[0]


def validation_classes(count: int = TRAIN_CLASSES, seed: int | None = None) -> tuple[str, ...]:
    """The wnids that `finetuning_classes` of the same arguments leaves: 414, an image each (B2)."""
    return _split(count, seed)[1]


def _split(count: int, seed: int | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if not 1 <= count < len(CLASSES):
        raise ValueError(
            f"finetuning_classes: {count} classes; ImageNet-S has {len(CLASSES)} without the "
            f"merged ones, and some are needed for validation: give 1 to {len(CLASSES) - 1}"
        )
    order = list(CLASSES)
    if seed is not None:
        order = np.random.default_rng(seed).permutation(order).tolist()
    return tuple(sorted(order[:count])), tuple(sorted(order[count:]))
