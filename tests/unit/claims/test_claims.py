"""Each criterion once met and once missed, on change tables written by hand."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from relevit.claims import verdicts as claims
from relevit.claims.verdicts import robustness_verdicts, signed, verdict_table
from relevit.data.cutouts import TEST_SETS
from relevit.evaluate import robustness
from relevit.paper import published as paper

TESTED = ("RV-01", "RV-02", "RV-03", "RV-04", "RV-06", "RV-09", "RV-19", "RV-20")
# Top-1 changes with which every claim holds: a std of 0.5 and seeds 0.5 below and above.
HOLDS = {
    "val": -0.5,
    "a": 4.0,
    "r": 2.0,
    "sketch": 1.0,
    "v2": -0.2,
    "objectnet": 5.0,
    "si_location": 3.0,
    "si_rotation": 4.0,
    "si_size": 3.5,
}


def change_table(seeds=3, std=0.5, **top1):
    values = HOLDS | top1
    spread = std if seeds > 1 else math.nan
    table = pd.DataFrame({"dataset": TEST_SETS, "seeds": seeds})
    for metric in paper.METRICS:
        table[f"change_{metric}_pts"] = [values[name] for name in TEST_SETS]
        table[f"change_{metric}_std_pts"] = spread
        table[f"change_{metric}_min_pts"] = [values[name] - 0.5 for name in TEST_SETS]
    return table


def split_table(a=3.0, b=2.5, std=0.5, val_a=-0.2, val_b=-0.8, v2_a=0.0, v2_b=-0.4):
    values = {"val": (val_a, val_b), "v2": (v2_a, v2_b)}
    rows = [
        {"dataset": name, "classes": kind, "change_top1_pts": gain, "change_top1_std_pts": std}
        for name in (*TEST_SETS, paper.SHIFTED_AVERAGE)
        for kind, gain in zip("AB", values.get(name, (a, b)), strict=True)
    ]
    return pd.DataFrame(rows)


def shifted(mean=3.0):
    return pd.DataFrame({"metric": ["top1", "top5"], "mean_pts": mean, "std_pts": 0.5})


def search(drops=(0.0, 0.5, 1.0, 9.0), rising=(False,) * 4):
    return pd.DataFrame({"lr": [5e-7, 1e-6, 2e-6, 5e-6], "drop_pts": drops, "rising": rising})


BEHIND = {"tiny: gradmask behind on si_size": True}


def judge(changes=None, average=None, split=None, lr_search=None, behind=BEHIND):
    verdicts = robustness_verdicts(
        change_table() if changes is None else changes,
        shifted() if average is None else average,
        split_table() if split is None else split,
        search() if lr_search is None else lr_search,
        behind,
    )
    return {v.id: v for v in verdicts}


def test_all_hold():
    verdicts = judge()
    assert list(verdicts) == list(claims.CRITERIA)
    for claim in TESTED:
        assert verdicts[claim].verdict == "holds", verdicts[claim]
        assert verdicts[claim].reason == "every part is met"
    assert verdicts["RV-01"].number == "a +4.0 ± 0.5, objectnet +5.0 ± 0.5"
    assert verdicts["RV-20"].number == "rate 2e-06, next lower 1e-06; shifted average +3.0 ± 0.5"


@pytest.mark.parametrize(
    ("claim", "change", "reason"),
    [
        ("RV-01", {"objectnet": 0.5}, "objectnet above its std"),  # equal is not above
        ("RV-02", {"sketch": 0.4}, "sketch above its std"),
        ("RV-02", {"r": 9.0}, "less than a and objectnet"),
        ("RV-03", {"a": 0.5}, "a top1 rises in every seed; a top5 rises in every seed"),
        ("RV-04", {"val": 0.1}, "val between -1 and 0"),
        ("RV-04", {"v2": -1.1}, "v2 between -1 and 0"),
        ("RV-06", {"si_size": 0.2}, "si_size top1 rises in every seed"),
        ("RV-19", {"sketch": 0.1}, "original outside on sketch"),
    ],
)
def test_a_change_that_fails_a_claim(claim, change, reason):
    verdict = judge(change_table(**change))[claim]
    assert verdict.verdict == "fails"
    assert verdict.reason.startswith("not met: ")
    assert reason in verdict.reason


@pytest.mark.parametrize("metric", paper.METRICS)
def test_every_seed_needs_both_metrics(metric):
    changes = change_table()
    changes.loc[changes["dataset"] == "objectnet", f"change_{metric}_min_pts"] = 0.0
    verdict = judge(changes)["RV-03"]
    assert verdict.verdict == "fails"
    assert verdict.reason == f"not met: objectnet {metric} rises in every seed"


def test_baselines_are_a_part_of_the_claim_on_si_score():
    verdict = judge(behind=dict.fromkeys(BEHIND, False))["RV-06"]
    assert verdict.verdict == "fails"
    assert verdict.reason == "not met: tiny: gradmask behind on si_size"
    assert judge(behind={})["RV-06"].verdict == "holds"
    assert judge(behind={})["RV-06"].reason == "every part is met; the baselines were not run"


@pytest.mark.parametrize("value", [-1.0, 0.0])
def test_slight_includes_its_ends(value):
    assert judge(change_table(val=value))["RV-04"].verdict == "holds"


def test_original_may_lie_on_either_side():
    assert judge(change_table(sketch=-0.6))["RV-19"].verdict == "holds"


@pytest.mark.parametrize(
    ("split", "reason"),
    [
        ({"a": 4.0, "b": 2.5}, "gains of A and B are similar"),
        ({"b": -0.1, "a": 0.5}, "B gains on shifted sets"),
        ({"val_b": 0.5}, "A above B on val"),
        ({"v2_b": 0.0}, "A above B on v2"),
    ],
)
def test_split_that_fails(split, reason):
    verdict = judge(split=split_table(**split))["RV-09"]
    assert verdict.verdict == "fails"
    assert reason in verdict.reason


def test_similar_takes_the_larger_of_one_point_and_the_spread():
    assert judge(split=split_table(a=3.5, b=2.5))["RV-09"].verdict == "holds"
    assert judge(split=split_table(a=4.0, b=2.5, std=1.5))["RV-09"].verdict == "holds"
    lacking = judge(split=split_table(a=math.nan, val_b=math.nan))["RV-09"]
    assert lacking.verdict == "not testable here"
    assert lacking.reason.startswith("no image of B on val, A on shifted average: evaluate")
    number = judge()["RV-09"].number
    assert number.startswith("A: shifted average +3.0 ± 0.5, val -0.2 ± 0.5, v2 +0.0 ± 0.5; B: ")


@pytest.mark.parametrize(
    ("table", "average", "verdict", "reason"),
    [
        (search(drops=(3.0,) * 4), 3.0, "fails", "the rule finds a rate"),
        (search(rising=(True,) * 4), 3.0, "fails", "the rule finds a rate"),
        (search(drops=(0.0, 5.0, 1.0, 9.0)), 3.0, "fails", "next lower rate, 1e-06, passes"),
        (search(), 0.0, "fails", "the shifted average rises"),
        (search(drops=(0.0, 9.0, 9.0, 9.0)), 3.0, "not testable here", "lowest rate tried"),
    ],
)
def test_learning_rate(table, average, verdict, reason):
    got = judge(average=shifted(average), lr_search=table)["RV-20"]
    assert got.verdict == verdict
    assert reason in got.reason


def test_without_a_learning_rate_search():
    verdicts = robustness_verdicts(change_table(), shifted(), split_table())
    assert verdicts[-1].id == "RV-20"
    assert verdicts[-1].verdict == "not testable here"
    assert "run one" in verdicts[-1].reason


def test_one_seed_decides_nothing_but_shows_the_numbers():
    split = split_table().assign(change_top1_std_pts=math.nan)
    verdicts = judge(change_table(seeds=1), split=split)
    assert {v.verdict for v in verdicts.values()} == {"not testable here"}
    assert verdicts["RV-01"].number == "a +4.0, objectnet +5.0"
    assert verdicts["RV-01"].reason.startswith("1 finetuned run; at least 2 seeds are needed")


def test_takes_the_tables_of_robustness():
    right = {"original": 4, "seed0": 6, "seed1": 7}  # of ten images, on every set
    rows = [
        {"model_run": run, "dataset": name, "index": i, "label": i % 4, "label_rank": 5 * (i >= n)}
        for run, n in right.items()
        for name in TEST_SETS
        for i in range(10)
    ]
    predictions = pd.DataFrame(rows).astype({"model_run": "category", "dataset": "category"})
    verdicts = robustness_verdicts(
        robustness.change_table(predictions),
        robustness.shifted_average(predictions),
        robustness.split_table(predictions, {"seed0": [0, 1], "seed1": [0, 1]}),
        search(),
    )
    assert verdicts[0].number == "a +25.0 ± 7.1, objectnet +25.0 ± 7.1"
    assert [v.verdict for v in verdicts if v.id in ("RV-01", "RV-04", "RV-19")] == [
        "holds",
        "fails",
        "holds",
    ]


def test_missing_sets_and_columns():
    with pytest.raises(ValueError, match=r"robustness_verdicts: changes: sets missing: \['a'\]"):
        judge(change_table().query("dataset != 'a'"))
    with pytest.raises(ValueError, match=r"split: sets missing: \['shifted_average'\]"):
        judge(split=split_table().query("dataset != 'shifted_average'"))
    with pytest.raises(ValueError, match=r"lr_search has columns.*needs lr, drop_pts and rising"):
        judge(lr_search=search().drop(columns="rising"))
    with pytest.raises(ValueError, match=r"one row a rate: average over seeds first"):
        judge(lr_search=pd.concat([search(), search()]))


def test_verdict_table():
    table = verdict_table(list(judge().values()))
    assert table.columns.tolist() == ["id", "claim", "criterion", "verdict", "number", "reason"]
    assert table["id"].tolist() == list(claims.CRITERIA)
    assert (table["claim"] != "").all()
    assert "INet-A" in table.loc[0, "claim"]
    wrong = claims.Verdict("RV-99", "holds", "", "")
    with pytest.raises(ValueError, match=r"verdict_table: no claim or criterion for \['RV-99'\]"):
        verdict_table([wrong])


def test_signed():
    assert signed(1.25, 0.04) == "+1.2 ± 0.0"
    assert signed(-0.04) == "+0.0"
    assert signed(-2.0, math.nan) == "-2.0"


def test_the_papers_own_tables_meet_the_criterion_for_classes_a_and_b():
    split = paper.published_split_changes().assign(change_top1_std_pts=0.0)
    assert judge(split=split)["RV-09"].verdict == "holds"
