"""How good automatic masks are, of all images that are used, and in a table for a reader."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from relevit.data.batch import Batch
from relevit.masks import AutomaticMasks, quality_rows

TRAINING = "training"


def mask_qualities(
    found: Mapping[int | str, AutomaticMasks], batches: Mapping[int | str, Batch]
) -> pd.DataFrame:
    """`quality_rows` of several batches; a number is the seed of one with training images.

    Columns: images (TRAINING or the batch's name), seed (0 for a name), and those.
    """
    parts = [
        quality_rows(masks, batches[name].masks).assign(
            images=name if isinstance(name, str) else TRAINING,
            seed=0 if isinstance(name, str) else name,
        )
        for name, masks in found.items()
    ]
    columns = ["images", "seed", "index", "stage", "iou_pct", "located", "kept"]
    return pd.concat(parts, ignore_index=True)[columns]


def mask_table(quality: pd.DataFrame) -> pd.DataFrame:
    """Means of `mask_qualities` by kind of images and stage, in percent and in words."""
    groups = ["images", "stage"]
    table = 100 * quality.groupby(groups)[["located", "kept"]].mean()
    table.insert(0, "iou_pct", quality.groupby(groups)["iou_pct"].mean())
    kept = quality[quality["kept"]].groupby(groups)["iou_pct"].mean()
    words = {"iou_pct": "overlap (%)", "located": "found (%)", "kept": "kept (%)"}
    return table.rename(columns=words).assign(**{"overlap of the kept (%)": kept})
