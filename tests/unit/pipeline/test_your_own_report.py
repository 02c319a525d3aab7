"""The page on a run: its sentences, and the command that makes the same run."""

from __future__ import annotations

import shlex
from pathlib import Path

import pandas as pd
import pytest

from relevit.config import OwnChoices
from relevit.finetune.your_own import HELD_OUT, ORIGINAL, WITH, WITHOUT
from relevit.pipeline.cli import main
from relevit.pipeline.your_own_report import command, finding

MANY = {
    "data": "my images/it's",
    "masks": "tokencut",
    "own_model": "vit_base_patch16_224.augreg_in1k",
    "own_weights": "mine.safetensors",
    "own_options": {"img_size": 224, "init_values": 1e-5},
    "shifted": ["night", "$5 rain"],
    "object_values": [1, 2],
    "new_head": True,
    "head_classes": ["no", "01", "ä, b"],
    "rates": [2e-6],
    "corrupted": "skip",
    "control": False,
    "weight_classification": 0.2,
    "options": {"normalise": False},
}


@pytest.mark.parametrize("given", [{"data": "x"}, MANY, {"data": "x", "rates": [1e-5, 1.0]}])
def test_the_command_of_a_page_makes_the_same_run(monkeypatch, given):
    def taken(*found, **_):
        asked.extend(found)
        raise RuntimeError

    asked = []
    monkeypatch.setattr("relevit.finetune.your_own.finetune_folder", taken)
    choices = OwnChoices.checked(given, "test")
    _, *words = shlex.split(command(choices, Path("a run")))
    with pytest.raises(RuntimeError):
        main(words)
    assert asked[:2] == [choices, Path("a run")]
    assert ("--set" in words) == (given != {"data": "x"})


@pytest.mark.parametrize(
    ("sets", "added", "said"),
    [
        ([HELD_OUT], [-0.04], "terms add +0.0: no more than chance (95 %"),
        ([HELD_OUT, "a"], [0, 2.0], "terms add +2.0: a gain beyond chance (95 %"),
        ([HELD_OUT, "a", "b"], [0, 2.0, -4.0], "on 1 of 2 sets and a loss on 1 (95 %"),
    ],
)
def test_the_finding_is_of_as_many_sets_as_there_are(sets, added, said):
    rows = [
        {"dataset": name, "change": change, "change_pts": value, "low_pts": low, "high_pts": high}
        for name, value in zip(sets, added, strict=True)
        for low, high in [(value - 1, value + 1)]
        for change in (f"{WITH} - {ORIGINAL}", f"{WITHOUT} - {ORIGINAL}", f"{WITH} - {WITHOUT}")
    ]
    text = finding(pd.DataFrame(rows))
    assert said in text and "-0.0" not in text
