"""Draw what the runs of a preset will ask for, before they do.

The pipeline starts it beside its first stage: `python -m reproduction.runs.pictures workshop`.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from habitats.benchmark import open_benchmark
from habitats.cutouts import CHUNK, CUTOUTS, TEST_SETS, Cutouts
from habitats.homes import CHALLENGE
from relevit.base.device import cores
from relevit.evaluate.predictions import BATCH
from relevit.models.registry import model_spec
from reproduction.params.preset import read_preset
from reproduction.runs import grids
from reproduction.runs.run import MADE, Row, finetuned_classes, of_labels
from reproduction.stages import preset_file

NICE = 10

# The arguments of `Cutouts.draw`: set, numbers, their labels, seed and size.
Part = tuple[Cutouts, str, tuple[int, ...], tuple[int, ...] | None, int, int]


def parts(rows: Iterable[Row]) -> list[Part]:
    """What rows that are not made will ask for, each once, in their order; nothing of photographs.

    But for the training images of originals, which are looked at once.
    """
    found: dict[Part, None] = {}
    for row in rows:
        if not (row.folder / MADE).is_file():
            found |= dict.fromkeys(_of_row(row))
    return [*found]


def draw(part: Part) -> None:
    """Draw a part, to be kept."""
    bench, set_name, numbers, labels, seed, size = part
    bench.draw(set_name, numbers, labels=labels, seed=seed, size=size)


def _of_row(row: Row) -> Iterator[Part]:
    params = row.params
    if of_labels(params):
        if params.data == "cutouts":
            size = model_spec(params.model).image_size
            trained = range(params.training_images * params.epochs)
            yield from _cut(CUTOUTS, "train", trained, size, seed=params.seed)
            yield from _cut(CUTOUTS, "validation", range(params.validation_images), size)
        return
    bench = open_benchmark(params)
    if not isinstance(bench, Cutouts):
        return
    size = bench.spec(params.model).image_size
    if not row.original:
        labels = finetuned_classes(params, bench) * params.images_per_class
        yield from _cut(
            bench, "finetune", range(len(labels)), size, seed=params.seed, labels=labels
        )
        validated = range(max(params.validation_images, params.validation_maps))
        yield from _cut(
            bench, "validation", validated, size, seed=bench.validation_seed(params.seed)
        )
    tested = dict.fromkeys(TEST_SETS, row.images_per_set)
    tested |= dict.fromkeys(CHALLENGE, row.challenge * bench.challenging)
    for name, count in tested.items():
        for first in range(0, count, BATCH):  # as `test_batches` reads them
            yield from _cut(bench, name, range(first, min(first + BATCH, count)), size)
    yield from _cut(bench, "a", range(row.looked_at), size)


def _cut(
    bench: Cutouts,
    set_name: str,
    numbers: Sequence[int],
    size: int,
    *,
    seed: int = 0,
    labels: Sequence[int] | None = None,
) -> Iterator[Part]:
    """As `draw` itself parts what it is asked for."""
    for start in range(0, len(numbers), CHUNK):
        part: Any = slice(start, start + CHUNK)
        told = None if labels is None else tuple(labels[part])
        yield bench, set_name, tuple(numbers[part]), told, seed, size


def main(preset: str) -> None:
    """Draw it with all cores, but only as far as nothing else wants them.

    What a stage asks for before it is drawn the stage draws itself.
    """
    if hasattr(os, "nice"):
        os.nice(NICE)
    rows = grids.of_preset(read_preset(preset_file(preset))).values()
    with multiprocessing.get_context("fork").Pool(cores()) as pool:
        for _ in pool.imap_unordered(draw, parts(rows)):
            pass


if __name__ == "__main__":
    main(sys.argv[1])
