"""Areas under perturbation curves, by hand."""

from __future__ import annotations

import pandas as pd
import pytest

from relevit.evaluate.perturbation import (
    SHARES_PCT,
    accuracy_curves,
    auc_table,
    auc_weights,
    image_auc_pct,
)

RISING = pd.DataFrame(
    {
        "index": [0] * 4 + [1] * 4,
        "direction": "positive",
        "share_pct": [0.0, 10.0, 50.0, 90.0] * 2,
        "hit": [True, True, False, False, True, True, True, False],
    }
)


@pytest.mark.parametrize(
    ("rule", "first", "second"),
    [
        # Trapezoids from (0, 1) by (.1, 1), (.5, 0) to (1, 0).
        ("published", 10 + 20, 10 + 40 + 20),
        ("described", 100 / 3, 200 / 3),
        ("trapezoid", 20, 40 + 20),
    ],
)
def test_areas_by_hand(rule, first, second):
    areas = image_auc_pct(RISING, rule)
    assert areas["auc_pct"].tolist() == pytest.approx([first, second])
    (row,) = auc_table(RISING, rule).to_dict("records")
    assert row == {
        "direction": "positive",
        "images": 2,
        "auc_pct": pytest.approx((first + second) / 2),
        "standard_error_pts": pytest.approx((second - first) / 2),
    }


@pytest.mark.parametrize(
    ("rule", "most"), [("published", 95.0), ("described", 100.0), ("trapezoid", 80.0)]
)
def test_highest_areas(rule, most):
    weights = auc_weights([0, *SHARES_PCT], rule)
    assert len(weights) == 10 and (weights >= 0).all()
    assert 100 * weights.sum() == pytest.approx(most)


def test_published_area_ignores_a_measured_end():
    assert auc_weights([0, 50, 100]).tolist() == pytest.approx([0.25, 0.5, 0])
    assert auc_weights([0, 50]).tolist() == pytest.approx([0.25, 0.5])
    assert auc_weights([0, 50, 100], "described").tolist() == pytest.approx([0, 0.5, 0.5])
    assert auc_weights([0, 50, 100], "trapezoid").tolist() == pytest.approx([0, 0.25, 0.25])


def test_errors_of_the_areas():
    with pytest.raises(ValueError, match=r"rule 'mean' is unknown; use one of \['published'"):
        auc_table(RISING, "mean")
    for shares in ([10, 20], [0], [0, 20, 10], [0, 110]):
        with pytest.raises(ValueError, match=r"auc_weights: shares are \["):
            auc_weights(shares)
    with pytest.raises(ValueError, match=r"'trapezoid' needs 0 and at least two more"):
        auc_weights([0, 50], "trapezoid")
    with pytest.raises(ValueError, match=r"image_auc_pct: 8 rows, columns missing: \['hit'\]"):
        image_auc_pct(RISING.drop(columns="hit"))
    with pytest.raises(ValueError, match=r"accuracy_curves: 0 rows"):
        accuracy_curves(RISING[:0])
    with pytest.raises(ValueError, match=r"occurs twice .* first_index"):
        image_auc_pct(RISING.assign(index=0))
    with pytest.raises(ValueError, match=r"some images lack some of the shares \[0.0, 10.0"):
        image_auc_pct(RISING[1:])
