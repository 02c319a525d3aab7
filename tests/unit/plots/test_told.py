"""Tables in words: signs, intervals, rates as they are, and what is not there is left out."""

import math

import pandas as pd
import pytest

from habitats.cutouts import TEST_SETS
from reproduction.config import FinetuneParams
from reproduction.plots import told

ENDS = {"low_pts": -1.0, "high_pts": 3.0, "val_pts": 0.5, "worst_home_pct": 40.0}
LEAD = {"lead_pts": -2.0, "lead_low_pts": -3.0, "lead_high_pts": -1.0}
ARMS = [{"arm": "label", "lr": 2.5e-5, "change_pts": 1.0} | LEAD | ENDS,
        {"arm": "relevance", "lr": 2.0e-4 / 3, "change_pts": 2.0} | ENDS]  # fmt: skip
RATES = {"method": ["gradmask", "gradmask", "rrr"], "protocol": "published",
         "used": [False, True, True], "lr": [1.0, 2.5e-5, 3.0e-6], "drop_pts": [9.0, -1.0, 0.0],
         "rising": [True, True, False], "background_before": 2.0,
         "background_after": [2.0, 1.5, math.nan]}  # fmt: skip
PRICES = {"memory_mib": [20.0, 10.0, 10.0], "change_pts": [7.0, -1, 8]}


def scores(method, masks, top1):
    rows = [(name, top1, 50.0) for name in TEST_SETS]
    found = pd.DataFrame(rows, columns=["dataset", "top1_pct", "original_top1_pct"])
    return found.assign(model="tiny", method=method, protocol="published", masks=masks, seed=0)


SCORES = pd.concat([scores("relevance", "annotated", 52), scores("relevance", "tokencut", 49)])
PROBED = pd.concat([SCORES, scores("linear_probe", "", 30)])


@pytest.mark.parametrize(
    ("found", "expected"),
    [  # the largest gain first; photographs have no gap
        (told.arms_told(pd.DataFrame(ARMS)).iloc[:, [0, 1, 2, 5]],
         {"relevance": ["6.67e-05", "+2.0 (-1.0 to +3.0)", "", ""],
          "labels alone": ["2.5e-05", "+1.0 (-1.0 to +3.0)", "-2.0 (-3.0 to -1.0)", ""]}),
        # those that are used, and a gain is no loss
        (told.rates_told(pd.DataFrame(RATES)),
         {"GradMask, published": ["2.5e-05", "+1.0", "yes", "-25.0"],
          "RRR, published": ["3e-06", "+0.0", "no", ""]}),
        (told.masks_told(SCORES)[1:], {"tiny": ["+2.0", "-1.0"]}),
        (told.backbones_told(PROBED)["val"].droplevel(0).to_frame(),
         {"a new head alone": ["30.0"], "finetuned": ["50.0"],
          "finetuned, then ours, annotated masks": ["52.0"],
          "finetuned, then ours, TokenCut's masks": ["49.0"]}),
        # the cheapest first
        (told.prices_told(pd.DataFrame(PRICES, ["relevance", "label", "swap"])),
         {"swap": ["10", "+8.0"], "labels alone": ["10", "-1.0"], "relevance": ["20", "+7.0"]}),
    ],
    ids=["arms", "rates", "masks", "backbones", "prices"],
)  # fmt: skip
def test_a_table_in_words(found, expected):
    assert list(found.index) == list(expected)
    assert found.to_numpy().tolist() == list(expected.values())


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (told.signed(6.66), "+6.7"),
        (told.signed(-0.02), "+0.0"),
        (told.signed(math.nan), ""),
        (told.kind_title(FinetuneParams(masks="tokencut")), "ours, TokenCut's masks"),
        (told.kind_title(FinetuneParams(method="rrr", protocol="described")), "RRR, described"),
        (
            told.kind_title(FinetuneParams(method="rrr", masks="tokencut")),
            "RRR, published, TokenCut's masks",
        ),
    ],
)
def test_a_number_and_a_run_in_words(said, text):
    assert said == text
