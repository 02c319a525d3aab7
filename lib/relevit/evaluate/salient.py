"""The salient issues of RobustViT Fig. 1, counted: relevance off the object, or on a part of it."""

from __future__ import annotations

import pandas as pd

from relevit.data import cutouts
from relevit.evaluate.looking import Look


def look_rows(seen: Look, batch: cutouts.Batch, dataset: str) -> pd.DataFrame:
    """One row an image of what `look` found on the images of one set.

    Source: RobustViT Fig. 1 and Sec. 3, which show the two issues and give no numbers.
    Columns: dataset, index (order in the batch), label, prediction, confidence_pct, iou_pct,
    on_object_pct (share of all relevance that lies on the object) and covered_pct (share of
    the object where the heatmap is above its own mean; 0 without an object).
    Raises: ValueError when `seen` is of other images.
    """
    if len(seen.heatmaps) != len(batch):
        raise ValueError(
            f"look_rows: {len(seen.heatmaps)} heatmaps and {len(batch)} images; one each is "
            "needed: look at this batch"
        )
    relevant = seen.heatmaps > seen.heatmaps.mean(dim=(1, 2, 3), keepdim=True)
    covered = (relevant & batch.masks.bool()).sum(dim=(1, 2, 3)).double()
    area = batch.masks.bool().sum(dim=(1, 2, 3)).clamp_min(1)
    return pd.DataFrame(
        {
            "dataset": dataset,
            "index": range(len(batch)),
            "label": batch.labels.numpy(),
            "prediction": seen.predictions.numpy(),
            "confidence_pct": seen.confidence_pct.double().numpy(),
            "iou_pct": seen.iou_pct.double().numpy(),
            "on_object_pct": seen.on_object_pct.double().numpy(),
            "covered_pct": (100 * covered / area).numpy(),
        }
    )
