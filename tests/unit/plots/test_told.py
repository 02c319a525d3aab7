"""Tables in words: signs, intervals, rates as they are, and what is not there is left out."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from habitats.cutouts import TEST_SETS
from reproduction.config import FinetuneParams
from reproduction.plots import told


@pytest.mark.parametrize(
    ("value", "text"), [(6.66, "+6.7"), (-0.02, "+0.0"), (-3, "-3.0"), (math.nan, "")]
)
def test_a_number_has_its_sign_and_nothing_is_no_loss(value, text):
    assert told.signed(value) == text


def test_arms_are_told_with_their_rates_the_largest_gain_first():
    ends = {"low_pts": -1.0, "high_pts": 3.0, "val_pts": 0.5, "worst_home_pct": 40.0}
    rows = pd.DataFrame([
        {"arm": "label", "lr": 2.5e-5, "change_pts": 1.0, "lead_pts": -2.0, "lead_low_pts": -3.0,
         "lead_high_pts": -1.0} | ends,
        {"arm": "relevance", "lr": 2.0e-4 / 3, "change_pts": 2.0} | ends,
    ])  # fmt: skip
    found = told.arms_told(rows)
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
    assert told.rates_told(rows).to_numpy().tolist() == [
        ["2.5e-05", "+1.0", "yes", "-25.0"],
        ["3e-06", "+0.0", "no", ""],
    ]
    assert list(told.rates_told(rows).index) == ["GradMask, published", "RRR, published"]


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
    assert told.kind_title(FinetuneParams(**values)) == title


def scores(method, masks, top1, model="tiny"):
    rows = [(name, top1, 50.0) for name in TEST_SETS]
    found = pd.DataFrame(rows, columns=["dataset", "top1_pct", "original_top1_pct"])
    return found.assign(model=model, method=method, protocol="published", masks=masks, seed=0)


def test_masks_and_backbones_stand_beside_each_other():
    ours = [scores("relevance", "annotated", 52), scores("relevance", "tokencut", 49)]
    here = told.masks_told(pd.concat(ours)).loc["tiny"]
    assert here.to_dict() == {"annotated masks": "+2.0", "TokenCut's masks": "-1.0"}
    found = told.backbones_told(pd.concat([*ours, scores("linear_probe", "", 30)]))
    assert list(found["val"]) == ["30.0", "50.0", "52.0", "49.0"]
    assert list(found.columns) == list(TEST_SETS)


def test_prices_stand_beside_gains_the_cheapest_first():
    prices = {"memory_mib": [20.0, 10.0, 10.0], "change_pts": [7.0, -1, 8]}
    found = told.prices_told(pd.DataFrame(prices, ["relevance", "label", "swap"]))
    assert list(found.index) == ["swap", "labels alone", "relevance"]
    assert found.loc["relevance"].tolist() == ["20", "+7.0"]
