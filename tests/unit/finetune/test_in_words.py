"""Tables of a run for a reader: what was changed, what came of it, rates to the last digit."""

from __future__ import annotations

from types import SimpleNamespace

import pandas as pd
import pytest
import torch

from relevit.evaluate.looking import Look
from relevit.finetune.own_audit import Mean
from reproduction.config import BenchmarkParams, FinetuneParams
from reproduction.runs import in_words
from reproduction.stages import stage_folder, write_summary

PRESET = """
common: {model: tiny, benchmark: {ways: 200}, seeds: [3]}
02_finetune: {seed: 3, epochs: 4}
"""
OWN = FinetuneParams(seed=3, epochs=4, model="tiny", benchmark=BenchmarkParams(ways=200))
YOURS = {"relevance on the object, %": 62.34, "learning rate": 2.5e-5}


@pytest.fixture
def project(project_of_one_preset):
    return project_of_one_preset


def rows(table: pd.DataFrame) -> dict[str, list[str]]:
    return table.T.to_dict("list")


def test_the_presets_own_run_has_nothing_beside_it(project):
    assert in_words.beside_preset(OWN, YOURS) is None
    changed_nothing = OWN.model_copy(update={"device": "cpu", "shown": 2})
    assert in_words.beside_preset(changed_nothing, YOURS) is None


def test_what_was_changed_and_what_came_of_it_stand_beside_the_presets(project):
    trial = OWN.model_copy(update={"weight_background": 0.0, "benchmark": BenchmarkParams()})
    assert rows(in_words.beside_preset(trial, YOURS)) == {
        "weight_background": ["None", "0"],
        "benchmark.ways": ["200", "1000"],
        "relevance on the object, %": ["not made yet", "62.3"],
        "learning rate": ["not made yet", "2.5e-05"],
    }
    write_summary(stage_folder(OWN), OWN, figures={"relevance on the object, %": 55.0})
    found = rows(in_words.beside_preset(trial, YOURS))
    assert found["relevance on the object, %"] == ["55.0", "62.3"]
    assert found["learning rate"][0] == "not made yet", "an older run may lack a figure"
    write_summary(stage_folder(OWN), OWN.model_copy(update={"epochs": 1}), figures=YOURS)
    assert rows(in_words.beside_preset(trial, YOURS))["learning rate"][0] == "not made yet"


def test_before_and_after_are_means_over_the_images():
    looks = [
        Look(torch.zeros(2, 1, 4, 4), torch.zeros(2).long(), share, share + 1, share, [], [])
        for share in (torch.tensor([10.0, 30.0]), torch.tensor([40.0, 50.0]))
    ]
    table = in_words.before_and_after(looks, [97.0, 96.0])
    assert list(table) == ["before", "after", "change"]
    assert table.to_numpy().tolist() == [[20, 45, 25], [21, 46, 25], [97, 96, -1]]


def test_rates_are_exact_and_a_gain_is_no_loss():
    judged = pd.DataFrame(
        {"lr": [5.0e-6, 2.5e-5], "drop_pts": [-1.0, 2.5], "rising": [False, True]}
    )
    table = in_words.rates_in_words(judged, 5.0e-6)
    assert rows(table) == {"5e-06": ["+1.0", "no", "yes"], "2.5e-05": ["-2.5", "yes", ""]}


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
    assert rows(in_words.gaps_in_words(audits)) == {
        "original": [40, "+50.0", "+29.1 to +66.1", "leans"],
        "b": [40, "+4.0", "-1.0 to +9.0", "does not lean"],
    }
    assert in_words.gaps_in_words({}).empty, "no image has a mask"
