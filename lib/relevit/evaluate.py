"""Classify the test sets and keep every prediction, so that any split needs no new run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from relevit.answers import Answers, unsure_prediction, unsure_rank
from relevit.data import cutouts
from relevit.files import write_atomically
from relevit.masks import AutomaticMasks
from relevit.models import ModelSpec
from relevit.precision import Precision, PrecisionChoice, choose_precision
from relevit.settings import FinetuneSettings
from relevit.steps import step_losses

BATCH = 50  # images; the predictions do not depend on it beyond rounding
PROBE = 16  # images of each shifted set's kind on which bfloat16 is compared with float32
MOST_REPEATED = 0.5  # share of images in doubt from which bfloat16 saves no time


def predict(
    model: nn.Module,
    spec: ModelSpec,
    batches: Iterator[cutouts.Batch],
    precision: Precision = "float32",
    margin: float = 0.0,
) -> pd.DataFrame:
    """Classify images with fused attention; one row an image, in their order.

    Columns: `label`, `family` (background), `prediction`, `confidence_pct` (softmax of the
    predicted class) and `label_rank` (0 when the label has the highest logit), from which
    top-1 and top-5 follow. `bfloat16` runs a converted copy of the weights; with a `margin`,
    images for which rounding could change prediction, top-1 or top-5 are classified again in
    float32 (`relevit.answers`; `evaluation_precision` measures the margin).
    """
    answers = Answers(model, precision, margin)
    parts = []
    for batch in batches:

        def doubt(logits: Tensor, margin: float, labels: Tensor = batch.labels) -> Tensor:
            return unsure_prediction(logits, margin) | unsure_rank(logits, labels, margin, k=5)

        logits = answers(spec.normalise(batch.images, like=answers.like), doubt)
        confidence, prediction = logits.softmax(dim=1).max(dim=1)
        parts.append(
            pd.DataFrame(
                {
                    "label": batch.labels.numpy().astype("int16"),
                    "family": batch.families.numpy().astype("int16"),
                    "prediction": prediction.numpy().astype("int16"),
                    "confidence_pct": (100 * confidence).numpy(),
                    "label_rank": _rank(logits, batch.labels, prediction).numpy().astype("int16"),
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def _rank(logits: Tensor, labels: Tensor, prediction: Tensor) -> Tensor:
    """How many classes come before the label: ties and NaN count against it.

    Only the predicted class has rank 0, so that top-1 is the prediction being right.
    """
    of_label = logits.gather(1, labels[:, None])
    before = (~(logits < of_label)).sum(dim=1) - 1
    finite = logits.isfinite().all(dim=1)
    rank = torch.where(prediction == labels, 0, before.clamp_min(1))
    return torch.where(finite, rank, logits.shape[1])


def evaluation_precision(
    model: nn.Module, spec: ModelSpec, choice: PrecisionChoice, seed: int = 0
) -> tuple[Precision, float]:
    """The format to evaluate in, and the margin with which its answers are those of float32.

    `auto` takes bfloat16 where the device has it in hardware, unless more than MOST_REPEATED
    of the answers would be in doubt. The margin is twice the largest error of a logit on new
    draws of the shifted sets' kinds: a model sure of its answers, as on validation images,
    would agree in any format. Looks at no test image and no label. A choice by name is taken
    as it is, with margin 0.
    """
    precision = choose_precision(choice, next(model.parameters()).device)
    if precision == "float32" or choice != "auto":
        return precision, 0.0
    answers = Answers(model, precision)
    probe = [spec.normalise(b.images, like=answers.like) for b in _probe(spec, seed)]
    margin = 2 * answers.largest_error(probe)
    doubts = torch.cat([unsure_prediction(answers(pixels), margin) for pixels in probe])
    return (precision, margin) if doubts.float().mean() <= MOST_REPEATED else ("float32", 0.0)


def _probe(spec: ModelSpec, seed: int) -> Iterator[cutouts.Batch]:
    for name in cutouts.SHIFTED_SETS:
        yield from cutouts.batches(name, PROBE, BATCH, seed=seed + 1, size=spec.image_size)


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
    draw: Callable[..., Iterable[cutouts.Batch]] = cutouts.batches,
    on_set: Callable[[str], None] = lambda name: None,
) -> pd.DataFrame:
    """Predictions on the nine test sets, one parquet file a set in `folder`.

    `precision` and `margin` as `predict`; `draw` gives the images (`sets_in_memory` where many
    models see the same). A set whose file was written for the same `identity`
    (weights, precision, margin, counts) is read instead of computed, so that an interrupted
    evaluation goes on where it stopped.
    Returns all rows, with the columns of `predict`, `dataset` and `index` (number of the
    image in its set).
    """
    folder.mkdir(parents=True, exist_ok=True)
    parts = []
    for name in cutouts.TEST_SETS:
        path = folder / f"{name}.parquet"
        rows = _kept(path, identity)
        if rows is None:
            images = draw(name, images_per_set, BATCH, seed=seed, size=spec.image_size)
            rows = predict(model, spec, images, precision, margin)
            rows.insert(0, "dataset", name)
            rows.insert(1, "index", range(len(rows)))
            rows.attrs["identity"] = identity
            write_atomically(path, rows.to_parquet)
        on_set(name)
        parts.append(rows)
    return pd.concat(parts, ignore_index=True)


@lru_cache(maxsize=len(cutouts.TEST_SETS))
def sets_in_memory(
    set_name: str, count: int, batch_size: int, *, seed: int, size: int
) -> tuple[cutouts.Batch, ...]:
    """As `cutouts.batches`, but the nine sets stay in memory once they are drawn."""
    return tuple(cutouts.batches(set_name, count, batch_size, seed=seed, size=size))


def _kept(path: Path, identity: str) -> pd.DataFrame | None:
    if not path.is_file():
        return None
    try:
        rows = pd.read_parquet(path)
    except (OSError, ValueError):  # pyarrow's errors are among them
        return None  # damaged: it is computed again
    return rows if rows.attrs.get("identity") == identity else None


def accuracy_table(predictions: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Top-1 and top-5 accuracy in percent, and the number of images, for each group of `by`."""
    groups = predictions.assign(
        top1_pct=100.0 * (predictions["label_rank"] == 0),
        top5_pct=100.0 * (predictions["label_rank"] < 5),
        images=1,
    ).groupby(by, sort=False, observed=True)
    return groups.agg({"top1_pct": "mean", "top5_pct": "mean", "images": "sum"}).reset_index()


def validation_figures(
    spec: ModelSpec,
    *,
    images: int,
    maps: int,
    precision: Precision,
    masks: AutomaticMasks | None = None,
    seed: int = 0,
) -> Callable[[nn.Module, FinetuneSettings], dict[str, float]]:
    """What finetuning looks at after each epoch, on the validation images alone.

    `images` of them give `top1_pct` and `confidence_loss` (Eq. 4 without temperature, in
    nats); the losses of the maps are means over the first `maps`, computed as in training but
    without augmentation. With automatic `masks` of these first images, those count that are
    fit for training.
    """
    shown = cutouts.draw("validation", range(max(images, maps)), seed=seed, size=spec.image_size)
    mapped = shown.select(range(maps))
    if masks is not None:
        mapped = replace(mapped, masks=masks.refined).select(masks.kept.nonzero()[:, 0])

    def figures(model: nn.Module, settings: FinetuneSettings) -> dict[str, float]:
        device = next(model.parameters()).device
        rows = []
        for part in mapped.split(settings.batch_size):
            losses = step_losses(
                model,
                spec.normalise(part.images.to(device)),
                part.masks.to(device).float(),
                part.labels.to(device),
                settings,
                train=False,
            )
            rows.append(pd.Series(losses.numbers()) * len(part))
        means = (sum(rows) / len(mapped)).to_dict()
        answers = predict(model, spec, shown.select(range(images)).split(BATCH), precision)
        return {
            "top1_pct": 100 * float((answers["label_rank"] == 0).mean()),
            "confidence_loss": float(-np.log(answers["confidence_pct"] / 100).mean()),
            **means,
        }

    return figures
