"""Answers in bfloat16 that are those of float32."""

from __future__ import annotations

import math

import pytest
import torch

from relevit.data.cutouts import CUTOUTS
from relevit.evaluate.bfloat16 import Answers, label_gap, prediction_gap, rank_gap, right_classes
from relevit.models.loading import load_model
from relevit.models.registry import model_spec

LOGITS = torch.tensor([[5.0, 4.0, 3.0, 2.0, 1.0, 0.0]])


def test_prediction_hangs_on_the_two_highest_logits():
    assert prediction_gap(LOGITS).tolist() == [1.0]


@pytest.mark.parametrize(
    ("label", "k", "gap"),
    [
        (0, 1, 1.0),
        (1, 1, 1.0),
        (2, 1, 2.0),
        (5, 1, 5.0),
        (0, 2, 2.0),
        (2, 2, 1.0),
        (0, 5, 5.0),
        (4, 5, 1.0),
        (5, 5, 1.0),
        (3, 6, math.inf),  # every label is among as many places as there are classes
    ],
)
def test_gap_to_the_border_that_the_label_could_cross(label, k, gap):
    assert label_gap(LOGITS, torch.tensor([label]), k).tolist() == [gap]


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


@pytest.mark.parametrize("margin", [0.5, 1.0, 1.01, 3.0, math.nan])
def test_what_is_not_surely_beyond_the_margin_is_doubtful(model, margin):
    answers = Answers(model)
    answers.margin = margin
    nothing = prediction_gap(LOGITS * math.nan), label_gap(LOGITS * math.nan, torch.tensor([0]), 1)
    gaps = torch.cat([prediction_gap(LOGITS), *nothing])
    assert answers.doubtful(gaps).tolist() == [not margin <= 1.0, True, True]


def test_right_classes_are_the_accepted_ones():
    right = right_classes(torch.tensor([2, 0, 2, 1]), 4, {2: (3, 1), 0: (0,)})
    assert [row.nonzero()[:, 0].tolist() for row in right] == [[1, 3], [0], [1, 3], [1]]


@pytest.mark.parametrize(("labels", "accepted"), [([4], {}), ([-1], {}), ([0], {0: (0, 4)})])
def test_a_right_class_without_an_output_is_an_error(labels, accepted):
    text = r"answers: the classes \[(4|-1)\] are right, and the model has 4 outputs; give a model"
    with pytest.raises(ValueError, match=text):
        right_classes(torch.tensor(labels), 4, accepted)


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


def margin(model, precision, batches):
    answers = Answers(model, precision)
    answers.measure(batches)
    return answers.margin


def test_margin_is_twice_the_largest_error_of_all_batches(model, pixels):
    some = pixels[50:70]
    apart = Answers(model, "bfloat16")(some) - Answers(model, "float32")(some)
    largest = (apart - apart.mean(dim=1, keepdim=True)).abs().max()
    margins = [margin(model, "bfloat16", [part]) for part in some.split(10)]
    assert margin(model, "bfloat16", some.split(10)) == max(margins) > 0
    assert max(margins) == pytest.approx(2 * float(largest), rel=0.2)  # batches round otherwise
    assert margin(model, "float32", [some]) == 0.0
    assert math.isnan(margin(model, "bfloat16", [some, some * math.nan]))


def test_a_margin_that_is_no_number_repeats_everything(model, pixels):
    answers = Answers(model, "bfloat16")
    answers.margin = math.nan
    answers(pixels[50:70], prediction_gap)
    assert answers.repeated == 20


def test_weights_are_copied_only_into_another_format(model):
    """A copy of a large model takes longer than to classify a batch with it."""
    first = next(model.parameters())
    for same in (Answers(model), Answers(model, "float32")):
        assert same.like.data_ptr() == first.data_ptr()
    rough = Answers(model, "bfloat16")
    assert rough.like.data_ptr() == first.data_ptr() and rough.like.dtype == torch.float32
    assert {p.dtype for p in rough._fast.parameters()} == {torch.bfloat16}
    assert {p.dtype for p in model.parameters()} == {torch.float32}


def test_answers_can_be_asked_for_later(model, pixels):
    careful = Answers(model, "bfloat16")
    careful.margin = 0.5
    expected = careful(pixels[:8], prediction_gap), careful(pixels[8:16], prediction_gap)
    repeated = careful.repeated
    first = careful.later(pixels[:8], prediction_gap)
    second = careful.later(pixels[8:16], prediction_gap)
    assert careful.repeated == repeated > 0  # nothing yet
    assert torch.equal(second(), expected[1]) and torch.equal(first(), expected[0])
    assert careful.repeated == 2 * repeated
