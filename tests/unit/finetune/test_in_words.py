"""Tables in words: what was changed and came of it, signs, intervals, rates to the last digit."""

from __future__ import annotations

import math

import pandas as pd
import pytest
import torch

from habitats.cutouts import TEST_SETS
from relevit.evaluate.looking import RIGHT, WRONG, Look
from reproduction.params.cells import FINETUNED, params_of
from reproduction.params.common import Benchmark
from reproduction.runs import effects
from reproduction.runs.effects import of_study
from reproduction.runs.grids import VARIANTS
from reproduction.stages import stage_folder, write_summary

PRESET = """
common: {model: tiny, benchmark: {ways: 200}, seeds: [3]}
02_finetune: {seed: 3, epochs: 4}
"""
OWN = params_of(FINETUNED)(seed=3, epochs=4, model="tiny", benchmark=Benchmark(ways=200))
YOURS = {"relevance on the object, %": 62.34, "learning rate": 2.5e-5}


@pytest.fixture
def project(project_of_one_preset):
    return project_of_one_preset


def rows(table: pd.DataFrame) -> dict[str, list[str]]:
    return table.T.to_dict("list")


def test_the_presets_own_run_has_nothing_beside_it(project):
    assert effects.beside_preset(OWN, YOURS) is None
    changed_nothing = OWN.model_copy(update={"device": "cpu", "shown": 2})
    assert effects.beside_preset(changed_nothing, YOURS) is None


def test_what_was_changed_and_what_came_of_it_stand_beside_the_presets(project):
    trial = OWN.model_copy(update={"weight_background": 0.0, "benchmark": Benchmark()})
    with pytest.raises(FileNotFoundError, match="run this first"):  # as `prepared` does
        effects.beside_preset(trial, YOURS)
    write_summary(stage_folder(OWN), OWN, figures={"relevance on the object, %": 55.0})
    assert rows(effects.beside_preset(trial, YOURS)) == {
        "weight_background": ["None", "0"],
        "benchmark.ways": ["200", "1000"],
        "relevance on the object, %": ["55.0", "62.3"],
        "learning rate": ["", "2.5e-05"],  # an older run may lack a figure
    }


def test_before_and_after_are_means_over_the_images():
    looks = [
        Look(torch.zeros(2, 1, 4, 4), torch.zeros(2).long(), share, share + 1, share, [], colours)
        for share, colours in (
            (torch.tensor([10.0, 30.0]), [RIGHT, RIGHT]),
            (torch.tensor([40.0, 50.0]), [RIGHT, WRONG]),
        )
    ]
    table = effects.before_and_after(looks, 15.0)
    assert list(table) == ["before", "after", "change", effects.FLAT]
    assert table.iloc[:, :3].to_numpy().tolist() == [[20, 45, 25], [21, 46, 25], [100, 50, -50]]
    assert table[effects.FLAT].dropna().to_dict() == {"relevance on the object, %": 15.0}


def test_a_run_of_ablations_is_called_by_what_it_has_other_than_all_terms():
    full = {"arm": "full", "images_per_class": 3, "classes": 40, "lr_factor": 1.0}
    others = [{"images_per_class": 1}, {"classes": 8}, {"lr_factor": 10.0}, {"arm": "rollout"}]
    made = pd.DataFrame([full, *(full | other for other in others)])
    told = effects.amounts_told(made, params_of(FINETUNED)(images_per_class=3, classes=40))
    assert told == ["full", "1 image a class", "8 classes", "10 times the rate", "rollout"]
    assert set(VARIANTS) == set(effects.VARIANTS)


def test_rates_are_exact_and_a_gain_is_no_loss():
    judged = pd.DataFrame(
        {"lr": [5.0e-6, 2.5e-5], "drop_pts": [-1.0, 2.5], "rising": [False, True]}
    )
    table = effects.rates_in_words(judged, 5.0e-6)
    assert rows(table) == {"5e-06": ["+1.0", "no", "yes"], "2.5e-05": ["-2.5", "yes", ""]}


# Of many


@pytest.mark.parametrize(
    ("value", "text"), [(6.66, "+6.7"), (-0.02, "+0.0"), (-3, "-3.0"), (math.nan, "")]
)
def test_a_number_has_its_sign_and_nothing_is_no_loss(value, text):
    assert effects.signed(value) == text


def test_arms_are_told_with_their_rates_the_largest_gain_first():
    ends = {"low_pts": -1.0, "high_pts": 3.0, "val_pts": 0.5, "worst_home_pct": 40.0}
    rows = pd.DataFrame([
        {"arm": "label", "lr": 2.5e-5, "change_pts": 1.0, "lead_pts": -2.0, "lead_low_pts": -3.0,
         "lead_high_pts": -1.0} | ends,
        {"arm": "relevance", "lr": 2.0e-4 / 3, "change_pts": 2.0} | ends,
    ])  # fmt: skip
    found = effects.arms_told(rows)
    assert list(found.index) == ["relevance", "labels alone"]
    assert list(found["learning rate"]) == ["6.67e-05", "2.5e-05"]
    assert list(found["over relevance"]) == ["", "-2.0 (-3.0 to -1.0)"]
    assert list(found["gap, points"]) == ["", ""], "photographs have none"


def test_rates_are_those_that_are_used_and_a_gain_is_no_loss():
    rows = pd.DataFrame({
        "model": "tiny", "method": ["gradmask", "gradmask", "rrr"], "protocol": "published",
        "used": [False, True, True], "lr": [1.0, 2.5e-5, 3.0e-6], "drop_pts": [9.0, -1.0, 0.0],
        "rising": [True, True, False], "background_before": 2.0,
        "background_after": [2.0, 1.5, math.nan],
    })  # fmt: skip
    assert effects.rates_told(rows).to_numpy().tolist() == [
        ["2.5e-05", "+1.0", "yes", "-25.0"],
        ["3e-06", "+0.0", "no", ""],
    ]
    assert list(effects.rates_told(rows).index) == ["GradMask, published", "RRR, published"]


@pytest.mark.parametrize(
    ("values", "title"),
    [
        ({}, "ours, annotated masks"),
        ({"masks": "tokencut"}, "ours, TokenCut's masks"),
        ({"method": "rrr", "protocol": "described"}, "RRR, described"),
        ({"method": "rrr", "masks": "tokencut"}, "RRR, published, TokenCut's masks"),
    ],
)
def test_a_run_is_called_by_what_it_is(values, title):
    assert effects.kind_title(params_of(FINETUNED)(**values)) == title


def scores(method, masks, top1, model="tiny"):
    rows = [(name, top1, 50.0) for name in TEST_SETS]
    found = pd.DataFrame(rows, columns=["dataset", "top1_pct", "original_top1_pct"])
    return found.assign(model=model, method=method, protocol="published", masks=masks, seed=0)


def test_masks_and_backbones_stand_beside_each_other():
    ours = [scores("relevance", "annotated", 52), scores("relevance", "tokencut", 49)]
    shifted = pd.concat([one.iloc[:1] for one in ours]).assign(low_pts=-3.0, high_pts=4.0)
    shifted["change_pts"] = shifted["top1_pct"] - shifted["original_top1_pct"]
    here = effects.masks_told(shifted).loc["tiny"]
    told = {"annotated masks": "+2.0 (-3.0 to +4.0)", "TokenCut's masks": "-1.0 (-3.0 to +4.0)"}
    assert here.to_dict() == told
    found = effects.backbones_told(pd.concat([*ours, scores("linear_probe", "", 30)]))
    assert list(found["val"]) == ["30.0", "50.0", "52.0", "49.0"]
    assert list(found.columns) == list(TEST_SETS)


def test_prices_stand_beside_gains_the_cheapest_first():
    prices = {
        "memory_mib": [20.0, 10.0, 10.0],
        "change_pts": [7.0, -1, 8],
        "lead_pts": [None, -8, 1],
    }
    prices |= {"low_pts": 0.0, "high_pts": 9.0, "lead_low_pts": -9.0, "lead_high_pts": 2.0}
    found = effects.prices_told(pd.DataFrame(prices, ["relevance", "label", "swap"]))
    assert list(found.index) == ["swap", "labels alone", "relevance"]
    assert found.loc["relevance"].tolist() == ["20", "+7.0 (+0.0 to +9.0)", ""]
    assert found.loc["swap"].tolist() == ["10", "+8.0 (+0.0 to +9.0)", "+1.0 (-9.0 to +2.0)"]


def test_maps_are_told_in_words_with_intervals_where_they_change():
    shown = effects.maps_in_words(of_study("maps").set_index("arm"))
    assert shown["change"].iloc[0].startswith("+7.8 (+6.3 to")
    assert "over GAE, all blocks" in shown and not any("_" in name for name in shown)
    assert "kept, MiB" not in shown, "the study has no prices"
