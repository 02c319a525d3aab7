"""The nine test sets, answered by a model: every prediction on disk, a file a set."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from itertools import chain, islice
from pathlib import Path

import pandas as pd
from torch import nn

from relevit.base.files import write_atomically
from relevit.base.precision import Precision
from relevit.data import cutouts
from relevit.data.batch import Batch
from relevit.distributed import all_rows, each, only_first, tell, world
from relevit.evaluate.predictions import BATCH, predict
from relevit.models.spec import ModelSpec


def evaluate_sets(
    model: nn.Module,
    spec: ModelSpec,
    folder: Path,
    *,
    images_per_set: int,
    precision: Precision,
    identity: str,
    margin: float = 0.0,
    seed: int = 0,
    draw: Callable[..., Iterable[Batch]] = cutouts.batches,
    on_set: Callable[[str], None] = lambda name: None,
) -> pd.DataFrame:
    """Predictions on the nine test sets, one parquet file a set in `folder`.

    `precision` and `margin` as `predict`; `draw` gives the images (`sets_in_memory` where many
    models see the same). A set whose file was written for the same `identity`
    (weights, precision, counts) is read instead of computed, so that an interrupted evaluation
    goes on where it stopped.
    Several processes (`relevit.distributed`) have the same rows and files as one: each answers
    whole batches, since a picture's logits depend, in their last digits, on how many are computed
    with it. The first one has files and `on_set`, all get the result.
    Returns all rows, with the columns of `predict`, `dataset` and `index` (number of the
    image in its set). Images that `draw` could not read have no row, and the others keep their
    numbers, so that runs are compared image by image (`accuracies.skipped_images`).
    """
    parts, first = [], world()[0] == 0
    for name in cutouts.TEST_SETS:
        path = folder / f"{name}.parquet"
        rows = kept_rows(path, identity) if first else None  # a shared disk may lag behind
        if tell(rows is None):
            images = partial(draw, name, images_per_set, BATCH, seed=seed, size=spec.image_size)
            rows = _answered_together(model, spec, images, precision, margin)
            rows.insert(0, "dataset", name)
            rows.attrs["identity"] = identity
            with only_first():
                if first:
                    folder.mkdir(parents=True, exist_ok=True)
                    write_atomically(path, rows.to_parquet)
        else:
            rows = all_rows(pd.DataFrame() if rows is None else rows)
        if first:
            on_set(name)
        parts.append(rows)
    return pd.concat(parts, ignore_index=True)


def _answered_together(
    model: nn.Module,
    spec: ModelSpec,
    draw: Callable[..., Iterable[Batch]],
    precision: Precision,
    margin: float,
) -> pd.DataFrame:
    """The rows of a set with the images' numbers in it, each batch answered by one process."""
    lost: dict[int, str] = {}
    batches = iter(draw(skipped=lost, shared=True))
    some = list(islice(batches, 1))  # none where there are fewer batches than processes
    mine = predict(model, spec, chain(some, batches), precision, margin) if some else pd.DataFrame()
    shares = each([len(mine), list(lost.items())])
    mine.index += sum(count for count, _ in shares[: world()[0]])
    rows = all_rows(mine)
    if rows.empty:
        raise ValueError("evaluate_sets: no images to classify; give at least one that can be read")
    lost = {number: image for _, images in shares for number, image in images}
    rows.insert(0, "index", [i for i in range(len(rows) + len(lost)) if i not in lost])
    if lost:
        rows.attrs["skipped"] = [lost[number] for number in sorted(lost)]
    return rows


def sets_in_memory(
    set_name: str, count: int, batch_size: int, *, skipped: object = None, **options: int
) -> tuple[Batch, ...]:
    """As `cutouts.batches`, but the nine sets stay in memory once they are drawn."""
    return _drawn(set_name, count, batch_size, **options)


@lru_cache(maxsize=len(cutouts.TEST_SETS))
def _drawn(*asked: str | int, **options: int) -> tuple[Batch, ...]:
    return tuple(cutouts.batches(*asked, **options))


def kept_rows(path: Path, identity: str) -> pd.DataFrame | None:
    """The rows of a file that was written for this identity; None for another or a damaged one."""
    if not path.is_file():
        return None
    try:
        rows = pd.read_parquet(path)
    except (OSError, ValueError):  # pyarrow's errors are among them
        return None  # damaged: it is computed again
    return rows if rows.attrs.get("identity") == identity else None
