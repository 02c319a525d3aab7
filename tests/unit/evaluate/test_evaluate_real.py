"""Predictions where a label has several right classes, or where not all classes are asked for."""

from __future__ import annotations

import math
import shutil
from contextlib import contextmanager
from dataclasses import replace

import pandas as pd
import pytest
import torch
from torch import nn

from relevit.evaluate import predictions as evaluate
from relevit.evaluate.answers import Answers
from relevit.evaluate.predictions import evaluation_precision, predict

from .test_evaluate import PLAIN, Table, batch

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


def test_logits_that_are_no_numbers_are_right_for_no_accepted_class():
    shown = replace(batch([3]), accepted={3: (0, 1, 2, 3)})
    rows = predict(Table([[math.nan] * 4]), PLAIN, [shown])
    assert rows["label_rank"].tolist() == [4]


def test_answers_are_sought_among_the_candidates():
    """As in ImageNet-A, which has 200 of the classes: the others cannot be named."""
    classes = torch.arange(1000)
    among = tuple(range(3, 1000, 5))
    asked = torch.tensor([[8.0], [8.0], [8.0]]) - (classes - torch.tensor([[7], [998], [11]])).abs()
    rows = predict(Table(asked.tolist()), PLAIN, [replace(batch([8, 998, 18]), candidates=among)])
    assert answers(rows) == [(8, 8, 0), (998, 998, 0), (18, 13, 2)]
    logits = asked[:, list(among)]
    expected = 100 * logits.softmax(dim=1).amax(dim=1)
    assert rows["confidence_pct"].tolist() == pytest.approx(expected.tolist(), rel=1e-5)
    everything = predict(Table(asked.tolist()), PLAIN, [batch([8, 998, 18])])
    assert everything["prediction"].tolist() == [7, 998, 11]
    assert everything["label_rank"][0] == 2 and everything["label_rank"][2] > 5


def test_candidates_and_accepted_classes_together():
    logits = [[0.0, 5.0, 1.0, 9.0, 2.0]] * 2
    shown = replace(batch([0, 4]), accepted={0: (3, 0, 1)}, candidates=(4, 0, 1))
    assert answers(predict(Table(logits), PLAIN, [shown])) == [(0, 1, 0), (4, 1, 1)]


class Rough(Table):
    """In bfloat16 it answers with other logits than in float32."""

    def __init__(self, rows, rough):
        super().__init__(rows)
        self.register_buffer("rough", torch.tensor(rough))

    def forward(self, images):
        if images.dtype == torch.bfloat16:
            return self.rough[images[:, 0, 0, 0].round().long()].float()
        return super().forward(images)


def both(model, shown, margin=0.3):
    exact = predict(model, PLAIN, [shown])
    rough = predict(model, PLAIN, [shown], "bfloat16")
    return exact, rough, predict(model, PLAIN, [shown], "bfloat16", margin)


def test_margin_looks_at_the_first_accepted_class():
    """The label itself is far behind, so that its own rank is beyond doubt."""
    before = [[10.0, 9.0, 8.0, 7.0, 6.0, 0.0, 6.1, -9.0]] * 2
    after = [[10.0, 9.0, 8.0, 7.0, 6.0, 0.0, 5.9, -9.0]] * 2
    shown = replace(batch([7, 5]), accepted={7: (7, 6)})
    exact, rough, careful = both(Rough(before, after), shown)
    assert exact["label_rank"].tolist() == [4, 6] and rough["label_rank"][0] == 5
    assert careful["label_rank"].tolist() == [4, 6]


def test_margin_looks_at_the_candidates():
    """Whichever class is first of all has no say where it is no candidate."""
    before = [[10.0, 3.1, 3.0, 0.0], [9.9, 10.0, 3.0, 1.0]]
    after = [[10.0, 3.0, 3.1, 0.0], [10.0, 9.9, 2.9, 1.1]]
    shown = replace(batch([1, 2]), candidates=(1, 2, 3))
    exact, rough, careful = both(Rough(before, after), shown)
    assert exact["prediction"].tolist() == [1, 1] and rough["prediction"].tolist() == [2, 1]
    pd.testing.assert_frame_equal(careful[ANSWERS], exact[ANSWERS])
    # The second is sure, and is not classified again for a class that is no candidate.
    assert careful["confidence_pct"][1] == rough["confidence_pct"][1] != exact["confidence_pct"][1]


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


def test_no_images_are_an_error():
    with pytest.raises(ValueError, match="evaluate: no images to classify; give at least one"):
        predict(Table([[0.0] * 4]), PLAIN, iter([]))


# Speed


def test_the_next_batch_is_begun_before_answers_are_waited_for(monkeypatch):
    happened = []
    later = Answers.later

    def told(self, pixels, doubt):
        number, wait = int(pixels[0, 0, 0, 0]), later(self, pixels, doubt)
        happened.append(f"begin {number}")
        return lambda: happened.append(f"end {number}") or wait()

    monkeypatch.setattr(Answers, "later", told)
    predict(Table([[0.0] * 4] * 3), PLAIN, [batch([n], first=n) for n in range(3)])
    assert happened == ["begin 0", "begin 1", "end 0", "begin 2", "end 1", "end 2"]


@pytest.mark.parametrize(
    ("options", "used"),
    [({}, 1), ({"tf32": False}, 0), ({"precision": "bfloat16", "margin": 0.5}, 0)],
)
def test_tf32_is_for_float32_alone(monkeypatch, options, used):
    """Images in doubt are classified again in float32, which TF32 is not."""
    devices = []

    @contextmanager
    def told(device):
        devices.append(device)
        yield

    monkeypatch.setattr(evaluate, "tensor_float32", told)
    predict(Table([[0.0] * 4]), PLAIN, [batch([0])], **options)
    assert devices == [torch.device("cpu")] * used


def test_precision_of_real_pictures_is_measured_on_those_given(monkeypatch):
    """Cutouts have at most 128 pixels a side, and models of ImageNet take 224."""
    monkeypatch.setattr("relevit.base.device.fast_bfloat16", lambda device: True)
    monkeypatch.setattr(evaluate.cutouts, "batches", None)
    model = Rough([[3.0, 0.0, 0.0]] * 2, [[3.0, 0.0, 0.0], [2.5, 0.25, 0.25]])
    found = evaluation_precision(model, PLAIN, "auto", probe=[batch([0, 1])])
    assert found == ("bfloat16", pytest.approx(1.0))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_compiled_models_give_the_same_answers(monkeypatch):
    compiled = []
    compile_model = torch.compile
    monkeypatch.setattr(torch, "compile", lambda m: compiled.append(m) or compile_model(m))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 8), nn.GELU(), nn.Linear(8, 5))
    random = torch.Generator().manual_seed(0)
    images = torch.randint(256, (7, 3, 16, 16), dtype=torch.uint8, generator=random)
    shown = replace(batch([0, 1, 2, 3, 4, 0, 1]), images=images)
    plain, same = (
        predict(model, PLAIN, shown.split(3), compile=compile) for compile in (False, True)
    )
    assert len(compiled) == 1
    pd.testing.assert_frame_equal(same[ANSWERS], plain[ANSWERS])
    assert same["confidence_pct"].tolist() == pytest.approx(plain["confidence_pct"].tolist())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_no_batch_makes_the_gpu_wait(build_vit, precision):
    model = build_vit().float().cuda()
    images = torch.zeros(4, 3, 28, 28, dtype=torch.uint8).pin_memory()
    given = [replace(batch([0, 1, 2, 3]), images=images)] * 3
    answers = Answers(model, precision)
    answers(PLAIN.normalise(images, like=answers.like))  # the first use of a device waits for it
    torch.cuda.set_sync_debug_mode("error")
    try:
        rows = list(evaluate._classified(answers, PLAIN, given))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert sum(map(len, rows)) == 12
