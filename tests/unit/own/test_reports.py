"""The page on a run: its sentences, and the command that makes the same run."""

import shlex
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from relevit_own.audit import Mean
from relevit_own.choices import OwnChoices
from relevit_own.cli import main
from relevit_own.reports.checked import sample_grid
from relevit_own.reports.finetuned import command, leaned
from relevit_own.reports.page import gaps_in_words
from relevit_own.table import COLUMNS, GONE, Table
from reproduction.plots.images import shortened

MANY = {
    "data": "my images/it's",
    "masks": "tokencut",
    "own_model": "vit_base_patch16_224.augreg_in1k",
    "own_weights": "mine.safetensors",
    "own_options": {"img_size": 224, "init_values": 1e-5},
    "shifted": ["night", "$5 rain"],
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
def test_the_command_of_a_page_makes_the_same_run(monkeypatch, tmp_path, given):
    def taken(*found, **_):
        asked.extend(found)
        raise KeyError

    monkeypatch.chdir(tmp_path)
    for folder in (given["data"], *given.get("shifted", [])):
        Path(folder).mkdir(parents=True)
    Path("mine.safetensors").touch()

    asked = []
    monkeypatch.setattr("relevit_own.finetune.finetune_folder", taken)
    choices = OwnChoices.checked(given, "test")
    _, *words = shlex.split(command(choices, Path("a run")))
    with pytest.raises(KeyError):
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


def test_a_gap_has_its_interval_and_verdict():
    gaps = {"original": (50.04, 29.1, 66.1, "leans"), "b": (4.0, -1.0, 9.0, "does not lean")}
    audits = {
        name: SimpleNamespace(
            audit=SimpleNamespace(
                gap_pts=Mean(value=gap, low=low, high=high),
                verdict=verdict,
                conditions=[SimpleNamespace(condition="same", images=40)],
            )
        )
        for name, (gap, low, high, verdict) in gaps.items()
    }
    assert gaps_in_words(audits).T.to_dict("list") == {
        "original": [40, "+50.0", "+29.1 to +66.1", "leans"],
        "b": [40, "+4.0", "-1.0 to +9.0", "does not lean"],
    }
    assert gaps_in_words({}).empty, "no image has a mask"


@pytest.mark.parametrize("masked", [True, False])
def test_samples_have_their_names_and_their_whole_picture(tmp_path, masked):
    name = "$5 a very long name, longer than a title is, $9.jpg"
    Image.new("RGB", (60, 20), (200, 200, 200)).save(tmp_path / name, "png")
    mask = np.zeros((20, 60), dtype=bool)
    mask[:, 40:] = True
    Image.fromarray(mask).save(tmp_path / "mask.png")
    masks = (tmp_path / "mask.png" if masked else None,)
    rows = pd.DataFrame([(name, tmp_path / name, "$a", masks[0], None, "")], columns=COLUMNS)
    table = Table("x", ("$a", "b"), rows, pd.DataFrame(columns=GONE))
    above, *below = sample_grid(table).axes
    assert above.get_title() == f"$a\n{shortened(name, 30)}"
    assert not above.title.get_parse_math() and len(above.collections) == masked
    assert above.images[0].get_array().shape == (20, 60, 3) and len(below) == masked
    for axis in below:
        alone = axis.images[0].get_array()[..., 0]
        assert (alone[:, 41:] == 200).all() and (alone[:, :39] == 44).all()
