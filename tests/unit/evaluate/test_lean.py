"""How much a model leans, of models of which that is known."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from relevit.evaluate.lean import CONDITIONS, lean_rows
from relevit.models.spec import ModelSpec

SPEC = ModelSpec("stub", "none", 32, (0.5,) * 3, (0.5,) * 3, classes=3)
SIDE = 32


class Reader(nn.Module):
    """Answers by which channel is brightest: of the middle, of the border, or by neither."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what, self.scale = what, nn.Parameter(torch.ones(()))

    def forward(self, images):
        middle = images[..., 14:18, 14:18].mean(dim=(2, 3))
        border = images[..., :3, :].mean(dim=(2, 3))
        return self.scale * {"object": middle, "background": border, "both": middle + border,
                             "nothing": 0 * middle}[self.what]  # fmt: skip


def scenes(count=30, seed=0):
    """A disc of the class's colour on a background of it; (images, masks, labels)."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 3
    images = torch.randint(0, 100, (count, 3, SIDE, SIDE), generator=random)
    images[torch.arange(count), labels] += 100
    rows, columns = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    masks = ((rows - 16) ** 2 + (columns - 16) ** 2 < 64)[None, None].repeat(count, 1, 1, 1)
    return images.byte(), masks, labels


def right_pct(what, **how):
    rows = lean_rows(Reader(what), SPEC, *scenes(), **how)
    return (100 * rows.groupby("condition")["right"].mean()).to_dict(), rows


def test_what_each_condition_shows():
    of_object, rows = right_pct("object")
    assert of_object == dict.fromkeys(CONDITIONS, 100.0)  # the fill is of the class's colour here
    of_background, _ = right_pct("background")
    wrong = {"other": 0.0, "grey": pytest.approx(100 / 3)}
    assert of_background == dict.fromkeys(CONDITIONS, 100.0) | wrong
    assert len(rows) == 30 * len(CONDITIONS)
    assert list(rows) == ["image", "label", "condition", "answer", "right", "probability", "logit"]
    assert rows["probability"].between(0, 1).all()
    object_gone = rows.query("condition == 'filled'")["logit"].mean()
    assert 0 < object_gone <= rows.query("condition == 'original'")["logit"].mean() * 1.2


def test_the_seed_draws_backgrounds_and_nothing_else():
    first, again, other = (right_pct("both", seed=seed)[1] for seed in (0, 0, 1))
    assert first.equals(again) and not first.equals(other)
    drawn = first["condition"].isin(["same", "other"])
    assert first[~drawn].equals(other[~drawn])


def test_images_without_object_or_background_are_left_out():
    images, masks, labels = scenes(9)
    masks[0], masks[1] = False, True
    labels[2] = 3  # the only one of its class
    spec = ModelSpec("stub", "none", 32, (0.5,) * 3, (0.5,) * 3, classes=4)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIDE * SIDE, 4))
    rows = lean_rows(model, spec, images, masks, labels)
    assert set(rows["image"]) == set(range(2, 9))
    assert set(rows.loc[rows["image"] == 2, "condition"]) == set(CONDITIONS) - {"same"}


def test_one_class_alone_is_refused():
    images, masks, _ = scenes(4)
    with pytest.raises(ValueError, match="of classes: 1; give such images of two classes"):
        lean_rows(Reader("object"), SPEC, images, masks, torch.zeros(4, dtype=torch.int64))
