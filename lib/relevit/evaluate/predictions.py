"""Classify images and keep every prediction, so that any split needs no new run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from relevit.base.device import Precision, PrecisionChoice, choose_precision, tensor_float32
from relevit.data import cutouts
from relevit.data.batch import Batch
from relevit.evaluate.answers import (
    Answers,
    Logits,
    right_classes,
    unsure_best_rank,
    unsure_prediction,
)
from relevit.finetune.settings import FinetuneSettings
from relevit.finetune.step import step_losses
from relevit.masks import AutomaticMasks
from relevit.models.spec import ModelSpec

BATCH = 50  # images; the predictions do not depend on it beyond rounding
PROBE = 16  # images of each shifted set's kind on which bfloat16 is compared with float32
AHEAD = 1  # batches that a GPU has besides the one whose answers are asked for
MOST_REPEATED = 0.5  # share of images in doubt from which bfloat16 saves no time


def predict(
    model: nn.Module,
    spec: ModelSpec,
    batches: Iterable[Batch],
    precision: Precision = "float32",
    margin: float = 0.0,
    *,
    compile: bool = False,
    tf32: bool = True,
) -> pd.DataFrame:
    """Classify images with fused attention; one row an image, in their order.

    Columns: `label`, `family` (background), `prediction`, `confidence_pct` (softmax of the
    predicted class) and `label_rank` (0 when the prediction is right), from which top-1 and
    top-5 follow. Where a batch has `candidates`, all of these are among them alone; where a
    label has several `accepted` classes, any of them is right, and `label_rank` is that of the
    first of them (ObjectNet; the published code takes one of them, differences B6 and B7).

    `bfloat16` runs a converted copy of the weights; with a `margin`, images for which rounding
    could change prediction, top-1 or top-5 are classified again in float32
    (`relevit.evaluate.answers`;
    `evaluation_precision` measures the margin). `compile` as `Answers`. `tf32` lets CUDA
    multiply in TF32 where the format is float32; images in doubt never are.
    Raises: ValueError without images, and for labels that cannot be answered.
    """
    answers = Answers(model, precision, margin, compile=compile)
    rounding = tf32 and precision == "float32"
    with tensor_float32(answers.like.device) if rounding else nullcontext():
        parts = list(_classified(answers, spec, batches))
    if not parts:
        raise ValueError("evaluate: no images to classify; give at least one batch")
    return pd.concat(parts, ignore_index=True)


def _classified(
    answers: Answers, spec: ModelSpec, batches: Iterable[Batch]
) -> Iterator[pd.DataFrame]:
    """The rows of each batch. A GPU has the next batch already while these are made."""
    running: deque[tuple[Batch, Logits]] = deque()
    for batch in batches:
        pixels = spec.normalise(batch.images, like=answers.like)
        running.append((batch, answers.later(pixels, partial(_doubt, batch))))
        if len(running) > AHEAD:
            yield _rows(*running.popleft())
    while running:
        yield _rows(*running.popleft())


def _rows(batch: Batch, logits_of: Logits) -> pd.DataFrame:
    logits, right = _sought(batch, logits_of())
    confidence, place = logits.softmax(dim=1).max(dim=1)
    prediction = torch.tensor(batch.candidates)[place] if batch.candidates else place
    return pd.DataFrame(
        {
            "label": batch.labels.numpy().astype("int16"),
            "family": batch.families.numpy().astype("int16"),
            "prediction": prediction.numpy().astype("int16"),
            "confidence_pct": (100 * confidence).numpy(),
            "label_rank": _rank(logits, right, place).numpy().astype("int16"),
        }
    )


def _doubt(batch: Batch, logits: Tensor, margin: float) -> Tensor:
    logits, right = _sought(batch, logits)
    return unsure_prediction(logits, margin) | unsure_best_rank(logits, right, margin, k=5)


def _sought(
    batch: Batch, logits: Float[Tensor, "batch classes"]
) -> tuple[Float[Tensor, "batch candidates"], Bool[Tensor, "batch candidates"]]:
    """Logits of the classes among which the answer is sought, and which of these are right."""
    right = right_classes(batch.labels, logits.shape[1], batch.accepted)
    if not batch.candidates:
        return logits, right
    candidates = list(batch.candidates)
    logits, right = logits[:, candidates], right[:, candidates]
    lost = batch.labels[~right.any(dim=1)].unique().tolist()
    if lost:
        raise ValueError(
            f"evaluate: the labels {lost[:5]} have no right answer among the "
            f"{len(candidates)} candidates; give the candidates of the set that is classified"
        )
    return logits, right


def _rank(logits: Tensor, right: Tensor, place: Tensor) -> Tensor:
    """How many wrong classes come before the first right one: ties and NaN count against it.

    Only a right prediction, the class at `place`, has rank 0, so that top-1 is its share.
    """
    best = logits.masked_fill(~right, -torch.inf).amax(dim=1, keepdim=True)
    before = (~(logits < best) & ~right).sum(dim=1)
    finite = logits.isfinite().all(dim=1)
    hit = right.gather(1, place[:, None])[:, 0]
    rank = torch.where(hit, 0, before.clamp_min(1))
    return torch.where(finite, rank, logits.shape[1])


def evaluation_precision(
    model: nn.Module,
    spec: ModelSpec,
    choice: PrecisionChoice,
    seed: int = 0,
    *,
    probe: Iterable[Batch] | None = None,
    compile: bool = False,
) -> tuple[Precision, float]:
    """The format to evaluate in, and the margin with which its answers are those of float32.

    `auto` takes bfloat16 where the device has it in hardware, unless more than MOST_REPEATED
    of the answers would be in doubt. The margin is twice the largest error of a logit on new
    draws of the shifted sets' kinds: a model sure of its answers, as on validation images,
    would agree in any format. Looks at no test image and no label. A choice by name is taken
    as it is, with margin 0. For real pictures, `probe` gives some that no test uses, such as
    training images; `compile` as `predict` will have it.
    """
    precision = choose_precision(choice, next(model.parameters()).device)
    if precision == "float32" or choice != "auto":
        return precision, 0.0
    answers = Answers(model, precision, compile=compile)
    batches = _probe(spec, seed) if probe is None else probe
    inputs = [spec.normalise(batch.images, like=answers.like) for batch in batches]
    margin = 2 * answers.largest_error(inputs)
    doubts = torch.cat([unsure_prediction(answers(pixels), margin) for pixels in inputs])
    return (precision, margin) if doubts.float().mean() <= MOST_REPEATED else ("float32", 0.0)


def _probe(spec: ModelSpec, seed: int) -> Iterator[Batch]:
    for name in cutouts.SHIFTED_SETS:
        yield from cutouts.batches(name, PROBE, BATCH, seed=seed + 1, size=spec.image_size)


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
    draw: Callable[..., Batch] = cutouts.draw,
) -> Callable[[nn.Module, FinetuneSettings], dict[str, float]]:
    """What finetuning looks at after each epoch, on the validation images alone.

    `images` of them give `top1_pct` and `confidence_loss` (Eq. 4 without temperature, in
    nats); the losses of the maps are means over the first `maps`, computed as in training but
    without augmentation. With automatic `masks` of these first images, those count that are
    fit for training. `draw` as `cutouts.draw`, of the preset's benchmark.
    """
    shown = draw("validation", range(max(images, maps)), seed=seed, size=spec.image_size)
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
