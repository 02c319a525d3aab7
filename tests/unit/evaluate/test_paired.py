"""What one finetuning adds to another: closed forms, and the interval's coverage."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from relevit.data.cutouts import SHIFTED_SETS
from relevit.evaluate.paired import GROUPS, paired_change


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


@pytest.mark.parametrize("part", ["fewer", "other"])
def test_tables_of_other_images_are_refused(part):
    ours, other = answers(lambda *a: True), answers(lambda *a: False)
    other = other.iloc[:-1] if part == "fewer" else other.assign(index=other["index"] + 1)
    with pytest.raises(ValueError, match="are in both tables; give answers of both to the same"):
        paired_change(ours, other, ("a", "r"))
