"""Predictions, resumed evaluations and accuracies with models whose answers are known."""

from __future__ import annotations

import math

import pandas as pd
import pytest
import torch
from torch import nn

from relevit.data import cutouts
from relevit.evaluate import predictions as evaluate
from relevit.evaluate.predictions import (
    accuracy_table,
    evaluation_precision,
    predict,
    validation_figures,
)
from relevit.finetune.settings import FinetuneSettings, LossWeights
from relevit.models.loading import ModelSpec

# Leaves pixels as they are, so that a model can read a number off them.
PLAIN = ModelSpec("stub", "none", 16, mean=(0.0, 0.0, 0.0), std=(1 / 255, 1 / 255, 1 / 255))


class Table(nn.Module):
    """Answers image number n with row n of a table; the number is in the first pixel."""

    def __init__(self, rows):
        super().__init__()
        self.table = nn.Parameter(torch.tensor(rows))

    def forward(self, images):
        return self.table[images[:, 0, 0, 0].round().long()]


def batch(labels, first=0):
    images = torch.zeros(len(labels), 3, 16, 16, dtype=torch.uint8)
    images[:, 0, 0, 0] = torch.arange(first, first + len(labels))
    families = torch.arange(len(labels)) + 3
    return cutouts.Batch(
        images, torch.zeros(len(labels), 1, 16, 16).bool(), torch.tensor(labels), families
    )


# One table of predictions

LOGITS = [[3.0, 1.0, 0.0, -1.0], [3.0, 1.0, 0.0, -1.0], [0.0, 0.5, 1.0, 1.5], [0.0, 0.0, 9.0, 0.0]]


def test_predictions_of_known_logits():
    rows = predict(Table(LOGITS), PLAIN, iter([batch([0, 2, 0, 2])]))
    assert rows["label"].tolist() == [0, 2, 0, 2]
    assert rows["prediction"].tolist() == [0, 0, 3, 2]
    assert rows["label_rank"].tolist() == [0, 2, 3, 0]
    assert rows["family"].tolist() == [3, 4, 5, 6]
    expected = [100 * math.exp(max(row)) / sum(math.exp(x) for x in row) for row in LOGITS]
    assert rows["confidence_pct"].tolist() == pytest.approx(expected, rel=1e-5)
    assert set(rows) == {"label", "family", "prediction", "confidence_pct", "label_rank"}


def test_order_and_batches_do_not_matter():
    whole = predict(Table(LOGITS), PLAIN, iter([batch([0, 2, 0, 2])]))
    parts = predict(Table(LOGITS), PLAIN, iter([batch([0]), batch([2, 0, 2], first=1)]))
    pd.testing.assert_frame_equal(parts.drop(columns="family"), whole.drop(columns="family"))


def test_top1_agrees_with_the_prediction_when_logits_tie():
    """In bfloat16 equal logits are common, and a model that says nothing is not always right."""
    rows = predict(Table([[0.0] * 4, [1.0, 2.0, 2.0, 0.0]]), PLAIN, iter([batch([3, 1])]))
    more = predict(Table([[0.0] * 4, [1.0, 2.0, 2.0, 0.0]]), PLAIN, iter([batch([0, 2])]))
    rows = pd.concat([rows, more])
    assert ((rows["label_rank"] == 0) == (rows["prediction"] == rows["label"])).all()


def test_logits_that_are_no_numbers_are_not_right():
    """A comparison with NaN is false, which would make a diverged model perfect."""
    rows = predict(Table([[math.nan] * 4]), PLAIN, iter([batch([3])]))
    assert (rows["label_rank"] > 0).all()


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_model_is_left_as_it_was(precision):
    model = Table(LOGITS).train()
    rows = predict(model, PLAIN, iter([batch([0, 2, 0, 2])]), precision)
    assert model.training and model.table.dtype == torch.float32
    assert model.table.requires_grad and model.table.grad is None
    assert rows["prediction"].tolist() == [0, 0, 3, 2]


def test_bfloat16_runs_in_bfloat16():
    """1.001 and 1.002 are the same number there."""

    class Seen(Table):
        def forward(self, images):
            dtypes.append((images.dtype, self.training))
            return super().forward(images)

    dtypes = []
    predict(Seen(LOGITS).train(), PLAIN, iter([batch([0, 1])]), "bfloat16")
    predict(Seen(LOGITS).train(), PLAIN, iter([batch([0, 1])]), "float32")
    assert dtypes == [(torch.bfloat16, False), (torch.float32, False)]


# Which number format


class Rounded(Table):
    """In bfloat16 the logits of row n are off by up to `errors[n]`."""

    def __init__(self, rows, errors):
        super().__init__(rows)
        self.register_buffer("errors", torch.tensor(errors))

    def forward(self, images):
        numbers = images[:, 0, 0, 0].round().long()
        logits = super().forward(images).float()
        if images.dtype != torch.bfloat16:
            return logits
        return logits + self.errors[numbers, None].float() * torch.tensor([-1.0, 1.0, 0, 0])


@pytest.fixture
def probe(monkeypatch):
    """Sets whose images are numbers 0 to 3 each; notes what was drawn."""
    drawn = []

    def batches(name, count, batch_size, **options):
        drawn.append((name, count, options["seed"]))
        return iter([batch([0, 1, 2, 3])])

    monkeypatch.setattr(evaluate.cutouts, "batches", batches)
    return drawn


@pytest.mark.parametrize(
    ("choice", "fast", "error", "expected"),
    [
        ("float32", True, 0.1, ("float32", 0.0)),
        ("auto", False, 0.1, ("float32", 0.0)),
        ("auto", True, 0.0, ("bfloat16", 0.0)),
        ("auto", True, 0.25, ("bfloat16", 0.5)),  # one answer of four is in doubt
        ("auto", True, 2.0, ("float32", 0.0)),  # three are
        ("auto", True, math.nan, ("float32", 0.0)),
        ("bfloat16", True, 2.0, ("bfloat16", 0.0)),  # a choice by name is taken as it is
        ("bfloat16", False, 2.0, ("bfloat16", 0.0)),
    ],
)
def test_evaluation_precision(monkeypatch, probe, choice, fast, error, expected):
    monkeypatch.setattr("relevit.base.device.fast_bfloat16", lambda device: fast)
    model = Rounded(LOGITS, [error, 0.0, 0.0, 0.0])
    assert evaluation_precision(model, PLAIN, choice) == expected


def test_precision_is_chosen_on_draws_that_no_test_uses(monkeypatch, probe):
    monkeypatch.setattr("relevit.base.device.fast_bfloat16", lambda device: True)
    assert evaluation_precision(Table(LOGITS), PLAIN, "auto", seed=3)[0] == "bfloat16"
    assert probe == [(name, evaluate.PROBE, 4) for name in cutouts.SHIFTED_SETS]


CLOSE = [[3.0, 2.9, 0.0, -1.0], [3.0, 1.0, 0.0, -1.0], [2.9, 3.0, 0.0, 1.5], [0.0, 0.0, 9.0, 0.0]]


def test_margin_makes_the_answers_those_of_float32():
    model, labels = Rounded(CLOSE, [0.2, 0.2, -0.2, 0.2]), [0, 0, 1, 2]
    exact = predict(model, PLAIN, iter([batch(labels)]))
    rough = predict(model, PLAIN, iter([batch(labels)]), "bfloat16")
    careful = predict(model, PLAIN, iter([batch(labels)]), "bfloat16", 0.4)
    answers = ["prediction", "label_rank"]
    assert rough["prediction"].tolist() == [1, 0, 0, 2] != exact["prediction"].tolist()
    pd.testing.assert_frame_equal(careful[answers], exact[answers])
    # What is beyond doubt keeps its bfloat16 confidence.
    assert careful["confidence_pct"][1] == rough["confidence_pct"][1] < exact["confidence_pct"][1]


# Accuracies


def test_accuracy_table():
    predictions = pd.DataFrame(
        {
            "model": ["original"] * 4 + ["finetuned"] * 2,
            "dataset": ["val", "val", "val", "a", "val", "val"],
            "label_rank": [0, 4, 5, 0, 0, 1],
        }
    )
    table = accuracy_table(predictions, ["model", "dataset"]).set_index(["model", "dataset"])
    assert table.loc[("original", "val"), "top1_pct"] == pytest.approx(100 / 3)
    assert table.loc[("original", "val"), "top5_pct"] == pytest.approx(200 / 3)
    assert table.loc[("original", "a")].tolist() == [100.0, 100.0, 1]
    assert table.loc[("finetuned", "val")].tolist() == [50.0, 100.0, 2]
    assert table["images"].tolist() == [3, 1, 2]
    assert table.index.tolist() == [("original", "val"), ("original", "a"), ("finetuned", "val")]
    assert set(predictions) == {"model", "dataset", "label_rank"}


def test_accuracy_over_everything():
    predictions = pd.DataFrame({"set": ["a", "b"], "label_rank": [0, 9]})
    table = accuracy_table(predictions.assign(all="all"), ["all"])
    assert table[["top1_pct", "top5_pct", "images"]].to_numpy().tolist() == [[50.0, 50.0, 2]]


# What finetuning sees


def test_validation_figures_do_not_depend_on_the_batches(build_vit):
    spec = ModelSpec("micro", "none", 28, mean=(0.5,) * 3, std=(0.5,) * 3)
    model = build_vit(num_classes=40).float()
    figures = validation_figures(spec, images=60, maps=7, precision="float32", seed=2)
    found = [
        figures(model, FinetuneSettings(lr=1.0, batch_size=size, weights=LossWeights()))
        for size in (1, 3, 7, 50)
    ]
    assert set(found[0]) == {"top1_pct", "confidence_loss"} | {
        f"loss_{n}" for n in ("background", "foreground", "relevance", "classification", "total")
    }
    for other in found[1:]:
        assert other == pytest.approx(found[0], rel=1e-5)
    shown = cutouts.draw("validation", range(60), seed=2, size=28)
    logits = model(spec.normalise(shown.images)).detach().double()
    right = logits.argmax(dim=1) == shown.labels
    assert found[0]["top1_pct"] == pytest.approx(100 * right.double().mean().item())
    confidence = torch.nn.functional.cross_entropy(logits, logits.argmax(dim=1)).item()
    assert found[0]["confidence_loss"] == pytest.approx(confidence, rel=1e-4)
