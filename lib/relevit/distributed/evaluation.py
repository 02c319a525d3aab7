"""Evaluation by several processes with the same rows as by one.

A process takes whole batches: a picture's logits depend, in their last digits, on how many are
computed with it, so cutting batches would not give the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from torch import nn

from relevit import evaluate
from relevit.data import cutouts
from relevit.data.batch import Batch
from relevit.distributed import all_rows, only_first, share, tell
from relevit.files import write_atomically
from relevit.model_spec import ModelSpec
from relevit.precision import Precision


def predict_together(
    model: nn.Module,
    spec: ModelSpec,
    count: int,
    images_at: Callable[[range], Batch],
    precision: Precision = "float32",
    margin: float = 0.0,
    **options: Any,
) -> pd.DataFrame:
    """`evaluate.predict` of the images 0 to `count` - 1 in batches of BATCH, each by one process.

    `images_at(places)` gives the images at these places; a process asks for its own alone.
    `options` are those of `predict`. All processes return all rows, in order. With one process
    it is `evaluate.predict`.
    """
    starts = share(range(0, count, evaluate.BATCH))
    batches = [range(start, min(start + evaluate.BATCH, count)) for start in starts]
    rows = pd.DataFrame()
    if batches:
        images = (images_at(places) for places in batches)
        rows = evaluate.predict(model, spec, images, precision, margin, **options)
        rows.index = pd.Index([place for places in batches for place in places])
    return all_rows(rows)


def evaluate_sets_together(
    model: nn.Module,
    spec: ModelSpec,
    folder: Path,
    *,
    images_per_set: int,
    precision: Precision,
    identity: str,
    margin: float = 0.0,
    seed: int = 0,
    on_set: Callable[[str], None] = lambda name: None,
) -> pd.DataFrame:
    """`evaluate.evaluate_sets` by all processes: same rows, same files, written by the first.

    Arguments and result as there; `on_set` is called by the first process, for the sets that are
    computed.
    """
    lacking = []
    with only_first() as first:
        if first:
            folder.mkdir(parents=True, exist_ok=True)
            files = {name: folder / f"{name}.parquet" for name in cutouts.TEST_SETS}
            lacking = [name for name in files if evaluate.kept_rows(files[name], identity) is None]
    for name in tell(lacking):  # as the first one sees them: a shared disk may lag behind

        def images_at(places: range, name: str = name) -> Batch:
            return cutouts.draw(name, places, seed=seed, size=spec.image_size)

        rows = predict_together(model, spec, images_per_set, images_at, precision, margin)
        rows.insert(0, "dataset", name)
        rows.insert(1, "index", range(len(rows)))
        rows.attrs["identity"] = identity
        with only_first() as first:
            if first:
                write_atomically(folder / f"{name}.parquet", rows.to_parquet)
                on_set(name)
    whole = pd.DataFrame()
    with only_first() as first:
        if first:  # reads them all, kept ones and new ones
            whole = evaluate.evaluate_sets(
                model,
                spec,
                folder,
                images_per_set=images_per_set,
                precision=precision,
                identity=identity,
                margin=margin,
                seed=seed,
            )
    return all_rows(whole)
