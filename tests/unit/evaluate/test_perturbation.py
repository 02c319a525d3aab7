"""The perturbation test with a model that counts what is left of an image."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch

from relevit.evaluate.perturbation import (
    SHARES_PCT,
    Erasing,
    Judged,
    accuracy_curves,
    auc_table,
    auc_weights,
    erase,
    erased_parts,
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


@pytest.mark.parametrize(
    ("parts", "share_pct", "expected"),
    [(1024, 10, 102), (50176, 90, 45158), (64, 10, 6), (100, 29, 29), (16, 5, 0), (16, 100, 16)],
)
def test_number_of_parts(parts, share_pct, expected):
    assert erased_parts(parts, share_pct) == expected


def test_erase_on_a_grid_that_is_not_square_in_pixels():
    hidden = torch.tensor([[[True, False, False], [False, False, False]]])
    seen = erase(torch.ones(1, 3, 4, 12), hidden, torch.zeros(1, 3, 4, 12))
    assert (seen[..., :2, :4] == 0).all() and seen.sum() == 3 * (48 - 8)


@pytest.mark.parametrize("unit", ["pixel", "token"])
def test_grid_and_image_that_are_no_squares(unit):
    """4 x 2 patches whose relevance falls from column to column: the left half goes first."""
    model, images = Seen(), torch.ones(1, 3, 8, 6)
    maps = torch.tensor([[2.0, 1.0] * 4])
    batch = Judged(images, maps, torch.zeros(1, dtype=torch.long))
    perturbation_rows(model, plain, [batch], (4, 2), Erasing(unit, directions=["positive"]))
    half = model.seen()[5]
    assert (half[..., :3] == 0).all() and (half[..., 3:] == 1).all()


def test_ranks_without_ties():
    relevance = torch.tensor([[0.3, 0.1, 0.9, 0.5], [4.0, 3.0, 2.0, 1.0]])
    assert erasing_ranks(relevance, "positive").tolist() == [[2, 3, 0, 1], [0, 1, 2, 3]]
    assert erasing_ranks(relevance, "negative").tolist() == [[1, 0, 3, 2], [3, 2, 1, 0]]


@pytest.mark.parametrize("direction", ["positive", "negative"])
def test_ties_are_shuffled_the_same_way_each_time(direction):
    constant = torch.zeros(2, 400)
    first, second = erasing_ranks(constant, direction)
    assert torch.equal(first, second)
    assert torch.equal(first, erasing_ranks(constant[:1], direction)[0])
    assert first.sort().values.tolist() == list(range(400))
    halves = first[:200].double().mean(), first[200:].double().mean()
    assert halves[0].item() == pytest.approx(halves[1].item(), rel=0.2)  # no part of the image


def test_ties_stay_within_their_value():
    relevance = torch.tensor([[1.0, 0.0, 2.0, 0.0, 2.0, 1.0]])
    positive, negative = (erasing_ranks(relevance, d)[0] for d in ("positive", "negative"))
    for ranks, groups in (
        (positive, [[2, 4], [0, 5], [1, 3]]),
        (negative, [[1, 3], [0, 5], [2, 4]]),
    ):
        assert [sorted(ranks[g].tolist()) for g in groups] == [[0, 1], [2, 3], [4, 5]]
    assert (positive[2] < positive[4]) == (negative[2] < negative[4])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_map_with_a_bad_number_ties_everywhere(value):
    relevance = torch.rand(2, 16)
    relevance[1, 3] = value
    ranks = erasing_ranks(relevance, "positive")
    assert torch.equal(ranks[:1], erasing_ranks(relevance[:1], "positive"))
    assert torch.equal(ranks[1:], erasing_ranks(torch.zeros(1, 16), "positive"))


# What is erased


@pytest.mark.parametrize("unit", ["pixel", "token"])
@pytest.mark.parametrize("direction", ["positive", "negative"])
def test_nothing_and_everything(unit, direction):
    model, (images, maps, _) = Seen(), drawn(2)
    options = {"unit": unit, "directions": [direction], "shares_pct": [50, 100]}
    run(model, images, maps, **options)
    seen = model.seen().reshape(2, 3, 3, SIDE, SIDE)
    assert torch.equal(seen[:, 0], images)
    assert (seen[:, 1] == 0).all(dim=1).sum(dim=(1, 2)).tolist() == [32, 32]
    assert (seen[:, 2] == 0).all()


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


def test_most_relevant_patch_goes_first():
    model, maps = Seen(), torch.zeros(1, 16)
    maps[0, 6] = 1  # row 1, column 2
    run(model, white(), maps, unit="token", directions=["positive"], shares_pct=[10])
    expected = torch.ones(SIDE, SIDE)
    expected[2:4, 4:6] = 0
    assert torch.equal(model.seen()[1], expected.expand(3, -1, -1))


def test_pixels_of_patch_maps_are_interpolated_and_heatmaps_are_taken_as_they_are():
    heat = torch.arange(64.0).reshape(1, 1, SIDE, SIDE)
    model = Seen()
    run(model, white(), heat, directions=["positive"], shares_pct=[25])
    assert torch.equal(model.seen()[1] == 0, (heat[0] >= 48).expand(3, -1, -1))
    model = Seen()
    run(model, white(), left_first(), directions=["positive"], shares_pct=[25])
    assert (model.seen()[1, :, :, :2] == 0).all() and (model.seen()[1, :, :, 2:] == 1).all()


@pytest.mark.parametrize(("fill", "value"), [("black", -2.0), ("mean", 0.0)])
def test_fill(fill, value):
    """Black is 0 before normalisation, the mean colour 0 after it (E7)."""
    model = Seen()
    images = torch.full((1, 3, SIDE, SIDE), 255, dtype=torch.uint8)
    run(model, images, left_first(), normalise=SPEC.normalise, fill=fill, shares_pct=[50])
    seen = model.seen()[1]
    assert (seen[..., :4] == value).all() and (seen[..., 4:] == 2).all()


def test_normalise_with_statistics_of_channels():
    spec = ModelSpec("stub", "none", 8, mean=(0.1, 0.2, 0.3), std=(0.5, 0.5, 0.5))
    images = torch.full((1, 3, SIDE, SIDE), 255, dtype=torch.uint8)
    model = Seen()
    run(model, images, left_first(), normalise=spec.normalise, shares_pct=[100])
    black = spec.normalise(torch.zeros_like(images))
    assert torch.equal(model.seen()[1:2], black)


# Ties


@pytest.mark.parametrize("unit", ["pixel", "token"])
@pytest.mark.parametrize("value", [0.0, 0.1, math.nan])
def test_map_that_says_nothing_has_equal_curves(unit, value):
    images, _, labels = drawn()
    maps = torch.full((5, 49 if unit == "pixel" else 16), value)
    if unit == "pixel":
        images = torch.nn.functional.interpolate(images, size=(7, 7))
    rows = run(Seen(), images, maps, labels, unit=unit)
    halves = [
        rows[rows["direction"] == d].drop(columns="direction") for d in rows["direction"].unique()
    ]
    pd.testing.assert_frame_equal(*(half.reset_index(drop=True) for half in halves))


# The table


def test_table_by_hand():
    """Each tenth that goes is a tenth of the left half, twice over: .5 is left at 25 %."""
    rows = run(
        Seen(),
        white(2),
        left_first(2),
        torch.tensor([0, 1]),
        unit="token",
        shares_pct=[12.5, 37.5, 50],
    )
    assert list(rows) == [
        "index",
        "direction",
        "share_pct",
        "hit",
        "logit",
        "probability_pct",
        "top_logit",
        "top_probability_pct",
    ]
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


def test_explained_class_changes_the_logit_and_not_the_hit():
    images, maps, labels = drawn()
    predicted = run(Seen(), images, maps, labels)
    other = run(Seen(), images, maps, labels, explained=torch.full((5,), 2))
    changed = ["logit", "probability_pct"]
    pd.testing.assert_frame_equal(predicted.drop(columns=changed), other.drop(columns=changed))
    difference = predicted["logit"] - other["logit"]
    assert (difference > 6).any()


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


def test_chunks_have_the_size_asked_for():
    model, (images, maps, labels) = Seen(), drawn()
    run(model, images, maps, labels, directions=["positive"], chunk=12)
    assert [len(inputs) for inputs, _ in model.inputs] == [12, 12, 12, 12, 2]


def test_logits_that_are_no_numbers_are_not_right():
    model = Seen()
    with torch.no_grad():
        model.weight.fill_(math.nan)
    rows = run(model, white() * math.nan, left_first(), fill="mean")
    assert not rows["hit"][rows["share_pct"] == 0].any()


@pytest.mark.parametrize("precision", [None, "float32", "bfloat16"])
def test_precision_leaves_the_weights(build_vit, images, precision):
    model = build_vit().train()
    weights = model.head.weight.clone()
    options = {"unit": "token", "precision": precision}
    rows = run(model, images, torch.rand(3, 16), **options)
    assert torch.equal(model.head.weight, weights) and model.head.weight.dtype == torch.float64
    whole = rows[(rows["share_pct"] == 0) & (rows["direction"] == "positive")]["top_logit"]
    with torch.inference_mode():
        logits = model.eval()(images).amax(dim=1)
    tolerance = {None: 1e-12, "float32": 1e-4, "bfloat16": 0.1}[precision]
    np.testing.assert_allclose(whole, logits, rtol=tolerance)
    assert whole.dtype == (np.float64 if precision is None else np.float32)


@pytest.mark.parametrize(
    ("precision", "formats"),
    [("float32", {torch.float32}), ("bfloat16", {torch.bfloat16, torch.float32})],
)
def test_model_runs_in_eval_mode_and_in_its_format(precision, formats):
    model = Seen().train()
    run(model, white(), left_first(), precision=precision)
    assert {images.dtype for images, _ in model.inputs} == formats
    assert model.training and not any(training for _, training in model.inputs)


def test_hits_in_bfloat16_are_those_of_float32():
    """Rounding alone would turn some of them."""
    model, (images, maps, labels) = Seen(), drawn(20)
    exact, rough = (run(model, images, maps, labels, precision=p) for p in ("float32", "bfloat16"))
    assert not exact["logit"].equals(rough["logit"])
    pd.testing.assert_series_equal(rough["hit"], exact["hit"])


# Areas

RISING = pd.DataFrame(
    {
        "index": [0] * 4 + [1] * 4,
        "direction": "positive",
        "share_pct": [0.0, 10.0, 50.0, 90.0] * 2,
        "hit": [True, True, False, False, True, True, True, False],
    }
)


def test_area_of_the_curve_is_the_mean_of_the_images():
    rows = run(Seen(), *drawn(20))
    for rule in (PUBLISHED, {}, {"trapezoids": True}):
        table = auc_table(rows, **rule)
        assert table["direction"].tolist() == ["positive", "negative"]
        curves = accuracy_curves(rows)
        for direction, auc_pct in zip(table["direction"], table["auc_pct"], strict=True):
            curve = curves[curves["direction"] == direction]
            weights = auc_weights(curve["share_pct"].tolist(), **rule)
            assert curve["accuracy_pct"].to_numpy() @ weights == pytest.approx(auc_pct)
            assert (curve["images"] == 20).all()


def test_faithful_map_has_a_lower_positive_and_a_higher_negative_area():
    rows = run(Seen(), white(3), left_first(3))
    positive, negative = auc_table(rows, **PUBLISHED)["auc_pct"]
    assert positive < 40 and negative > 60
    assert auc_table(rows)["standard_error_pts"].tolist() == pytest.approx([0, 0])


def test_one_image_has_no_standard_error():
    assert auc_table(run(Seen(), white(), left_first()))["standard_error_pts"].isna().all()


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
    assert row == {
        "direction": "positive",
        "images": 2,
        "auc_pct": pytest.approx((first + second) / 2),
        "standard_error_pts": pytest.approx((second - first) / 2),
    }


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
