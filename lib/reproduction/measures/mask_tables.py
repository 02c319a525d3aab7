"""How good automatic masks are, of all images that are used, and in a table for a reader."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import torch

from relevit.data.batch import Batch
from relevit.masks import AutomaticMasks, in_the_middle, quality_rows
from reproduction.measures.words import share_told

TRAINING = "training"
BLIND = {"coarse": "ellipse", "refined": "whole image"}  # stages of masks that know of no object


def mask_qualities(
    found: Mapping[int | str, AutomaticMasks], batches: Mapping[int | str, Batch]
) -> pd.DataFrame:
    """`quality_rows` of several batches; a number is the seed of one with training images.

    Columns: images (TRAINING or the batch's name), seed (0 for a name), and those. Two more stages
    are the zeros: one ellipse in the middle, as large as the objects are on average, and the whole
    image. There `kept` is that of the automatic mask, so that all are of the same images.
    """
    parts = []
    for name, masks in found.items():
        exact = batches[name].masks.bool()
        blind = AutomaticMasks(in_the_middle(exact), torch.ones_like(exact), masks.kept)
        nothing = quality_rows(blind, exact).replace({"stage": BLIND})
        named = {"images": name, "seed": 0} if isinstance(name, str) else {"seed": name}
        both = pd.concat([quality_rows(masks, exact), nothing])
        parts.append(both.assign(**{"images": TRAINING} | named))
    columns = ["images", "seed", "index", "stage", "iou_pct", "located", "kept"]
    return pd.concat(parts, ignore_index=True)[columns]


def mask_table(quality: pd.DataFrame) -> pd.DataFrame:
    """Means of `mask_qualities` by kind of images and stage, in percent and in words.

    With 95 % intervals over images.
    """
    blind = set(BLIND.values())  # which the rules did not judge
    rows = {
        group: {
            "count": len(part),
            "overlap (%)": share_told(part["iou_pct"]),
            "found (%)": share_told(100.0 * part["located"]),
            "kept (%)": "" if group[1] in blind else share_told(100.0 * part["kept"]),
            "overlap of the kept (%)": share_told(part.loc[part["kept"], "iou_pct"]),
        }
        for group, part in quality.groupby(["images", "stage"], sort=False)
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["images", "stage"])
