"""The segmentation test on maps whose scores are known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import average_precision_score, f1_score

from relevit.evaluate.segmentation import (
    METRICS,
    THRESHOLDS,
    segmentation_intervals,
    segmentation_rows,
    segmentation_scores,
)
from relevit.protocols import options

PROTOCOLS = ("published", "described")
NAN, INFINITY = float("nan"), float("inf")


@pytest.fixture
def masks():
    """Four images of 8 x 6 pixels; the object is the left third, 16 of 48 pixels."""
    masks = torch.zeros(4, 1, 8, 6, dtype=torch.bool)
    masks[..., :2] = True
    return masks


@pytest.mark.wrong_types
def test_masks_of_numbers_are_refused(masks):
    """Of these `~` is bitwise."""
    with pytest.raises(ValueError, match=r"masks of torch\.uint8; give true on the object"):
        segmentation_rows(masks.float(), masks.to(torch.uint8))


def drawn(batch=7, size=(12, 10), seed=0, dtype=torch.float32):
    """Random maps with ties, random masks."""
    random = torch.Generator().manual_seed(seed)
    maps = torch.randint(0, 40, (batch, 1, *size), generator=random).to(dtype) / 8
    return maps, torch.rand(batch, 1, *size, generator=random) < 0.3


def rows_of(maps, masks, protocol):
    return segmentation_rows(maps, masks, **options(protocol, "segmentation_rows"))


def scores(maps, masks, protocol):
    return segmentation_scores(rows_of(maps, masks, protocol))


# Maps with known scores


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_perfect_map(masks, protocol):
    """The published F1 counts image rows, and one without object is 0 however right (E3)."""
    assert scores(masks.float(), masks, protocol) == pytest.approx(dict.fromkeys(METRICS, 100.0))
    masks[:, :, :6] = False
    f1 = {"published": 25.0, "described": 100.0}
    assert scores(masks.float(), masks, protocol)["mf1_pct"] == pytest.approx(f1[protocol])


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("value", [0.0, 3.0, NAN, INFINITY, -INFINITY])
def test_map_that_says_nothing(masks, protocol, value):
    rows = rows_of(torch.full(masks.shape, value), masks, protocol)
    chance = {"published": 50, "described": 100 / 3}[protocol]
    wanted = {"pixel_accuracy_pct": 200 / 3, "miou_pct": 100 / 3, "map_pct": chance, "mf1_pct": 0}
    assert rows["empty"].all() and segmentation_scores(rows) == pytest.approx(wanted)


# Against scikit-learn


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_described_rows_are_scikit_learns(dtype):
    """Those of the published code are golden."""
    maps, masks = drawn(2, dtype=dtype)
    rows = rows_of(maps, masks, "described")
    for i, (heat, mask) in enumerate(zip(maps, masks, strict=True)):
        heat = (heat if dtype == torch.float64 else heat.float()).flatten()
        heat, mask = (heat - heat.min()) / (heat.max() - heat.min()), mask.flatten()
        assert rows["ap_pct"][i] == pytest.approx(100 * average_precision_score(mask, heat))
        cuts = [f1_score(mask, heat > cut, zero_division=0) for cut in THRESHOLDS.to(heat)]
        assert rows["f1_pct"][i] == pytest.approx(100 * np.mean(cuts))


# What matters and what does not


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_f1_is_that_of_a_pass_for_each_threshold_to_the_bit(dtype):
    _, masks = drawn(size=(30, 20))
    maps = torch.rand(masks.shape, dtype=dtype, generator=torch.Generator().manual_seed(1))
    maps[:, :, 0, :3] = torch.tensor([0.0, 1.0, 0.5], dtype=dtype)  # the range is [0, 1] as it is
    maps[:, :, 1] = THRESHOLDS[::5].to(dtype)  # pixels on a threshold are not above it
    masks[0], masks[1], maps[2] = False, True, 0.25
    passes = []
    for cut in THRESHOLDS:
        found = (maps > cut) & (torch.arange(len(maps)) != 2)[:, None, None, None]
        both, either = (found & masks).sum(dim=(1, 2, 3)), found.sum(dim=(1, 2, 3))
        passes.append(2 * both.double() / (either + masks.sum(dim=(1, 2, 3))).clamp_min(1))
    expected = 100 * torch.stack(passes, dim=1).mean(dim=1)
    assert segmentation_rows(maps, masks)["f1_pct"].tolist() == expected.tolist()


def test_large_images_count_more_in_the_totals():
    """Totals are over pixels, AP and F1 over images (E1)."""
    small, large = torch.zeros(1, 1, 2, 2), torch.zeros(1, 1, 6, 6)
    small[..., 0], large[..., 0] = 1, 1
    pairs = (small, small > 0), (large, large < 1)
    rows = pd.concat(rows_of(*pair, "published") for pair in pairs)
    found = segmentation_scores(rows)
    assert found["pixel_accuracy_pct"] == pytest.approx(100 * 4 / 40)
    assert found["mf1_pct"] == pytest.approx(50)


# Intervals


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_intervals_hold_the_numbers(protocol):
    rows = rows_of(*drawn(60), protocol)
    table = segmentation_intervals(rows)
    assert table["metric"].tolist() == list(METRICS)
    assert table["value_pct"].tolist() == list(segmentation_scores(rows).values())
    assert table["value_pct"].between(table["low_pct"], table["high_pct"], "neither").all()
