"""Blur and jigsaw against closed forms."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter

from habitats.corruptions import blur, jigsaw


def drawn(batch=4, height=16, width=16, seed=0):
    random = torch.Generator().manual_seed(seed)
    size = (batch, 3, height, width)
    return torch.randint(0, 256, size, generator=random, dtype=torch.uint8)


def numbered(batch, grid):
    """Pictures of numbered tiles, each of 2 x 2 pixels."""
    numbers = torch.arange(grid**2, dtype=torch.uint8).reshape(1, 1, grid, grid)
    tiles = numbers.repeat_interleave(2, 2).repeat_interleave(2, 3)
    return tiles.expand(batch, 3, -1, -1).clone()


@pytest.mark.parametrize(
    ("sigma_px", "height", "width"),
    [(0.5, 20, 31), (1.0, 20, 31), (3.0, 20, 31), (8.0, 3, 40), (20.0, 3, 40)],
)
def test_blur_is_a_gaussian_mirrored_at_the_border(sigma_px, height, width):
    """Its kernel ends at the far border of a small picture."""
    images = drawn(height=height, width=width)
    radius = [min(math.ceil(4 * sigma_px), side - 1) for side in (height, width)]
    expected = gaussian_filter(
        images.double().numpy(), sigma_px, mode="mirror", radius=radius, axes=(2, 3)
    )
    found = blur(images, sigma_px)
    assert found.dtype == torch.uint8
    # What is left is rounding to bytes.
    assert np.abs(found.double().numpy() - expected).max() < 0.501


@pytest.mark.parametrize("grid", [2, 4, 8])
@pytest.mark.parametrize("swaps", [1, 5])
def test_tiles_stay_whole_and_each_occurs_once(grid, swaps):
    found = jigsaw(numbered(20, grid), grid, swaps)
    places = found[:, 0, ::2, ::2].flatten(1)
    assert torch.equal(places.sort(dim=1).values, torch.arange(grid**2).expand(20, -1).byte())
    whole = places.reshape(20, 1, grid, grid).repeat_interleave(2, 2).repeat_interleave(2, 3)
    assert torch.equal(found, whole.expand(-1, 3, -1, -1))


def test_each_swap_exchanges_two_tiles_after_those_before():
    cut = [jigsaw(numbered(50, 4), 4, swaps) for swaps in range(6)]
    steps = [images[:, 0, ::2, ::2].flatten(1) for images in cut]
    assert torch.equal(steps[0], torch.arange(16).expand(50, -1).byte())
    for before, after in pairwise(steps):
        assert ((before != after).sum(dim=1) == 2).all()


def test_an_image_depends_on_its_number_and_the_seed_alone():
    images = drawn(6)
    whole = jigsaw(images, 4, 3, seed=5)
    parts = [
        jigsaw(images[part], 4, 3, seed=5, first_index=int(part[0]))
        for part in torch.arange(6).split(4)
    ]
    assert torch.equal(torch.cat(parts), whole)
    alike = jigsaw(images[:1].expand(6, -1, -1, -1), 4, 3, seed=5)
    assert len({image.numpy().tobytes() for image in alike}) == 6
    assert not torch.equal(jigsaw(images, 4, 3, seed=6), whole)
