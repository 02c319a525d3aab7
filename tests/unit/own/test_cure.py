"""What each cure is in the settings of a run, and which one the masks decide for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from relevit.data.batch import Batch
from relevit_own.choices import OwnChoices
from relevit_own.finetune import cure_settings, taken_cure
from relevit_own.table import Table, read_table

SIDE = 32
SHAPES = {
    "disc": lambda y, x: (y - 12) ** 2 + (x - 16) ** 2 < 60,
    "box": lambda y, x: (y > 9) & (x > 15),
    "all": lambda y, x: y + x >= 0,
    "none": lambda y, x: y + x < 0,
}


@pytest.mark.parametrize(
    ("cure", "relevance", "augmentation"),
    [
        ("label", 0.0, "none"),
        ("relevance", 0.8, "none"),
        ("swap", 0.0, "swap"),
        ("both", 0.8, "swap"),
    ],
)
def test_each_cure_is_what_it_is_named_for(cure, relevance, augmentation):
    changed = cure_settings(OwnChoices(), cure)
    weights = {"classification": 0.05, "background": 2.0, "foreground": 0.3}
    assert changed.pop("weights") == weights | {"relevance": relevance}
    assert changed.pop("augmentation") == augmentation
    plain = OwnChoices()
    assert changed == {name: getattr(plain, name) for name in changed}
    seams = OwnChoices(augmentation="swap_seams")
    assert cure_settings(seams, cure)["augmentation"] == augmentation.replace("swap", "swap_seams")


def drawn(folder, shapes) -> tuple[Batch, Table]:
    """Images with masks of these SHAPES, in memory and on disk."""
    masks = []
    for place, shape in enumerate(shapes):
        mask = np.fromfunction(SHAPES[shape], (SIDE, SIDE))
        masks.append(torch.from_numpy(mask))
        for kind, picture in {"images": np.full((SIDE, SIDE), place), "masks": 255 * mask}.items():
            (folder / kind / "cat").mkdir(parents=True, exist_ok=True)
            file = folder / kind / "cat" / f"{place}.png"
            Image.fromarray(picture.astype(np.uint8)).save(file)
    images = torch.zeros(len(shapes), 3, SIDE, SIDE, dtype=torch.uint8)
    part = read_table(folder, least_classes=1)
    return Batch(images, torch.stack(masks)[:, None], torch.zeros(len(shapes)).long()), part


@pytest.mark.parametrize(
    ("shapes", "by_hand", "cure", "why"),
    [
        (["box", "box"], True, "relevance", "the masks are boxes, with which"),
        (["box", "none", "box"], True, "relevance", "the masks are boxes, with which"),
        (["box", "disc"], True, "swap", "led on photographs"),
        (["box", "box"], False, "swap", "led on photographs"),
        (["disc", "all"], True, "relevance", "1 of 2 training images have a mask and a background"),
    ],
)
def test_auto_goes_by_the_masks(tmp_path, shapes, by_hand, cure, why):
    train, part = drawn(tmp_path, shapes)
    found, said = taken_cure(OwnChoices(), train, part if by_hand else None)
    assert found == cure and why in said
    assert taken_cure(OwnChoices(cure="label"), train, part) == ("label", "as asked")


@pytest.mark.parametrize("asked", [{"cure": "swap"}, {"against": "both"}])
def test_a_swap_that_is_asked_for_needs_two_backgrounds(tmp_path, asked):
    train, part = drawn(tmp_path, ["disc", "all"])
    with pytest.raises(ValueError, match=r"1 of 2 .* a swap needs two; give .*cure relevance"):
        taken_cure(OwnChoices(**asked), train, part)
    if "against" in asked:
        assert taken_cure(OwnChoices(control=False, **asked), train, part)[0] == "relevance"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"weight_relevance": 0.0}, "which weigh 0 by weight_relevance = 0, weight"),
        ({"cure": "swap", "against": "both", "weight_relevance": 0.0}, "both trains the relevance"),
        ({"cure": "relevance", "weight_background": 0.0, "weight_foreground": 0.0}, "weigh 0"),
        ({"weight_classification": 0.0}, "leaves auto and label nothing to train; give it"),
    ],
)
def test_a_cure_without_weight_is_refused(asked, said):
    with pytest.raises(ValueError, match=said) as caught:
        OwnChoices.checked(asked, "test")
    assert "\n" not in str(caught.value)
    OwnChoices.checked({"cure": "label", "weight_relevance": 0.0}, "test")
