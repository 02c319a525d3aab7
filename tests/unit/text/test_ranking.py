"""Which method comes first: tables, places, leads, the paper's order."""

import numpy as np
import pandas as pd
import pytest
import torch

from relevit.evaluate.intervals import mean_interval
from relevit.text.token_maps import RANDOM
from reproduction.language.ranking import BASELINES, VARIANTS, leads, over_random, score_table


def by_hand(**scores) -> pd.DataFrame:
    """`document_scores` of two documents: method -> score -> the two values."""
    rows = [(method, score, i, value) for method, own in scores.items()
            for score, values in own.items() for i, value in enumerate(values)]  # fmt: skip
    return pd.DataFrame(rows, columns=["method", "score", "index", "value_pct"])


def every_method(values) -> dict[str, dict[str, tuple[float, float]]]:
    return {name: dict.fromkeys(("positive", "F1"), (v, v + 2)) for name, v in values.items()}


def test_best_place_is_the_lowest_positive_area_and_the_highest_f1():
    table = score_table(by_hand(**every_method({"ga": 30, "rollout": 20, RANDOM: 10})))
    places = table.set_index(["method", "score"])["place"]
    assert places["rollout", "positive"] == places["ga", "F1"] == 1
    assert places["ga", "positive"] == places["rollout", "F1"] == 2
    assert places[RANDOM].isna().all()
    row = table.set_index(["method", "score"]).loc["ga", "F1"]
    half = 12.706205  # Student's t of two documents, 30 and 32
    assert row[["value_pct", "low_pct", "high_pct"]].tolist() == pytest.approx(
        [31, 31 - half, 31 + half]
    )


def test_lead_is_over_the_best_baseline_and_above_zero_is_better():
    values = dict.fromkeys(BASELINES, 40.0) | {"ga": 30.0, "rollout": 50.0}
    values |= {"head_wise": 27.0, "token_wise": 55.0, "gae": 0.0, RANDOM: 99.0}
    table = leads(by_hand(**every_method(values)))
    table = table.set_index(["score", "method"])
    assert table.loc["positive", "best"].unique().tolist() == ["ga"]
    assert table.loc["F1", "best"].unique().tolist() == ["rollout"]
    gains = table["gain_pts"]
    assert (gains["positive", "head_wise"], gains["positive", "token_wise"]) == (3, -25)
    assert (gains["F1", "head_wise"], gains["F1", "token_wise"]) == (-23, 5)
    assert set(table.index.unique("method")) == set(VARIANTS)


def test_gains_are_paired():
    """Ahead by about 10 points on documents that differ by far more than that."""
    level = np.linspace(0, 80, 20)
    better = level + np.linspace(5, 15, 20)
    values = dict.fromkeys(BASELINES, 0 * level) | {"ga": level, "token_wise": better}
    table = leads(by_hand(**{name: {"F1": of} for name, of in values.items()}))
    (row,) = table.itertuples()
    assert (row.method, row.best, row.documents) == ("token_wise", "ga", 20)
    assert row.gain_pts == pytest.approx(10)
    interval = mean_interval(torch.tensor(better - level))
    assert (row.low_pts, row.high_pts) == pytest.approx(interval) and interval[0] > 8
    beyond = over_random(pd.DataFrame({RANDOM: level, "token_wise": better}))
    assert beyond.loc["token_wise"].tolist() == pytest.approx([10, *interval])
