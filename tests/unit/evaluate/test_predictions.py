"""Predictions, resumed evaluations and accuracies with models whose answers are known."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
import torch
from scipy.special import softmax
from torch import nn

from relevit.data.batch import Batch
from relevit.evaluate.predictions import Classifier, predict
from relevit.models.spec import ModelSpec

# Leaves pixels as they are, so that a model can read a number off them.
PLAIN = ModelSpec("stub", "none", 16, mean=(0.0, 0.0, 0.0), std=(1 / 255, 1 / 255, 1 / 255))


class Table(nn.Module):
    """Answers image number n with row n of a table; the number is in the first pixel."""

    def __init__(self, rows):
        super().__init__()
        self.table = nn.Parameter(torch.tensor(rows))

    def forward(self, images):
        return self.table[images[:, 0, 0, 0].round().long()]


def batch(labels):
    images = torch.zeros(len(labels), 3, 16, 16, dtype=torch.uint8)
    images[:, 0, 0, 0] = torch.arange(len(labels))
    families = torch.arange(len(labels)) + 3
    return Batch(images, torch.zeros(len(labels), 1, 16, 16).bool(), torch.tensor(labels), families)


# One table of predictions

LOGITS = [[3.0, 1.0, 0.0, -1.0], [3.0, 1.0, 0.0, -1.0], [0.0, 0.5, 1.0, 1.5], [0.0, 0.0, 9.0, 0.0]]


def test_predictions_of_known_logits():
    labels = [0, 2, 0, 2]
    rows = predict(Table(LOGITS), PLAIN, iter([batch(labels)]))
    losses = torch.nn.functional.cross_entropy
    assert rows.to_dict("list") == {
        "label": labels,
        "family": [3, 4, 5, 6],
        "prediction": [0, 0, 3, 2],
        "confidence_pct": pytest.approx([100 * max(softmax(row)) for row in LOGITS], rel=1e-5),
        "label_loss": pytest.approx(
            losses(torch.tensor(LOGITS), torch.tensor(labels), reduction="none").tolist()
        ),
        "label_rank": [0, 2, 3, 0],
    }
    nowhere = predict(Table(LOGITS), PLAIN, [replace(batch(labels), families=None)])
    assert nowhere["family"].tolist() == [-1] * 4


def test_answers_to_several_sets_are_those_to_each_by_the_images_number():
    sets = {"one": [0, 2, 0], "other": [1, 3]}
    shown = {name: batch(labels).split(2) for name, labels in sets.items()}
    found = Classifier(Table(LOGITS), PLAIN).answer(shown).set_index("dataset")
    for name, labels in sets.items():
        rows = found.loc[name].reset_index(drop=True)
        assert rows.pop("index").tolist() == list(range(len(labels)))
        pd.testing.assert_frame_equal(rows, predict(Table(LOGITS), PLAIN, [batch(labels)]))


def test_top1_agrees_with_the_prediction_when_logits_tie():
    """A model that says nothing is not always right."""
    model, shown = Table([[0.0] * 4, [1.0, 2.0, 2.0, 0.0]]), [batch([3, 1]), batch([0, 2])]
    first, second = (predict(model, PLAIN, [each]) for each in shown)
    assert first["label_rank"][0] == (0 if first["prediction"][0] == 3 else 3), "ties count against"
    rows = pd.concat([first, second])
    assert ((rows["label_rank"] == 0) == (rows["prediction"] == rows["label"])).all()


# Several right classes, or not all asked for

ANSWERS = ["label", "prediction", "label_rank"]


def answers(rows):
    return list(rows[ANSWERS].itertuples(index=False, name=None))


def test_any_accepted_class_is_right():
    """As in ObjectNet, whose chairs are several classes of ImageNet."""
    logits = [
        [0.0, 1.0, 2.0, 9.0],  # the second accepted one
        [9.0, 1.0, 2.0, 3.0],  # the label
        [0.0, 9.0, 2.0, 3.0],  # another; an accepted one comes next
        [0.0, 9.0, 4.0, 2.0],  # two others before it
        [3.0, 9.0, 1.0, 3.0],  # both accepted ones come next, and neither is behind the other
        [3.0, 3.0, 1.0, 3.0],  # all the same
    ]
    shown = replace(batch([0] * 6), accepted={0: (0, 3)})
    rows = predict(Table(logits), PLAIN, [shown])
    assert answers(rows)[:5] == [(0, 3, 0), (0, 0, 0), (0, 1, 1), (0, 1, 2), (0, 1, 1)]
    assert (rows["label_rank"][5] == 0) == (rows["prediction"][5] in (0, 3))
    # Those that have no entry accept themselves alone.
    plain = predict(Table(logits), PLAIN, [replace(batch([1] * 6), accepted={0: (0, 3)})])
    assert plain["label_rank"].tolist()[:5] == [2, 3, 0, 0, 0]


def test_answers_are_sought_among_the_candidates():
    """As in ImageNet-A, which has 200 of the classes: the others cannot be named."""
    among = tuple(range(3, 1000, 5))
    asked = 8.0 - (torch.arange(1000) - torch.tensor([[7], [998], [11]])).abs()
    rows = predict(Table(asked.tolist()), PLAIN, [replace(batch([8, 998, 18]), candidates=among)])
    assert answers(rows) == [(8, 8, 0), (998, 998, 0), (18, 13, 2)]
    logits = asked[:, list(among)]
    expected = 100 * logits.softmax(dim=1).amax(dim=1)
    assert rows["confidence_pct"].tolist() == pytest.approx(expected.tolist(), rel=1e-5)
    everything = predict(Table(asked.tolist()), PLAIN, [batch([8, 998, 18])])
    assert everything["prediction"].tolist() == [7, 998, 11]
    assert everything["label_rank"][0] == 2 and everything["label_rank"][2] > 5


@pytest.mark.parametrize(
    ("labels", "options", "text"),
    [
        ([0, 2], {"candidates": (0, 1)}, r"evaluate: the labels \[2\] have no right answer among"),
        ([0], {"candidates": (1, 2), "accepted": {0: (0, 3)}}, r"the labels \[0\] have no right"),
        ([207], {}, r"answers: the classes \[207\] are right, and the model has 4 outputs"),
    ],
)
def test_labels_that_cannot_be_answered_are_an_error(labels, options, text):
    with pytest.raises(ValueError, match=text):
        predict(Table([[0.0] * 4] * 2), PLAIN, [replace(batch(labels), **options)])
