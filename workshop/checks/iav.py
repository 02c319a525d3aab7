"""Checks of the exercises on attention heads and IA-scores (08_iav)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from checks.feedback import choice, compare, guess, passed, result
from relevit.iav.scores import centred_scores, ia_scores, uniform_score, unit_norm

LAYERS, HEADS, PATCHES = 3, 2, 9


def maps_example() -> tuple[Tensor, Tensor]:
    """Attention of six heads to nine patches, and an attribution; their sums differ."""
    draw = torch.Generator().manual_seed(0)
    attention = torch.rand(LAYERS, HEADS, PATCHES, generator=draw, dtype=torch.float64) ** 2
    return attention, 3 * torch.rand(PATCHES, generator=draw, dtype=torch.float64)


def score(answer: Callable) -> None:
    """Eq. 1: attention, layers x heads x patches, and attribution, patches -> layers x heads."""
    attention, attribution = maps_example()
    products = attention * attribution
    row, other = attention.norm(dim=-1), attribution.norm()
    right = ia_scores(attention[None], attribution[None])[0]
    compare(result(answer, attention, attribution, shape=(LAYERS, HEADS)), right, {
        "This is the plain inner product: a head that gives its patches twice as much would score "
        "twice as high. Divide both maps by their lengths.": products.sum(-1),
        "You divide by the sums of the maps: their lengths are asked for, the roots of the sums "
        "of squares.": products.sum(-1) / attention.sum(-1) / attribution.sum(),
        "You divide by the largest values: then the map itself would not score 1.":
            products.sum(-1) / attention.amax(-1) / attribution.amax(),
        "Only the attention has length 1: divide the attribution by its length as well.":
            products.sum(-1) / row,
        "Only the attribution has length 1: divide each head's row by its length as well.":
            products.sum(-1) / other,
        "You take one length for all heads together: each head's row has its own, so take the norm "
        "along the patches.": products.sum(-1) / attention.norm() / other,
        "You take one length for all heads of a layer: each head's row has its own, so take the "
        "norm along the last dimension.":
            (products / attention.flatten(1).norm(dim=1)[:, None, None]).sum(-1) / other,
        "You take the mean over patches; an inner product is a sum.":
            products.mean(-1) / row / other,
        "You divide by the squared lengths: take their roots.":
            products.sum(-1) / row**2 / other**2,
    })  # fmt: skip
    passed("That is Eq. 1: 1 for the same picture, 0 for no patch in common.")


def uniform(prediction: float | None, attributions: Tensor) -> None:
    """What attention that is everywhere alike scores, mean over images, times 100."""
    right = 100 * float(uniform_score(attributions).mean())
    guess(
        prediction, right, within=7, unit="% of the best score",
        low="It chooses nothing, yet it scores: it overlaps with the attribution on every patch, "
            "and no product is negative.",
        high="It is below that, since the attribution has peaks that it misses. A flatter "
             "attribution would bring it nearer to 100.",
    )  # fmt: skip


def centred(answer: Callable) -> None:
    """Correlations: attention, layers x heads x patches, and attribution -> layers x heads."""
    attention, attribution = maps_example()
    rows, values = _centred(attention), _centred(attribution)
    right = centred_scores(attention[None], attribution[None])[0]
    compare(result(answer, attention, attribution, shape=(LAYERS, HEADS)), right, {
        "This is still the score of exercise 1: take the mean off each map first.":
            _cosine(attention, attribution),
        "Only the attention is centred: its mean is gone, that of the attribution is not.":
            _cosine(rows, attribution),
        "Only the attribution is centred: take its own mean off each head's row as well.":
            _cosine(attention, values),
        "You take off one mean for all heads together: each head's row has its own, so take the "
        "mean along the patches.": _cosine(attention - attention.mean(), values),
        "You divide by the lengths before you take off the means: then the maps that you multiply "
        "are shorter than 1. Take off the means first.":
            (_centred(unit_norm(attention)) * _centred(unit_norm(attribution))).sum(-1),
        "You do not divide by the lengths: this is no cosine yet.": (rows * values).sum(-1),
        "This is the covariance: divide both centred maps by their lengths.":
            (rows * values).mean(-1),
        "You lost the sign: a score below 0 says that the head looks "
        "away, so keep it.": right.abs(),
        "You cut off what is below 0: a score below 0 says that the head looks away, so keep it.":
            right.clamp(min=0),
        "Your deviations divide by one patch less (`std` does), and your mean by all of them: "
        "divide by lengths instead, or use `std(correction=0)`.":
            right * (PATCHES - 1) / PATCHES,
    })  # fmt: skip
    passed("That is a correlation: looking everywhere earns nothing, and looking away counts down.")


def flat(answer: str | None) -> None:
    """Why a head may score well and yet not look where the decision comes from."""
    choice(answer, "b", {
        "a": "A weak preference would do for a high centred score, which is blind to how strong a "
             "map is: one in which these patches have a little more than the others scores 1. "
             "Layer 3 is close to 0.",
        "b": "Right: neither map is ever negative, so whoever looks everywhere also meets what "
             "matters. The centred score asks for more: more attention there than elsewhere.",
        "c": "The attribution is the same one for all layers, and the last layers agree with it "
             "by both scores: it cannot be the attribution.",
    })  # fmt: skip


def _centred(maps: Tensor) -> Tensor:
    return maps - maps.mean(dim=-1, keepdim=True)


def _cosine(rows: Tensor, values: Tensor) -> Tensor:
    return (unit_norm(rows) * unit_norm(values)).sum(-1)
