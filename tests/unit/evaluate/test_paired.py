"""What one finetuning adds to another: closed forms."""

import numpy as np
import pandas as pd
import pytest

from habitats.cutouts import SHIFTED_SETS, TEST_SETS
from relevit.evaluate.intervals import interval
from reproduction.measures.paired import (
    AVERAGE,
    GROUPS,
    ORIGINAL,
    added_by_set,
    added_in_words,
    added_table,
    difference,
    nine_columns,
    paired_change,
    runs_of,
)


def answers(right, seeds=(0,), sets=("a", "r")) -> pd.DataFrame:
    """One row a seed, set and image; `right(seed, set, index)`; even labels are in A."""
    rows = [(seed, name, i, bool(right(seed, name, i)), i % 2 == 0)
            for seed in seeds for name in sets for i in range(40)]  # fmt: skip
    return pd.DataFrame(rows, columns=["seed", "dataset", "index", "right", "in_a"])


def test_changes_are_of_points_by_group_and_mean_over_sets_and_seeds():
    other = answers(lambda seed, name, i: i < 20, (0, 1))
    ours = answers(lambda seed, name, i: i < 20 or (seed == 0 and name == "a" and i % 2), (0, 1))
    found = paired_change(ours, other, ("a", "r"))
    # Ten of forty more in one of two sets, of one of two seeds; all of them in B.
    assert found["change_pts"].to_dict() == pytest.approx({"all": 6.25, "A": 0.0, "B": 12.5})
    assert (found["seeds"] == 2).all() and list(found.index) == list(GROUPS)
    assert (found["low_pts"] <= found["change_pts"]).all()
    assert (found["change_pts"] <= found["high_pts"]).all()


def test_an_interval_follows_from_what_stands_beside_it():
    """From the changes by seed, the error that images add, and how many of both there are."""
    random = np.random.default_rng(0)
    known = random.random(40) < 0.5
    for spread in (0, 30):  # images decide, or seeds
        ours, other = (
            answers(
                lambda s, n, i, up=up: random.random() < 0.1 or (known[i] ^ (i < up * s)), (0, 1, 2)
            )
            for up in (spread, 0)
        )
        for row in paired_change(ours, other, ("a", "r")).itertuples():
            changes = np.array(row.by_seed_pts.split(), float)
            ends = interval(
                changes.mean(),
                seeds=changes.var(ddof=1) / row.seeds,
                freedom=row.seeds - 1,
                images=row.image_error_pts**2,
                images_freedom=row.images - 2,
            )
            assert ends.tolist() == pytest.approx([row.low_pts, row.high_pts], rel=1e-4)


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


def test_difference_is_of_the_seeds_of_both_on_the_shifted_sets():
    """Of seeds 0 and 1 the first arm knows 10 and 2 more of 40; an original has more seeds."""
    sets, more = ("val", *SHIFTED_SETS), {0: 30, 1: 22, 2: 0}
    ours = answers(lambda seed, name, i: name != "val" and i < more[seed], (0, 1, 2), sets)
    other = answers(lambda seed, name, i: i < 20, (0, 1, 3), sets)
    found = difference(ours.drop(columns="in_a"), other.drop(columns="in_a"))
    assert found["change_pts"] == pytest.approx(100 * (10 + 2) / 2 / 40)
    assert (found["seeds"], found["seeds_better"]) == (2, 2)
    assert found["low_pts"] < found["change_pts"] < found["high_pts"]
    back = difference(other, ours)
    assert back["change_pts"] == -found["change_pts"] and back["seeds_better"] == 0
    assert difference(ours, ours)[["change_pts", "seeds_better"]].eq(0).all(), "a tie is not better"
    with pytest.raises(ValueError, match="0 of 0 images are in both tables"):
        difference(ours[ours["seed"] == 2], other)


def study(sets=("val", "a")) -> pd.DataFrame:
    """Of 40 images an original knows 20, its control 10, the run with relevance 30."""
    right = {(ORIGINAL, False): 20, ("ours", False): 10, ("ours", True): 30}
    parts = [
        answers(lambda s, n, i, k=known: i < k, (0, 1), sets).assign(
            world="own", arm=arm, relevance=on
        )
        for (arm, on), known in right.items()
    ]
    return pd.concat(parts, ignore_index=True).sample(frac=1, random_state=0)


def test_an_arm_of_fewer_seeds_is_held_against_the_original_of_those():
    table = study()
    fewer = table[(table["arm"] == "ours") & (table["seed"] == 0)].assign(arm="published")
    found = added_table(pd.concat([table, fewer]), ["a"]).set_index(["arm", "classes"])
    assert found["seeds"].groupby("arm").first().to_dict() == {"ours": 2, "published": 1}
    row = found.loc["ours", "all"]
    assert (row["with_pts"], row["without_pts"], row["adds_pts"]) == (25, -25, 50)
    assert row["with_low_pts"] < 25 < row["with_high_pts"]
    assert found.loc[("published", "all"), "with_pts"] == 25


def test_runs_are_the_original_once_and_those_with_relevance():
    found = runs_of(study(), "ours").groupby("model_run")["right"].agg(["size", "sum"])
    assert found["size"].to_dict() == {"original": 80, "seed0": 80, "seed1": 80}
    assert found["sum"].to_dict() == {"original": 40, "seed0": 60, "seed1": 60}


def test_the_nine_columns_and_their_average_are_said_in_words():
    table = added_by_set(study(TEST_SETS))
    assert table["dataset"].drop_duplicates().tolist() == [*TEST_SETS, AVERAGE]
    of_all = table[table["classes"] == "all"]
    original = pd.Series({name: 10.0 * place for place, name in enumerate(TEST_SETS)})
    shown = nine_columns(of_all, original)
    assert list(shown) == [*TEST_SETS, "shifted, mean"]
    assert (shown.loc["with"] == 25).all() and (shown.loc["without"] == -25).all()
    assert (shown.loc["relevance adds"] == 50).all()
    mean = shown[list(SHIFTED_SETS)].mean(axis=1)
    for row in ("original, %", "with, in the paper"):
        assert shown.loc[row, "shifted, mean"] == pytest.approx(mean[row])
    words = added_in_words(table[table["dataset"] == AVERAGE])
    assert list(words) == ["without", "with", "relevance adds"]
    assert words.loc[("our setting", "all"), "relevance adds"].startswith("+50.0 (")
