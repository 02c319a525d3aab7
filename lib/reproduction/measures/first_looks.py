"""Where the original looks: whole sets in one table, and single images of several sets.

Source: RobustViT Fig. 1 and Sec. 3, which name two issues: most of the relevance lies off the
object, or less than half of the object is relevant.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import torch
from torch import nn

from habitats.benchmark import Benchmark
from relevit.data.batch import Batch
from relevit.evaluate.looking import Look, look, look_at_parts, look_rows
from relevit.models.spec import ModelSpec
from reproduction.measures.words import share_told

SURE_PCT = 90  # Fig. 1: more than so confident


def look_at_answers(
    answers: pd.DataFrame, bench: Benchmark, model: nn.Module, spec: ModelSpec
) -> tuple[Batch, Look]:
    """The images of these rows of `answer_sets`, drawn again, and what the model sees in them.

    They are in the order of the rows, but those of a set follow each other.
    """
    parts = [
        bench.draw(str(name), rows["index"].tolist(), size=spec.image_size)
        for name, rows in answers.groupby("dataset", sort=False)
    ]
    tensors = zip(*((part.images, part.masks, part.labels) for part in parts), strict=True)
    return Batch(*map(torch.cat, tensors)), look_at_parts(model, spec, parts, bench.classes)


def least_on_object(seen: Look, count: int) -> list[int]:
    """The images with the least relevance on the object; those without a mask come last."""
    return torch.nan_to_num(seen.on_object_pct, 100).argsort(stable=True)[:count].tolist()


def look_at_sets(
    names: Sequence[str], count: int, bench: Benchmark, model: nn.Module, spec: ModelSpec
) -> pd.DataFrame:
    """`look_rows` of the first images of each set."""
    rows = []
    for name in names:
        images = bench.draw(name, range(count), size=spec.image_size)
        rows.append(look_rows(look(model, spec, images, bench.classes), images, name))
    return pd.concat(rows, ignore_index=True)


def look_table(looks: pd.DataFrame) -> pd.DataFrame:
    """Means of `look_rows`, a row a set, in words; then sure answers to all sets but `a`.

    The first two have their 95 % intervals over images.
    """
    alike = looks[looks["dataset"] != "a"]
    parts = dict(list(looks.groupby("dataset", sort=False)))
    parts[f"{' and '.join(alike['dataset'].unique())}, if sure"] = alike[
        alike["confidence_pct"] > SURE_PCT
    ]
    rows = {
        name: {
            "images": len(part),
            "right, %": share_told(100.0 * (part["label"] == part["prediction"])),
            "relevance on the object, %": share_told(part["on_object_pct"]),
            "overlap of map and mask (IoU), %": part["iou_pct"].mean(),
            "most of it off the object, % of images": 100 * (part["on_object_pct"] < 50).mean(),
            "on less than half of the object, %": 100 * (part["covered_pct"] < 50).mean(),
        }
        for name, part in parts.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").astype({"images": int})
