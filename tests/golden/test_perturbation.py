"""The perturbation test against the published script (f8)."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from relevit.evaluate.perturbation import Judged, accuracy_curves, auc_table, perturbation_rows
from relevit.protocols import options

TOLERANCE = 1e-9
NAMES = {"pos": "positive", "neg": "negative"}


@pytest.fixture
def values(golden):
    return golden("f8_perturbation")


@pytest.fixture
def rows(values, golden_model):
    tensors = {name: torch.from_numpy(values[name]) for name in ("images01", "vis", "target")}
    return perturbation_rows(
        golden_model,
        lambda images: (images - 0.5) / 0.5,
        [Judged(tensors["images01"].double(), tensors["vis"], tensors["target"])],
        golden_model.patch_embed.grid_size,
        chunk=30,  # shares of one image fall in different chunks
    )


@pytest.fixture(params=NAMES)
def case(request, values, rows):
    """Published values and our rows of one direction."""
    prefix = request.param + "_"
    of_direction = {k.removeprefix(prefix): v for k, v in values.items() if k.startswith(prefix)}
    return of_direction, rows[rows["direction"] == NAMES[request.param]]


def by_share(rows, column):
    """[shares, images], the whole image first."""
    return rows.pivot(index="share_pct", columns="index", values=column).to_numpy(dtype=float)


def test_whole_images(values, case):
    published, rows = case
    whole = rows[rows["share_pct"] == 0]
    np.testing.assert_array_equal(whole["hit"], published["model_hits"])
    logits = values["logits"]
    predicted = logits[np.arange(len(logits)), values["pred"]]
    np.testing.assert_allclose(whole["logit"], predicted, rtol=TOLERANCE)


def test_hits(case):
    published, rows = case
    np.testing.assert_array_equal(by_share(rows, "hit")[1:], published["hits"])


def test_differences_compare_the_highest_logits(case):
    """The published ones do, whichever classes these are."""
    published, rows = case
    logit, probability = (by_share(rows, f"top_{name}") for name in ("logit", "probability_pct"))
    close = {"rtol": TOLERANCE, "atol": TOLERANCE}
    np.testing.assert_allclose(logit[1:] - logit[0], published["logit_diff"], **close)
    change = (probability[1:] - probability[0]) / 100
    np.testing.assert_allclose(change, published["prob_diff"], **close)


def test_curve(values, case):
    published, rows = case
    curve = accuracy_curves(rows)
    np.testing.assert_allclose(curve["share_pct"] / 100, published["x"][:-1])
    np.testing.assert_allclose(curve["share_pct"][1:] / 100, values["steps"])
    np.testing.assert_allclose(curve["accuracy_pct"] / 100, published["y"][:-1], rtol=TOLERANCE)
    np.testing.assert_allclose(curve["accuracy_pct"][1:] / 100, published["step_acc"])
    assert published["x"][-1] == 1 and published["y"][-1] == 0


@pytest.mark.parametrize(
    ("rule", "name"),
    [(options("published", "auc_weights"), "auc"), ({"trapezoids": True}, "NOTCODE_auc_0.1_0.9")],
)
def test_areas(case, rule, name):
    published, rows = case
    (auc_pct,) = auc_table(rows, **rule)["auc_pct"]
    assert auc_pct / 100 == pytest.approx(float(published[name]), rel=TOLERANCE)


def test_described_area_is_the_mean_accuracy(case):
    published, rows = case
    (auc_pct,) = auc_table(rows)["auc_pct"]
    assert auc_pct / 100 == pytest.approx(published["step_acc"].mean(), rel=TOLERANCE)
