"""The segmentation test on maps whose scores are known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import average_precision_score, f1_score

from relevit.evaluate.looking import foreground_iou_pct
from relevit.evaluate.segmentation import (
    METRICS,
    THRESHOLDS,
    average_precision,
    segmentation_intervals,
    segmentation_rows,
    segmentation_scores,
)
from relevit.protocols import options

PROTOCOLS = ("published", "described")
PUBLISHED = options("published", "segmentation_rows")
NAN, INFINITY = float("nan"), float("inf")


@pytest.fixture
def masks():
    """Four images of 8 x 6 pixels; the object is the left third, 16 of 48 pixels."""
    masks = torch.zeros(4, 1, 8, 6, dtype=torch.bool)
    masks[..., :2] = True
    return masks


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
    expected = dict.fromkeys(METRICS, 100.0)
    assert scores(masks.float(), masks, protocol) == pytest.approx(expected)


def test_perfect_map_of_an_object_in_some_rows(masks):
    """The published F1 counts image rows, and one without object is 0 however right (E3)."""
    masks[:, :, :6] = False
    assert scores(masks.float(), masks, "published")["mf1_pct"] == pytest.approx(25.0)
    assert scores(masks.float(), masks, "described")["mf1_pct"] == pytest.approx(100.0)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_inverted_map(masks, protocol):
    found = scores(1 - masks.float(), masks, protocol)
    assert [found[m] for m in ("pixel_accuracy_pct", "miou_pct", "mf1_pct")] == [0, 0, 0]
    # Only the lowest of two scores lets the truth in, together with everything else.
    chance = {"published": 50, "described": 100 / 3}
    assert found["map_pct"] == pytest.approx(chance[protocol])


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("value", [0.0, 3.0, NAN, INFINITY, -INFINITY])
def test_map_that_says_nothing(masks, protocol, value):
    rows = rows_of(torch.full(masks.shape, value), masks, protocol)
    assert rows["empty"].all()
    found = segmentation_scores(rows)
    assert found["pixel_accuracy_pct"] == pytest.approx(100 * 2 / 3)
    assert found["miou_pct"] == pytest.approx(100 / 3)
    assert found["mf1_pct"] == 0
    chance = {"published": 50, "described": 100 / 3}
    assert found["map_pct"] == pytest.approx(chance[protocol])


@pytest.mark.parametrize("value", [NAN, INFINITY])
def test_one_bad_number_empties_its_own_map_alone(masks, value):
    maps = masks.float()
    maps[1, 0, 0, 0] = value
    rows = segmentation_rows(maps, masks)
    assert rows["empty"].tolist() == [False, True, False, False]
    assert rows["correct"].tolist() == [48, 32, 48, 48]


def test_random_map_scores_as_chance():
    random = torch.Generator().manual_seed(0)
    maps = torch.rand(20, 1, 100, 100, generator=random)
    masks = torch.zeros(maps.shape, dtype=torch.bool)
    masks[..., :20] = True  # a fifth of each row
    for protocol, precision, f1 in (
        # Both channels: as many true as false, no order. F1 in a row: 2 * .1 / (.5 + .2).
        ("published", 0.5, 2 / 7),
        # Above t lie 1 - t of the pixels, a fifth of them true: F1 = 2 * .2 (1 - t) / (1.2 - t).
        ("described", 0.2, (0.4 * (1 - THRESHOLDS) / (1.2 - THRESHOLDS)).mean().item()),
    ):
        found = scores(maps, masks, protocol)
        assert found["pixel_accuracy_pct"] == pytest.approx(50, abs=0.5)
        assert found["miou_pct"] == pytest.approx(50 * (0.4 / 0.9 + 0.1 / 0.6), abs=0.5)
        assert found["map_pct"] == pytest.approx(100 * precision, abs=0.5)
        assert found["mf1_pct"] == pytest.approx(100 * f1, abs=0.5)


def test_counts_by_hand():
    maps = torch.tensor([[[[0.0, 4.0], [8.0, 1.0]]]])  # mean 3.25: the 4 and the 8 are found
    masks = torch.tensor([[[[True, True], [False, False]]]])
    (row,) = segmentation_rows(maps, masks, **PUBLISHED).to_dict("records")
    assert row | {"ap_pct": None} == {
        "pixels": 4,
        "correct": 2,
        "empty": False,
        "ap_pct": None,
        "inter_background": 1,
        "inter_foreground": 1,
        "union_background": 3,
        "union_foreground": 3,
        "f1_pct": pytest.approx(100 * (2 / 3 + 0) / 2),  # 1 of 2 in the upper row, at best
    }


# Against scikit-learn


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kinds", [2, 30, 10**6])
def test_average_precision_is_that_of_scikit_learn(dtype, kinds):
    random = torch.Generator().manual_seed(kinds)
    found = torch.randint(0, kinds + 1, (5, 400), generator=random).to(dtype) / kinds
    truth = torch.rand(5, 400, generator=random) < torch.tensor([0.01, 0.3, 0.5, 0.9, 1])[:, None]
    truth[0, 3] = True
    expected = [average_precision_score(t, f) for t, f in zip(truth, found, strict=True)]
    np.testing.assert_allclose(average_precision(found, truth), expected, rtol=1e-12)


def test_average_precision_at_the_ends():
    assert average_precision(torch.tensor([[0.2, 0.7]]), torch.zeros(1, 2).bool()).item() == 0
    both_zero = torch.tensor([[0.0, -0.0, 1.0]])
    assert average_precision(both_zero, torch.tensor([[True, False, False]])).item() == 1 / 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_rows_by_scikit_learn(dtype):
    maps, masks = drawn(dtype=dtype)
    published, described = (rows_of(maps, masks, p) for p in PROTOCOLS)
    for i, (heat, mask) in enumerate(zip(maps, masks[:, 0], strict=True)):
        heat = heat[0] if dtype == torch.float64 else heat[0].float()
        heat = (heat - heat.min()) / (heat.max() - heat.min())
        pooled = torch.stack([1 - heat, heat]).flatten(), torch.stack([~mask, mask]).flatten()
        flat = mask.flatten()
        expected = {
            "pooled": average_precision_score(pooled[1], pooled[0]),
            "object": average_precision_score(flat, heat.flatten()),
            "by_row": np.mean(
                [
                    f1_score(m, h > heat.mean(), zero_division=0)
                    for m, h in zip(mask, heat, strict=True)
                ]
            ),
            "by_cut": np.mean(
                [
                    f1_score(flat, (heat > cut).flatten(), zero_division=0)
                    for cut in THRESHOLDS.to(heat)
                ]
            ),
        }
        assert published["ap_pct"][i] == pytest.approx(100 * expected["pooled"])
        assert published["f1_pct"][i] == pytest.approx(100 * expected["by_row"])
        assert described["ap_pct"][i] == pytest.approx(100 * expected["object"])
        assert described["f1_pct"][i] == pytest.approx(100 * expected["by_cut"])


# What matters and what does not


def test_protocols_agree_on_the_counts_alone():
    maps, masks = drawn()
    published, described = (rows_of(maps, masks, p) for p in PROTOCOLS)
    counts = published.columns.drop(["ap_pct", "f1_pct"])
    pd.testing.assert_frame_equal(published[counts], described[counts])
    assert (published["ap_pct"] > described["ap_pct"] + 10).all()
    assert (published["f1_pct"] != described["f1_pct"]).all()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_batches_do_not_matter(protocol):
    maps, masks = drawn()
    pairs = zip(maps.split(3), masks.split(3), strict=True)
    parts = pd.concat(rows_of(*pair, protocol) for pair in pairs)
    whole = rows_of(maps, masks, protocol)
    pd.testing.assert_frame_equal(parts.reset_index(drop=True), whole)
    assert segmentation_scores(parts) == scores(maps, masks, protocol)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_scale_does_not_matter(protocol):
    maps, masks = drawn(dtype=torch.float64)
    assert scores(32 * maps - 1024, masks, protocol) == scores(maps, masks, protocol)


def test_large_images_count_more_in_the_totals():
    """Totals are over pixels, AP and F1 over images (E1)."""
    small, large = torch.zeros(1, 1, 2, 2), torch.zeros(1, 1, 6, 6)
    small[..., 0], large[..., 0] = 1, 1
    pairs = (small, small > 0), (large, large < 1)
    rows = pd.concat(rows_of(*pair, "published") for pair in pairs)
    found = segmentation_scores(rows)
    assert found["pixel_accuracy_pct"] == pytest.approx(100 * 4 / 40)
    assert found["mf1_pct"] == pytest.approx(50)


def test_maps_in_a_graph():
    maps, masks = drawn()
    pd.testing.assert_frame_equal(
        segmentation_rows(maps.requires_grad_() * 1, masks), segmentation_rows(maps, masks)
    )


def test_same_cut_as_foreground_iou():
    maps, masks = drawn()
    rows, expected = segmentation_rows(maps, masks), foreground_iou_pct(maps, masks)
    np.testing.assert_allclose(100 * rows["inter_foreground"] / rows["union_foreground"], expected)


# Intervals


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_intervals_hold_the_numbers(protocol):
    rows = rows_of(*drawn(60), protocol)
    table = segmentation_intervals(rows)
    assert table["metric"].tolist() == list(METRICS)
    assert table["value_pct"].tolist() == list(segmentation_scores(rows).values())
    assert (table["low_pct"] < table["value_pct"]).all()
    assert (table["value_pct"] < table["high_pct"]).all()
    pd.testing.assert_frame_equal(segmentation_intervals(rows), table)
    assert not segmentation_intervals(rows, seed=1)["low_pct"].equals(table["low_pct"])


def test_interval_of_a_mean_is_about_two_standard_errors():
    rows = segmentation_rows(*drawn(200))
    table = segmentation_intervals(rows).set_index("metric").loc["map_pct"]
    expected = 2 * 1.96 * rows["ap_pct"].sem()
    assert table["high_pct"] - table["low_pct"] == pytest.approx(expected, rel=0.1)


def test_interval_of_one_image_has_no_width():
    table = segmentation_intervals(segmentation_rows(*drawn(1)))
    np.testing.assert_allclose(table["low_pct"], table["high_pct"])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_image_without_object(masks, protocol):
    masks[[1, 3]] = False
    rows = rows_of(torch.rand(masks.shape), masks, protocol)
    assert not rows.isna().any(axis=None) and (rows["f1_pct"][[1, 3]] == 0).all()
