"""Images with two objects, and the pointing game between them."""

from __future__ import annotations

import pytest
import torch

from habitats.pairs import draw_pairs
from relevit.evaluate.looking import own_share_pct, pointing_table


@pytest.fixture(scope="module")
def pairs():
    return draw_pairs(12, seed=3)


def test_objects_do_not_touch_and_are_no_look_alikes(pairs):
    assert len(pairs) == 12 and pairs.images.shape == (12, 3, 112, 112)
    assert not pairs.masks.all(dim=1).any()
    assert pairs.masks.flatten(2).any(dim=2).all()
    assert (pairs.labels[:, 0] // 2 != pairs.labels[:, 1] // 2).all()


def on_patches(masks):
    return torch.nn.functional.avg_pool2d(masks.float()[:, None], 14).flatten(1)


def test_pointing_game(pairs):
    right = torch.stack([on_patches(pairs.masks[:, i]) for i in (0, 1)], dim=1)
    maps = {"right": right, "wrong": right.flip(1), "blind": right[:, :1].expand(-1, 2, -1)}
    grid = tuple(side // 14 for side in pairs.images.shape[-2:])
    table = pointing_table(pairs, maps, grid)
    assert table["own_object_pct"].tolist() == [100.0, 0.0, 50.0]
    assert table["images"].tolist() == [24, 24, 24]
    # The blind one is right once in every image, so that images say the same; of those that are all
    # right or all wrong it is Wilson's interval.
    assert table["low_pct"].tolist() == pytest.approx([75.75, 0.0, 50.0], abs=0.01)
    assert table["high_pct"].tolist() == pytest.approx([100.0, 24.25, 50.0], abs=0.01)


def test_interval_is_over_images_whose_two_maps_go_together():
    """As wide as Student's, of the images' means; that of single maps is narrower."""
    own = torch.tensor([[1, 1], [0, 0], [1, 1], [1, 0], [0, 1], [1, 1]] * 20).bool()
    share, low, high = own_share_pct(own)
    means = own.double().mean(dim=1)
    assert share == pytest.approx(100 * means.mean().item())
    assert high - low == pytest.approx(2 * 198.01 * (means.var() / 120).sqrt().item(), rel=1e-4)
    counted = torch.tensor([[1, 0], [1, 1], [0, 0], [1, 0], [0, 1], [1, 0]] * 20).bool()
    share, low, high = own_share_pct(own, counted)
    assert share == pytest.approx(100 * 4 / 6) and low < share < high
    gaps = torch.tensor([1 / 3, -4 / 3, 1 / 3, 1 / 3, 1 / 3] * 20).double()
    error = 100 * (gaps.square().sum() * 100 / 99).sqrt().item() / 120
    assert high - low == pytest.approx(2 * 1.984217 * error)
    with pytest.raises(ValueError, match="no map is counted; draw more pairs"):
        own_share_pct(own, torch.zeros_like(own))
