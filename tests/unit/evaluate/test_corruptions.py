"""What classifiers lose on blurred and cut pictures, on models whose answers are known."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from relevit.data.corruptions import jigsaw
from relevit.data.cutouts import CUTOUTS
from relevit.evaluate import corruptions
from relevit.evaluate.corruptions import shift_table
from relevit.evaluate.predictions import predict
from relevit.models.loading import load_model
from relevit.models.registry import model_spec
from relevit.models.spec import ModelSpec

SPEC = ModelSpec("stub", "none", 16, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))


def drawn(batch):
    random = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (batch, 3, 16, 16), generator=random, dtype=torch.uint8)


class Quarters(nn.Module):
    """The class is the brightest quarter; the first two quarters alone when there are two."""

    def __init__(self, classes=4):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.classes = classes
        self.patch_embed = SimpleNamespace(grid_size=(4, 4))

    def forward(self, images):
        quarters = nn.functional.adaptive_avg_pool2d(images.mean(dim=1, keepdim=True), 2)
        return (quarters.flatten(1) * self.weight)[:, : self.classes]


def bright_quarters(batch=40):
    """Dim images, each with one bright quarter, and its number."""
    labels = torch.arange(batch) % 4
    images = drawn(batch) // 8
    for image, label in zip(images, labels.tolist(), strict=True):
        top, left = 8 * (label // 2), 8 * (label % 2)
        image[:, top : top + 8, left : left + 8] += 150
    return images, labels


def test_rows_of_the_table():
    levels = {"patch_jigsaw": [3, 1], "blur": [1.5]}
    table = shift_table(Quarters(), SPEC, *bright_quarters(), levels)
    assert table.columns.tolist() == ["corruption", "level", "top1_pct", "images"]
    assert table[["corruption", "level"]].to_numpy().tolist() == [
        ["none", 0],
        ["patch_jigsaw", 3],
        ["patch_jigsaw", 1],
        ["blur", 1.5],
    ]
    assert table["level"].dtype == float and (table["images"] == 40).all()
    assert len(shift_table(Quarters(), SPEC, *bright_quarters(), {})) == 1


@pytest.mark.parametrize("batch", [7, 50])
def test_accuracy_is_that_of_the_corrupted_images(monkeypatch, batch):
    monkeypatch.setattr(corruptions, "BATCH", batch)
    images, labels = bright_quarters()
    levels = {"blur": [1.0], "jigsaw": [1, 2], "patch_jigsaw": [8]}
    table = shift_table(Quarters(), SPEC, images, labels, levels, seed=3)
    changed = [jigsaw(images, grid, swaps, seed=3) for grid, swaps in ((2, 1), (2, 2), (4, 8))]
    answers = [Quarters()(SPEC.normalise(x)).argmax(dim=1) for x in changed]
    expected = [100 * float((found == labels).double().mean()) for found in answers]
    assert table["top1_pct"].tolist() == pytest.approx([100, 100, *expected])
    assert max(expected) < 80


def test_two_classes_and_labels_beyond_them():
    images, labels = bright_quarters()
    few = labels < 2
    table = shift_table(Quarters(2), SPEC, images[few], labels[few], {"blur": [1.0]})
    assert table["top1_pct"].tolist() == [100, 100]
    with pytest.raises(ValueError, match=r"labels 0 to 3 and a model of 2 classes; .*finetuned on"):
        shift_table(Quarters(2), SPEC, images, labels, {})


def test_logits_that_are_no_numbers_are_not_right():
    model = Quarters()
    with torch.no_grad():
        model.weight.fill_(math.nan)
    assert shift_table(model, SPEC, *bright_quarters(), {})["top1_pct"].tolist() == [0]


@pytest.fixture(scope="module")
def shown():
    return CUTOUTS.draw("val", range(60), size=112)


def test_none_is_the_accuracy_of_predict_and_the_model_is_left_as_it_was(shown, state_of):
    model, spec = load_model("tiny").train(), model_spec("tiny")
    before = state_of(model)
    table = shift_table(model, spec, shown.images, shown.labels, {"blur": [4.0]})
    assert state_of(model) == before
    rows = predict(model, spec, shown.split(50))
    assert table["top1_pct"][0] == pytest.approx(100 * (rows["label_rank"] == 0).mean())
    assert table["top1_pct"][1] < table["top1_pct"][0]


def test_hits_in_bfloat16_are_those_of_float32():
    """Rounding alone would turn some of them: all quarters are about as bright."""
    images = drawn(300)
    labels = torch.arange(300) % 4
    levels = {"blur": [2.0], "jigsaw": [2], "patch_jigsaw": [8]}
    exact, rough = (
        shift_table(Quarters(), SPEC, images, labels, levels, precision=precision)
        for precision in ("float32", "bfloat16")
    )
    assert exact.equals(rough)
    logits = Quarters().bfloat16()(SPEC.normalise(images).bfloat16())
    rounded = 100 * float((logits.argmax(dim=1) == labels).double().mean())
    assert rounded != exact["top1_pct"][0]


@pytest.mark.parametrize(
    ("levels", "text"),
    [
        ({"fog": [1.0]}, r"corruption 'fog' is unknown; use \('blur', 'jigsaw', 'patch_jigsaw'\)"),
        ({"none": [1.0]}, "corruption 'none' is unknown"),
        ({"blur": [1.0, 0.0]}, r"levels \[1.0, 0.0\] of 'blur'; needed are numbers above 0"),
        ({"blur": [math.inf]}, r"levels \[inf\] of 'blur'"),
        ({"jigsaw": [1.5]}, r"levels \[1.5\] of 'jigsaw'; .* whole ones for swaps"),
        ({"patch_jigsaw": [math.nan]}, r"levels \[nan\] of 'patch_jigsaw'"),
    ],
)
def test_levels_that_make_no_sense_are_errors(levels, text):
    with pytest.raises(ValueError, match=f"shift_table: {text}"):
        shift_table(Quarters(), SPEC, *bright_quarters(), levels)


@pytest.mark.wrong_types
def test_other_errors():
    images, labels = bright_quarters()
    with pytest.raises(ValueError, match=r"40 images and labels \(39,\); needed is one label"):
        shift_table(Quarters(), SPEC, images, labels[1:], {})
    with pytest.raises(ValueError, match=r"shift_table: images .*float32; needed are bytes"):
        shift_table(Quarters(), SPEC, images.float(), labels, {})
    model = Quarters()
    for grid in ((4, 3), None):
        model.patch_embed.grid_size = grid
        shift_table(model, SPEC, images, labels, {"jigsaw": [1]})
        with pytest.raises(ValueError, match=r"this Quarters has the patch grid .* leave it out"):
            shift_table(model, SPEC, images, labels, {"patch_jigsaw": [1]})
