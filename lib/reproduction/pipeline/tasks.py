"""The exercises of the notebooks: their solutions, what they are tried on, and what slips hear.

A cell of the notebook has each solution as well, and a student's copy shows it as the last hint.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor


class Example(NamedTuple):
    """What a function is tried on, and what training would change, where something is trained."""

    inputs: tuple
    trained: Tensor | None = None


class Exercise(NamedTuple):
    """The solution, what a right answer hears, and what tells a wrong one.

    A function is tried on examples, which are drawn anew for each call. `slips` are what typical
    mistakes come to, as functions, by their sentence: it must be true of every function with these
    results. Of what is no function, `said` tells what is not right yet.
    """

    solution: Any
    praise: str
    examples: Callable[[], list[Example]] = list
    slips: Mapping[str, Callable] = MappingProxyType({})
    said: Callable[[Any], str] | None = None


# The exercises, in the order of the notebooks


def _choices(right: Mapping[str, Any], why: Mapping[str, str], words: str) -> Callable[[Any], str]:
    """What is said of a choice for each letter: the first that is not right yet, and why."""

    def said(given: Any) -> str:
        if not isinstance(given, dict) or set(given) != set(right):
            return f"A choice is asked for behind each of {', '.join(right)}, and no other letter."
        if all(choice is None for choice in given.values()):
            return "Nothing is chosen yet: write your choices in the place of `None`."
        for letter, choice in right.items():
            if given[letter] is None:
                return f"{letter}: nothing is chosen yet."
            if given[letter] not in right.values():
                return f"{letter}: {words} is asked for."
            if given[letter] != choice:
                return f"{letter}: {why[letter]}"
        return ""

    return said


READING = {"A": True, "B": False, "C": False, "D": True}
READING_WHY = {
    "A": "What else than the home differs between the two rows of pictures?",
    "B": "Look how much of the relevance the other home takes from the animal: *What you saw* "
    "says it.",
    "C": "Compare *right answers* and *relevance on the animal* in *What you saw*: do they go "
    "together?",
    "D": "In how many of 100 training images is an animal at home? What would you do?",
}


def turned(given):
    large = given.float().mean(dim=(1, 2)) > 0.5
    given = given.clone()
    given[large] = 1 - given[large]
    return given


def _turned(change: Callable, which: Callable = lambda large: large) -> Callable:
    def made(masks: Tensor) -> Tensor:
        there = which(masks.float().mean(dim=(1, 2)) > 0.5)[:, None, None]
        return torch.where(there, change(masks), masks)

    return made


TURNED_SLIPS = {
    "Times -1 a 1 becomes -1, and a 0 stays 0: nothing is marked any more, and the next rule "
    "finds the object too small.": _turned(lambda masks: -masks),
    "Your large masks hold -1 and -2, as `~` makes of whole numbers: 0 and 1 are asked for.":
        _turned(lambda masks: -1 - masks),
    "Your large masks hold -1 and 0: a 0 must become 1.": _turned(lambda masks: masks - 1),
    "You turn all masks round: those that mark less than half are right as they are.":
        _turned(lambda masks: 1 - masks, lambda large: torch.ones_like(large)),
    "You turn the small masks round, and leave the large ones.":
        _turned(lambda masks: 1 - masks, lambda large: ~large),
    "The large masks are as they were: their 1 must become 0, and their 0 1.": lambda masks: masks,
    "Your large masks are empty: their 1 must become 0, and their 0 must become 1.":
        _turned(lambda masks: torch.zeros_like(masks)),
    "Your large masks mark all of the image: their 1 must become 0.":
        _turned(lambda masks: torch.ones_like(masks)),
}  # fmt: skip


def gae(attention, gradients):
    relevance = torch.eye(attention.shape[-1])
    for block, slope in zip(attention, gradients, strict=True):
        relevance = relevance + (slope * block).clamp(min=0).mean(dim=0) @ relevance
    return relevance[0, 1:]


def _carry(rows: Tensor, block: Tensor) -> Tensor:
    return rows + block @ rows


def _recursion(matrices: Sequence[Tensor], step: Callable = _carry) -> Tensor:
    rows = torch.eye(matrices[0].shape[-1]).expand(matrices[0].shape)
    for matrix in matrices:
        rows = step(rows, matrix)
    return rows


def _gae(
    weigh: Callable = lambda block, slope: (block * slope).clamp(min=0).mean(0),
    step: Callable = _carry,
    read: Callable = lambda rows: rows[0, 1:],
) -> Callable:
    def made(attention: Tensor, gradients: Tensor) -> Tensor:
        return read(_recursion(list(map(weigh, attention, gradients)), step))

    return made


ANEW = (
    "You add the identity anew in each block: what the blocks before have made, R itself, must be "
    "kept."
)
ORDER = (
    "Your blocks come in the wrong order: a later block mixes what the earlier ones have made. So "
    "go from the first to the last, with the new block's matrix on the left."
)
LAST = "Your result knows one block alone: go through all of them."
SUMMED = "You add the blocks up: each one mixes what the earlier ones have made."


def _anew(rows: Tensor, block: Tensor) -> Tensor:
    return torch.eye(block.shape[-1]) + block @ rows


def _from_right(rows: Tensor, block: Tensor) -> Tensor:
    return rows + rows @ block


def _alone(rows: Tensor, block: Tensor) -> Tensor:
    return torch.eye(block.shape[-1]) + block


GAE_SLIPS = {
    "You read the class token's column, what it gives. Its row says what it takes from the "
    "patches.": _gae(read=lambda rows: rows[1:, 0]),
    "The class token's own entry is still there: leave the first one out.":
        _gae(read=lambda rows: rows[0]),
    "You left the identity out: a token keeps what it has, so each block adds to R.":
        _gae(step=lambda rows, block: block @ rows),
    ANEW: _gae(step=_anew),
    ORDER: _gae(step=_from_right),
    LAST: _gae(step=_alone),
    SUMMED: _gae(step=lambda rows, block: rows + block),
    "You cut negative values after the mean over heads: then a head that speaks against the class "
    "cancels one that speaks for it. Cut first.":
        _gae(lambda block, slope: (block * slope).mean(0).clamp(min=0)),
    "You keep what is below 0, and cut what speaks for the class: `clamp(min=0)` cuts from below.":
        _gae(lambda block, slope: (block * slope).clamp(max=0).mean(0)),
    "Negative products are still there: cut them at 0, before the mean over heads.":
        _gae(lambda block, slope: (block * slope).mean(0)),
    "You multiply gradient and attention as matrices: they are multiplied entry by entry, with "
    "`*`.": _gae(lambda block, slope: (slope @ block).clamp(min=0).mean(0)),
    "You multiply attention and gradient as matrices: they are multiplied entry by entry, with "
    "`*`.": _gae(lambda block, slope: (block @ slope).clamp(min=0).mean(0)),
    "All is 0: before the first block each token holds itself, so begin with the identity.":
        _gae(step=lambda rows, block: rows * 0),
    "Attention is not in your map: the gradient is multiplied with it.":
        _gae(lambda block, slope: slope.clamp(min=0).mean(0)),
    "There is no gradient in your map: that is rollout, which knows no class.":
        _gae(lambda block, slope: block.mean(0)),
    "You take the sum over the heads: the formula has their mean.":
        _gae(lambda block, slope: (block * slope).clamp(min=0).sum(0)),
    "You take the size of the products: what speaks against the class counts nothing.":
        _gae(lambda block, slope: (block * slope).abs().mean(0)),
}  # fmt: skip


def background_loss(heatmaps, masks):
    return (heatmaps * (1 - masks)).square().mean()


BACKGROUND_SLIPS = {
    "You punish relevance on the object: the background is 1 - mask.":
        lambda heat, mask: (heat * mask).square().mean(),
    "The relevance is not squared: Eq. 1 is a mean squared error.":
        lambda heat, mask: (heat * (1 - mask)).mean(),
    "You square the mean: square each pixel first, then take the mean.":
        lambda heat, mask: (heat * (1 - mask)).mean() ** 2,
    "You take the root of the mean: Eq. 1 is the mean of the squares itself.":
        lambda heat, mask: (heat * (1 - mask)).square().mean().sqrt(),
    "You take the sum: the loss is a mean, or a large image would weigh more.":
        lambda heat, mask: (heat * (1 - mask)).square().sum(),
    "You take the sum over the pixels of an image: the loss is a mean over them, too.":
        lambda heat, mask: (heat * (1 - mask)).square().sum() / len(heat),
    "You divide by the background's pixels alone: Eq. 1 divides by all of them.":
        lambda heat, mask: (heat * (1 - mask)).square().sum() / (1 - mask).sum(),
    "You hold the map against the mask: off the object Eq. 1 asks for 0, and on it for nothing.":
        lambda heat, mask: (heat - mask).square().mean(),
    "That is Eq. 2, the foreground loss.": lambda heat, mask: (heat * mask - mask).square().mean(),
    "The mask is not in your number: on the object relevance may be what it likes.":
        lambda heat, mask: heat.square().mean(),
    "You keep a number for each image: one for all of them is asked for.":
        lambda heat, mask: (heat * (1 - mask)).square().mean((1, 2, 3)),
    "Your loss is below 0: training would seek relevance on the background.":
        lambda heat, mask: -(heat * (1 - mask)).square().mean(),
}  # fmt: skip


def adds(right):
    percent = 100 * right.groupby("dataset").mean().mean()
    change, of_twin = (percent[name] - percent["original"] for name in ("with", "without"))
    return change - of_twin


def _of_sets(right: pd.DataFrame) -> pd.DataFrame:
    return 100 * right.groupby("dataset").mean()


ADDS_SLIPS = {
    "That is the change since the original. The twin has changed, too: subtract its change.":
        lambda right: _of_sets(right).mean()["with"] - _of_sets(right).mean()["original"],
    "That is the change of the twin: what relevance adds is beyond it.":
        lambda right: _of_sets(right).mean()["without"] - _of_sets(right).mean()["original"],
    "You took all images together, so that a large set counts more: first each set, then the mean "
    "over the sets.": lambda right: 100 * (right["with"] - right["without"]).mean(),
    "You took all images together, and the change since the original: the twin has changed, too.":
        lambda right: 100 * (right["with"] - right["original"]).mean(),
    "Your sign is turned: with minus without.": lambda right: -adds(right),
    "That is a share: times 100 it is points.": lambda right: adds(right) / 100,
    "You took the sum over the sets: their mean is asked for.":
        lambda right: _of_sets(right).eval("`with` - without").sum(),
    "You keep a number for each set: the mean over the sets is asked for.":
        lambda right: _of_sets(right).eval("`with` - without"),
    "You divide by what the twin has: points are a plain difference.":
        lambda right: 100 * adds(right) / _of_sets(right).mean()["without"],
    "You divide by what the original has: points are a plain difference.":
        lambda right: 100 * adds(right) / _of_sets(right).mean()["original"],
    "That is how often the run *with* is right: what does its twin come to?":
        lambda right: _of_sets(right).mean()["with"],
    "You add the two changes: take their difference.":
        lambda right: _of_sets(right).eval("`with` + without - 2 * original").mean(),
    "That is how many answers more are right: points are percent of each set, and their mean.":
        lambda right: (right["with"] - right["without"]).sum(),
}  # fmt: skip


def gradmask(answers, images, masks):
    (slopes,) = torch.autograd.grad(answers.sum(), images, create_graph=True)
    return ((1 - masks) * slopes).square().sum()


def _slopes(answers: Tensor, images: Tensor) -> Tensor:
    return torch.autograd.grad(answers.sum(), images, retain_graph=True)[0]


GRADMASK_SLIPS = {
    "You punish the gradient on the object: the background is 1 - mask.":
        lambda answers, images, masks: (masks * _slopes(answers, images)).square().sum(),
    "The mask is not in your number: on the object the gradient may be what it likes.":
        lambda answers, images, masks: _slopes(answers, images).square().sum(),
    "You take the mean: the term is a sum, and its value was right.":
        lambda answers, images, masks: ((1 - masks) * _slopes(answers, images)).square().mean(),
    "The gradient is not squared: what is above and below 0 would cancel.":
        lambda answers, images, masks: ((1 - masks) * _slopes(answers, images)).sum(),
    "You take the size of the gradient: the term has its square, and its value was right.":
        lambda answers, images, masks: ((1 - masks) * _slopes(answers, images)).abs().sum(),
    "That is of the gradient of their mean: the value was right with that of their sum.":
        lambda answers, images, masks: gradmask(answers / len(answers), images, masks),
}  # fmt: skip

SIX_RUNS = [(variant, seed) for variant in ("full", "no_background") for seed in (0, 1, 2)]
VARIANTS = (
    "full", "no_background", "no_foreground", "no_classification", "only_background",
    "only_foreground", "only_classification",
)  # fmt: skip


def _runs_said(given: Any) -> str:
    """What is said of a list of runs that are to tell what one loss does."""
    if not isinstance(given, list | tuple) or not all(
        isinstance(run, list | tuple) and len(run) == 2 for run in given
    ):
        return 'A list of pairs is asked for, such as [("full", 0)].'
    if not given:
        return "There is no run yet."
    runs, asked = [tuple(run) for run in given], {variant for variant, _ in given}
    if unknown := [variant for variant in asked if variant not in VARIANTS]:
        return f"{unknown[0]!r} is no variant; use some of {', '.join(VARIANTS)}."
    if len(runs) > len(SIX_RUNS):
        return f"These are {len(runs)} runs, and six can be paid."
    if twice := [run for run, times in Counter(runs).items() if times > 1]:
        return f"{twice[0]} stands twice: the same run comes out the same to the bit."
    if "full" not in asked:
        return "Against which run do you hold the others? All have lost something."
    if "no_background" not in asked:
        return (
            "In no run is the background term all that is missing: where more is missing, or "
            "something else, it could be that."
        )
    if more := [variant for variant in VARIANTS[2:] if variant in asked]:
        return f"{more[0]!r} answers another question, and costs a seed of this one."
    seeds = {variant: {seed for name, seed in runs if name == variant} for variant in asked}
    if odd := sorted(seeds["full"] ^ seeds["no_background"], key=str):
        return (
            f"Seed {odd[0]} has one of the two alone: only runs with the same images in the same "
            "order make a pair."
        )
    if len(seeds["full"]) == 1:
        return "Would another seed say the same? By one pair nobody can know."
    if len(seeds["full"]) == 2:
        return (
            "You have two runs left. By two pairs a 95 % interval is 12.7 standard errors to each "
            "side, by three 4.3."
        )
    return ""


def follow(matrices):
    rows = torch.eye(matrices[0].shape[-1], device=matrices[0].device)
    for matrix in matrices:
        rows = rows + matrix @ rows
    return rows


FOLLOW_SLIPS = {
    "You left the identity out: a token keeps itself when it goes past the attention.":
        lambda matrices: _recursion(matrices, lambda rows, block: block @ rows),
    ANEW: lambda matrices: _recursion(matrices, _anew),
    ORDER: lambda matrices: _recursion(matrices, _from_right),
    LAST: lambda matrices: _recursion(matrices, _alone),
    SUMMED: lambda matrices: _recursion(matrices, lambda rows, block: rows + block),
    "You multiply entry by entry: `@` multiplies matrices.":
        lambda matrices: _recursion(matrices, lambda rows, block: rows + block * rows),
    "Your matrix is transposed: its rows are the tokens that take.":
        lambda matrices: follow(matrices).mT,
    "Your rows sum to 1, as something is divided in each block: the formula here does not.":
        lambda matrices: _recursion(matrices) / 2 ** len(matrices),
    "You keep the class token's row: the whole matrix is asked for.":
        lambda matrices: _recursion(matrices)[:, 0],
    "You add the identity once, at the end: each block keeps what was there.":
        lambda matrices: _recursion(matrices, lambda rows, block: block @ rows) +
        torch.eye(matrices[0].shape[-1]),
    "Your first block keeps nothing of its own tokens: begin with the identity.":
        lambda matrices: _recursion(matrices[1:]) @ matrices[0],
    "You transpose the block's matrix: its rows are the tokens that take.":
        lambda matrices: _recursion([matrix.mT for matrix in matrices]),
    "All is 0: before the first block each token holds itself, so begin with the identity.":
        lambda matrices: torch.zeros_like(matrices[0]),
}  # fmt: skip


def miou(cut, masks):
    pairs = (cut, masks), (~cut, ~masks)
    return sum(50 * (a & b).sum() / (a | b).sum() for a, b in pairs)


def _overlap(a: Tensor, b: Tensor, dim: tuple = (0, 1, 2, 3)) -> Tensor:
    return 100 * (a & b).sum(dim) / (a | b).sum(dim)


def _halves(measure: Callable) -> Callable:
    """Mean of the object's and of the background's."""
    return lambda cut, masks: (measure(cut, masks) + measure(~cut, ~masks)) / 2


MIOU_SLIPS = {
    "That is a share: times 100 it is percent.": lambda cut, masks: miou(cut, masks) / 100,
    "Your number is the IoU of the object alone: take the mean with the background's.": _overlap,
    "Your number is the IoU of the background alone: take the mean with the object's.":
        lambda cut, masks: _overlap(~cut, ~masks),
    "You add the two IoUs: mIoU is their mean.": lambda cut, masks: 2 * miou(cut, masks),
    "You took the IoU of each image and then the mean: count over all images first, and divide "
    "once.": _halves(lambda a, b: _overlap(a, b, (1, 2, 3)).mean()),
    "You took the object's IoU of each image: count over all images first, and take the "
    "background's as well.": lambda cut, masks: _overlap(cut, masks, (1, 2, 3)).mean(),
    "Your union counts the pixels that are in both twice.":
        _halves(lambda a, b: 100 * (a & b).sum() / (a.sum() + b.sum())),
    "Your union counts the pixels that are in both twice, and the background is left out.":
        lambda cut, masks: 100 * (cut & masks).sum() / (cut.sum() + masks.sum()),
    "That is pixel accuracy: an empty map would do well by it, as most pixels are background.":
        lambda cut, masks: 100 * (cut == masks).float().mean(),
    "You divide by the mask alone: a map that marks everything would pass.":
        _halves(lambda a, b: 100 * (a & b).sum() / b.sum()),
    "That is Dice's coefficient, of the object alone: the IoU divides by the union.":
        lambda cut, masks: 200 * (cut & masks).sum() / (cut.sum() + masks.sum()),
    "That is Dice's coefficient, a cousin: the IoU divides by the union.":
        _halves(lambda a, b: 200 * (a & b).sum() / (a.sum() + b.sum())),
    "You divide by the pixels in just one of both: the union has those in both as well.":
        _halves(lambda a, b: 100 * (a & b).sum() / (a ^ b).sum()),
    "You divide by all pixels: the IoU divides by the union.":
        _halves(lambda a, b: 100 * (a & b).float().mean()),
}  # fmt: skip


def area(shares_pct, accuracy_pct):
    heights = torch.tensor([*accuracy_pct, 0.0])
    return torch.trapezoid(heights, torch.tensor([*shares_pct, 100.0])) / 100


def _steps(shares: Sequence[float]) -> np.ndarray:
    return np.diff([*shares, 100.0])


AREA_SLIPS = {
    "You left the last point out: where 100 % is erased, the accuracy counts as 0.":
        lambda shares, accuracy: np.trapezoid(accuracy, shares) / 100,
    "You divide by the width of the shares that are there: 100 % is erased at the end.":
        lambda shares, accuracy: np.trapezoid(accuracy, shares) / shares[-1],
    "You hold the last accuracy to the end: where 100 % is erased, it counts as 0.":
        lambda shares, accuracy: np.trapezoid([*accuracy, accuracy[-1]], [*shares, 100.0]) / 100,
    "Your last point lies at 1: shares are in percent, so it lies at 100.":
        lambda shares, accuracy: np.trapezoid([*accuracy, 0.0], [*shares, 1.0]) / 100,
    "Your area is 100 times too large: shares are in percent, 30 for 30 %, and 100 of them are "
    "the whole image.": lambda shares, accuracy: 100 * area(shares, accuracy),
    "Your area is 100 times too small: it is wanted in percent, as the accuracies are.":
        lambda shares, accuracy: area(shares, accuracy) / 100,
    "You add the heights up without the widths of the steps.":
        lambda shares, accuracy: np.sum(accuracy),
    "You take the mean of the points: the shares are not evenly spaced, and an area knows how "
    "wide each step is.": lambda shares, accuracy: np.mean(accuracy),
    "You take the mean of the points, the last one too: an area knows how wide each step is.":
        lambda shares, accuracy: np.mean([*accuracy, 0.0]),
    "You hold each accuracy up to the next share, as stairs do. Between two points the curve is a "
    "straight line.": lambda shares, accuracy: _steps(shares) @ accuracy / 100,
    "Your steps take the accuracy at their end alone: the line goes from one end to the other.":
        lambda shares, accuracy: _steps(shares) @ [*accuracy[1:], 0.0] / 100,
    "Your area is twice too large: a trapezoid is as high as the mean of its two ends.":
        lambda shares, accuracy: 2 * area(shares, accuracy),
    "Your area is below 0: shares run from left to right.":
        lambda shares, accuracy: -area(shares, accuracy),
    "That is the area above the curve.": lambda shares, accuracy: 100 - area(shares, accuracy),
}  # fmt: skip


def beyond_chance(shares_pct, accuracy_pct, random_pct):
    areas = [area(shares_pct, each) for each in random_pct]
    return sum(areas) / len(areas) - area(shares_pct, accuracy_pct)


def _beyond(of: Callable) -> Callable:
    """A function of the areas by chance and of the map's own."""

    def made(shares: Sequence, accuracy: Sequence, orders: Sequence[Sequence]) -> Any:
        each = torch.stack([area(shares, one) for one in orders])
        return of(each, area(shares, accuracy))

    return made


BEYOND_SLIPS = {
    "Your sign is turned: a good map lies below chance, and its lead is above 0.":
        _beyond(lambda each, own: own - each.mean()),
    "That is the area of the map alone: how far below that of chance is it?":
        _beyond(lambda each, own: own),
    "That is the area of chance alone: how far below it is that of the map?":
        _beyond(lambda each, own: each.mean()),
    "You took the first random order alone: it may be a lucky one, so take the mean of all.":
        _beyond(lambda each, own: each[0] - own),
    "You took the last random order alone: it may be a lucky one, so take the mean of all.":
        _beyond(lambda each, own: each[-1] - own),
    "You took the random order that does least harm: chance is the mean of all.":
        _beyond(lambda each, own: each.max() - own),
    "You took the random order that does most harm: chance is the mean of all.":
        _beyond(lambda each, own: each.min() - own),
    "You add the random orders up: their mean is asked for.":
        _beyond(lambda each, own: each.sum() - own),
    "You keep a number for each random order: take their mean.":
        _beyond(lambda each, own: each - own),
    "You keep a number for each share: an area is one number.":
        lambda shares, accuracy, orders: np.mean(orders, axis=0) - accuracy,
    "You take the mean of the points: the shares are not evenly spaced, and an area knows how "
    "wide each step is.":
        lambda shares, accuracy, orders: np.mean(np.mean(orders, axis=0) - accuracy),
    "You left the last point out: where 100 % is erased, both count as 0.":
        lambda shares, accuracy, orders: np.trapezoid(np.mean(orders, axis=0) - accuracy,
        shares) / 100,
    "You divide by the area of chance: points are a plain difference.":
        _beyond(lambda each, own: 100 * (each.mean() - own) / each.mean()),
    "You divide the area of the map by that of chance: points are a plain difference.":
        _beyond(lambda each, own: 100 * own / each.mean()),
    "Your number is 100 times too small: accuracies are in percent, so it is in points.":
        _beyond(lambda each, own: (each.mean() - own).abs() / 100),
}  # fmt: skip


def ia_score(attention, attribution):
    a = attention / attention.norm(dim=-1, keepdim=True)
    m = attribution / attribution.norm()
    return (a * m).sum(dim=-1)


IA_SLIPS = {
    "This is the plain inner product: a head that gives its patches twice as much would score "
    "twice as high. Divide both maps by their lengths.": lambda a, m: (a * m).sum(-1),
    "You take the mean over patches: an inner product is a sum.":
        lambda a, m: ia_score(a, m) / m.shape[-1],
    "You use a softmax: a map is divided by its length.":
        lambda a, m: (a.softmax(-1) * m.softmax(-1)).sum(-1),
    "Only the attention has length 1: divide the attribution by its length as well.":
        lambda a, m: (a * m).sum(-1) / a.norm(dim=-1),
    "Only the attribution has length 1: divide each head's row by its length as well.":
        lambda a, m: (a * m).sum(-1) / m.norm(),
    "You divide by the sums of the maps: their lengths are asked for, the roots of the sums of "
    "squares.": lambda a, m: (a * m).sum(-1) / a.sum(-1) / m.sum(),
    "You divide by the largest values: then the map itself would not score 1.":
        lambda a, m: (a * m).sum(-1) / a.amax(-1) / m.amax(),
    "You take one length for all heads together: each head's row has its own.":
        lambda a, m: (a * m).sum(-1) / a.norm() / m.norm(),
    "You divide by the squared lengths: take their roots.":
        lambda a, m: (a * m).sum(-1) / a.square().sum(-1) / m.square().sum(),
    "You take the mean off the maps: that is the next exercise.": lambda a, m: centred_score(a, m),
    "You keep a number for each patch: a score is one number for each head.":
        lambda a, m: a * m / a.norm(dim=-1, keepdim=True) / m.norm(),
    "You take the mean over heads: each head has a score of its own.":
        lambda a, m: ia_score(a, m).mean(-1),
    "You take one length for all heads of a layer: each head's row has its own.":
        lambda a, m: (a * m).sum(-1) / a.norm(dim=1).norm(dim=-1)[:, None] / m.norm(),
    "You take lengths over the heads: a row has its length along the patches.":
        lambda a, m: (a * m / a.norm(dim=1, keepdim=True)).sum(-1) / m.norm(),
    "You add the lengths: divide by both.":
        lambda a, m: (a * m).sum(-1) / (a.norm(dim=-1) + m.norm()),
}  # fmt: skip


def centred_score(attention, attribution):
    rows = attention - attention.mean(dim=-1, keepdim=True)
    return ia_score(rows, attribution - attribution.mean())


def _centred(maps: Tensor) -> Tensor:
    return maps - maps.mean(dim=-1, keepdim=True)


CENTRED_SLIPS = {
    "This is still the IA-score: take the mean off each map first.": lambda a, m: ia_score(a, m),
    "You take off the score of a head that looks everywhere alike. That has its 0 in the right "
    "place, and is no correlation: take the mean off both maps.":
        lambda a, m: ia_score(a, m) - ia_score(torch.ones_like(a), m),
    "Only the attention is centred: the attribution has a mean, too.":
        lambda a, m: ia_score(_centred(a), m),
    "Only the attribution is centred: take its own mean off each head's row as well.":
        lambda a, m: ia_score(a, _centred(m)),
    "You take off one mean for all heads together: each head's row has its own.":
        lambda a, m: ia_score(a - a.mean(), _centred(m)),
    "You take the mean over the heads: each head's row has its own, along the patches.":
        lambda a, m: ia_score(a - a.mean(1, keepdim=True), _centred(m)),
    "You do not divide by the lengths: this is no cosine yet.":
        lambda a, m: (_centred(a) * _centred(m)).sum(-1),
    "This is the covariance: divide both centred maps by their lengths.":
        lambda a, m: (_centred(a) * _centred(m)).mean(-1),
    "You divide by the lengths that the maps had before their means were taken off.":
        lambda a, m: (_centred(a) * _centred(m)).sum(-1) / a.norm(dim=-1) / m.norm(),
    "You lost the sign: a score below 0 says that the head looks away.":
        lambda a, m: centred_score(a, m).abs(),
    "You cut off what is below 0: such a score says that the head looks away.":
        lambda a, m: centred_score(a, m).clamp(min=0),
    "Your deviations divide by one patch less (`std` does), and your mean by all of them: divide "
    "by lengths instead.": lambda a, m: centred_score(a, m) * (m.shape[-1] - 1) / m.shape[-1],
    "You take the mean off the score: take it off the maps.": lambda a, m: _centred(ia_score(a, m)),
    "You square it: a score below 0 says that the head looks away.":
        lambda a, m: centred_score(a, m) ** 2,
}  # fmt: skip


def staying(relevance, own, share_pct):
    ranked = relevance.masked_fill(~own, -torch.inf).argsort(descending=True)
    stays = torch.ones_like(own)
    stays[ranked[: share_pct * int(own.sum()) // 100]] = False
    return stays


def _staying(
    rank: Callable = lambda relevance, own: relevance.masked_fill(~own, -torch.inf),
    count: Callable = lambda own, share: share * int(own.sum()) // 100,
) -> Callable:
    def made(relevance: Tensor, own: Tensor, share_pct: int) -> Tensor:
        stays = torch.ones_like(own)
        ranked = rank(relevance, own).argsort(descending=True)
        stays[ranked[: min(count(own, share_pct), int(own.sum()))]] = False
        return stays

    return made


STAYING_SLIPS = {
    "Yours is true for what is erased: true are the tokens that stay.":
        lambda relevance, own, share: ~staying(relevance, own, share),
    "Those are all tokens of words: the most relevant of them go, and the marks stay.":
        lambda relevance, own, share: own,
    "You erase the marks, too: `[CLS]` and `[SEP]` are no words, and stay.":
        lambda relevance, own, share: staying(relevance, own, share) & own,
    "You rank the marks, too: `[CLS]` and `[SEP]` are no words, and stay, however high their "
    "number is.": _staying(rank=lambda relevance, own: relevance),
    "You erase the least relevant tokens first.":
        _staying(rank=lambda relevance, own: (-relevance).masked_fill(~own, -torch.inf)),
    "Your share is of all tokens: count those of words alone.":
        _staying(count=lambda own, share: share * len(own) // 100),
    "You round up: the share is rounded down.":
        _staying(count=lambda own, share: -(-share * int(own.sum()) // 100)),
    "You erase as many tokens as the share says: it is in percent of those of words.":
        _staying(count=lambda own, share: share),
    "Nothing is erased: a share in percent, divided by 100, is below 1, so multiply by the number "
    "of tokens first.": _staying(count=lambda own, share: 0),
    "You rank by size without the sign: a token below 0 speaks against the answer, and goes last.":
        _staying(rank=lambda relevance, own: relevance.abs().masked_fill(~own, -torch.inf)),
    "Those are the places of what is erased: true or false is asked for, for each token.":
        lambda relevance, own, share: relevance.masked_fill(~own, -torch.inf)
        .argsort(descending=True)[: share * int(own.sum()) // 100],
    "Those are the places of what stays: true or false is asked for, for each token.":
        lambda relevance, own, share: relevance.masked_fill(~own, -torch.inf)
        .argsort(descending=True)[share * int(own.sum()) // 100 :],
    "Those are the tokens that stay with their relevance: true or false is asked for.":
        lambda relevance, own, share: relevance * staying(relevance, own, share),
}  # fmt: skip

ADVICE = {"A": "helps", "B": "not shown", "C": "harms", "D": "not shown"}
ADVICE_WHY = {
    "A": "Compare it with its twin, and look whether the whole interval is on one side of 0.",
    "B": "The twin without relevance has gained as well: what is left, and how sure is it?",
    "C": "Compare it with its twin, and look whether the whole interval is on one side of 0.",
    "D": "A large number in a wide interval: is 0 in it?",
}


# What they are tried on


def _seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _random(*shape: int, seed: int) -> Tensor:
    """In the precision of a model and of torch.eye: a right answer need not ask for another."""
    return torch.randn(shape, generator=_seeded(seed))


SIZES = ((3, 2, 5), (2, 3, 10))  # blocks, heads and tokens of both examples


def _attention() -> list[Example]:
    """Attention and gradients, blocks x heads x tokens x tokens."""
    return [
        Example((
            _random(*size, size[-1], seed=0).softmax(-1), _random(*size, size[-1], seed=1),
        ))
        for size in SIZES
    ]  # fmt: skip


def _matrices() -> list[Example]:
    """A list of the blocks' matrices, images x tokens x tokens."""
    return [Example((list(_random(*s, s[-1], seed=2).softmax(-1)),)) for s in SIZES]


def _heat() -> list[Example]:
    """Heatmaps in the graph, as maps are, and masks, images x 1 x height x width."""
    found = []
    for images, side in ((2, 4), (3, 6)):
        leaf = torch.rand(images, 1, side, side, generator=_seeded(side)).requires_grad_()
        mask = torch.zeros(images, 1, side, side)
        mask[:, :, 1:3, 1:4] = 1
        found.append(Example((leaf * 1, mask), leaf))
    return found


def _pixels() -> list[Example]:
    """Answers of a model of one weight a pixel, its images, and masks."""
    found = []
    for images, side in ((2, 4), (3, 5)):
        weight = _random(1, side, side, seed=side).requires_grad_()
        image = _random(images, 1, side, side, seed=side + 1).requires_grad_()
        mask = torch.zeros(images, 1, side, side)
        mask[:, :, 1:3, 1:3] = 1
        found.append(Example(((weight * image**2).sum((1, 2, 3)), image, mask), weight))
    return found


def _large_and_small() -> list[Example]:
    """Masks of 0 and 1, images x height x width; of the first, two mark more than half."""
    found = []
    for side, marked in ((6, (4, 30, 12, 24)), (5, (20, 3))):
        masks = torch.zeros(len(marked), side * side, dtype=torch.int64)
        for mask, many in zip(masks, marked, strict=True):
            mask[1 : 1 + many] = 1
        found.append(Example((masks.unflatten(1, (side, side)),)))
    return found


def _right() -> list[Example]:
    """1 for right, by set and image, columns original, without, with."""
    found = []
    for seed, sizes in ((3, {"a": 6, "r": 14, "sketch": 4}), (4, {"a": 5, "si_size": 8})):
        random, shares = np.random.default_rng(seed), {"original": 0.5, "without": 0.4, "with": 0.7}
        places = [(name, number) for name, images in sizes.items() for number in range(images)]
        columns = {name: (random.random(len(places)) < share) * 1.0
                   for name, share in shares.items()}  # fmt: skip
        rows = pd.MultiIndex.from_tuples(places, names=["dataset", "index"])
        found.append(Example((pd.DataFrame(columns, rows),)))
    return found


def _cuts() -> list[Example]:
    """Cut maps and masks, true or false, images x 1 x height x width."""
    found = []
    for images, side in ((3, 6), (2, 8)):
        masks = torch.zeros(images, 1, side, side, dtype=torch.bool)
        for number in range(images):
            masks[number, :, 1 : 2 + number, 1 : 3 + number] = True
        heat = torch.rand(masks.shape, generator=_seeded(2)) + 0.3 * masks
        found.append(Example((heat > heat.mean(dim=(1, 2, 3), keepdim=True), masks)))
    return found


SHARES, ACCURACY = [0.0, 10.0, 30.0, 60.0, 90.0], [95.0, 80.0, 50.0, 20.0, 5.0]
ORDERS = [  # neither the first nor the last is the worst or the best
    [95.0, 90.0, 75.0, 40.0, 12.0], [95.0, 92.0, 86.0, 55.0, 20.0],
    [95.0, 86.0, 60.0, 31.0, 8.0], [95.0, 91.0, 79.0, 47.0, 9.0],
]  # fmt: skip


def _curve() -> list[Example]:
    """Shares from 0 % on and accuracies, both in percent."""
    return [Example(([*SHARES], [*ACCURACY])), Example(([0.0, 50.0, 70.0], [90.0, 60.0, 10.0]))]


def _curves() -> list[Example]:
    """The same, and a list of accuracies for each random order."""
    return [
        Example((SHARES[:points], ACCURACY[:points], [one[:points] for one in ORDERS[:orders]]))
        for points, orders in ((5, 4), (4, 4))
    ]


def _maps() -> list[Example]:
    """Attention, layers x heads x patches, and an attribution of the patches; their sums differ."""
    found = []
    for *layers, patches in ((3, 2, 9), (2, 4, 16)):
        draw = _seeded(patches)
        attention = torch.rand(*layers, patches, generator=draw) ** 2
        found.append(Example((attention, 3 * torch.rand(patches, generator=draw))))
    return found


def _tokens() -> list[Example]:
    """Relevance with a sign, true where a token is a word's, and a share in percent."""
    found = []
    for words, share in ((7, 40), (17, 45)):
        relevance = _random(words + 3, seed=words)
        relevance[0], relevance[-1] = 3.0, -3.0  # the first mark would rank first
        own = torch.ones(words + 3, dtype=torch.bool)
        own[[0, words, -1]] = False
        found.append(Example((relevance, own, share)))
    return found


EXERCISES = {
    "reading": Exercise(
        READING,
        "A map says where, and not what for: only a changed picture tells what an answer needs.",
        said=_choices(READING, READING_WHY, "`True` or `False`"),
    ),
    "turned": Exercise(
        turned,
        "Large objects reach training now.",
        _large_and_small, TURNED_SLIPS,
    ),
    "gae": Exercise(
        gae, "That is GAE: the map that RobustViT trains.", _attention, GAE_SLIPS
    ),
    "background_loss": Exercise(
        background_loss,
        "That is Eq. 1: the mean is over all pixels, so a large background weighs more.",
        _heat, BACKGROUND_SLIPS,
    ),
    "adds": Exercise(
        adds,
        "That is what the tables call *relevance adds*: the rest has both twins in common.",
        _right, ADDS_SLIPS,
    ),
    "gradmask": Exercise(
        gradmask,
        "The same number, and now the weights hear of it: the term trains.",
        _pixels, GRADMASK_SLIPS,
    ),
    "six_runs": Exercise(
        SIX_RUNS,
        "Three pairs that differ in one term alone: their differences have an interval.",
        said=_runs_said,
    ),
    "follow": Exercise(
        follow,
        "That is the recursion: with mean attention it makes rollout.",
        _matrices, FOLLOW_SLIPS,
    ),
    "miou": Exercise(
        miou,
        "In mIoU the object counts as much as the background, however small it is.",
        _cuts, MIOU_SLIPS,
    ),
    "area": Exercise(
        area,
        "That is the area of the papers' tables (AUC): small is good where the most relevant "
        "goes first.",
        _curve, AREA_SLIPS,
    ),
    "beyond_chance": Exercise(
        beyond_chance,
        "That is what the map knows: black patches alone would have done the rest.",
        _curves, BEYOND_SLIPS,
    ),
    "ia_score": Exercise(
        ia_score,
        "That is Eq. 1: 1 for the same picture, 0 for no patch in common.",
        _maps, IA_SLIPS,
    ),
    "centred_score": Exercise(
        centred_score,
        "That is a correlation: looking everywhere earns nothing, looking away counts down.",
        _maps, CENTRED_SLIPS,
    ),
    "staying": Exercise(
        staying,
        "That is the test of the papers: what stays is read again.",
        _tokens, STAYING_SLIPS,
    ),
    "advice": Exercise(
        ADVICE,
        "Only the difference between the twins tells, and only where its interval leaves 0 out.",
        said=_choices(ADVICE, ADVICE_WHY, '"helps", "harms" or "not shown"'),
    ),
}  # fmt: skip
