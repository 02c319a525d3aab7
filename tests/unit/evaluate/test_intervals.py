"""The one interval: closed forms, and how often it holds the truth."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import binomtest

from relevit.evaluate.intervals import (
    PERCENT,
    estimate,
    interval,
    mean_interval,
    ratio_values,
    shared_variance,
    smallest_effect,
    student,
)

T = {1: 12.706205, 2: 4.302653, 399: 1.965927}  # 97.5 % quantiles of Student's t


def test_equal_values_have_no_width():
    assert mean_interval(torch.full((7,), 0.25)) == (0.25, 0.25)


@pytest.mark.parametrize("count", [2, 12, 400])
def test_shares_of_0_and_1_have_wilsons_interval(count):
    for right, value in ((0, 0.0), (count, 100.0)):
        wilson = binomtest(right, count).proportion_ci(method="wilson")
        found = mean_interval(torch.full((count,), value), PERCENT)
        assert found == pytest.approx((100 * wilson.low, 100 * wilson.high), abs=1e-9)


def test_one_seed_has_students_interval_over_images():
    values = np.random.default_rng(0).normal(size=(1, 400))
    found = estimate([values])
    assert found.mean == pytest.approx(values.mean()) and np.isnan(found.std)
    half = T[399] * values.std(ddof=1) / 20
    assert found[2:] == pytest.approx((found.mean - half, found.mean + half))
    assert mean_interval(torch.from_numpy(values[0])) == found[2:]


@pytest.mark.parametrize("seeds", [2, 3])
def test_seeds_that_differ_have_students_interval_over_seeds(seeds):
    """Here images say the same of all seeds and their error is small beside that of seeds."""
    images = np.random.default_rng(0).normal(size=400)
    values = images + 10 * np.arange(seeds)[:, None]
    found = estimate([values])
    assert found.high - found.mean == pytest.approx(T[seeds - 1] * found.std / seeds**0.5)


def test_seeds_that_agree_have_the_images_interval():
    """What images add is the covariance of two seeds' means."""
    random = np.random.default_rng(0)
    values = random.normal(size=400) + 0.1 * random.normal(size=(3, 400))
    found, covariance = estimate([values]), np.cov(values) / 400
    shared = covariance[~np.eye(3, dtype=bool)].mean()
    assert shared_variance([values]) == pytest.approx(shared)
    half = T[399] * (found.std**2 / 3 + shared) ** 0.5
    assert found.high - found.mean == pytest.approx(half)


def test_images_that_seeds_disagree_on_add_nothing():
    values = np.array([[100.0, 0.0] * 20, [0.0, 100.0] * 20])
    assert shared_variance([values]) == 0


def test_sets_weigh_alike_and_have_images_of_their_own():
    one, other = np.random.default_rng(0).normal(size=(2, 2, 50))
    both = shared_variance([one, other])
    assert both == pytest.approx((np.cov(one)[0, 1] + np.cov(other)[0, 1]) / 50 / 4)


def test_missing_images_do_not_count():
    some = np.array([[100.0, np.nan, np.nan], [0.0, 0.0, 100.0]])
    lost = np.array([[50.0], [np.nan]])  # of the second seed no image
    assert estimate([some, lost]).mean == pytest.approx((75 + 100 / 3) / 2)
    halves = np.random.default_rng(0).normal(size=(2, 80))
    halves[0, :40] = halves[1, 40:] = np.nan  # no image in common
    assert shared_variance([halves]) == 0


def test_the_wider_of_two_is_taken():
    narrow = interval(0.0, seeds=1.0, freedom=np.inf, images=3.0)
    assert narrow.tolist() == pytest.approx([-2 * 1.959964, 2 * 1.959964])
    wide = interval(0.0, seeds=1.0, freedom=1, images=3.0)
    assert wide.tolist() == pytest.approx([-T[1], T[1]])


def test_a_ratio_has_the_interval_of_its_linear_part():
    """Against means over many draws of images."""
    random = np.random.default_rng(0)
    whole = random.integers(1, 20, 200).astype(float)
    part = random.binomial(whole.astype(int), 0.3).astype(float)
    values = ratio_values(part, whole)
    assert values.mean() == pytest.approx(part.sum() / whole.sum())
    drawn = random.integers(200, size=(4000, 200))
    spread = (part[drawn].sum(axis=1) / whole[drawn].sum(axis=1)).std()
    assert values.std(ddof=1) / 200**0.5 == pytest.approx(spread, rel=0.05)


@pytest.mark.parametrize("values", [[1.0], [1.0, float("nan")]])
def test_one_value_or_no_number_is_refused(values):
    with pytest.raises(ValueError, match="needed is one finite value an image, for two images"):
        mean_interval(torch.tensor(values))


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_the_smallest_effect_is_seen_so_often(seeds):
    """Among many runs whose true effect it is, the interval lies above 0 in 80 of 100."""
    effect = smallest_effect(float(student(seeds - 1)) / seeds**0.5, seeds - 1)
    runs = np.random.default_rng(0).normal(effect, 1.0, size=(40_000, seeds))
    errors = runs.std(axis=1, ddof=1) / seeds**0.5
    seen = runs.mean(axis=1) > student(seeds - 1) * errors
    assert seen.mean() == pytest.approx(0.8, abs=0.01)
    assert smallest_effect(1.959964) == pytest.approx(1.959964 + 0.841621, abs=1e-3)
