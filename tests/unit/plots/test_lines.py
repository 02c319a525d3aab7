"""Lines of several models on small tables: what is drawn is what can be counted by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex, to_rgb

from reproduction.plots import lines as pictures
from reproduction.plots.style import alternative_text
from reproduction.plots.tables import change_heatmap, entropy_maps

KINDS = {"mini-dino": "self-supervised", "mini-deit": "supervised"}
SEEDS = (0, 1)


def table(value, **columns) -> pd.DataFrame:
    """A row for each model, seed and combination of `columns`; `value` maps a row to numbers."""
    names = ("model", "seed", *columns)
    rows = itertools.product(KINDS, SEEDS, *columns.values())
    made = [dict(zip(names, row, strict=True)) for row in rows]
    return pd.DataFrame([row | {"kind": KINDS[row["model"]]} | value(row) for row in made])


def heights(axis, label) -> np.ndarray:
    (found,) = [line for line in axis.lines if line.get_label() == label]
    return found.get_ydata()


def score(row) -> dict:
    """Falls with depth for mini-deit alone; later heads are lower, except in layer 2."""
    falls = 0.2 * row["layer"] * (row["model"] == "mini-deit")
    head = (-1 if row["layer"] == 2 else 1) * 0.05 * (row["head"] - 2.5)
    lower = 0.1 * (row["map"] == "aav_dino")
    return {"score": 0.8 - falls - head - lower + 0.02 * row["seed"] + 0.01 * (row["image"] - 2)}


@pytest.fixture
def scores():
    columns = {"layer": range(1, 4), "head": range(1, 5), "image": range(5)}
    return table(score, map=("smoothgrad", "aav_dino"), **columns)


def test_models_have_their_colours_and_their_kind_its_line():
    kinds = {"mini-dino": "self-supervised", "x": "supervised", "mini-deit": "supervised"}
    styles = pictures.model_styles(pd.DataFrame(kinds.items(), columns=["model", "kind"]))
    assert list(styles) == ["mini-deit", "x", "mini-dino"]
    assert [style["linestyle"] for style in styles.values()] == ["--", "--", "-"]
    grey = sorted(
        np.dot(to_rgb(colour), (0.299, 0.587, 0.114)) for colour in pictures.COLOURS.values()
    )
    assert np.diff(grey).min() > 0.03


def test_a_line_is_the_mean_and_its_band_the_range_of_seeds(scores):
    figure = pictures.depth_curves(scores)
    left, right = figure.axes
    assert heights(left, "mini-deit") == pytest.approx([0.61, 0.41, 0.21])
    assert heights(right, "mini-dino") == pytest.approx([0.71] * 3)
    band = left.collections[1].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == pytest.approx((0.8, 0.82))
    titles = "Panels: SmoothGrad; SmoothGrad of DINO (AAV)."
    assert titles in alternative_text(figure)
    assert "Colours and lines: mini-deit; mini-dino." in alternative_text(figure)


def test_agreement_is_drawn_above_that_of_a_head_without_a_choice():
    rows = table(lambda row: {"score": 0.5, "uniform": 0.45, "centred": -0.1}, layer=(1, 2))
    score, above, correlation = pictures.agreement_curves(rows).axes
    for axis, height in ((score, 0.5), (above, 0.05), (correlation, -0.1)):
        assert heights(axis, "mini-dino") == pytest.approx([height] * 2)


@pytest.mark.parametrize(("gap", "said"), [(0.5, "apart"), (-0.5, "apart"), (0.05, "mixed")])
def test_a_property_keeps_kinds_apart_where_no_runs_mix(gap, said):
    """Two seeds of a model are 0.1 apart."""
    runs = pd.MultiIndex.from_product([KINDS, SEEDS], names=["model", "seed"])
    kinds = pd.Series([KINDS[model] for model, _ in runs], runs, name="kind")
    values = [gap * (KINDS[model] == "supervised") + 0.1 * seed for model, seed in runs]
    (axis,) = pictures.separation_dots(pd.DataFrame({"iav_slope": values}, runs), kinds).axes
    assert axis.get_title().endswith(f"kinds {said}") and len(axis.lines) == 2


def test_boxes_are_of_one_seed_coloured_by_the_median_and_sorted(scores):
    """mini-deit, seed 0: layer 1 has medians 0.675 to 0.525, layer 2 0.475 to 0.325."""
    first, second, dino, _ = pictures.score_boxes(scores, (1, 2)).axes
    colours = [{to_hex(box.get_facecolor()) for box in axis.patches} for axis in (first, second)]
    assert colours == [{pictures.HIGH}, {pictures.LOW}]
    assert [text.get_text() for text in second.get_xticklabels()] == ["4", "3", "2", "1"]
    assert (first.get_title(), dino.get_title()) == ("mini-deit, layer 1", "mini-dino, layer 1")
    entropy = scores.rename(columns={"score": "entropy"})
    assert len(pictures.entropy_boxes(entropy).axes) == 2


def test_slopes_stand_with_their_intervals():
    def value(row):
        slope = -0.4 * (row["model"] == "mini-deit") + 0.02 * row["seed"]
        return {"slope": slope, "low": slope - 0.03, "high": slope + 0.05}

    left, right = pictures.slope_intervals(table(value, map=("smoothgrad", "mask"))).axes
    points = {tuple(held[0].get_xydata()[0].round(3)) for held in left.containers}
    assert points == {(-0.4, -0.175), (-0.38, 0.175), (0.0, 0.825), (0.02, 1.175)}
    ends = sorted(held[2][0].get_segments()[0][:, 0].tolist() for held in right.containers)[0]
    assert ends == pytest.approx([-0.43, -0.35])
    names = [text.get_text() for text in left.get_yticklabels()]
    assert names == ["mini-deit\nsupervised", "mini-dino\nself-supervised"]


def test_curves_of_maps_are_those_of_the_table():
    drift = table(
        lambda row: {"difference": 0.1 * row["epoch"]}, epoch=(1, 2), quantity=("attention",)
    )
    (axis,) = pictures.drift_curves(drift).axes
    assert axis.get_title() == "Attention maps" and heights(axis, "mini-deit").tolist() == [
        0.1,
        0.2,
    ]
    orders = {"attention": 0.5, "smoothgrad": 0.8, "random": 0.3}
    masking = table(
        lambda row: {"top1_pct": 90 - orders[row["order"]] * row["ratio_pct"]},
        order=orders,
        ratio_pct=(10, 50),
    )
    assert heights(pictures.masking_curves(masking).axes[0], "SmoothGrad") == pytest.approx(
        [82, 50]
    )


# Tables as colours


@pytest.mark.parametrize(("far", "limit"), [(-37.0, 14.0), (-20.0, 20.0)])
def test_a_row_far_beyond_all_others_does_not_set_the_colours(far, limit):
    changes = pd.DataFrame({"val": [1.0, far], "a": [14.0, -3.0]}, index=["ours", "probe"])
    (axis,) = change_heatmap(changes, "t").axes
    assert axis.collections[0].get_clim() == (-limit, limit)
    assert [text.get_text() for text in axis.texts] == ["+1.0", "+14.0", f"{far:+.1f}", "-3.0"]
    assert axis.get_xlabel() == ("colours end at ±14.0" if far < -30 else "")


def test_entropy_maps_show_layers_by_epochs_and_their_change():
    epochs = table(
        lambda row: {"entropy": 2 + 0.1 * row["epoch"] * row["layer"]},
        epoch=range(4),
        layer=range(1, 4),
    )
    top, _, change, _ = entropy_maps(epochs).axes[:4]
    assert top.get_ylim()[0] > top.get_ylim()[1], "layer 1 on top"
    for axis, start in ((top, 2.0), (change, 0.0)):
        drawn = np.asarray(axis.collections[0].get_array()).reshape(3, 4)
        assert drawn == pytest.approx(start + 0.1 * np.outer([1, 2, 3], range(4)))
    assert change.collections[0].get_clim() == pytest.approx((-0.9, 0.9))
