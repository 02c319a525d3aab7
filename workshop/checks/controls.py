"""Checks of the exercises on controls (03_robustness)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from torch import Tensor

from checks.feedback import choice, compare, guess, passed, result
from relevit.evaluate import paired

Pair = tuple[float, float]
SIZES = {"a": 6, "r": 14, "sketch": 4}  # sets of the example; unlike, so that weights matter
SHARES = {"original": 0.5, "with": 0.7, "without": 0.4}


def answers_example() -> pd.DataFrame:
    """Answers of three arms to the same images: columns dataset, index, arm, right."""
    random = np.random.default_rng(3)
    parts = []
    for name, images in SIZES.items():
        hard = random.random(images)  # the same for all arms
        for arm, share in SHARES.items():
            right = 0.6 * hard + 0.4 * random.random(images) < share
            row = {"dataset": name, "index": range(images), "arm": arm, "right": right}
            parts.append(pd.DataFrame(row))
    return pd.concat(parts, ignore_index=True)


def elsewhere(prediction: float | None, right_pct: float) -> None:
    """A guess of the accuracy on animals in a random home; `right_pct` is the measured one."""
    guess(
        prediction,
        right_pct,
        within=10,
        unit="%",
        low="It does know something of the animals. But see how far it is from home.",
        high="The animals have not changed at all: what was lost, the home had given.",
    )


def change(answer: Callable) -> None:
    """Change of accuracy and its standard error, in points; 1 for right and 0 for wrong."""
    table = answers_example()
    before, after = (_right(table, arm) for arm in ("original", "with"))
    given = result(answer, before, after, shape=(2,))
    # The deviation may be divided by n - 1 or by n: both are in use, right or with a slip.
    (right, slips), (of_all, others) = (_change(before, after, ddof) for ddof in (1, 0))
    errors = [error for _, error in (right, *slips.values())]
    errors_of_all = [error for _, error in (of_all, *others.values())]
    if _nearest(given[1], errors_of_all) < _nearest(given[1], errors):
        right, slips = of_all, others
    compare(given, right, slips)
    passed("What makes an image easy or hard for both arms drops out, and with it some noise.")


def added(answer: Callable) -> None:
    """With minus without, the mean over sets, in points."""
    table = answers_example()
    of_set = 100 * table.groupby(["dataset", "arm"])["right"].mean().unstack("arm")
    of_all = 100 * table.groupby("arm")["right"].mean()
    mean = of_set.mean()
    ours, twin = (table[table["arm"] == arm].assign(seed=0, in_a=True)
                  for arm in ("with", "without"))  # fmt: skip
    right = paired.paired_change(ours, twin, list(SIZES))["change_pts"]["all"]
    compare(result(answer, table, shape=()), right, {
        "That is the change since the original. The twin has changed, too: subtract its change.":
            mean["with"] - mean["original"],
        "You took all images together, so that a large set counts more: first each set, then the "
        "mean over the sets.": of_all["with"] - of_all["without"],
        "Your sign is turned: with minus without.": -right,
        "That is the change of the twin; what the treatment adds is beyond it.":
            mean["without"] - mean["original"],
        "That is a share: times 100 it is points.": right / 100,
        "You add the two changes: take their difference.":
            mean["with"] + mean["without"] - 2 * mean["original"],
        "You took the sum over the sets: their mean is asked for.": right * len(SIZES),
    })  # fmt: skip
    passed("That is what `03_robustness` calls `adds_pts`.")


def no_control(answer: str | None) -> None:
    """Why a change since the original says little about the relevance terms."""
    choice(answer, "b", {
        "a": "An interval would help, but it would be one of the wrong number: +0.8 is the sum of "
             "two effects, with one of which the relevance terms have nothing to do.",
        "b": "Right: images, steps and class term cost 10.3 points, and the relevance terms add "
             "11.1. Both are worth knowing: whether to use the whole is told by +0.8.",
        "c": "All of them answered the same images. Look at what was done to the models instead.",
    })  # fmt: skip


def _right(table: pd.DataFrame, arm: str) -> np.ndarray:
    return table.loc[table["arm"] == arm, "right"].to_numpy(float)


def _nearest(given: Tensor, numbers: list[float]) -> float:
    return min(abs(float(given) - number) for number in numbers)


def _change(before: np.ndarray, after: np.ndarray, ddof: int) -> tuple[Pair, dict[str, Pair]]:
    """The change and its error with deviations by n - ddof, and what the slips lead to."""
    root = np.sqrt(len(before))
    points = float(100 * (after - before).mean())
    error, *alone = (
        float(100 * values.std(ddof=ddof) / root) for values in (after - before, before, after)
    )
    return (points, error), {
        "You add the errors of the two arms, as if they had answered different images: take the "
        "standard deviation of the differences.": (points, float(np.hypot(*alone))),
        "That is how far a single image is off: divide the standard deviation by the square root "
        "of the number of images.": (points, error * root),
        "You divide by the number of images, and not by its square root.": (points, error / root),
        "Your sign is turned: a gain is after - before.": (-points, error),
        "Both are shares: times 100 they are points.": (points / 100, error / 100),
        "The change is in points, and the error is still a share: times 100.":
            (points, error / 100),
        "That is the variance: its square root is the standard deviation.":
            (points, (error * root) ** 2 / 100),
    }  # fmt: skip
