"""Views of images: boxes inside, contents by hand, colours as torchvision has them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torchvision.transforms.v2 import functional as colour

from relevit.training.crops import cut_out, draw_boxes, draw_colours, draw_views, recolour

LARGE, SMALL = (0.4, 1.0), (0.05, 0.4)


@pytest.fixture
def pictures():
    """Two images of 12 px, all of whose values differ from their neighbours'."""
    values = torch.randint(0, 256, (2, 3, 12, 12), generator=torch.Generator().manual_seed(3))
    return values.to(torch.uint8)


def whole(batch, count=1):
    return torch.tensor([0.0, 0.0, 1.0, 1.0]).expand(batch, count, 4)


def straight(batch, count=1):
    return torch.zeros(batch, count, dtype=torch.bool)


# Boxes


@pytest.mark.parametrize("areas", [LARGE, SMALL, (1.0, 1.0), (0.9, 1.0)])
def test_boxes_lie_inside_and_have_the_wanted_areas_and_ratios(areas):
    left, top, width, height = draw_boxes(np.random.default_rng(0), 5000, areas).unbind(dim=1)
    for first, size in ((left, width), (top, height)):
        assert (first >= 0).all() and (size > 0).all() and (first + size <= 1 + 1e-6).all()
    area, ratio = width * height, width / height
    assert areas[0] - 1e-6 <= area.min() and area.max() <= areas[1] + 1e-6
    assert ratio.max() <= 4 / 3 + 1e-5 and ratio.min() >= 3 / 4 - 1e-5
    assert float(area.mean()) == pytest.approx(sum(areas) / 2, abs=0.01)  # uniform


def test_boxes_are_anywhere_and_of_any_ratio():
    left, top, width, height = draw_boxes(np.random.default_rng(0), 5000, SMALL).unbind(dim=1)
    for first, size in ((left, width), (top, height)):
        place = first / (1 - size)  # uniform in 0..1
        assert float(place.mean()) == pytest.approx(0.5, abs=0.02)
        assert float(place.std()) == pytest.approx(math.sqrt(1 / 12), abs=0.02)
    ratio = (width / height).log() / math.log(4 / 3)  # uniform in -1..1
    assert float(ratio.mean()) == pytest.approx(0, abs=0.05)
    assert float(ratio.std()) == pytest.approx(math.sqrt(1 / 3), abs=0.03)


# Contents


def test_the_whole_box_is_the_image_and_its_mirror_image(pictures):
    same = cut_out(pictures, whole(2), straight(2), 12)
    torch.testing.assert_close(same, pictures.float(), rtol=0, atol=1e-2)
    mirrored = cut_out(pictures, whole(2), ~straight(2), 12)
    torch.testing.assert_close(mirrored, pictures.float().flip(-1), rtol=0, atol=1e-2)


def test_a_box_of_whole_pixels_is_that_part_of_the_image(pictures):
    boxes = torch.tensor([[[3, 1, 6, 6]], [[0, 6, 6, 6]]]) / 12  # left, top, width, height
    parts = cut_out(pictures, boxes, torch.tensor([[False], [True]]), 6)
    expected = torch.stack([pictures[0, :, 1:7, 3:9], pictures[1, :, 6:, :6].flip(-1)]).float()
    torch.testing.assert_close(parts, expected, rtol=0, atol=1e-2)


def test_views_follow_one_another_image_by_image(pictures):
    boxes = torch.tensor([[0, 0, 6, 6], [6, 6, 6, 6], [2, 4, 6, 6]]) / 12
    boxes = boxes.expand(2, 3, 4)
    together = cut_out(pictures, boxes, straight(2, 3), 6)
    one_by_one = [cut_out(pictures, boxes[:, [i]], straight(2), 6) for i in range(3)]
    torch.testing.assert_close(together, torch.cat(one_by_one), rtol=0, atol=1e-2)


def test_nothing_comes_from_outside_the_box():
    """On a ramp each value tells its column."""
    ramp = torch.arange(0, 240, 2, dtype=torch.uint8).expand(1, 3, 120, 120)
    boxes = draw_boxes(np.random.default_rng(2), 200, SMALL)[None]
    views = cut_out(ramp, boxes, straight(1, 200), 14)
    left, _, width, _ = (240 * boxes[0]).unbind(dim=1)
    lowest, highest = views.amin(dim=(1, 2, 3)), views.amax(dim=(1, 2, 3))
    assert (lowest >= left - 1.01).all()  # a pixel's value is that of its left edge
    assert (highest <= left + width - 0.99).all()
    assert (highest - lowest > 0.8 * width).all()


# Colours


@pytest.mark.parametrize(
    ("factors", "adjust"),
    [
        ((1.3, 1.0, 1.0), lambda images: colour.adjust_brightness(images, 1.3)),
        ((1.0, 0.6, 1.0), lambda images: colour.adjust_contrast(images, 0.6)),
        ((1.0, 1.0, 0.8), lambda images: colour.adjust_saturation(images, 0.8)),
        ((1.0, 1.0, 0.0), lambda images: colour.rgb_to_grayscale(images, 3)),
        (
            (0.8, 1.2, 0.9),
            lambda images: colour.adjust_saturation(
                colour.adjust_contrast(colour.adjust_brightness(images, 0.8), 1.2), 0.9
            ),
        ),
        ((1.0, 1.0, 1.0), lambda images: images),
    ],
    ids=["brightness", "contrast", "saturation", "gray", "all", "none"],
)
def test_colours_are_those_of_torchvision(pictures, factors, adjust):
    pale = 80 + pictures.float() / 4  # so that nothing is cut off
    mine = recolour(pale, torch.tensor([factors, (1.0, 1.0, 1.0)]))
    torch.testing.assert_close(mine[:1], 255 * adjust(pale[:1] / 255), rtol=0, atol=0.1)
    torch.testing.assert_close(mine[1], pale[1], rtol=0, atol=1e-3)  # each image has its own


def test_colours_stay_within_their_range(pictures):
    assert recolour(pictures.float(), torch.tensor([[1.4, 1.4, 1.2]] * 2)).max() == 255
    assert recolour(pictures.float(), torch.tensor([[1.4, 1.4, 1.2]] * 2)).min() == 0


def test_colours_change_in_the_wanted_shares():
    factors = draw_colours(np.random.default_rng(0), 20_000)
    brightness, contrast, saturation = factors.unbind(dim=1)
    untouched = (brightness == 1) & (contrast == 1)
    assert float(untouched.float().mean()) == pytest.approx(0.2, abs=0.01)
    assert float((saturation == 0).float().mean()) == pytest.approx(0.2, abs=0.01)
    for factor, most in ((brightness, 0.4), (contrast, 0.4), (saturation[saturation > 0], 0.2)):
        assert float((factor - 1).abs().max()) == pytest.approx(most, abs=0.01)


# Both


def test_views_follow_from_the_generator_alone(pictures):
    states = torch.random.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    one, two, other = (
        draw_views(pictures, np.random.default_rng(seed), 4, 6, SMALL) for seed in (1, 1, 2)
    )
    assert one.dtype == torch.uint8 and tuple(one.shape) == (8, 3, 6, 6)
    assert torch.equal(one, two) and not torch.equal(one, other)
    assert len(one.flatten(1).unique(dim=0)) == 8
    assert torch.equal(torch.random.get_rng_state(), states[0])
    assert np.random.get_state()[1].tolist() == states[1]  # noqa: NPY002
