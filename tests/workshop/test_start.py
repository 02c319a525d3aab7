"""Typical wrong answers to the exercises on the original model, and what is said to each."""

from __future__ import annotations

import pytest
from checks import start
from checks.feedback import Wrong

from .answers import said


def per_cent(there, wrong):
    return 100 * there[wrong].float().mean()


def over_pictures(values):
    return values.sum(dim=(1, 2, 3))


WRONG = [
    (start.at_home_there, lambda a, y, h, of: 100 * (of[a] == h).float().mean(), "by all pictures"),
    (start.at_home_there, lambda a, y, h, of: per_cent(of[a] == h, a != y) / 100, "in percent"),
    (start.at_home_there, lambda a, y, h, of: (of[a] == h)[a != y].sum(), "is a count"),
    (start.at_home_there, lambda a, y, h, of: per_cent(of[y] == h, a != y), "it is never there"),
    (start.at_home_there, lambda a, y, h, of: per_cent(a == h, a != y), "compare classes with"),
    (start.share_on_object, lambda r, s: over_pictures(r * s) / over_pictures(r), "in percent"),
    (
        start.share_on_object,
        lambda r, s: 100 * over_pictures(r * (1 - s)) / over_pictures(r),
        "off the animal",
    ),
    (
        start.share_on_object,
        lambda r, s: 100 * over_pictures(r * s) / over_pictures(s),
        "divide by its area",
    ),
    (start.share_on_object, lambda r, s: 100 * (r * s).mean(dim=(1, 2, 3)), "number of pixels"),
    (start.share_on_object, lambda r, s: 100 * (r * s).sum() / r.sum(), "for each picture"),
    (start.conclusion, "a", "Nothing but the home"),
    (start.conclusion, "c", "also to a wrong one"),
]

test_wrong_answers = said(WRONG)


def test_any_prediction_is_told_what_came_out(capsys):
    for prediction, told in ((30, "Well predicted"), (2.5, "better than that"), (98, "the same")):
        start.elsewhere(prediction, 30.0)
        assert told in capsys.readouterr().out
    for prediction, told in ((None, "no prediction yet"), ("30 %", "A number is asked for")):
        with pytest.raises(Wrong, match=told):
            start.elsewhere(prediction, 30.0)
