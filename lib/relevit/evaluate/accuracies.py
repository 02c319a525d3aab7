"""Accuracies of many finetuned runs on the nine sets, one row a run and set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pandas as pd

from relevit.base.files import file_fingerprint
from relevit.base.precision import PrecisionChoice, choose_device
from relevit.config import FinetuneParams
from relevit.data.benchmark import CUTOUTS, Benchmark, benchmark
from relevit.data.cutouts import SHIFTED_SETS, TEST_SETS
from relevit.evaluate.predictions import Classifier, accuracy_table, make_classifier
from relevit.evaluate.sets import evaluate_sets, sets_in_memory
from relevit.finetune.runs import finetune_at
from relevit.models.loading import load_model
from relevit.training.epochs import WEIGHTS

SCORES = ("top1_pct", "top5_pct")
COLUMNS = ("dataset", "images", *SCORES, *(f"original_{name}" for name in SCORES))


def nine_sets(
    name: str,
    weights: Path | None,
    folder: Path,
    *,
    images_per_set: int,
    precision: PrecisionChoice = "auto",
    device: str = "auto",
    images: Benchmark = CUTOUTS,
    on_set: Callable[[str], None] = lambda name: None,
) -> pd.DataFrame:
    """Predictions of one model on the nine sets, kept in `folder` as `evaluate_sets` does.

    `weights` as `load_model`; `images` are the preset's.
    """
    model, spec = load_model(name, weights, choose_device(device)), images.spec(name)
    classifier = make_classifier(model, spec, precision, probe=images.probe(spec))
    return answer_sets(
        classifier, weights, folder, images_per_set=images_per_set, images=images, on_set=on_set
    )


def answer_sets(
    classifier: Classifier,
    weights: Path | None,
    folder: Path,
    *,
    images_per_set: int,
    images: Benchmark = CUTOUTS,
    on_set: Callable[[str], None] = lambda name: None,
) -> pd.DataFrame:
    """`evaluate_sets` on the images of a preset, for a model that is loaded from `weights`.

    Those of Cutouts stay in memory, for the next model. Kept are answers to the same weights,
    number format, number of images and rules of the preset. How large the margin is does not
    matter: the answers are those of float32 with each (`Classifier`).
    """
    origin = "shipped" if weights is None else file_fingerprint(weights)
    answers_of = f"{classifier.spec.name} {origin} {classifier.rounding}"
    return evaluate_sets(
        classifier,
        folder,
        images_per_set=images_per_set,
        identity=f"{answers_of} {images_per_set} {images.rules}".rstrip(),
        draw=sets_in_memory if images.generated else images.batches,
        on_set=on_set,
    )


def skipped_images(folders: Iterable[Path]) -> dict[str, list[str]]:
    """The images that `evaluate_sets` left out in any of these folders: set -> ids.

    Sets of which every image was read are not named. Raises: FileNotFoundError.
    """
    found: dict[str, list[str]] = {}
    for folder in folders:
        for name in TEST_SETS:
            file = pd.read_parquet(folder / f"{name}.parquet", columns=["index"])
            for image in file.attrs.get("skipped", []):
                ids = found.setdefault(name, [])
                ids += [image] * (image not in ids)
    return found


def beside_original(predictions: pd.DataFrame, original: pd.DataFrame) -> pd.DataFrame:
    """Accuracies of a run and of the original on the same images, one row a set.

    Columns: dataset, images, top1_pct, top5_pct, original_top1_pct, original_top5_pct.
    Raises: ValueError when the original has not seen all of the run's images.
    """
    keys = ["dataset", "index", "label"]
    same = original.merge(predictions[keys], on=keys)
    if len(same) != len(predictions):
        raise ValueError(
            f"beside_original: the original has answered {len(same)} of the run's "
            f"{len(predictions)} images; evaluate it on as many images a set"
        )
    ours, before = (
        accuracy_table(rows, ["dataset"]).set_index("dataset") for rows in (predictions, same)
    )
    table = ours[["images", *SCORES]].join(before[list(SCORES)].add_prefix("original_"))
    return table.reset_index()


def score_variants(
    variants: Mapping[tuple, FinetuneParams],
    keys: tuple[str, ...],
    rate: float | Callable[[FinetuneParams], float],
    origin: Path,
    folder: Path,
    original: pd.DataFrame,
    *,
    images_per_set: int,
    on_run: Callable[[], object] = lambda: None,
) -> tuple[pd.DataFrame, dict[tuple, str]]:
    """Finetune and evaluate every variant; one that diverges leaves its reason instead of rows.

    `variants` maps values of `keys` (the first columns of the table) to the run's parameters.
    `original` are the original's predictions. Runs and sets that are in `folder` are not made
    again. Returns the rows of `beside_original` with the keys and the rate, none where nothing
    ended, and the reasons.
    """
    parts, lost = [], {}
    for values, params in variants.items():
        place = folder / ".".join(str(value) for value in values)
        lr = rate(params) if callable(rate) else rate
        try:
            finetune_at(params, lr, origin, place)
        except FloatingPointError as error:
            lost[values] = str(error)
            on_run()
            continue
        answers = nine_sets(
            params.model,
            place / WEIGHTS,
            place / "sets",
            images_per_set=images_per_set,
            device=params.device,
            images=benchmark(params.preset),
        )
        named = dict(zip(keys, values, strict=True))
        parts.append(beside_original(answers, original).assign(**named, lr=lr))
        on_run()
    columns = [*keys, *COLUMNS, "lr"]
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)
    return table[columns], lost


def changes(table: pd.DataFrame, by: list[str], metric: str = "top1") -> pd.DataFrame:
    """Mean change against the original, over the runs of each group, in points; sets as columns.

    The last column averages the seven shifted sets; `*_std` is its spread over the runs (NaN
    for one run).
    Raises: ValueError when two runs of a group have the same seed: they differ in what `by` lacks.
    """
    if table.duplicated([*by, "seed", "dataset"]).any():
        raise ValueError(
            f"changes: runs that agree in {[*by, 'seed']} occur twice; add what tells them "
            "apart to `by`, or choose among them first"
        )
    rows = table.assign(change=table[f"{metric}_pct"] - table[f"original_{metric}_pct"])
    runs = rows.pivot_table(
        index=[*by, "seed"], columns="dataset", values="change", sort=False, observed=True
    )
    runs["shifted_average"] = runs[list(SHIFTED_SETS)].mean(axis=1)
    groups = runs.groupby(level=by, sort=False)
    means = groups.mean()
    return means.assign(shifted_average_std=groups["shifted_average"].std())
