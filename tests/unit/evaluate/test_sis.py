"""Sufficient subsets of a model with a sum as logit, whose answers follow by sorting."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from relevit.evaluate import sis
from relevit.evaluate.sis import confidence_of_subsets_pct, draw_targets, gradient_sis

SIZE = 4  # pixels a side of the images that are summed
VALUES = torch.tensor([3.0, -2.0, 0.5, 1.5, -0.1, 2.0, -3.0, 0.2])  # the others are zero


class Sum(nn.Module):
    """Two classes, the logits being half the sum of all pixels and its negative."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(0.5, dtype=torch.float64))

    def forward(self, images):
        total = self.gain * images.sum(dim=(1, 2, 3))
        return torch.stack([total, -total], dim=1)


@pytest.fixture
def picture():
    """One image whose three channels share each pixel's value equally."""
    flat = torch.zeros(SIZE * SIZE, dtype=torch.float64)
    flat[: len(VALUES)] = VALUES.double()
    return flat.view(1, 1, SIZE, SIZE).expand(-1, 3, -1, -1) / 3


def sigmoid_pct(value: float) -> float:
    return 100 / (1 + math.exp(-value))


# Closed forms


def test_path_is_the_sum_of_what_is_left_and_the_surest_subset_is_given(picture):
    """Where nothing suffices."""
    zero = torch.zeros(1, dtype=torch.long)
    subsets = gradient_sis(Sum().eval(), picture, zero, threshold_pct=99.99, per_step=1)
    counts = range(SIZE**2, 0, -1)
    left = torch.cat([VALUES, torch.zeros(SIZE**2 - len(VALUES))]).sort(descending=True).values
    expected = [sigmoid_pct(float(left[:k].sum())) for k in counts]
    assert subsets.path_pct[:, 0].tolist() == pytest.approx(expected)
    assert subsets.found.tolist() == [False] and subsets.mask.flatten()[:8][VALUES > 0].all()
    surest = sigmoid_pct(float(VALUES[VALUES > 0].sum()))
    assert subsets.confidence_pct.tolist() == pytest.approx([surest])


# Properties, on Vision Transformers


def test_what_decides_is_computed_in_full_precision(build_vit, images):
    """In mixed precision the path may differ, but not what is said about its subset."""
    model, target = build_vit().float(), torch.tensor([0, 1, 2])
    pixels = images.float()
    mixed = gradient_sis(model, pixels, target, threshold_pct=60, per_step=49, precision="bfloat16")
    assert mixed.path_pct.dtype == torch.float32
    again = confidence_of_subsets_pct(model, pixels, target, mixed.mask)
    torch.testing.assert_close(again, mixed.confidence_pct, atol=1e-3, rtol=0)
    assert torch.equal(mixed.found, again >= 60)
    assert mixed.found.any()


def test_doubtful_steps_are_decided_from_the_fewest_parts_on():
    """The last step looks sufficient and is not; the one before is. Row 1 has none at all."""
    path = torch.tensor([[10.0, 10.0], [95.0, 80.0], [93.0, 91.0], [90.5, 20.0]])
    exact = torch.tensor([[0.0, 10.0], [0.0, 80.0], [92.0, 89.0], [89.0, 0.0]])
    asked = []

    def look_up(rows, steps):
        asked.extend(zip(rows.tolist(), steps.tolist(), strict=True))
        return exact[steps, rows]

    decided = sis._decided(path, 90.0, look_up)
    best, found = sis._last_sufficient(decided, 90.0)
    assert best.tolist() == [2, 2] and found.tolist() == [True, False]
    assert decided[best, [0, 1]].tolist() == [92.0, 89.0]
    assert asked == [(0, 3), (1, 2), (0, 2)]
    assert path[3, 0] == 90.5, "the argument stays as it was"


# Pairs and rows


def test_pairs_ask_for_wrong_answers():
    labels = torch.arange(40) % 10
    for seed in range(20):
        images, targets = draw_targets(labels, 4, 5, seed)
        assert len(set(images)) == 4 and len(set(targets)) == 5
        assert not {int(labels[i]) for i in images} & set(targets)


# Errors


@pytest.mark.parametrize(
    ("images", "targets", "text"),
    [
        (41, 2, "41 images and 2 labels asked for; give at least one of each and at most the 40"),
        (0, 2, "0 images and 2 labels"),
        (4, 0, "4 images and 0 labels"),
        (4, 10, "10 labels asked for, but only [67] classes are not shown in the images"),
    ],
)
def test_errors_of_pairs(images, targets, text):
    with pytest.raises(ValueError, match=text):
        draw_targets(torch.arange(40) % 10, images, targets, 0)
