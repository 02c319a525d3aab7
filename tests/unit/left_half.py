"""A model that answers by what is left of an image's left half, and runs with it."""

from __future__ import annotations

import torch
from torch import nn

from relevit.evaluate.perturbation import Erasing, Judged, perturbation_rows

GRID, SIDE = 4, 8


class Seen(nn.Module):
    """Class 0 while the mean of the left half is above a half, else class 1; keeps its inputs."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0]))
        self.inputs = []

    def __deepcopy__(self, memo):
        copied = Seen()
        copied.inputs = self.inputs
        return copied.train(self.training)

    def forward(self, images):
        self.inputs.append((images, self.training))
        left = images[..., : SIDE // 2].mean(dim=(1, 2, 3)) * self.weight
        return torch.stack([left, torch.full_like(left, 0.5), left - 7], dim=1)

    def seen(self):
        return torch.cat([images for images, _ in self.inputs])


def plain(images):
    return images


def white(batch=1):
    return torch.ones(batch, 3, SIDE, SIDE)


def left_first(batch=1):
    """Patch maps whose relevance falls from column to column."""
    columns = torch.arange(GRID, 0, -1).float()
    ramp = columns.expand(GRID, GRID) + torch.arange(GRID)[:, None] / 100
    return ramp.reshape(1, -1).repeat(batch, 1)


def drawn(batch=5, seed=0):
    random = torch.Generator().manual_seed(seed)
    return (
        torch.rand(batch, 3, SIDE, SIDE, generator=random) + 0.3,
        torch.rand(batch, GRID * GRID, generator=random),
        torch.randint(0, 3, (batch,), generator=random),
    )


def run(model, images, maps, labels=None, *, explained=None, normalise=plain, **options):
    """One batch; `options` are those of the test and of what is erased."""
    how = {name: options.pop(name) for name in ("precision", "chunk") if name in options}
    labels = torch.zeros(len(images), dtype=torch.long) if labels is None else labels
    batch = Judged(images, maps, labels, explained)
    grid = (GRID, GRID) if maps.ndim == 4 or maps.shape[1] == GRID**2 else (7, 7)
    return perturbation_rows(model, normalise, [batch], grid, Erasing(**options), **how)
