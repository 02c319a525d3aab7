"""The page on a run: its sentences, and the command that makes the same run."""

import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

from relevit.choices.own import OwnChoices
from relevit.finetune.own_audit import Mean
from reproduction.pipeline.cli import main
from reproduction.pipeline.reports.finetuned import command, leaned

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
    "cure": "swap",
    "trained_blocks": 3,
    "against": "both",
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


def test_the_finding_says_how_much_the_model_leaned():
    gaps = {
        "original": (60, 22.4, 81, "leans"),
        "without": (40, 9, 66, "undecided"),
        "with swaps": (3, -2.2, 8, "does not lean"),
    }
    audits = {
        name: SimpleNamespace(
            audit=SimpleNamespace(gap_pts=Mean(value=gap, low=low, high=high), verdict=verdict)
        )
        for name, (gap, low, high, verdict) in gaps.items()
    }
    assert leaned(SimpleNamespace(cure="swap"), audits) == (
        " Its background gap was 60 points (22 to 81: leans), and is 3 points (-2 to 8: does not "
        "lean)."
    )
    assert leaned(SimpleNamespace(cure="swap"), {}) == ""
