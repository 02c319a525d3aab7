"""The nine test sets, answered by a model: every prediction on disk, a file a set."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from pathlib import Path

import pandas as pd

from relevit.base.files import write_atomically
from relevit.data import cutouts
from relevit.data.batch import Batch
from relevit.evaluate.predictions import BATCH, Classifier


def evaluate_sets(
    classifier: Classifier,
    folder: Path,
    *,
    images_per_set: int,
    identity: str,
    seed: int = 0,
    draw: Callable[..., Iterable[Batch]] = cutouts.batches,
    on_set: Callable[[str], None] = lambda name: None,
) -> pd.DataFrame:
    """Predictions on the nine test sets, one parquet file a set in `folder`.

    `draw` gives the images (`sets_in_memory` where many models see the same). A set whose file
    was written for the same `identity` (weights, precision, counts) is read instead of computed,
    so that an interrupted evaluation goes on where it stopped.
    Returns all rows, with the columns of `Classifier.predict`, `dataset` and `index` (number of the
    image in its set). Images that `draw` could not read have no row, and the others keep their
    numbers, so that runs are compared image by image (`accuracies.skipped_images`).
    """
    parts = []
    for name in cutouts.TEST_SETS:
        path = folder / f"{name}.parquet"
        rows = kept_rows(path, identity)
        if rows is None:
            side = classifier.spec.image_size
            images = partial(draw, name, images_per_set, BATCH, seed=seed, size=side)
            rows = _answered(classifier, images)
            rows.insert(0, "dataset", name)
            rows.attrs["identity"] = identity
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(path, rows.to_parquet)
        on_set(name)
        parts.append(rows)
    return pd.concat(parts, ignore_index=True)


def _answered(classifier: Classifier, draw: Callable[..., Iterable[Batch]]) -> pd.DataFrame:
    """The rows of a set with the images' numbers in it; those that cannot be read have none."""
    lost: dict[int, str] = {}
    rows = classifier.predict(draw(skipped=lost))
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
