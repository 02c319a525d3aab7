"""What classifiers lose on blurred and cut pictures, on models whose answers are known."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from habitats.corruptions import jigsaw
from relevit.models.spec import ModelSpec
from reproduction.measures import corruptions
from reproduction.measures.corruptions import shift_table

SPEC = ModelSpec("stub", "none", 16, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))


def drawn(batch):
    random = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (batch, 3, 16, 16), generator=random, dtype=torch.uint8)


class Quarters(nn.Module):
    """The class is the brightest quarter; the first two quarters alone when there are two."""

    def __init__(self, classes=4):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.classes = classes
        self.patch_embed = SimpleNamespace(grid_size=(4, 4))

    def forward(self, images):
        quarters = nn.functional.adaptive_avg_pool2d(images.mean(dim=1, keepdim=True), 2)
        return (quarters.flatten(1) * self.weight)[:, : self.classes]


def bright_quarters(batch=40):
    """Dim images, each with one bright quarter, and its number."""
    labels = torch.arange(batch) % 4
    images = drawn(batch) // 8
    for image, label in zip(images, labels.tolist(), strict=True):
        top, left = 8 * (label // 2), 8 * (label % 2)
        image[:, top : top + 8, left : left + 8] += 150
    return images, labels


@pytest.mark.parametrize("batch", [7, 50])
def test_accuracy_is_that_of_the_corrupted_images(monkeypatch, batch):
    monkeypatch.setattr(corruptions, "BATCH", batch)
    images, labels = bright_quarters()
    levels = {"blur": [1.0], "jigsaw": [1, 2], "patch_jigsaw": [8]}
    table = shift_table(Quarters(), SPEC, images, labels, levels, seed=3)
    changed = [jigsaw(images, grid, swaps, seed=3) for grid, swaps in ((2, 1), (2, 2), (4, 8))]
    answers = [Quarters()(SPEC.normalise(x)).argmax(dim=1) for x in changed]
    expected = [100 * float((found == labels).double().mean()) for found in answers]
    assert table["top1_pct"].tolist() == pytest.approx([100, 100, *expected])
    assert max(expected) < 80
