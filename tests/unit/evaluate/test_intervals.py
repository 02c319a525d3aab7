"""The one interval: closed forms, and how often it holds the truth."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from relevit.evaluate import intervals
from relevit.evaluate.intervals import bootstrap_interval, estimate


def test_equal_values_have_no_width():
    assert bootstrap_interval(torch.full((7,), 0.25)) == (0.25, 0.25)


def test_over_images_it_is_two_standard_errors_wide():
    values = np.random.default_rng(0).normal(size=(1, 400))
    found = estimate([values])
    error = values.std(ddof=1) / 20
    assert found.mean == pytest.approx(values.mean()) and np.isnan(found.std)
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.07)
    assert bootstrap_interval(torch.from_numpy(values[0])) == found[2:]
    assert estimate([values], seed=1).low != found.low


def test_sets_weigh_alike_and_missing_images_do_not_count():
    some = np.array([[100.0, np.nan, np.nan], [0.0, 0.0, 100.0]])
    lost = np.array([[50.0], [np.nan]])  # of the second seed no image
    assert estimate([some, lost]).mean == pytest.approx((75 + 100 / 3) / 2)


def test_draws_do_not_depend_on_how_many_are_made_at_once(monkeypatch):
    sets = [np.random.default_rng(0).normal(size=(2, 30))]
    whole = estimate(sets)
    monkeypatch.setattr(intervals, "AT_ONCE", 100)
    assert estimate(sets) == pytest.approx(whole)


def test_it_holds_the_truth_as_often_as_it_says():
    """Some images are easy for every seed, and some seeds are better on every image."""
    random, hits = np.random.default_rng(0), 0
    for _ in range(100):
        skill, ease = random.normal(0, 0.1, (10, 1)), random.normal(0, 0.2, (2, 1, 40))
        found = estimate(list((random.random((2, 10, 40)) < 0.5 + skill + ease) * 100.0))
        hits += found.low <= 50 <= found.high
    assert hits >= 85


@pytest.mark.parametrize("values", [[1.0], [1.0, float("nan")]])
def test_one_value_or_no_number_is_refused(values):
    with pytest.raises(ValueError, match="needed is one finite value an image, for two images"):
        bootstrap_interval(torch.tensor(values))
