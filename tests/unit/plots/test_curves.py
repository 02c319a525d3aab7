"""Curves: their points, lines and labels, from small tables."""

from __future__ import annotations

import pandas as pd
import pytest

from relevit.config import FinetuneParams
from relevit.finetune.learning_rate import class_loss_column
from relevit.plots.curves import joining_curves, rate_curves


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
        return [
            dict(zip(keys, row, strict=True))
            for row in zip((0, 1), top1, loss, (1.0, 0.5), strict=True)
        ]

    histories = {1e-6: history((90, 89), (1.0, 1.05)), 1e-3: history((90, 60), (1.0, 3.0))}
    left, right = rate_curves(histories, 3.0, FinetuneParams()).axes
    marks = {line.get_marker(): line.get_ydata()[0] for line in right.lines}
    assert marks["o"] == 1.05 and marks["X"] == 3.0
    dotted = [
        [li.get_ydata()[0] for li in ax.lines if li.get_linestyle() == ":"] for ax in (left, right)
    ]
    assert dotted == [[3.0], [pytest.approx(1.1)]]
