"""Curves: their points, lines and labels, from small tables."""

from __future__ import annotations

import pandas as pd
import pytest
from matplotlib.colors import to_hex

from relevit.finetune.learning_rate import class_loss_column
from reproduction.config import FinetuneParams
from reproduction.plots import curves as pictures
from reproduction.plots.style import FAINT, METHODS


def test_rates_are_judged_at_the_kept_epoch():
    """A full dot passes, a cross does not; the dotted lines are the rule's limits."""
    column = class_loss_column(FinetuneParams())

    def history(top1, loss):
        keys = ("epoch", "validation_top1_pct", column, "validation_loss_total")
        keys += ("validation_loss_background", "validation_class_losses")
        images = [[loss[0]] * 2, [loss[1] - 0.001, loss[1] + 0.001]]
        return [
            dict(zip(keys, row, strict=True))
            for row in zip((0, 1), top1, loss, (1.0, 0.5), (0.2, 0.1), images, strict=True)
        ]

    histories = {1e-6: history((90, 89), (1.0, 1.008)), 1e-3: history((90, 60), (1.0, 3.0))}
    for rows in histories.values():  # an epoch whose images were not looked at leaves no gap
        rows[-1]["epoch"] = 2
        rows.insert(1, {"epoch": 1})
    left, right = pictures.rate_curves(histories, 3.0, FinetuneParams()).axes
    assert [line.get_xdata().tolist() for line in right.lines[:3:2]] == [[0, 2], [0, 2]]
    marks = {line.get_marker(): line.get_ydata()[0] for line in right.lines}
    assert marks["o"] == 1.008 and marks["X"] == 3.0
    dotted = [
        [li.get_ydata()[0] for li in ax.lines if li.get_linestyle() == ":"] for ax in (left, right)
    ]
    assert dotted == [[3.0], [1.01]]


def test_an_exact_zero_has_a_place_below_all_others():
    gap = pd.DataFrame({"difference_norm": [0.0, 1.0], "alone_norm": [1.0, 2.0]})
    (axis,) = pictures.gap_dots({("rrr", "published"): gap}).axes
    assert axis.lines[0].get_ydata().tolist() == [0, 0.5] and axis.get_ylim()[0] < 0
    assert axis.get_title() == "RRR"


@pytest.mark.parametrize("log", [False, True])
def test_no_mark_hides_another_or_leaves_the_panel(log):
    columns = {"x": [1, 10], "val": [0.5, -9.0], "change_pts": [0.5, 1.0]}
    table = pd.DataFrame(columns | {"low_pts": [0.4, 0.9], "high_pts": [0.6, 1.1]})
    figure = pictures.sensitivity_curves(table, "x", "t", "x", log=log)
    figure.canvas.draw()
    shifted, val = (
        line.get_transform().transform(line.get_xydata())
        for line in figure.axes[0].lines
        if line.get_marker() in "os"
    )
    assert (val[0] - shifted[0]).tolist() == pytest.approx([figure.dpi / 16, 0.0])
    assert figure.axes[0].bbox.containsy(val[1][1])


def erased(*methods: str) -> pd.DataFrame:
    rows = [
        (method, direction, share, 95.0 - share / 2)
        for method in methods
        for direction in ("positive", "negative")
        for share in (0, 50, 100)
    ]
    return pd.DataFrame(rows, columns=["method", "direction", "share_pct", "accuracy_pct"])


def test_each_family_has_its_panels_and_the_others_are_faint():
    table = erased("ga", "rollout", "gae", "random", "new")
    figure = pictures.perturbation_curves(table, "t", "erased tokens (%)", 45.0)
    top = figure.axes[:3]
    titles = [axis.get_legend().get_title().get_text() for axis in top]
    assert titles == ["attention", "attention x gradient", "others"]
    colours = [[to_hex(line.get_color()) for line in axis.lines] for axis in top]
    assert colours[0][:4] == [*[FAINT] * 3, METHODS["rollout"]]
    assert colours[1][2:4] == [METHODS["gae"], METHODS["ga"]]
    assert top[0].lines[3].get_ydata().tolist() == [95, 70, 45]
    assert set(top[0].lines[-1].get_ydata()) == {45.0}, "the guess"
    assert figure.axes[-1].get_xlabel() == "erased tokens (%)"


def test_chance_is_one_line_and_the_distance_to_it_is_shaded():
    axis = pictures.chance_curves(erased("gae", "random"), "t").axes[0]
    names = ["gae, most relevant first", "gae, least relevant first", "an order by chance"]
    assert [line.get_label() for line in axis.lines] == names
    assert axis.lines[-1].get_ydata().tolist() == [95, 70, 45] and len(axis.collections) == 2


@pytest.mark.parametrize(("by", "label"), [("k", "(k)"), ("share_pct", "(%)")])
def test_rationales_have_their_interval(by, label):
    table = pd.DataFrame(
        {"method": ["ga", "ga"], by: [10, 20], "f1_pct": [3.0, 4], "standard_error_pts": 0.5}
    )
    (axis,) = pictures.rationale_curves_figure(table, "generated").axes
    heights = axis.collections[0].get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((2.02, 4.98))
    assert axis.get_xlabel().endswith(label)
