"""Images with two objects, and the pointing game between them."""

from __future__ import annotations

import pytest
import torch

from relevit.data.pairs import draw_pairs
from relevit.evaluate.pointing import own_share_pct, pointing_table


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
    own = {int(label): i for i, label in enumerate(pairs.labels.flatten())}
    assert own  # labels repeat: methods are told apart by the column asked for

    def right(target):
        which = int((target != pairs.labels[:, 0]).any())
        return on_patches(pairs.masks[:, which])

    def wrong(target):
        which = int((target == pairs.labels[:, 0]).all())
        return on_patches(pairs.masks[:, which])

    def blind(target):
        return on_patches(pairs.masks[:, 0])

    grid = tuple(side // 14 for side in pairs.images.shape[-2:])
    table = pointing_table(pairs, {"right": right, "wrong": wrong, "blind": blind}, grid)
    assert table["own_object_pct"].tolist() == [100.0, 0.0, 50.0]
    assert table["images"].tolist() == [24, 24, 24]
    # The blind one is right once an image, without any error.
    assert table["standard_error_pts"].tolist() == [50 / 13, 50 / 13, 0.0]


def test_error_is_that_of_images_whose_two_maps_go_together():
    own = torch.tensor([[1, 1], [0, 0], [1, 1], [1, 0], [0, 1], [1, 1]]).bool()
    share, error = own_share_pct(own)
    means = own.double().mean(dim=1)
    assert share == pytest.approx(100 * means.mean().item())
    assert error == pytest.approx(100 * (means.var() / 6).sqrt().item())
    counted = torch.tensor([[1, 0], [1, 1], [0, 0], [1, 0], [0, 1], [1, 0]]).bool()
    share, error = own_share_pct(own, counted)
    assert share == pytest.approx(100 * 4 / 6)
    gaps = torch.tensor([1 / 3, -4 / 3, 1 / 3, 1 / 3, 1 / 3]).double()
    assert error == pytest.approx(100 * (gaps.square().sum() * 5 / 4).sqrt().item() / 6)
    with pytest.raises(ValueError, match="no map is counted; draw more pairs"):
        own_share_pct(own, torch.zeros_like(own))
