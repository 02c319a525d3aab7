"""Checks of the exercises on sufficient input subsets (06_attribution)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from checks.feedback import choice, compare, guess, passed, result
from relevit.evaluate.sis import Subsets, gradient_sis

SIDE, COUNT = 4, 4  # of the check's own image, in pixels; of them removed in a step
SURE_PCT = 90.0
# Sure, unsure, sure again; every slip leads to a step of its own.
WAVERING = (0.1, 5.0, 12.0, 93.0, 97.0, 94.0, 92.0, 80.0, 95.0, 40.0, 2.5)
NEVER = (0.1, 5.0, 40.0, 70.0, 30.0, 20.0, 2.5)


def own_subset(prediction: float | None, kept_pct: Tensor) -> None:
    """How much of an image the model needs to be sure of what it shows; mean over the images."""
    guess(
        prediction, float(kept_pct.mean()), within=5, unit="% of the pixels",
        low="It takes more, at least on the path that this search goes. But look where these "
            "pixels are: hardly any lie on the animal.",
        high="It can do with less. And look where these pixels are: nobody asked that they lie on "
             "the animal, and hardly any do.",
    )  # fmt: skip


def step(answer: Callable) -> None:
    """One step of backward selection: kept and slope, one number a part, and a count -> kept."""
    kept, slope, right = step_example()
    least = slope.masked_fill(kept == 0, torch.inf)
    most = slope.masked_fill(kept == 0, -torch.inf)
    size = least.abs()  # infinite where nothing is kept
    gone = _without(kept, least)
    compare(result(answer, kept, slope, COUNT), right, {
        "Nothing has changed: the parts that you remove are gone already. Look only at those "
        "that are kept.": kept,
        "You remove what the class needs most: the largest slopes. Remove the least.":
            _without(kept, -most),
        "You remove the parts whose slope is nearest to 0. A negative slope speaks against the "
        "class: without these parts it is surer, so they go first.": _without(kept, size),
        "You keep those that should go and remove the rest.": kept - gone,
        "You remove from the whole image again: start from `kept`, or what is gone comes back.":
            _without(torch.ones_like(kept), least),
        "Every slope below 0 goes at once in your step: it removes `count` parts, since the slopes "
        "change when some are gone.": kept * (slope >= 0),
        "You remove one part too many.": _without(kept, least, COUNT + 1),
        "You remove one part too few.": _without(kept, least, COUNT - 1),
        "You remove a single part; `count` of them go in one step.": _without(kept, least, 1),
    })  # fmt: skip
    passed("That is a step of Batched Gradient SIS: what speaks against the class goes first.")


def stop(answer: Callable) -> None:
    """Where to stop on a path: confidences in percent and a threshold -> number of the step."""
    path, right = path_example(WAVERING)
    sure = (path >= SURE_PCT).nonzero()[:, 0]
    fall = ((path[:-1] >= SURE_PCT) & (path[1:] < SURE_PCT)).nonzero()[0, 0]
    compare(_one_number(result(answer, path, SURE_PCT)), right, {
        "You stop at once: a class that the model does not predict starts unsure. Go on to the "
        "end of the path, then look back.": 0,
        "You stop where the model is sure for the first time: a later step has fewer pixels.":
            sure[0],
        "You stop where the model is surest. It must be sure enough, with as few pixels as it can.":
            path.argmax(),
        "You stop before the first fall. Look further: it may become sure again.": fall,
        "You are one step too far: there the model is no longer sure.": right + 1,
        "You take the end of the path, where nothing is left that makes the model sure.":
            len(path) - 1,
        "You count the steps that are sure; which of them is the last?": len(sure),
        "This is the confidence there: give the number of the step.": path[right],
        "This is the least confidence of a sure step: give the number of the last of them.":
            path[sure].min(),
    })  # fmt: skip
    path, right = path_example(NEVER)
    compare(_one_number(result(answer, path, SURE_PCT)), right, {
        "That is right where the model is sure somewhere. Where it is nowhere, return the step at "
        "which it is surest, and not the whole image.": 0,
        "That is right where the model is sure somewhere. Where it is nowhere, return the step at "
        "which it is surest, and not -1.": -1,
        "That is right where the model is sure somewhere. Where it is nowhere, return the step at "
        "which it is surest, and not the last.": len(path) - 1,
        "That is right where the model is sure somewhere. Where it is nowhere, return the step at "
        "which it is surest, and not its confidence.": path.max(),
    })  # fmt: skip
    passed("That is the smallest subset on the path. Off the path there may be a smaller one.")


def sure(answer: str | None) -> None:
    """What it means that a model is sure of a label that it did not predict."""
    choice(answer, "b", {
        "a": "If something of it were there, pieces of 4 x 4 pixels would show it as well, and "
             "better. With them the model is hardly ever sure.",
        "b": "Right: it has to choose one of 40 names, and one of them wins on any picture, loose "
             "pixels on grey included, which it was never shown. A subset says what is enough for "
             "this model; whether that is a reason, you must judge.",
        "c": "It names these animals rightly and surely on whole images. And RobustViT shows the "
             "same for models trained on a million photographs.",
    })  # fmt: skip


def step_example() -> tuple[Tensor, Tensor, Tensor]:
    """Parts kept after a first step, the slope of each, and what is kept after the second."""
    draw = torch.Generator().manual_seed(0)
    weights = (torch.arange(SIDE**2, dtype=torch.float64) - SIDE**2 // 2 - 1.3) / 10
    weights = weights[torch.randperm(len(weights), generator=draw)]
    # It is surest after two steps: the third would take more that is for the class than against.
    image = torch.ones(1, 3, SIDE, SIDE, dtype=torch.float64)
    first = torch.zeros(1, dtype=torch.long)
    found = gradient_sis(_Weighed(weights), image, first, threshold_pct=100.0, per_step=COUNT)
    kept = torch.ones_like(weights)
    kept[weights.argsort()[:COUNT]] = 0
    return kept, weights, found.mask.flatten().to(weights)


def path_example(confidences_pct: Sequence[float]) -> tuple[Tensor, int]:
    """A path with these confidences, the whole image first, and the step at which SIS stops."""
    parts = torch.ones(1, 3, len(confidences_pct), 1, dtype=torch.float64)
    first = torch.zeros(1, dtype=torch.long)
    found: Subsets = gradient_sis(
        _Scripted(confidences_pct), parts, first, threshold_pct=SURE_PCT, per_step=1
    )
    stopped = (found.path_kept_pct == found.kept_pct).nonzero()
    return found.path_pct[:, 0], int(stopped)


class _Weighed(nn.Module):
    """Two classes; the first one's logit is a weighted sum of the first colour."""

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.weights = nn.Parameter(weights)

    def forward(self, images: Tensor) -> Tensor:
        logit = images[:, 0].flatten(1) @ self.weights
        return torch.stack([logit, torch.zeros_like(logit)], dim=1)


class _Scripted(nn.Module):
    """Two classes; how sure it is of the first depends on how many pixels it sees."""

    def __init__(self, confidences_pct: Sequence[float]) -> None:
        super().__init__()
        shares = torch.tensor(confidences_pct, dtype=torch.float64) / 100
        self.shares = nn.Parameter(shares)

    def forward(self, images: Tensor) -> Tensor:
        seen = images[:, 0].sum(dim=(1, 2))
        logit = torch.logit(self.shares[len(self.shares) - seen.round().long()])
        return torch.stack([logit + 0 * seen, torch.zeros_like(logit)], dim=1)


def _one_number(given: Tensor) -> Tensor:
    """`nonzero()[-1]` is a number in brackets, and means it."""
    return given.reshape(()) if given.numel() == 1 else given


def _without(kept: Tensor, order: Tensor, count: int = COUNT) -> Tensor:
    kept = kept.clone()
    kept[order.argsort()[:count]] = 0
    return kept
