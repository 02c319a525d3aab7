"""The strong augmentation of DeiT (Touvron et al. 2021): mixup or CutMix, erasing, soft labels."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torchvision.transforms import v2

from relevit.base.seeding import seeded

SMOOTHING, MIXUP, CUTMIX, ERASING = 0.1, 0.8, 1.0, 0.25  # DeiT Tab. 9


def mix(
    images: Tensor, labels: Tensor, classes: int, rng: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Normalised images and soft labels [batch, classes], mixed about as DeiT mixes them.

    Source: Touvron et al. 2021, Tab. 9, without RandAugment, stochastic depth and repeated
    augmentation; erased are the mixed images, with zeros, where the published code erases before,
    with noise. torchvision draws from torch's own generator, which is left as it was.
    """
    with seeded(int(rng.integers(2**31)), images.device):
        choice = v2.RandomChoice(
            [
                v2.MixUp(alpha=MIXUP, num_classes=classes),
                v2.CutMix(alpha=CUTMIX, num_classes=classes),
            ]
        )
        images, soft = choice(images, labels)
        erase = v2.RandomErasing(p=ERASING)
        images = torch.stack([erase(image) for image in images])
    return images, soft * (1 - SMOOTHING) + SMOOTHING / classes
