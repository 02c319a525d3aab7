"""Correlations with their interval, and how far classes differ beyond luck."""

import numpy as np
import pandas as pd
import pytest

from habitats.drawings import ANIMALS
from reproduction.measures import class_changes


def test_rank_correlation_is_that_of_pandas_also_with_ties():
    random = np.random.default_rng(0)
    cause = pd.Series(random.normal(size=60))
    change = pd.Series(random.integers(-1, 2, size=60) * 100.0) - 50 * cause.round()
    found = class_changes.rank_correlation(cause, change)
    assert found["spearman"] == pytest.approx(cause.corr(change, method="spearman"))
    assert found["low"] < found["spearman"] < found["high"] < 0


@pytest.mark.parametrize(
    ("of_classes", "std", "mean", "luck"),
    [
        ([[100.0, 0.0], [-100.0, 0.0]], 100 / 2**0.5, 0.0, 50.0),
        ([[-100.0, -100.0], [0.0, 0.0]], 100 / 2**0.5, -50.0, 0.0),
        ([[100.0, 0.0], [0.0, 100.0]], 0.0, 50.0, 50.0),  # they do not differ at all
    ],
)
def test_the_spread_of_classes_and_that_of_luck(of_classes, std, mean, luck):
    rows = [("seed0", "a", y, "A", x) for y, changes in enumerate(of_classes) for x in changes]
    columns = ["model_run", "dataset", "label", "classes", "change_top1_pts"]
    (row,) = class_changes.class_variation(pd.DataFrame(rows, columns=columns)).itertuples()
    assert (row.labels, row.mean_pts) == (2, mean)
    assert (row.std_pts, row.luck_pts) == pytest.approx((std, luck))
    half = 1.96 * std * (1.5 / 2) ** 0.5
    assert (row.std_low_pts, row.std_high_pts) == pytest.approx(
        (max(std - half, 0), std + half), abs=0.01
    )


def predictions(**right) -> pd.DataFrame:
    """Six images of each set, two of each of three classes; the right ones by run."""
    rows = [(run, name, i, i // 2, i // 2 if i in known else 2, 0 if i in known else 1)
            for run, known in right.items() for name in ("val", "a", "v2")
            for i in range(6)]  # fmt: skip
    columns = ["model_run", "dataset", "index", "label", "prediction", "label_rank"]
    return pd.DataFrame(rows, columns=columns)


def test_what_turned_wrong_is_the_first_of_each_class_that_is_hurt():
    """The class `ant` loses both of its images in seed0 and none in seed1."""
    seen = predictions(original=range(6), seed0=range(2, 6), seed1=range(6))
    names = ("ant", "bee", "cat")
    harmed = class_changes.harmed_table(seen, ("a", "v2"), 2, names)
    assert class_changes.turned_wrong(seen, "seed0", harmed, 1) == [("a", 0), ("v2", 0)]
    assert class_changes.turned_wrong(seen, "seed0", harmed, 2)[:2] == [("a", 0), ("a", 1)]
    assert class_changes.turned_wrong(seen, "seed1", harmed, 2) == []
    said = class_changes.in_words(harmed)
    assert said.index.tolist() == [("a", "ant"), ("v2", "ant")]
    assert said["change, points"].tolist() == [-50, -50] and set(said["taken for"]) == {"cat"}


def test_what_is_related_to_the_change_of_classes_is_said_in_words():
    count = len(ANIMALS.classes)
    rows = [(run, name, i, i, int((i + len(name)) % 3 == 0)) for run in ("original", "seed0")
            for name in ("val", "a", "v2") for i in range(count)]  # fmt: skip
    seen = pd.DataFrame(rows, columns=["model_run", "dataset", "index", "label", "label_rank"])
    related = class_changes.related_to(seen, ANIMALS, ANIMALS.classes)
    for cause, change in related.values():
        assert cause.index.equals(change.index) and len(cause) == count
    said = class_changes.in_words(class_changes.cause_table(related))
    assert said.index.tolist() == [("object size", "the shifted sets"), ("context", "v2")]
    assert list(said) == ["classes", "rank correlation", "from", "to"]
