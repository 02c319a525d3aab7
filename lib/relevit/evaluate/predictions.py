"""Classify images and keep every prediction, so that any split needs no new run."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from relevit.base.device import Precision
from relevit.data.batch import Batch
from relevit.evaluate.answering import Answers, Logits, prediction_gap, rank_gap, right_classes
from relevit.models.spec import ModelSpec
from relevit.models.trunk import Frozen

BATCH = 50  # images; the predictions do not depend on it beyond rounding
AHEAD = 1  # batches that a GPU has besides the one whose answers are asked for


class Classifier:
    """A model as it is evaluated: prediction, top-1 and top-5 are those of float32.

    A GPU computes them in TF32, and once more where that could change them
    (`relevit.evaluate.answering`). Where `bfloat16` is asked for, as training looks at its
    validation images, a converted copy of the weights answers, unchecked. Tokens of `frozen` blocks
    are kept.
    """

    def __init__(
        self,
        model: nn.Module,
        spec: ModelSpec,
        precision: Precision = "float32",
        frozen: Frozen | None = None,
    ) -> None:
        self.spec, self.answers = spec, Answers(model, precision, frozen)
        checked = "tf32, in doubt float32"
        self.precision = checked if self.answers.rounded else precision

    def predict(self, batches: Iterable[Batch]) -> pd.DataFrame:
        """Classify images with fused attention; one row an image, in their order.

        Columns: `label`, `family` (background), `prediction`, `confidence_pct` (softmax of the
        predicted class), `label_loss` (cross-entropy of the label, nats) and `label_rank` (0 when
        the prediction is right), from which top-1 and top-5 follow. Where a batch has `candidates`,
        all of these are among them alone; where a label has several `accepted` classes, any of them
        is right, and `label_rank` is that of the first of them (ObjectNet; the published code takes
        one of them, differences B6 and B7).
        Raises: ValueError without images, and for labels that cannot be answered.
        """
        parts = list(self._classified(batches))
        if not parts:
            raise ValueError("evaluate: no images to classify; give at least one that can be read")
        return pd.concat(parts, ignore_index=True)

    def answer(self, sets: Mapping[str, Iterable[Batch]]) -> pd.DataFrame:
        """`predict` of the images of several sets, with `dataset` and `index`: its number there."""
        found = {name: self.predict(batches) for name, batches in sets.items()}
        return pd.concat(found, names=["dataset", "index"]).reset_index()

    def _classified(self, batches: Iterable[Batch]) -> Iterator[pd.DataFrame]:
        """The rows of each batch. A GPU has the next batch already while these are made."""
        running: deque[tuple[Batch, Logits]] = deque()
        for batch in batches:
            pixels = self.spec.normalise(batch.images, like=self.answers.like)
            running.append((batch, self.answers.later(pixels, partial(_gap, batch))))
            if len(running) > AHEAD:
                yield _rows(*running.popleft())
        while running:
            yield _rows(*running.popleft())


def predict(
    model: nn.Module,
    spec: ModelSpec,
    batches: Iterable[Batch],
    precision: Precision = "float32",
    frozen: Frozen | None = None,
) -> pd.DataFrame:
    """`Classifier.predict` of the model."""
    return Classifier(model, spec, precision, frozen).predict(batches)


def _rows(batch: Batch, logits_of: Logits) -> pd.DataFrame:
    logits, right = _sought(batch, logits_of())
    confidence, place = logits.softmax(dim=1).max(dim=1)
    loss = -logits.log_softmax(dim=1).masked_fill(~right, -torch.inf).logsumexp(dim=1)
    prediction = torch.tensor(batch.candidates)[place] if batch.candidates else place
    return pd.DataFrame(
        {
            "label": batch.labels.numpy().astype("int16"),
            "family": np.int16(-1)
            if batch.families is None
            else batch.families.numpy().astype("int16"),
            "prediction": prediction.numpy().astype("int16"),
            "confidence_pct": (100 * confidence).numpy(),
            "label_loss": loss.numpy(),
            "label_rank": _rank(logits, right, place).numpy().astype("int16"),
        }
    )


def _gap(batch: Batch, logits: Float[Tensor, "batch classes"]) -> Float[Tensor, " batch"]:
    """What the prediction, top-1 and top-5 hang on."""
    logits, right = _sought(batch, logits)
    return torch.minimum(prediction_gap(logits), rank_gap(logits, right, k=5))


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


def accuracy_table(predictions: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Top-1 and top-5 accuracy in percent, and the number of images, for each group of `by`."""
    groups = predictions.assign(
        top1_pct=100.0 * (predictions["label_rank"] == 0),
        top5_pct=100.0 * (predictions["label_rank"] < 5),
        images=1,
    ).groupby(by, sort=False, observed=True)
    return groups.agg({"top1_pct": "mean", "top5_pct": "mean", "images": "sum"}).reset_index()
