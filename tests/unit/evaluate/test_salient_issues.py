"""Where the relevance lies, image by image, on heatmaps made by hand."""

from __future__ import annotations

import pytest
import torch

from relevit.data.cutouts import Batch
from relevit.evaluate.looking import Look, look_rows


def case(heat, mask):
    """A look at one image of 1 x 4 pixels."""
    heat, mask = torch.tensor([[[heat]]]), torch.tensor([[[mask]]], dtype=torch.bool)
    one = torch.tensor([3])
    share = 100 * (heat * mask).sum().reshape(1) / heat.sum()
    seen = Look(heat, one, torch.tensor([95.0]), torch.tensor([40.0]), share, ["t"], ["c"])
    fields = {"images": torch.zeros(1, 3, 1, 4, dtype=torch.uint8), "masks": mask, "labels": one}
    rest = {name: one for name in Batch.__dataclass_fields__ if name not in fields}
    return seen, Batch(**fields, **rest)


@pytest.mark.parametrize(
    ("heat", "mask", "on_object", "covered"),
    [
        ([1.0, 1.0, 0.0, 0.0], [1, 1, 0, 0], 100.0, 100.0),
        ([0.0, 0.0, 1.0, 1.0], [1, 1, 0, 0], 0.0, 0.0),
        ([1.0, 0.0, 0.0, 0.0], [1, 1, 0, 0], 100.0, 50.0),
        ([1.0, 1.0, 0.0, 0.0], [0, 0, 0, 0], 0.0, 0.0),
    ],
)
def test_shares(heat, mask, on_object, covered):
    (row,) = look_rows(*case(heat, mask), "val").to_dict("records")
    assert row["on_object_pct"] == on_object and row["covered_pct"] == covered
    assert (row["dataset"], row["index"], row["label"], row["prediction"]) == ("val", 0, 3, 3)
    assert (row["confidence_pct"], row["iou_pct"]) == (95.0, 40.0)


def test_other_images():
    seen, batch = case([1.0, 0.0, 0.0, 0.0], [1, 0, 0, 0])
    with pytest.raises(ValueError, match=r"look_rows: 1 heatmaps and 2 images; one each is need"):
        look_rows(seen, batch.select([0, 0]), "val")
