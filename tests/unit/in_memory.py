"""Pictures in memory as a set, for tests that make their own."""

from __future__ import annotations

import torch
from torch import Tensor

from relevit.data.batch import Batch
from relevit.data.image_set import NO_FAMILY, ImageSet


def in_memory(name: str, classes: tuple[str, ...], labels: Tensor, images: Tensor) -> ImageSet:
    masks = torch.zeros(len(images), 1, *images.shape[2:], dtype=torch.bool)
    families = torch.full((len(images),), NO_FAMILY)
    return ImageSet(name, tuple(classes), labels, Batch(images, masks, labels, families).select)
