"""Slopes over depth, their intervals, and whether a number tells the kinds of runs apart."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from relevit.evaluate.intervals import mean_interval
from relevit.iav import (
    global_iav,
    kind_intervals,
    score_rows,
    score_tensor,
    separations,
    slopes,
    trend_table,
)

RUN = ["model", "kind", "seed", "map"]


def close(ours, theirs, tolerance=1e-12):
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.fixture
def scores():
    return torch.rand(6, 4, 3, generator=torch.Generator().manual_seed(0)).double()


# Slopes


def test_slope_is_that_of_polyfit_and_linear_in_the_images(scores):
    depth = np.linspace(0, 1, 4)
    expected = [np.polyfit(depth, image.mean(dim=1).numpy(), 1)[0] for image in scores]
    close(slopes(scores), torch.from_numpy(np.array(expected)), 1e-12)
    close(slopes(global_iav(scores)[None])[0], slopes(scores).mean())


# Tables


def run(values, model="a", kind="supervised", seed=0, name="smoothgrad"):
    """Rows of one run: two layers of two heads, whose mean falls or rises by `values`."""
    change = torch.tensor(values).double()[:, None, None]
    scores = 0.5 + change * torch.tensor([[-0.6, -0.4], [0.4, 0.6]]).double()
    labels = torch.arange(len(values)) % 3
    return score_rows(scores, labels).assign(model=model, kind=kind, seed=seed, map=name)


def test_rows_and_tensor_are_each_others_inverse(scores):
    rows = score_rows(scores, torch.arange(6) * 10)
    assert list(rows.columns) == ["image", "label", "layer", "head", "score"]
    assert len(rows) == 6 * 4 * 3
    one = rows[(rows["image"] == 2) & (rows["layer"] == 4) & (rows["head"] == 1)]
    assert one["score"].item() == float(scores[2, 3, 0]) and one["label"].item() == 20
    assert torch.equal(score_tensor(rows.sample(frac=1, random_state=0)), scores)


def test_trend_table_by_hand():
    table = pd.concat(
        [
            run([0.1, 0.3, 0.2], model="b", seed=1),
            run([-0.2, -0.2, -0.2], kind="self-supervised"),
            run([0.0, 0.0, 0.6], model="b", seed=1, name="mask"),
        ]
    )
    found = trend_table(table.sample(frac=1, random_state=1))
    assert list(found.columns) == [*RUN, "slope", "low", "high"]
    found = found.set_index(["model", "map"]).sort_index()
    assert found["slope"].tolist() == pytest.approx([-0.2, 0.2, 0.2])
    assert found.loc[("a", "smoothgrad"), "low"] == pytest.approx(-0.2)
    row = found.loc[("b", "smoothgrad")]
    assert (row["low"], row["high"]) == mean_interval(slopes(score_tensor(table[:12])))
    assert row["kind"] == "supervised" and row["seed"] == 1
    assert trend_table(table)["model"].tolist() == ["b", "a", "b"], "in the order given"


# Intervals over images and seeds


def per_image(count=40, image_noise=0.0, seed_noise=0.0):
    """Two models of each kind with three seeds; the true slopes are -0.2, -0.1, 0 and 0.2."""
    random = np.random.default_rng(0)
    images = image_noise * random.normal(size=count)
    parts = []
    for model, slope in (("a", -0.2), ("b", -0.1), ("s", 0.0), ("t", 0.2)):
        for seed in range(3):
            values = slope + images + seed_noise * (seed - 1)
            part = pd.DataFrame({"image": range(count), "slope": values})
            kind = "supervised" if model in "ab" else "self-supervised"
            parts.append(part.assign(model=model, kind=kind, seed=seed, map="mask"))
    return pd.concat(parts, ignore_index=True)


def test_seeds_widen_the_interval():
    """Seeds at (-d, 0, d) have variance d²; degrees of freedom are those of all models' seeds."""
    found = kind_intervals(per_image(seed_noise=0.1)).set_index("kind")
    width = found["high"] - found["low"]
    error, of_four, of_eight = 0.1 / 6**0.5, 2.776445, 2.306004  # Student's t
    assert width["supervised"] == pytest.approx(2 * of_four * error)
    assert width["difference"] == pytest.approx(2 * of_eight * error * 2**0.5)


def test_images_move_both_kinds_alike():
    """So they widen the interval of a kind, and not that of the difference."""
    table = per_image(image_noise=0.1, seed_noise=0.01)
    found = kind_intervals(table).set_index("kind")
    width = found["high"] - found["low"]
    images = table[(table["model"] == "a") & (table["seed"] == 1)]["slope"]
    error = (images.var() / 40 + 0.01**2 / 6) ** 0.5
    assert width["supervised"] == pytest.approx(2 * 2.022691 * error)  # t of 39
    assert width["difference"] == pytest.approx(2 * 2.306004 * 0.01 / 3**0.5)
    single = kind_intervals(table[table["seed"] == 1]).set_index("kind")
    assert (single["high"] - single["low"])["difference"] == pytest.approx(0, abs=1e-8)


# Telling the kinds apart


@pytest.mark.parametrize(
    ("supervised", "self_supervised", "above", "below", "auc"),
    [
        ([-0.4, -0.2], [-0.1, 0.3], 0.1, -0.7, 1.0),
        ([-0.4, 0.2], [-0.1, 0.3], -0.3, -0.7, 0.75),
        ([0.1, 0.1], [0.1, 0.1], 0.0, 0.0, 0.5),
        ([0.5, 0.4], [0.1, 0.3], -0.4, 0.1, 0.0),
    ],
)
def test_separations_by_hand(supervised, self_supervised, above, below, auc):
    kinds = pd.Series(2 * ["supervised"] + 2 * ["self-supervised"])
    values = pd.Series([*supervised, *self_supervised])
    first, second = separations(pd.DataFrame({"slope": values, "turned": -values}), kinds).to_dict(
        "records"
    )
    assert [first[name] for name in ("above", "below", "auc")] == pytest.approx([above, below, auc])
    turned = [below, above, 1 - auc]
    assert [second[name] for name in ("above", "below", "auc")] == pytest.approx(turned)
    assert (first["property"], second["property"]) == ("slope", "turned")
