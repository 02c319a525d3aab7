"""One number a run or map out of the long tables, by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from relevit.iav.properties import change_after, run_properties

from relevit.iav import separations

RUNS = [("a", "supervised", 0), ("a", "supervised", 1), ("s", "self-supervised", 0)]


def rows(columns, *values):
    """Each run's rows: the n-th of `values` are the n-th run's."""
    found = [
        {"model": model, "kind": kind, "seed": seed, **dict(zip(columns, row, strict=True))}
        for (model, kind, seed), part in zip(RUNS, values, strict=True)
        for row in part
    ]
    return pd.DataFrame(found)


@pytest.fixture
def tables():
    return {
        "models": rows(
            ["epoch", "validation_top1_pct"],
            [(0, 1.0), (1, 50.0), (2, 60.0)],
            [(0, 1.0), (1, 90.0), (2, 70.0)],
            [(2, 80.0), (1, 40.0), (0, 1.0)],
        ),
        "shift": rows(
            ["corruption", "level", "top1_pct"],
            [("none", 0.0, 99.0), ("blur", 1.0, 40.0), ("blur", 2.0, 30.0), ("jigsaw", 1.0, 20.0)],
            [("none", 0.0, 99.0), ("blur", 1.0, 10.0), ("blur", 2.0, 10.0), ("jigsaw", 1.0, 40.0)],
            [("none", 0.0, 99.0), ("blur", 1.0, 50.0), ("blur", 2.0, 50.0), ("jigsaw", 1.0, 50.0)],
        ),
        "entropy": rows(
            ["image", "layer", "head", "entropy"],
            [(0, 1, 1, 1.0), (0, 1, 2, 2.0)],
            [(0, 1, 1, 3.0), (0, 1, 2, 3.0)],
            [(0, 1, 1, 4.0), (0, 1, 2, 0.0)],
        ),
        "slopes": rows(
            ["map", "slope"],
            [("gradcam", 9.0), ("smoothgrad", -0.1)],
            [("smoothgrad", -0.2), ("gradcam", 9.0)],
            [("gradcam", 9.0), ("smoothgrad", 0.3)],
        ),
    }


# What could tell the kinds apart


def test_properties_by_hand(tables):
    found, kinds = run_properties(**tables)
    assert list(found.columns) == ["accuracy_pct", "robustness_pct", "entropy_nats", "iav_slope"]
    assert list(found.index) == [("a", 0), ("a", 1), ("s", 0)]
    assert found["accuracy_pct"].tolist() == [60.0, 70.0, 80.0]
    assert found["robustness_pct"].tolist() == [30.0, 20.0, 50.0]
    assert found["entropy_nats"].tolist() == [1.5, 3.0, 2.0]
    assert found["iav_slope"].tolist() == [-0.1, -0.2, 0.3]
    assert kinds.tolist() == ["supervised", "supervised", "self-supervised"]
    assert kinds.index.equals(found.index)


def test_properties_fit_the_measure_of_separation(tables):
    found = separations(*run_properties(**tables))
    assert len(found) == 4


def test_order_of_rows_does_not_matter(tables):
    shuffled = {name: table.sample(frac=1, random_state=1) for name, table in tables.items()}
    ours, theirs = run_properties(**shuffled), run_properties(**tables)
    pd.testing.assert_frame_equal(ours[0].sort_index(), theirs[0])
    pd.testing.assert_series_equal(ours[1].sort_index(), theirs[1])


@pytest.mark.parametrize("name", ["models", "shift", "entropy", "slopes"])
def test_runs_that_lack_a_number_are_left_out(tables, name):
    table = tables[name]
    part = table[~((table["model"] == "a") & (table["seed"] == 1))]
    found, kinds = run_properties(**(tables | {name: part}))
    assert list(found.index) == list(kinds.index) == [("a", 0), ("s", 0)]


def test_a_run_that_is_not_at_its_end_is_left_out(tables):
    models = tables["models"]
    early = models[~((models["model"] == "s") & (models["epoch"] == 2))]
    found, _ = run_properties(**(tables | {"models": early}))
    assert list(found.index) == [("a", 0), ("a", 1)]


# Before and after RobustViT's finetuning


def robustvit(**runs):
    """Scores of each run: one map, two heads, two images."""
    found = []
    for run, values in runs.items():
        places = [(0, 1, 1), (1, 1, 1), (0, 1, 2), (1, 1, 2)]
        found += [(run, "mask", *place, v) for place, v in zip(places, values, strict=True)]
    return pd.DataFrame(found, columns=["run", "map", "image", "layer", "head", "score"])


def test_change_by_hand():
    """Head 1 rises by 0.1 and 0.3, head 2 by 0.1 and -0.1."""
    table = robustvit(
        original=[0.2, 0.4, 0.5, 0.5], seed0=[0.4, 0.4, 0.6, 0.6], seed1=[0.6, 0.6, 0.5, 0.3]
    )
    (row,) = change_after(table).to_dict("records")
    assert row["map"] == "mask" and row["heads"] == 2 and row["rising"] == 1
    assert row["before"] == pytest.approx(0.4)
    assert row["change"] == pytest.approx(0.1), "mean of 0.1 and 0.1"
    assert row["change_std"] == pytest.approx(0.0)


def test_spread_is_over_runs():
    table = robustvit(original=[0.1] * 4, seed0=[0.2] * 4, seed1=[0.4] * 4)
    (row,) = change_after(table).to_dict("records")
    assert row["change"] == pytest.approx(0.2) and row["rising"] == 2
    assert row["change_std"] == pytest.approx(np.std([0.1, 0.3], ddof=1))
    (alone,) = change_after(table[table["run"] != "seed1"]).to_dict("records")
    assert alone["change"] == pytest.approx(0.1) and np.isnan(alone["change_std"])


def test_a_head_that_stays_does_not_rise():
    table = robustvit(original=[0.2, 0.2, 0.2, 0.2], seed0=[0.2, 0.2, 0.3, 0.1])
    assert change_after(table)["rising"].tolist() == [0]


def test_one_row_a_map_in_their_order_and_any_order_of_rows():
    first = robustvit(original=[0.1] * 4, seed0=[0.2] * 4)
    other = robustvit(original=[0.5] * 4, seed0=[0.4] * 4).assign(map="gradcam")
    table = pd.concat([first, other], ignore_index=True)
    found = change_after(table)
    assert list(found.columns) == ["map", "before", "change", "change_std", "heads", "rising"]
    assert found["map"].tolist() == ["mask", "gradcam"]
    assert found["change"].tolist() == pytest.approx([0.1, -0.1])
    shuffled = change_after(table.sample(frac=1, random_state=0)).set_index("map")
    pd.testing.assert_frame_equal(shuffled.loc[found["map"]], found.set_index("map"))


@pytest.mark.parametrize("runs", [["original"], ["seed0", "seed1"], []])
def test_both_sides_are_needed(runs):
    table = robustvit(original=[0.1] * 4, seed0=[0.2] * 4, seed1=[0.2] * 4)
    text = r"change_after: runs \[.*\]; needed are 'original' and at least one other"
    with pytest.raises(ValueError, match=text):
        change_after(table[table["run"].isin(runs)])
