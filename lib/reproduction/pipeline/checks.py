"""What an exercise of a notebook says to an answer: one sentence, and never the solution.

An exercise is a function that stands between nbgrader's marks in a notebook; the cell below hands
it to its check, for example `checks.gae(gae)`. A check runs it on a small example. It prints a line
that begins with ✓, or raises `Wrong`: a mistake that is known here has a sentence of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import reduce
from numbers import Number
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from relevit import losses
from relevit.evaluate.perturbation import auc_weights
from relevit.evaluate.segmentation import segmentation_rows, segmentation_scores
from relevit.iav.scores import centred_scores, ia_scores, unit_norm
from relevit.maps import carry_rows, pool_rows
from relevit.protocols import options
from reproduction.measures import paired

TOLERANCE = 1e-4  # relative and absolute: rounding, and no other formula
BLOCKS, HEADS, TOKENS = 3, 2, 5


class Wrong(AssertionError):
    """An answer that is not right yet, in one sentence; a notebook shows no more than that."""

    def _render_traceback_(self) -> list[str]:
        """IPython's hook: the sentence in the place of a traceback."""
        return [f"✗ {self}"]


# The exercises, in the order of the notebooks


def gae(answer: Callable) -> None:
    """02: attention and gradients, blocks x heads x tokens x tokens -> patches."""
    attention = _random(BLOCKS, HEADS, TOKENS, TOKENS, seed=0).softmax(-1)
    gradients = _random(BLOCKS, HEADS, TOKENS, TOKENS, seed=1)
    product = attention * gradients
    matrices = product.clamp(min=0).mean(1)
    right = pool_rows(carry_rows(list(matrices[:, None]), "class_token", 1), "class_token", 1)[0]
    _judge(answer, (attention, gradients), right, "That is GAE: the map that RobustViT trains.", {
        "Your map is transposed: you read the class token's column. Its row says what it takes "
        "from the patches.": _carried(matrices)[1:, 0],
        "You left the identity out: a token keeps what it has, so each block adds to R.":
            _product(matrices)[0, 1:],
        "You cut negative values after the mean over heads: then a head that speaks against the "
        "class cancels one that speaks for it. Cut first.":
            _carried(product.mean(1).clamp(min=0))[0, 1:],
        "You multiply from the wrong side: a later block mixes what the earlier ones have made, "
        "so its matrix stands on the left.": _carried(matrices.flip(0))[0, 1:],
    })  # fmt: skip


def background_loss(answer: Callable) -> None:
    """02: heatmaps and masks, images x 1 x height x width -> mean squared relevance off."""
    heat, mask = torch.rand(2, 1, 4, 4, generator=_seeded(1)), torch.zeros(2, 1, 4, 4)
    heat = heat.requires_grad_() * 1  # in the graph, as a map is
    mask[:, :, 1:3, 1:4] = 1
    off = heat * (1 - mask)
    right = losses.background_loss(losses.Step(heatmaps=heat, masks=mask))
    praise = "That is Eq. 1: the mean is over all pixels, so a large background weighs more."
    _judge(answer, (heat, mask), right, praise, {
        "You punish relevance on the object: the background is 1 - mask.":
            (heat * mask).square().mean(),
        "The relevance is not squared: Eq. 1 is a mean squared error.": off.mean(),
        "You take the sum: the loss is a mean, or a large image would weigh more.":
            off.square().sum(),
        "You divide by the background's pixels alone: Eq. 1 divides by all of them.":
            off.square().sum() / (1 - mask).sum(),
    })  # fmt: skip


def adds(answer: Callable) -> None:
    """03: 1 for right, by set and image, columns original, without, with -> points."""
    random, sizes = np.random.default_rng(3), {"a": 6, "r": 14, "sketch": 4}  # unlike, on purpose
    places = [(name, number) for name, images in sizes.items() for number in range(images)]
    shares = {"original": 0.5, "without": 0.4, "with": 0.7}
    right = pd.DataFrame(
        {name: (random.random(len(places)) < share) * 1.0 for name, share in shares.items()},
        pd.MultiIndex.from_tuples(places, names=["dataset", "index"]),
    )
    ours, twin = (
        right[name].gt(0).rename("right").reset_index().assign(seed=0, in_a=True)
        for name in ("with", "without")
    )
    true = paired.paired_change(ours, twin, list(sizes))["change_pts"]["all"]
    mean, of_all = 100 * right.groupby("dataset").mean().mean(), 100 * right.mean()
    praise = "That is what the tables call `adds_pts`: the rest has both twins in common."
    _judge(answer, (right,), true, praise, {
        "That is the change since the original. The twin has changed, too: subtract its change.":
            mean["with"] - mean["original"],
        "You took all images together, so that a large set counts more: first each set, then the "
        "mean over the sets.": of_all["with"] - of_all["without"],
        "Your sign is turned: with minus without.": -true,
        "That is a share: times 100 it is points.": true / 100,
    })  # fmt: skip


def follow(answer: Callable) -> None:
    """06: matrices of the blocks, a list of images x tokens x tokens -> such a matrix."""
    stacked = _random(BLOCKS, 2, TOKENS, TOKENS, seed=2).softmax(-1)
    right = _carried(stacked)
    praise = "That is the recursion: with mean attention it makes rollout."
    _judge(answer, (list(stacked),), right, praise, {
        "You left the identity out: a token keeps itself when it goes past the attention.":
            _product(stacked),
        "You multiply entry by entry: `@` multiplies matrices.":
            torch.eye(TOKENS) * (1 + stacked).prod(0),
        "You multiply from the wrong side: a later block mixes what the earlier ones have made, "
        "so its matrix stands on the left.": _carried(stacked.flip(0)),
        "Your matrix is transposed: its rows are the tokens that take.": right.mT,
    })  # fmt: skip


def miou(answer: Callable) -> None:
    """07: cut maps and masks, true or false, images x 1 x height x width -> percent."""
    masks = torch.zeros(3, 1, 6, 6, dtype=torch.bool)
    for number in range(3):
        masks[number, :, 1 : 2 + number, 1 : 3 + number] = True
    heat = torch.rand(masks.shape, generator=_seeded(2)) + 0.3 * masks
    cut = heat > heat.mean(dim=(1, 2, 3), keepdim=True)
    right = segmentation_scores(segmentation_rows(heat, masks))["miou_pct"]
    pair, other, every = (cut, masks), (~cut, ~masks), (1, 2, 3)
    praise = "In mIoU the object counts as much as the background, however small it is."
    _judge(answer, pair, right, praise, {
        "That is a share: times 100 it is percent.": right / 100,
        "Your number is the IoU of the object alone: take the mean with the background's.":
            _overlap(*pair),
        "You took the IoU of each image and then the mean: count over all images first, and "
        "divide once.": (_overlap(*pair, dim=every) + _overlap(*other, dim=every)).mean() / 2,
        "Your union counts the pixels that are in both twice.":
            (_overlap(*pair, once=False) + _overlap(*other, once=False)) / 2,
    })  # fmt: skip


def area(answer: Callable) -> None:
    """07: erased shares from 0 % on and accuracies, both in percent -> area in percent."""
    shares, accuracy = [0.0, 10.0, 30.0, 60.0, 90.0], [95.0, 80.0, 50.0, 20.0, 5.0]
    right = float(auc_weights(shares, **options("published", "auc_weights")) @ accuracy)
    praise = "That is the AUC of the papers' tables: small is good in the positive test."
    _judge(answer, (shares, accuracy), right, praise, {
        "You left the last point out: where 100 % is erased, the accuracy counts as 0.":
            right - 10 * accuracy[-1] / 2 / 100,
        "Your area is 100 times too large: shares are in percent, 30 for 30 %, and 100 of them "
        "are the whole image.": 100 * right,
        "You add the heights up without the widths of the steps.": np.sum(accuracy),
        "You take the mean of the points: the shares are not evenly spaced, and an area knows how "
        "wide each step is.": np.mean(accuracy),
    })  # fmt: skip


def beyond_chance(answer: Callable) -> None:
    """07: shares, a map's accuracies, and a list of accuracies for each random order -> points."""
    shares, accuracy = [0.0, 10.0, 30.0, 60.0, 90.0], [95.0, 80.0, 50.0, 20.0, 5.0]
    orders = [  # neither the first nor the last is the worst or the best
        [95.0, 90.0, 75.0, 40.0, 12.0], [95.0, 92.0, 86.0, 55.0, 20.0],
        [95.0, 86.0, 60.0, 31.0, 8.0], [95.0, 91.0, 79.0, 47.0, 9.0],
    ]  # fmt: skip
    weights = auc_weights(shares, **options("published", "auc_weights"))
    own, each = float(weights @ accuracy), np.array(orders) @ weights
    lead, right = np.mean(orders, axis=0) - accuracy, each.mean() - own
    praise = "That is what the map knows: black patches alone would have done the rest."
    _judge(answer, (shares, accuracy, orders), right, praise, {
        "Your sign is turned: a good map lies below chance, and its lead is above 0.": -right,
        "That is the area of the map alone: how far below that of chance is it?": own,
        "You keep a number for each share: an area is one number.": lead,
        "You left the last point out: where 100 % is erased, both count as 0.":
            right - 10 * lead[-1] / 2 / 100,
    })  # fmt: skip


def ia_score(answer: Callable) -> None:
    """08: attention, layers x heads x patches, and attribution, patches -> layers x heads."""
    attention, attribution = _maps()
    products, right = attention * attribution, ia_scores(attention[None], attribution[None])[0]
    row, other = attention.norm(dim=-1), attribution.norm()
    soft = attention.softmax(-1), attribution.softmax(-1)
    praise = "That is Eq. 1: 1 for the same picture, 0 for no patch in common."
    _judge(answer, (attention, attribution), right, praise, {
        "This is the plain inner product: a head that gives its patches twice as much would score "
        "twice as high. Divide both maps by their lengths.": products.sum(-1),
        "You take the mean over patches: an inner product is a sum.":
            products.mean(-1) / row / other,
        "You use a softmax: a map is divided by its length.": (soft[0] * soft[1]).sum(-1),
        "Only the attention has length 1: divide the attribution by its length as well.":
            products.sum(-1) / row,
    })  # fmt: skip


def centred_score(answer: Callable) -> None:
    """08: attention, layers x heads x patches, and attribution, patches -> layers x heads."""
    attention, attribution = _maps()
    rows, values = _centred(attention), _centred(attribution)
    right = centred_scores(attention[None], attribution[None])[0]
    praise = "That is a correlation: looking everywhere earns nothing, looking away counts down."
    _judge(answer, (attention, attribution), right, praise, {
        "This is still the IA-score: take the mean off each map first.":
            _cosine(attention, attribution),
        "Only the attention is centred: the attribution has a mean, too.":
            _cosine(rows, attribution),
        "You take off one mean for all heads together: each head's row has its own.":
            _cosine(attention - attention.mean(), values),
        "You do not divide by the lengths: this is no cosine yet.": (rows * values).sum(-1),
    })  # fmt: skip


# What they are made of


def _judge(
    answer: Callable, inputs: tuple, right: Any, praise: str, slips: Mapping[str, Any]
) -> None:
    """Print the praise, or raise Wrong; `slips` are what typical mistakes lead to, by sentence."""
    found = _given(answer, inputs)
    given, right = _number(found), _number(right)
    if _same(given, right):
        trained = any(isinstance(each, Tensor) and each.requires_grad for each in inputs)
        if trained and not getattr(found, "requires_grad", False):
            _wrong(
                "Your number is right, and cut off from the map: nothing can be trained on it. "
                "Return the tensor, without .item(), float(), .detach() or .data."
            )
        print(f"✓ {praise}")
        return
    for factor in (1, 100):  # a slip may come with a share for percent
        for text, slip in slips.items():
            if _same(factor * given, _number(slip)):
                _wrong(text)
    if given.shape != right.shape:
        _wrong(f"Your result has {_shape(given)}; {_shape(right)} is asked for.")
    if not bool(given.isfinite().all()):
        _wrong("Your result holds NaN or infinity: look for a division by 0.")
    away = (given - right).abs()
    if away.ndim == 0:
        _wrong(f"Not right yet: your number is {given:.4g}, and off by {away:.3g}.")
    worst = ", ".join(map(str, np.unravel_index(int(away.argmax()), away.shape)))
    count = int((away > TOLERANCE).sum())
    _wrong(
        f"Not right yet: {count} of {away.numel()} numbers differ, most at [{worst}], by "
        f"{away.max():.3g}."
    )


def _given(answer: Callable, inputs: tuple) -> Any:
    """What a student's function returns. Raises: Wrong where it stops or changes its inputs."""
    if not callable(answer):
        _wrong(f"A function is asked for, and this is {str(answer)[:40]}: leave its () out.")
    kept = tuple(copy.deepcopy(_parts(each)) for each in inputs)
    try:
        given = answer(*inputs)
    except Exception as error:  # whatever a beginner's code may raise
        if isinstance(error, NotImplementedError) and not str(error):  # torch's have a text
            _wrong("The function is still empty: write its body, run its cell, and then this one.")
        told = " ".join(str(error).split())[:200]
        _wrong(f"Your function stopped with {type(error).__name__}: {told}")
    if given is None:
        _wrong("Your function returns nothing: end it with `return`.")
    for number, (new, old) in enumerate(zip(inputs, kept, strict=True), start=1):
        new = _parts(new)
        if len(new) != len(old) or not all(map(np.array_equal, new, old)):
            _wrong(f"Your function changes its input number {number}: work on a copy of it.")
    return given


def _parts(given: Any) -> list[np.ndarray]:
    each = given if isinstance(given, list) else [given]
    return [np.asarray(one.detach() if isinstance(one, Tensor) else one) for one in each]


def _number(given: Any) -> Tensor:
    """A result as a tensor. Raises: Wrong for what is none, such as a dictionary."""
    if isinstance(given, Tensor | np.ndarray | np.generic | pd.Series | Number):
        given = given.detach() if isinstance(given, Tensor) else given
        return torch.tensor(np.asarray(given, dtype=float))
    _wrong(f"Your function returns a {type(given).__name__}: one tensor or number is asked for.")


def _wrong(text: str) -> NoReturn:
    raise Wrong(text) from None


def _same(a: Tensor, b: Tensor) -> bool:
    close = {"rtol": TOLERANCE, "atol": TOLERANCE}
    return a.shape == b.shape and torch.allclose(a, b, **close)


def _shape(of: Tensor) -> str:
    return f"the shape ({', '.join(map(str, of.shape))})" if of.ndim else "one number"


def _seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _random(*shape: int, seed: int) -> Tensor:
    """In the precision of a model and of torch.eye: a right answer need not ask for another."""
    return torch.randn(shape, generator=_seeded(seed))


def _maps() -> tuple[Tensor, Tensor]:
    """Attention of six heads to nine patches, and an attribution; their sums differ."""
    draw = _seeded(0)
    return torch.rand(3, 2, 9, generator=draw) ** 2, 3 * torch.rand(9, generator=draw)


def _carried(matrices: Tensor) -> Tensor:
    """(I + A_L) ... (I + A_1)"""
    return _product(torch.eye(TOKENS) + matrices)


def _product(matrices: Tensor) -> Tensor:
    """A_L ... A_1"""
    return reduce(lambda made, matrix: matrix @ made, matrices)


def _overlap(a: Tensor, b: Tensor, *, once: bool = True, dim: tuple = (0, 1, 2, 3)) -> Tensor:
    """IoU in percent; with `once` false the pixels in both count twice below."""
    return 100 * (a & b).sum(dim) / ((a | b).sum(dim) + (0 if once else (a & b).sum(dim))).double()


def _centred(maps: Tensor) -> Tensor:
    return maps - maps.mean(dim=-1, keepdim=True)


def _cosine(rows: Tensor, values: Tensor) -> Tensor:
    return (unit_norm(rows) * unit_norm(values)).sum(-1)
