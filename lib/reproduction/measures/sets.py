"""The test sets, answered by a model: every prediction on disk, a file a set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd
from torch import nn

from habitats.benchmark import Benchmark
from relevit.base.device import at_once
from relevit.base.files import file_fingerprint, write_atomically
from relevit.base.results import read_table
from relevit.data.batch import Batch
from relevit.evaluate.predictions import BATCH, Classifier, predict
from relevit.models.loading import load_model
from relevit.models.spec import ModelSpec
from relevit.models.trunk import Frozen


def load_classifier(
    bench: Benchmark,
    model: str,
    weights: Path | None,
    device: str = "auto",
    frozen: Frozen | None = None,
) -> Classifier:
    """A model by name, ready to answer images of a benchmark. `weights` as `load_model`,
    `frozen` as `Classifier`."""
    network = load_model(model, weights, options=bench.options, device=device)
    return Classifier(network, bench.spec(model), frozen=frozen)


def answer_sets(
    classifier: Classifier,
    weights: Path | None,
    folder: Path,
    bench: Benchmark,
    images_per_set: int,
    on_set: Callable[[str], None] = lambda name: None,
    *,
    known: Path | None = None,
) -> pd.DataFrame:
    """Predictions on the test sets of a benchmark, one parquet file a set in `folder`.

    `weights` is the file that the model was loaded from (None: shipped). A set whose file was
    written for the same weights, number format, number of images and rules of the benchmark is
    read instead of computed, so that an interrupted evaluation goes on where it stopped. Such a
    file in the folder `known`, where another stage has asked, will do.
    Returns all rows, with the columns of `Classifier.predict`, `dataset` and `index` (number of
    the image in its set). Images that cannot be read have no row, and the others keep their
    numbers, so that runs are compared image by image (`skipped_images`).
    """
    origin = "shipped" if weights is None else file_fingerprint(weights)
    answers_of = f"{classifier.spec.name} {origin} {classifier.precision}"
    identity = f"{answers_of} {images_per_set} {bench.rules}".rstrip()
    size, parts = at_once(BATCH, classifier.answers.like.device), []
    for name in bench.test_sets:
        path = folder / f"{name}.parquet"
        rows = _kept_rows(path, identity)
        if rows is None and known and (rows := _kept_rows(known / path.name, identity)) is not None:
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(path, rows.to_parquet)
        if rows is None:
            lost: dict[int, str] = {}
            how = {"size": classifier.spec.image_size, "skipped": lost}
            rows = classifier.predict(bench.test_batches(name, images_per_set, size, **how))
            rows.insert(0, "dataset", name)
            places = [i for i in range(len(rows) + len(lost)) if i not in lost]
            rows.insert(1, "index", places)
            rows.attrs["identity"] = identity
            if lost:
                rows.attrs["skipped"] = [lost[place] for place in sorted(lost)]
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(path, rows.to_parquet)
        on_set(name)
        parts.append(rows)
    return pd.concat(parts, ignore_index=True)


def disagreed(
    networks: Mapping[str, nn.Module], spec: ModelSpec, shown: Batch, count: int
) -> Batch:
    """The images seen best, among all on which some of these models do not say the same."""
    said = {
        name: predict(network, spec, shown.split(BATCH))["prediction"]
        for name, network in networks.items()
    }
    differ = pd.DataFrame(said).nunique(axis=1) > 1
    well = differ * (1.0 if shown.opacity is None else shown.opacity.numpy())
    best = well.sort_values(ascending=False, kind="stable").index[:count]
    return shown.select(best.tolist())


def clearest(shown: Batch, count: int) -> list[int]:
    """The places of the images whose object is seen best; of photographs the first."""
    if shown.opacity is None:
        return list(range(min(count, len(shown))))
    return shown.opacity.argsort(descending=True, stable=True)[:count].tolist()


def _kept_rows(path: Path, identity: str) -> pd.DataFrame | None:
    """The rows of a file that was written for this identity; None for another or a damaged one."""
    try:
        rows = read_table(path)
    except (FileNotFoundError, ValueError):
        return None
    return rows if rows.attrs.get("identity") == identity else None


def skipped_images(folders: Iterable[Path]) -> dict[str, list[str]]:
    """The images that `answer_sets` left out in any of these folders: set -> ids."""
    found: dict[str, list[str]] = {}
    for path in (path for folder in folders for path in sorted(folder.glob("*.parquet"))):
        for image in read_table(path, ["index"]).attrs.get("skipped", []):
            ids = found.setdefault(path.stem, [])
            ids += [image] * (image not in ids)
    return found


def draw_picked(
    bench: Benchmark, picked: Sequence[tuple[str, int]], size: int
) -> tuple[list[Batch], list[str]]:
    """Images, given as pairs of a set and a number, each in a batch of its own, and their titles.

    Sets may differ in what counts as a right answer, so that they are not joined.
    """
    parts = [bench.draw(name, [number], size=size) for name, number in picked]
    named = zip(picked, parts, strict=True)
    return parts, [f"{name}:\n{bench.names(part.labels)[0]}" for (name, _), part in named]
