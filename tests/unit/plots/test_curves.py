"""Curves: their points, lines and labels, from small tables."""

from __future__ import annotations

import pandas as pd
import pytest

from relevit.config import FinetuneParams
from relevit.finetune.learning_rate import class_loss_column
from relevit.plots.curves import joining_curves, rate_curves, rate_dots, sensitivity_curves

PROTOCOLS = ("published", "described")


def test_loss_has_a_line_a_seed_and_the_guess():
    history = pd.DataFrame({"epoch": [1, 2], "loss": [3.0, 1.0], "scale": [14.0, 15.0]})
    loss, scale = joining_curves({0: history, 4: history}, 4.2).axes
    assert [line.get_label() for line in loss.lines] == ["seed 0", "seed 4", "guess"]
    assert len(scale.lines) == 2


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
    left, right = rate_curves(histories, 3.0, FinetuneParams()).axes
    marks = {line.get_marker(): line.get_ydata()[0] for line in right.lines}
    assert marks["o"] == 1.008 and marks["X"] == 3.0
    dotted = [
        [li.get_ydata()[0] for li in ax.lines if li.get_linestyle() == ":"] for ax in (left, right)
    ]
    assert dotted == [[3.0], [1.01]]


def test_protocols_differ_in_line_and_place():
    rows = [("rrr", protocol, 1e-5, 0.0, 1.1, 1.0, 0.5, 1.0) for protocol in PROTOCOLS]
    names = ["method", "protocol", "rate", "drop_pts", "class_loss", "class_loss_before"]
    names += ["background_after", "background_before"]
    figure = rate_dots(pd.DataFrame(rows, columns=names), 3.0)
    published, described = figure.axes[0].lines[:2]
    assert (published.get_linestyle(), described.get_linestyle()) == ("-", "--")
    assert published.get_xdata()[0] < described.get_xdata()[0]
    assert figure.legends[0].get_texts()[-1].get_text() == "limit of the rule; right: no change"


@pytest.mark.parametrize("log", [False, True])
def test_no_mark_hides_another_or_leaves_the_panel(log):
    columns = {"x": [1, 10], "val": [0.5, -9.0], "shifted_average": [0.5, 1.0]}
    table = pd.DataFrame(columns | {"shifted_average_std": [0.1, 0.1]})
    figure = sensitivity_curves(table, "x", "t", "x", log=log)
    figure.canvas.draw()
    shifted, val = (
        line.get_transform().transform(line.get_xydata())
        for line in figure.axes[0].lines
        if line.get_marker() in "os"
    )
    assert (val[0] - shifted[0]).tolist() == pytest.approx([figure.dpi / 16, 0.0])
    assert figure.axes[0].bbox.containsy(val[1][1])
