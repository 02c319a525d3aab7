"""Typical wrong answers to the exercises on controls, and what is said to each."""

from __future__ import annotations

import numpy as np
import pytest
from checks import controls

from relevit.evaluate.paired import paired_change

from .answers import said


def change(before, after, *, error=lambda d: d.std(ddof=1) / np.sqrt(len(d)), scale=100):
    difference = after - before
    return scale * difference.mean(), scale * error(difference)


def added(table, *, plus="with", minus="without"):
    top1 = 100 * table.groupby(["dataset", "arm"])["right"].mean().unstack("arm")
    return (top1[plus] - top1[minus]).mean()


def pooled(table):
    top1 = 100 * table.groupby("arm")["right"].mean()
    return top1["with"] - top1["without"]


def changes(ddof):
    """Wrong answers whose deviations are divided by n - ddof."""

    def mean_error(d):
        return d.std(ddof=ddof) / np.sqrt(len(d))

    def changed(before, after, error=mean_error, scale=100):
        return change(before, after, error=error, scale=scale)

    def apart(before, after):
        both = np.hypot(mean_error(before), mean_error(after))
        return 100 * (after - before).mean(), 100 * both

    answers = [
        (apart, "as if they had answered different images"),
        (lambda b, a: changed(b, a, lambda d: d.std(ddof=ddof)), "how far a single image is off"),
        (lambda b, a: changed(b, a, lambda d: d.std(ddof=ddof) / len(d)), "not by its square root"),
        (lambda b, a: changed(b, a, lambda d: d.var(ddof=ddof)), "That is the variance"),
        (lambda b, a: changed(a, b), "sign is turned"),
        (lambda b, a: changed(b, a, scale=1), "Both are shares"),
        (lambda b, a: (changed(b, a)[0], changed(b, a, scale=1)[1]), "still a share"),
    ]
    return [(controls.change, answer, sentence) for answer, sentence in answers]


WRONG = [
    *changes(ddof=1),
    *changes(ddof=0),
    (controls.change, lambda b, a: 100 * (a - b).mean(), "has the shape (); (2) is asked for"),
    (controls.added, lambda t: added(t, minus="original"), "change since the original"),
    (controls.added, pooled, "all images together"),
    (controls.added, lambda t: added(t, plus="without", minus="with"), "sign is turned"),
    (controls.added, lambda t: added(t, plus="without", minus="original"), "change of the twin"),
    (controls.added, lambda t: added(t) / 100, "times 100"),
    (controls.no_control, "a", "interval would help"),
    (controls.no_control, "c", "the same images"),
]

test_wrong_answers = said(WRONG)


def test_both_standard_errors_are_right(capsys):
    """The library's bootstrap agrees with them on the example."""
    for divisor in (0, 1):
        controls.change(
            lambda b, a, n=divisor: change(b, a, error=lambda d: d.std(ddof=n) / np.sqrt(len(d)))
        )
    assert capsys.readouterr().out.count("✓ ") == 2
    table = controls.answers_example().assign(seed=0, in_a=True, dataset="a")
    table["index"] = table.groupby("arm").cumcount()
    ours, original = (table[table["arm"] == arm] for arm in ("with", "original"))
    found = paired_change(ours, original, ["a"]).loc["all"]
    points, error = change(*(rows["right"].to_numpy(float) for rows in (original, ours)))
    assert found["change_pts"] == pytest.approx(points)
    assert found["high_pts"] - found["low_pts"] == pytest.approx(2 * 1.96 * error, rel=0.1)
