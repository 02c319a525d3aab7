"""Answers that a GPU rounds on the way, and that are those of float32."""

from __future__ import annotations

import math
from contextlib import nullcontext

import pytest
import torch
from torch.overrides import TorchFunctionMode

from habitats.cutouts import CUTOUTS, SHIFTED_SETS
from habitats.homes import habitats
from relevit.evaluate import answering
from relevit.evaluate.answering import NEAREST, Answers, prediction_gap, rank_gap, right_classes
from relevit.evaluate.predictions import Classifier
from relevit.models.loading import load_model
from relevit.models.registry import model_spec, shipped_weights

LOGITS = torch.tensor([[5.0, 4.0, 3.0, 2.0, 1.0, 0.0]])


@pytest.mark.parametrize(
    ("right", "k", "gap"),
    [
        ((1, 5), 1, 1.0),  # the first of them against 5.0
        ((0, 1), 1, 2.0),  # both of them against 3.0: which of the two comes first is all one
        ((1, 3), 2, 1.0),
        ((2, 3), 3, 2.0),
        ((3, 5), 2, 2.0),
        ((4, 5), 5, math.inf),
    ],
)
def test_gap_to_the_border_that_the_first_right_class_could_cross(right, k, gap):
    classes = right_classes(torch.tensor([right[0]]), 6, {right[0]: right})
    assert rank_gap(LOGITS, classes, k).tolist() == [gap]


class Coarse(TorchFunctionMode):
    """Matrices of five bits of mantissa: as TF32, but far less exact, so that answers change."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.nn.functional.linear:
            both = [each.contiguous().view(torch.int32) & ~0x3FFFF for each in args[:2]]
            args = [each.view(torch.float32) for each in both] + list(args[2:])
        return function(*args, **(kwargs or {}))


@pytest.fixture
def rounding(monkeypatch):
    """A processor that rounds as a GPU does."""
    monkeypatch.setattr(answering, "has_tensor_float32", lambda device: True)
    how = lambda device, on=True: Coarse() if on else nullcontext()  # noqa: E731
    monkeypatch.setattr(answering, "tensor_float32", how)


def test_answers_are_those_of_float32_and_not_all_are_worked_out_again(rounding):
    model, spec = load_model("tiny"), model_spec("tiny")
    sets = ("sketch", "objectnet", "a")
    shown = [CUTOUTS.draw(name, range(60), size=112).images for name in sets]
    pixels = [spec.normalise(part) for part in shown]
    answers = Answers(model)
    found = torch.cat([answers(part, prediction_gap) for part in pixels])
    exact = torch.cat([answers(part) for part in pixels])  # without a gap nothing is rounded
    with torch.no_grad():
        assert torch.equal(exact, torch.cat([model(part) for part in pixels]))
        with Coarse():
            rough = torch.cat([model(part) for part in pixels])
    assert (rough.argmax(dim=1) != exact.argmax(dim=1)).any()
    assert torch.equal(found.argmax(dim=1), exact.argmax(dim=1))
    again = (found == exact).all(dim=1)
    assert 3 * NEAREST <= int(again.sum()) <= answers.repeated < len(found)
    assert torch.equal(found[~again], rough[~again])


def test_a_value_that_is_no_number_is_looked_at_again(rounding):
    shown = torch.randn(20, 3, 2, 2)
    shown[1] = torch.nan
    answers = Answers(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 4)))
    found = answers(shown, prediction_gap)
    assert found[1].isnan().all() and answers.repeated >= NEAREST
    assert math.isfinite(answers.margin) and answers.margin > 0


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["tiny", "dinov2-s8"])
def test_a_gpu_answers_as_the_processor_does(name):
    """Shipped models and images of each kind, whose logits differ in their fourth digit."""
    weights, drawn = shipped_weights(name, "habitats"), habitats()
    spec = drawn.spec(name)
    shown = [drawn.draw(each, range(60), size=spec.image_size) for each in ("val", *SHIFTED_SETS)]
    exact = Classifier(load_model(name, weights, device="cpu"), spec).predict(shown)
    answering = Classifier(load_model(name, weights, device="cuda"), spec)
    found = answering.predict(shown)
    decided = ["label", "prediction", "label_rank"]
    differ = exact[decided].ne(found[decided]).any(axis=1)
    again = 100 * answering.answers.repeated / len(found)
    print(f"{name}: margin {answering.answers.margin:.4f}, {again:.1f} % of {len(found)} again, "
          f"{int(differ.sum())} differ; {answering.precision}")  # fmt: skip
    # float32 itself has other sums there: at most one in a thousand lies so near.
    assert differ.mean() <= 1e-3
    apart = (exact["confidence_pct"] - found["confidence_pct"]).abs()
    assert apart.max() < 2
