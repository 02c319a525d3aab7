"""Verdicts on runs of which some failed, differ much or gain nothing, and on the baselines."""

from __future__ import annotations

import pandas as pd

from relevit.claims.robustvit import baselines_behind, robustvit_verdicts

from ..robustvit_tables import STEEP, accuracies, gains


def judged(claim, table):
    return {v.id: v for v in robustvit_verdicts({"accuracies": table})}[claim]


def test_seeds_that_failed_are_left_out_and_the_others_count():
    table = accuracies()
    lost = (table["method"] == "gradmask") & (table["seed"] == 1)
    verdict = judged("RV-05", table[~lost])
    assert verdict.verdict == "holds"
    assert "gradmask (2 seeds)" in verdict.number and "rrr (3 seeds)" in verdict.number


def test_a_wide_spread_does_not_show_that_nothing_is_lost():
    table = accuracies()
    rows = (table["masks"] == "tokencut") & (table["seed"] == 0)
    table.loc[rows, "top1_pct"] += 20
    verdict = judged("RV-07", table)
    assert verdict.verdict == "not testable here"
    assert verdict.reason == "the std over seeds could hide a loss: run more"


def test_the_smaller_number_of_seeds_counts():
    table = accuracies()
    lost = (table["model"] == "tiny") & (table["masks"] == "tokencut") & (table["seed"] > 0)
    verdict = judged("RV-31", table[~lost])
    assert verdict.verdict == "not testable here"
    assert verdict.reason.startswith("1 finetuned run; at least 2 seeds are needed")


def test_a_model_that_gains_nothing_does_not_count_for_the_masks():
    table, failing = accuracies(), gains(shifted=-0.1, steep=-0.1)
    other = accuracies(method=failing, tokencut=gains(shifted=-9.0)).query("model == 'tiny'")
    verdict = judged("RV-07", pd.concat([table, other.assign(model="other")]))
    assert verdict.verdict == "holds"
    assert "other, 3 seeds: " in verdict.number


def test_baselines_behind():
    parts = baselines_behind(accuracies())
    assert len(parts) == 6 and all(parts.values())
    parts = baselines_behind(accuracies(rrr=gains(steep=5.0)))
    assert [name for name, met in parts.items() if not met] == [
        f"tiny: rrr behind on {name}" for name in STEEP[2:]
    ]
    assert baselines_behind(accuracies().query("method != 'rrr'")) == {}
