"""Answers in bfloat16 that are those of float32."""

from __future__ import annotations

import math

import pytest
import torch

from habitats.cutouts import CUTOUTS
from relevit.evaluate.bfloat16 import Answers, prediction_gap, rank_gap, right_classes
from relevit.models.loading import load_model
from relevit.models.registry import model_spec

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


@pytest.fixture(scope="module")
def model():
    return load_model("tiny")


@pytest.fixture(scope="module")
def pixels():
    spec = model_spec("tiny")
    return torch.cat(
        [
            spec.normalise(CUTOUTS.draw(name, range(60), size=112).images)
            for name in ("sketch", "objectnet")
        ]
    )


def test_doubtful_answers_are_repeated_and_others_are_not(model, pixels):
    plain, exact = Answers(model, "bfloat16"), Answers(model, "float32")
    careful = Answers(model, "bfloat16")
    doubt = careful.measure([pixels])
    found = careful(pixels, prediction_gap)
    rough, expected = plain(pixels, prediction_gap), exact(pixels)
    again = careful.doubtful(prediction_gap(rough))
    assert 0 < careful.repeated == int(again.sum()) < len(pixels)
    assert doubt == pytest.approx(float(again.float().mean()))
    assert plain.repeated == 0
    torch.testing.assert_close(found[again], expected[again], rtol=1e-4, atol=1e-4)
    assert torch.equal(found[~again], rough[~again])
    assert torch.equal(found.argmax(dim=1), expected.argmax(dim=1))
