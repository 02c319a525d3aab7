"""IA-scores: how far each attention head agrees with a map of what matters in the image.

Source: Park and Choi, Explanation on Pretraining Bias of Finetuned Vision Transformer (IAV).
Layers and heads are counted from 1 in names, and from 0 in tensors.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

Reduce = Literal["mean", "sum"]
HIGH = 0.5  # IAV Sec. V.F: a head whose median score lies above is High-IA


def ia_scores(
    attention: Float[Tensor, "batch layers heads patches"],
    attribution: Float[Tensor, "batch patches"],
) -> Float[Tensor, "batch layers heads"]:
    """Cosine of every head's attention row with the image's attribution, in [0, 1].

    Source: IAV Eq. 1. `attribution` is one value a patch, 0 or more: `smoothgrad` and `gradcam`
    give it for the predicted or for the true class; the paper allows either. With another
    map in its place, such as another model's SmoothGrad or `patch_average` of a mask, the
    score is the paper's Any-AV (AAV).
    Neither map's scale matters. A map that is zero everywhere points nowhere and scores 0; the
    paper does not say.
    Raises: ValueError for shapes that do not fit, negative values, NaN or infinity.
    """
    if attention.ndim != 4 or attribution.shape != (attention.shape[0], attention.shape[3]):
        raise ValueError(
            f"ia_scores: attention {tuple(attention.shape)} and attribution "
            f"{tuple(attribution.shape)}; needed are [batch, layers, heads, patches] and [batch, "
            "patches] for the same images and patches; average pixel maps with patch_average"
        )
    _check_maps("ia_scores", "attention", attention)
    _check_maps("ia_scores", "attribution", attribution)
    products = unit_norm(attention) * unit_norm(attribution)[:, None, None]
    return products.sum(dim=-1).clamp(max=1)  # rounding may exceed 1


def unit_norm(maps: Float[Tensor, "*batch patches"]) -> Float[Tensor, "*batch patches"]:
    """Each map divided by its Euclidean length, in float32 or better; a zero map stays zero.

    Raises: ValueError for NaN or infinity.
    """
    _check_finite("unit_norm", "maps", maps)
    maps = _float(maps)
    # First by the largest value: squares of gradients can be too small for single precision.
    maps = _divided(maps, maps.abs().amax(dim=-1, keepdim=True))
    return _divided(maps, maps.norm(dim=-1, keepdim=True))


def iav(scores: Float[Tensor, "batch layers heads"]) -> Float[Tensor, "batch entries"]:
    """All heads' scores of an image as one vector: layer by layer, in it head by head.

    Source: IAV Eq. 2. It has layers x heads entries, named by `head_names`.
    Raises: ValueError for another shape.
    """
    _check_scores("iav", scores)
    return scores.flatten(1)


def head_names(layers: int, heads: int) -> list[str]:
    """Names of the entries of `iav`: L1H1, L1H2, ..., L2H1, ..."""
    return [f"L{layer}H{head}" for layer in range(1, layers + 1) for head in range(1, heads + 1)]


def global_iav(
    scores: Float[Tensor, "batch layers heads"], reduce: Reduce = "mean"
) -> Float[Tensor, "layers heads"]:
    """The scores over images, head by head.

    Source: IAV Eq. 3, described as an average and printed as a plain sum, which is as many times
    as large as there are images: `reduce` tells which. Only the mean can be compared across
    numbers of images. With scores of an AAV it is the global-AAV.
    Raises: ValueError for another shape or an unknown `reduce`.
    """
    _check_scores("global_iav", scores)
    return _reduced("global_iav", scores, reduce)


def attention_entropy(
    attention: Float[Tensor, "batch layers heads patches"], reduce: Reduce | None = None
) -> Float[Tensor, "*batch layers heads"]:
    """Entropy of each attention row in nats: log(patches) when uniform, 0 on a single patch.

    Source: IAV Eq. 4, -sum_p A log A, described as an average over images and printed as a sum
    (`reduce`; None keeps every image). A row is divided by its sum first, so that it is a
    distribution over the patches whatever other tokens got; the paper does not say. 0 log 0
    is 0.
    Raises: ValueError for another shape, an unknown `reduce`, negative values, NaN or infinity,
    or a row without any attention on the patches, which has no entropy.
    """
    if attention.ndim != 4:
        raise ValueError(
            f"attention_entropy: attention {tuple(attention.shape)}; needed is [batch, layers, "
            "heads, patches]; take it from class_attention"
        )
    _check_maps("attention_entropy", "attention", attention)
    rows = _float(attention)
    sums = rows.sum(dim=-1, keepdim=True)
    if bool((sums <= 0).any()):
        raise ValueError(
            f"attention_entropy: {int((sums <= 0).sum())} rows are zero on all patches; needed is "
            "some attention in each row; leave these images out"
        )
    entropy = torch.special.entr(rows / sums).sum(dim=-1)
    return entropy if reduce is None else _reduced("attention_entropy", entropy, reduce)


def head_types(
    scores: Float[Tensor, "batch layers heads"], threshold: float = HIGH
) -> Bool[Tensor, "layers heads"]:
    """True for High-IA heads: those whose median score over images lies above `threshold`.

    Source: IAV Sec. V.F. The others are Low-IA, one at the threshold included.
    Raises: ValueError for another shape.
    """
    _check_scores("head_types", scores)
    return _quantiles(scores, [0.5])[0] > threshold


def sorted_heads(values: Float[Tensor, "*batch heads"]) -> Float[Tensor, "*batch heads"]:
    """Values of each layer's heads from low to high.

    Source: IAV Figs. 6 and 7, which sort the heads within a layer. The number of a head means
    nothing across models or finetunings; its rank does.
    """
    return values.sort(dim=-1).values


def spread(scores: Float[Tensor, "batch layers heads"]) -> Float[Tensor, "layers heads"]:
    """Range that holds the middle half of a head's scores over images (height of its box).

    Source: the box plots of IAV Sec. V.E. Raises: ValueError for another shape.
    """
    _check_scores("spread", scores)
    low, high = _quantiles(scores, [0.25, 0.75])
    return high - low


def identity_share(scores: Float[Tensor, "batch layers heads"]) -> Float[Tensor, " layers"]:
    """Share of the variance of a layer's scores that knowing the head explains, 0 to 1.

    Eta squared: variance of the heads' means over the variance of all scores of the layer; 0
    where these are all equal. It is what IAV Sec. V.E says in words, that scores lie in
    head-specific intervals. By chance alone it would be about (heads - 1) / (batch x heads).
    Raises: ValueError for another shape.
    """
    _check_scores("identity_share", scores)
    return _share(scores, dim=0)


def image_share(scores: Float[Tensor, "batch layers heads"]) -> Float[Tensor, " layers"]:
    """As `identity_share`, for knowing the image instead of the head.

    By chance alone it would be about 1 / heads, because few scores make an image's mean.
    Raises: ValueError for another shape.
    """
    _check_scores("image_share", scores)
    return _share(scores, dim=2)


def patch_average(
    pixels: Shaped[Tensor, "batch *channel height width"], grid: tuple[int, int]
) -> Float[Tensor, "batch patches"]:
    """Mean of a pixel map or mask over each patch, patches row by row.

    Source: IAV averages an attribution over each patch (Eq. 1); a mask of 0 and 1 becomes the
    share of the patch that it covers. `grid` is (rows, columns) of patches. `channel` is
    none or one: take absolute values and sum over colours before.
    Raises: ValueError for more channels, or a grid that does not divide the size.
    """
    if pixels.ndim == 4 and pixels.shape[1] == 1:
        pixels = pixels[:, 0]
    rows, columns = grid
    height, width = pixels.shape[-2:]
    if pixels.ndim != 3 or min(grid) < 1 or height % rows or width % columns:
        raise ValueError(
            f"patch_average: pixels {tuple(pixels.shape)} on a grid of {rows} x {columns}; needed "
            "is one channel, whose sides the grid divides; resize it to whole patches"
        )
    cells = _float(pixels).unflatten(2, (columns, -1)).unflatten(1, (rows, -1))
    return cells.mean(dim=(2, 4)).flatten(1)


def _float(values: Tensor) -> Tensor:
    return values if values.dtype == torch.float64 else values.float()


def _divided(maps: Tensor, by: Tensor) -> Tensor:
    return maps / torch.where(by > 0, by, 1.0)


def _share(scores: Tensor, dim: int) -> Tensor:
    """Variance of the means over `dim` as a share of the variance over images and heads."""
    means = scores.double().mean(dim=dim, keepdim=True)
    between = means.expand_as(scores).var(dim=(0, 2), correction=0)
    total = scores.double().var(dim=(0, 2), correction=0)
    equal = scores.amax(dim=(0, 2)) == scores.amin(dim=(0, 2))
    return torch.where(equal, 0.0, between / torch.where(equal, 1.0, total)).to(scores.dtype)


def _quantiles(scores: Tensor, points: list[float]) -> Float[Tensor, "points layers heads"]:
    # Layer by layer: torch.quantile takes no more than 16 million values.
    scores = _float(scores)
    points = scores.new_tensor(points)
    return torch.stack([layer.quantile(points, dim=0) for layer in scores.unbind(1)], dim=1)


def _reduced(where: str, values: Tensor, reduce: Reduce) -> Tensor:
    if reduce not in get_args(Reduce):
        raise ValueError(
            f"{where}: reduce {reduce!r} is unknown; use 'mean' (as described) or 'sum' (as "
            "printed)"
        )
    return values.mean(dim=0) if reduce == "mean" else values.sum(dim=0)


def _check_scores(where: str, scores: Tensor) -> None:
    if scores.ndim != 3 or scores.numel() == 0:
        raise ValueError(
            f"{where}: scores {tuple(scores.shape)}; needed is [batch, layers, heads] with at "
            "least one of each; take them from ia_scores"
        )


def _check_finite(where: str, name: str, maps: Tensor) -> None:
    if not bool(maps.isfinite().all()):
        raise ValueError(
            f"{where}: NaN or infinity in {name}; needed are finite values; GradCAM with "
            "protocol='published' is NaN where its map is constant: use 'described'"
        )


def _check_maps(where: str, name: str, maps: Tensor) -> None:
    _check_finite(where, name, maps)
    if bool((maps < 0).any()):
        raise ValueError(
            f"{where}: {name} down to {float(maps.min()):g}; needed are values of 0 or more; take "
            "absolute values, or set negative ones to 0"
        )
