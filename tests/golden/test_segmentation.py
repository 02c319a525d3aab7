"""The segmentation test against the published script (f7)."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from relevit.attribution import to_heatmap
from relevit.evaluate.segmentation import segmentation_rows, segmentation_scores
from relevit.protocols import options

PUBLISHED = options("published", "segmentation_rows")
EXACT = 1e-9
AS_FLOAT32 = 2.5e-8  # the script's own format; it decides which scores are equal


@pytest.fixture
def values(golden):
    return golden("f7_seg")


@pytest.fixture
def masks(values):
    shape = values["labels_shape"]
    bits = np.unpackbits(values["labels"])[: shape.prod()]
    return torch.from_numpy(bits.reshape(shape)).bool()[:, None]


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def heatmaps(values, masks, request):
    maps = torch.from_numpy(values["maps14"]).to(request.param)
    return to_heatmap(maps.flatten(1), masks.shape[-2:], tuple(maps.shape[1:]))


def test_the_four_numbers(values, heatmaps, masks):
    images = zip(heatmaps.split(1), masks.split(1), strict=True)
    found = segmentation_scores(
        pd.concat(segmentation_rows(*image, **PUBLISHED) for image in images)
    )
    expected = {"pixel_accuracy": "pixAcc", "miou": "mIoU", "map": "mAP", "mf1": "mF1"}
    for ours, published in expected.items():
        tolerance = AS_FLOAT32 if ours == "map" else EXACT
        assert found[f"{ours}_pct"] == pytest.approx(100 * float(values[published]), rel=tolerance)


def test_totals(values, heatmaps, masks):
    rows = segmentation_rows(heatmaps, masks, **PUBLISHED)
    assert rows["correct"].sum() == values["total_correct"]
    assert rows["pixels"].sum() == values["total_label"]
    for place, kind in enumerate(("background", "foreground")):
        assert rows[f"inter_{kind}"].sum() == values["total_inter"][place]
        assert rows[f"union_{kind}"].sum() == values["total_union"][place]


def test_images(values, heatmaps, masks):
    rows = segmentation_rows(heatmaps, masks, **PUBLISHED)
    tolerance = EXACT if heatmaps.dtype == torch.float32 else AS_FLOAT32
    np.testing.assert_allclose(rows["ap_pct"], 100 * values["per_image_AP"], rtol=tolerance)
    by_row = 100 * values["per_image_rowF1"].mean(axis=1)
    np.testing.assert_allclose(rows["f1_pct"], by_row, rtol=EXACT)


def test_described_average_precision_is_that_of_the_object(values, heatmaps, masks):
    rows = segmentation_rows(heatmaps, masks)
    expected = 100 * values["NOTCODE_per_image_foreground_AP"]
    # float64 separates scores that float32 makes equal.
    tolerance = EXACT if heatmaps.dtype == torch.float32 else 2e-7
    np.testing.assert_allclose(rows["ap_pct"], expected, rtol=tolerance)


def test_f1_of_the_whole_image_at_the_mean(values, heatmaps, masks):
    """Counts and described F1 share this value: F1 = 2 inter / (inter + union)."""
    rows = segmentation_rows(heatmaps, masks)
    inter, union = rows["inter_foreground"], rows["union_foreground"]
    expected = values["NOTCODE_per_image_wholeimage_F1"]
    np.testing.assert_allclose(2 * inter / (inter + union), expected, rtol=EXACT)
