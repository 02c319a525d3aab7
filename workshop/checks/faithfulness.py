"""Checks of the exercises on erasing (07_segmentation)."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import torch
from torch import Tensor

from checks.feedback import choice, compare, guess, passed, result
from relevit.evaluate.perturbation import auc_weights, erase, erased_parts, erasing_ranks
from relevit.protocols import options

SHARE_PCT = 30.0


def erase_most(answer: Callable) -> None:
    """One image, 3 x height x width, with the most relevant share of its patches made black."""
    image, relevance = _image_and_relevance()
    count = erased_parts(len(relevance), SHARE_PCT)
    most, least = (
        erasing_ranks(relevance[None], direction)[0] < count
        for direction in ("positive", "negative")
    )
    above = relevance > (1 - SHARE_PCT / 100) * relevance.max()
    turned = most.reshape(4, 4).T.flatten()
    more = erasing_ranks(relevance[None], "positive")[0] < count + 1
    kept = result(answer, image, relevance, SHARE_PCT, shape=tuple(image.shape))
    compare(kept, _erased(image, most), {
        "You erase the least relevant patches: that is the negative test. Here the most relevant "
        "go first.": _erased(image, least),
        "You keep the most relevant patches and erase all others: it is the other way round.":
            _erased(image, ~most),
        "Rows and columns of patches are exchanged: patches are counted row by row.":
            _erased(image, turned),
        "You erase what lies above a share of the largest relevance. A share of the patches is "
        "asked for, so that each map erases as many.": _erased(image, above),
        f"You erase a patch too many: {SHARE_PCT:g} % of {len(relevance)} patches is rounded "
        "down.": _erased(image, more),
        "Nothing is erased: return the new image, not the one that came in.": image,
    })  # fmt: skip
    passed("That is a step of the positive test; with `-relevance` it is one of the negative.")


def fall(prediction: tuple, curves: pd.DataFrame, share_pct: float) -> None:
    """Accuracy when that share is erased by GAE's order, and by chance; and the truth."""
    rows = curves[(curves["direction"] == "positive") & (curves["share_pct"] == share_pct)]
    left = rows.set_index("method")["accuracy_pct"]
    by_gae, by_chance = prediction
    guess(
        by_gae, left["gae"], within=7.5, unit="% by GAE's order",
        low="A few images survive: the map missed a part, or what lies around is enough.",
        high="An animal covers a seventh of its image or so. If the map finds it, there is hardly "
             "anything left of it now.",
    )  # fmt: skip
    guess(
        by_chance, left["random"], within=7.5, unit="% by chance",
        low="The model is hard to blind: two thirds of the animal are still there, in pieces.",
        high="Some images lose the patch that matters, and all of them look odd now.",
    )  # fmt: skip


def area(answer: Callable) -> None:
    """Area under a curve in percent: shares from 0 % on, accuracies; 0 where all is erased."""
    shares, accuracy = [0.0, 10.0, 30.0, 60.0, 90.0], [95.0, 80.0, 50.0, 20.0, 5.0]
    weights = auc_weights(shares, **options("published", "auc_weights"))
    given, there = result(answer, shares, accuracy, shape=()), torch.tensor(accuracy)
    right = float(weights @ accuracy)
    steps = torch.diff(torch.tensor([*shares, 100.0]))
    compare(given, right, {
        "You left the last point out: where 100 % is erased, the accuracy counts as 0.":
            right - 10 * accuracy[-1] / 2 / 100,
        "You take the mean of the points: these shares are not evenly spaced, and the area is.":
            there.mean(),
        "You take the mean of the points: those shares are not evenly spaced.":
            there.sum() / (len(accuracy) + 1),
        "You hold each accuracy up to the next share, as stairs do. Between two points the curve "
        "is a straight line: take their mean.": (steps * there).sum() / 100,
        "Your steps take the accuracy at their end alone: take the mean of both ends.":
            (steps[:-1] * there[1:]).sum() / 100,
        "Your area is 100 times too large: shares are in percent, so divide by 100.": 100 * right,
        "Your area is 100 times too small: it is wanted in percent, as the accuracies are.":
            right / 100,
        "You forgot to halve: a trapezoid is as high as the mean of its two ends.": 2 * right,
    })  # fmt: skip
    passed("That is the AUC of the papers' tables: small is good in the positive test.")


def colour(answer: str | None) -> None:
    """Why the same erased patches cost more in one colour than in another."""
    choice(answer, "c", {
        "a": "Both maps are the same numbers, so the same patches go: compare the two rows above.",
        "b": "Both colours cover the same patches wholly: not a pixel of them shows through.",
        "c": "Right: nothing else differs. A part of each fall is the model's surprise at the "
             "patches themselves, whatever lay there. So compare maps in one colour only, and "
             "with a random map: that has the surprise too, and knows nothing of the image.",
    })  # fmt: skip


def _image_and_relevance() -> tuple[Tensor, Tensor]:
    """An image of 4 x 4 patches of 3 pixels each, and the relevance of each patch."""
    draw = torch.Generator().manual_seed(3)
    image = torch.rand(3, 12, 12, generator=draw, dtype=torch.float64) / 2 + 0.5
    return image, torch.rand(16, generator=draw, dtype=torch.float64)


def _erased(image: Tensor, hidden: Tensor) -> Tensor:
    return erase(image[None], hidden.reshape(1, 4, 4), torch.zeros_like(image[None]))[0]
