"""Bootstrap intervals of a mean."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from relevit.evaluate.intervals import bootstrap_interval


def test_interval_of_equal_values_is_that_value():
    assert bootstrap_interval(torch.full((7,), 0.25)) == (0.25, 0.25)


def test_interval_is_about_two_standard_errors():
    values = torch.randn(400, generator=torch.Generator().manual_seed(0)).double()
    low, high = bootstrap_interval(values)
    error = float(values.std()) / 20
    assert low == pytest.approx(float(values.mean()) - 1.96 * error, abs=0.15 * error)
    assert high == pytest.approx(float(values.mean()) + 1.96 * error, abs=0.15 * error)
    inner = bootstrap_interval(values, level_pct=50.0)
    assert low < inner[0] < float(values.mean()) < inner[1] < high


def test_interval_depends_on_its_seed_alone():
    values = torch.linspace(0, 1, 20)
    np.random.seed(1)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    assert bootstrap_interval(values) == bootstrap_interval(values)
    assert bootstrap_interval(values) != bootstrap_interval(values, seed=1)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


@pytest.mark.parametrize(
    ("values", "options", "text"),
    [
        ([1.0], {}, r"values \(1,\), 1 of them finite; needed is one finite value an image"),
        ([1.0, float("nan")], {}, r"values \(2,\), 1 of them finite"),
        (
            [1.0, 2.0],
            {"level_pct": 100.0},
            "level_pct 100.0 and 2000 resamples; needed are a level",
        ),
        ([1.0, 2.0], {"resamples": 0}, "level_pct 95.0 and 0 resamples"),
    ],
)
def test_intervals_that_cannot_be(values, options, text):
    with pytest.raises(ValueError, match=f"bootstrap_interval: {text}"):
        bootstrap_interval(torch.tensor(values), **options)
