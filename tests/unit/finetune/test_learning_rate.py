"""The learning-rate rule: the highest rate that does no harm."""

from __future__ import annotations

import pytest

from relevit.finetune.rates import RISE_PCT, choose_learning_rate, judge
from relevit.finetune.runs import kept_epoch


@pytest.mark.parametrize(
    ("drops", "rising", "chosen"),
    [
        ({1e-6: 0.1, 3e-6: 1.0, 1e-5: 2.0}, (), 1e-5),  # the highest; at the limit still passes
        ({1e-6: 0.1, 3e-6: 1.0, 1e-5: 2.1}, (), 3e-6),
        ({1e-6: 0.1, 3e-6: 1.0, 1e-5: 0.5}, (1e-5,), 3e-6),  # the class term rose
        ({1e-5: -1.0, 1e-6: 5.0}, (), 1e-5),  # a gain is no drop
        ({3e-6: 2.5, 1e-6: 0.0, 1e-5: 0.0}, (1e-5,), 1e-6),
    ],
)
def test_highest_rate_that_does_no_harm(drops, rising, chosen):
    flags = {lr: lr in rising for lr in drops}
    assert choose_learning_rate(drops, flags, limit_pts=2.0) == chosen


@pytest.mark.parametrize(
    ("drops", "rising"), [({1e-5: 3.0, 1e-6: 2.5}, ()), ({1e-6: 0.0}, (1e-6,)), ({}, ())]
)
def test_no_rate_passes(drops, rising):
    text = r"choose_learning_rate: none of \[.*\] keeps validation top-1 within 2.0 points.*lower"
    with pytest.raises(ValueError, match=text):
        choose_learning_rate(drops, {lr: lr in rising for lr in drops}, limit_pts=2.0)


def history(*epochs):
    """Rows of a log from (top-1, confidence loss, total loss) of each epoch."""
    names = ("validation_top1_pct", "validation_confidence_loss", "validation_loss_total")
    return [{"epoch": n, **dict(zip(names, row, strict=True))} for n, row in enumerate(epochs)]


LOG = history((90.0, 0.50, 9.0), (89.0, 0.52, 3.0), (88.5, 0.54, 2.0), (88.0, 0.56, 2.0))


@pytest.mark.parametrize(
    ("rows", "keep", "epoch"),
    [
        (LOG, "last", 3),
        (LOG, "lowest_validation_loss", 3),  # the latest of equals
        (LOG[:2] + LOG[2:3], "lowest_validation_loss", 2),
        (
            history((90.0, 0.5, 1.0), (89.0, 0.5, 3.0), (88.0, 0.5, 4.0)),
            "lowest_validation_loss",
            1,
        ),  # never the epoch before finetuning
    ],
)
def test_kept_epoch(rows, keep, epoch):
    assert kept_epoch(rows, keep) == epoch


def test_judge_compares_the_kept_epoch_with_the_start():
    verdict = judge(1e-6, LOG, "last")
    assert verdict["drop_pts"] == 2.0 and verdict["validation_top1_pct"] == 88.0
    assert (verdict["confidence_loss_before"], verdict["confidence_loss"]) == (0.50, 0.56)
    assert verdict["validation_loss_total"] == 2.0 and verdict["lr"] == 1e-6


@pytest.mark.parametrize(("share", "rising"), [(0.99, False), (1.01, True)])
def test_loss_rises_beyond_the_margin_for_noise(share, rising):
    end = 0.5 * (1 + share * RISE_PCT / 100)
    rows = history((90.0, 0.5, 2.0), (90.0, end, 1.0))
    assert judge(1e-6, rows, "last")["rising"] is rising
