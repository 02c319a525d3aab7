"""The perturbation test with a model that counts what is left of an image."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from relevit.evaluate.perturbation import (
    SHARES_PCT,
    Erasing,
    Judged,
    auc_table,
    auc_weights,
    erasing_ranks,
    image_auc_pct,
    perturbation_rows,
)
from relevit.models.spec import ModelSpec
from relevit.protocols import options

from ..left_half import GRID, SIDE, Seen, drawn, left_first, plain, run, white

PUBLISHED = options("published", "auc_weights")
SPEC = ModelSpec("stub", "none", 8, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))


# Which parts go first, and what they become


@pytest.mark.parametrize("direction", ["positive", "negative"])
def test_ties_are_shuffled_the_same_way_each_time(direction):
    constant = torch.zeros(2, 400)
    first, second = erasing_ranks(constant, direction)
    assert torch.equal(first, second)
    assert torch.equal(first, erasing_ranks(constant[:1], direction)[0])
    assert first.sort().values.tolist() == list(range(400))
    halves = first[:200].double().mean(), first[200:].double().mean()
    assert halves[0].item() == pytest.approx(halves[1].item(), rel=0.2)  # no part of the image


# What is erased


@pytest.mark.parametrize("direction", ["positive", "negative"])
def test_tokens_are_erased_whole_and_in_order(direction):
    model, (images, maps, _) = Seen(), drawn(3)
    shares = [100 * k / 16 for k in range(1, 17)]
    run(model, images, maps, unit="token", directions=[direction], shares_pct=shares)
    gone = (model.seen() == 0).all(dim=1).reshape(3, 17, GRID, 2, GRID, 2)
    gone = gone.permute(0, 1, 2, 4, 3, 5).flatten(4)
    assert torch.equal(gone.any(dim=4), gone.all(dim=4))
    number = gone.all(dim=4).flatten(2).sum(dim=1)  # more times gone: gone earlier
    order = (-number).argsort(dim=1)
    assert torch.equal(order, maps.argsort(dim=1, descending=direction == "positive"))


@pytest.mark.parametrize(("fill", "value"), [("black", -2.0), ("mean", 0.0)])
def test_fill(fill, value):
    """Black is 0 before normalisation, the mean colour 0 after it (E7)."""
    model = Seen()
    images = torch.full((1, 3, SIDE, SIDE), 255, dtype=torch.uint8)
    run(model, images, left_first(), normalise=SPEC.normalise, fill=fill, shares_pct=[50])
    seen = model.seen()[1]
    assert (seen[..., :4] == value).all() and (seen[..., 4:] == 2).all()


# The table


def test_table_by_hand():
    """Each tenth that goes is a tenth of the left half, twice over: .5 is left at 25 %."""
    what = {"unit": "token", "shares_pct": [12.5, 37.5, 50]}
    rows = run(Seen(), white(2), left_first(2), torch.tensor([0, 1]), **what)
    columns = "index direction share_pct hit logit probability_pct top_logit top_probability_pct"
    assert list(rows) == columns.split()
    assert rows["index"].tolist() == 2 * (4 * [0] + 4 * [1])
    assert rows["direction"].tolist() == 8 * ["positive"] + 8 * ["negative"]
    assert rows["share_pct"].tolist() == 4 * [0, 12.5, 37.5, 50]
    left = [1, 0.75, 0.25, 0]
    assert rows["hit"].tolist()[:8] == [x > 0.5 for x in left] + [x < 0.5 for x in left]
    assert rows["hit"].tolist()[8:] == 4 * [True] + 4 * [False]  # only the right half went
    assert rows["logit"].tolist()[:8] == pytest.approx(2 * left)  # of class 0, predicted
    assert rows["top_logit"].tolist()[:4] == pytest.approx([1, 0.75, 0.5, 0.5])
    for x, row in zip(left, rows[:4].itertuples(), strict=True):
        exponentials = np.exp([x, 0.5, x - 7])
        percent = 100 * exponentials / exponentials.sum()
        assert row.probability_pct == pytest.approx(percent[0], rel=1e-5)
        assert row.top_probability_pct == pytest.approx(percent.max(), rel=1e-5)


@pytest.mark.parametrize("unit", ["pixel", "token"])
def test_batches_and_chunks_do_not_matter(unit):
    images, maps, labels = drawn()
    whole = run(Seen(), images, maps, labels, unit=unit)
    pd.testing.assert_frame_equal(run(Seen(), images, maps, labels, unit=unit, chunk=7), whole)
    parts = [Judged(images[p], maps[p], labels[p]) for p in torch.arange(5).split(2)]
    found = perturbation_rows(Seen(), plain, parts, (GRID, GRID), Erasing(unit))
    keys = ["direction", "index", "share_pct"]
    frames = [f.sort_values(keys, ignore_index=True) for f in (found, whole)]
    pd.testing.assert_frame_equal(*frames)


# Areas

HITS = [True, True, False, False, True, True, True, False]
RISING = pd.DataFrame({"index": [0] * 4 + [1] * 4, "share_pct": [0.0, 10, 50, 90] * 2, "hit": HITS})
RISING["direction"] = "positive"


@pytest.mark.parametrize(
    ("rule", "first", "second"),
    [
        # Trapezoids from (0, 1) by (.1, 1), (.5, 0) to (1, 0).
        (PUBLISHED, 10 + 20, 10 + 40 + 20),
        ({}, 100 / 3, 200 / 3),
        ({"trapezoids": True}, 20, 40 + 20),
    ],
)
def test_areas_by_hand(rule, first, second):
    areas = image_auc_pct(RISING, **rule)
    assert areas["auc_pct"].tolist() == pytest.approx([first, second])
    (row,) = auc_table(RISING, **rule).to_dict("records")
    assert row.pop("auc_pct") == pytest.approx((first + second) / 2)
    # Two images that differ say nothing.
    assert row == {"direction": "positive", "images": 2, "low_pct": 0.0, "high_pct": 100.0}


@pytest.mark.parametrize(
    ("rule", "shares", "weights"),
    [  # differences E6, E7
        (PUBLISHED, [0, 50, 100], [0.25, 0.5, 0]),  # a measured end is ignored
        (PUBLISHED, [0, 50], [0.25, 0.5]),
        ({}, [0, 50, 100], [0, 0.5, 0.5]),
        ({"trapezoids": True}, [0, 50, 100], [0, 0.25, 0.25]),
        ({"trapezoids": True, "whole": True}, [0, 50, 100], [0.25, 0.5, 0.25]),
        ({"trapezoids": True, "whole": True}, [0, 100], [0.5, 0.5]),
        ({"whole": True}, [0, 50], [0.5, 0.5]),
        (PUBLISHED, [0, *SHARES_PCT], [0.05] + 9 * [0.1]),
        ({}, [0, *SHARES_PCT], [0] + 9 * [1 / 9]),
        ({"trapezoids": True}, [0, *SHARES_PCT], [0, 0.05] + 7 * [0.1] + [0.05]),
    ],
)
def test_weights_of_the_area(rule, shares, weights):
    assert auc_weights(shares, **rule).tolist() == pytest.approx(weights)
