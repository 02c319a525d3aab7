"""What one finetuning adds to another: closed forms, and the interval's coverage."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from relevit.data.cutouts import SHIFTED_SETS
from relevit.evaluate.paired import (
    GROUPS,
    ORIGINAL,
    added_table,
    figure_means,
    original_gaps_pts,
    paired_change,
    set_changes,
)


def answers(right, seeds=(0,), sets=("a", "r")) -> pd.DataFrame:
    """One row a seed, set and image; `right(seed, set, index)`; even labels are in A."""
    rows = [
        {
            "seed": seed,
            "dataset": name,
            "index": i,
            "right": bool(right(seed, name, i)),
            "in_a": i % 2 == 0,
        }
        for seed in seeds
        for name in sets
        for i in range(40)
    ]
    return pd.DataFrame(rows)


def test_changes_are_of_points_by_group_and_mean_over_sets_and_seeds():
    other = answers(lambda seed, name, i: i < 20, (0, 1))
    ours = answers(lambda seed, name, i: i < 20 or (seed == 0 and name == "a" and i % 2), (0, 1))
    found = paired_change(ours, other, ("a", "r"))
    # Ten of forty more in one of two sets, of one of two seeds; all of them in B.
    assert found["change_pts"].to_dict() == pytest.approx({"all": 6.25, "A": 0.0, "B": 12.5})
    assert found.loc["all", "std_pts"] == pytest.approx(12.5 / 2**0.5)
    assert (found["seeds"] == 2).all() and list(found.index) == list(GROUPS)
    assert (found["low_pts"] <= found["change_pts"]).all()
    assert (found["change_pts"] <= found["high_pts"]).all()


def test_order_and_other_sets_do_not_matter():
    ours, other = (answers(lambda s, n, i, k=k: (i * k) % 3 == 0) for k in (2, 5))
    more = pd.concat([other, answers(lambda s, n, i: True, sets=("val",))])
    both = pd.concat([ours, answers(lambda s, n, i: False, sets=("val",))])
    expected = paired_change(ours, other, ("a", "r"))
    pd.testing.assert_frame_equal(paired_change(both.sample(frac=1), more, ("a", "r")), expected)


def test_intervals_hold_the_truth_as_often_as_they_say():
    """Some images are easy for every seed, and some seeds are better on every image."""
    random, hits, seeds = np.random.default_rng(0), 0, range(10)
    base = answers(lambda *_: False, seeds, SHIFTED_SETS[:2])
    for _ in range(100):
        image = {
            key: random.normal(0, 0.2) for key in [(n, i) for n in SHIFTED_SETS for i in range(40)]
        }
        skill = random.normal(0, 0.1, size=len(seeds))
        chance = [
            0.5 + skill[row.seed] + image[row.dataset, row.index]
            for row in base.itertuples(index=False)
        ]
        ours = base.assign(right=random.random(len(base)) < np.array(chance))
        row = paired_change(ours, base, SHIFTED_SETS[:2], resamples=300).loc["all"]
        hits += row["low_pts"] <= 50 <= row["high_pts"]
    assert hits >= 85


def test_one_seed_has_no_spread_over_seeds():
    found = paired_change(answers(lambda *a: True), answers(lambda *a: False), ("a",))
    assert found["std_pts"].isna().all() and (found["change_pts"] == 100).all()


def test_error_and_interval_are_those_of_the_images_by_level_and_seed():
    """One seed, one set: of 40 images 10 are right, and none was before."""
    ours, other = answers(lambda s, n, i: i < 10), answers(lambda *a: False)
    found = {
        (level, seed): paired_change(ours, other, ("a",), seed=seed, level_pct=level).loc["all"]
        for level, seed in ((95.0, 0), (50.0, 0), (95.0, 1))
    }
    error = 100 * (0.25 * 0.75 / 40) ** 0.5
    assert found[95.0, 0]["se_pts"] == pytest.approx(error, rel=0.06)
    for level, errors in ((95.0, 1.96), (50.0, 0.674)):
        row = found[level, 0]
        assert row["high_pts"] - row["low_pts"] == pytest.approx(2 * errors * error, rel=0.15)
    assert found[95.0, 0]["se_pts"] != found[95.0, 1]["se_pts"]


@pytest.mark.parametrize("part", ["fewer", "more", "other"])
def test_tables_of_other_images_are_refused(part):
    ours, other = answers(lambda *a: True), answers(lambda *a: False)
    other = {
        "fewer": other.iloc[:-1],
        "more": answers(lambda *a: False, (0, 1)),
        "other": other.assign(index=other["index"] + 1),
    }[part]
    with pytest.raises(ValueError, match="are in both tables; give answers of both to the same"):
        paired_change(ours, other, ("a", "r"))


def test_seeds_that_lack_a_group_on_a_set_are_averaged_over_the_others():
    """As classes A of a real set may: seed 1 has none of them on set r."""
    ours, other = (answers(lambda s, n, i, r=r: r, (0, 1)) for r in (True, False))
    gone = (ours["seed"] == 1) & (ours["dataset"] == "r")
    ours, other = (t.assign(in_a=t["in_a"] & ~gone) for t in (ours, other))
    found = paired_change(ours, other, ("a", "r"))
    assert (found[["change_pts", "low_pts", "high_pts"]] == 100).all(axis=None)
    only_b = paired_change(ours.assign(in_a=False), other, ("a", "r"))
    assert list(only_b.index) == ["all", "B"]


def study() -> pd.DataFrame:
    """Of 40 images an original knows 20, its control 10, the run with relevance 30."""
    right = {(ORIGINAL, False): 20, ("ours", False): 10, ("ours", True): 30}
    parts = [
        answers(lambda s, n, i, k=known: i < k, (0, 1), ("val", "a")).assign(
            world="own", arm=arm, relevance=on
        )
        for (arm, on), known in right.items()
    ]
    return pd.concat(parts, ignore_index=True).sample(frac=1, random_state=0)


def test_tables_say_what_each_twin_changes_and_what_relevance_adds():
    row = added_table(study(), ["a"]).set_index("classes").loc["all"]
    assert (row["with_pts"], row["without_pts"], row["adds_pts"]) == (25, -25, 50)
    assert row["with_low_pts"] < 25 < row["with_high_pts"] and row["seeds"] == 2
    changes = set_changes(study()).loc["own", "ours"]
    assert changes.loc[True, ["val", "a", "shifted_average"]].tolist() == [25, 25, 25]
    assert changes.loc[False, ["val", "a", "shifted_average"]].tolist() == [-25, -25, -25]


def test_figures_are_averaged_over_seeds_and_gaps_are_the_original_s():
    rows = [(0, ORIGINAL, 10.0), (1, ORIGINAL, 20.0), (0, "ours", 4.0), (1, "ours", 6.0)]
    figures = pd.DataFrame(rows, columns=["seed", "arm", "background_gap_pts"])
    figures = figures.assign(world="own", relevance=figures["arm"] == "ours")
    assert original_gaps_pts(figures).to_dict() == {"own": 15.0}
    assert figure_means(figures).loc[("own", "ours", True), "background_gap_pts"] == 5
