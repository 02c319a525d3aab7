"""Where every head looks, and IA-scores: how far it agrees with a map of what matters.

Source: Park and Choi, Explanation on Pretraining Bias of Finetuned Vision Transformer (IAV). With
a_lh the class token's attention row of head h in layer l, and m what an image's answer owes to
each patch:

    IA-score (Eq. 1)    s_lh = <a_lh, m> / (|a_lh| |m|)
    IAV (Eq. 2)         the s_lh of an image as one vector
    global-IAV (Eq. 3)  its mean over images
    Any-AV, AAV         the same with any other map for m, such as an object's mask

Layers and heads are counted from 1 in names, and from 0 in tensors.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from relevit.maps import observe, patch_cells

Scores = Float[Tensor, "batch layers heads"]
Attention = Float[Tensor, "batch layers heads patches"]
CHUNK = 50  # images run at once; bounds the memory


def ia_scores(attention: Attention, attribution: Float[Tensor, "batch patches"]) -> Scores:
    """Cosine of every head's attention row with the image's attribution, in [0, 1].

    Source: IAV Eq. 1. `attribution` is one value a patch, 0 or more: `smoothgrad` and `gradcam`
    give it for the predicted or for the true class; the paper allows either. Another map in its
    place, such as another model's SmoothGrad or `patch_average` of a mask, makes the Any-AV.
    Neither map's scale matters. A map that is zero everywhere points nowhere and scores 0; the
    paper does not say.
    Raises: ValueError for an attribution with negative values, NaN or infinity.
    """
    if not bool((attribution.isfinite() & (attribution >= 0)).all()):
        raise ValueError(
            f"ia_scores: attribution from {float(attribution.min()):g} to "
            f"{float(attribution.max()):g}; needed are finite values of 0 or more; take absolute "
            "values or set negative ones to 0, and of GradCAM the map 'described', which is no NaN "
            "where it is constant"
        )
    products = unit_norm(attention) * unit_norm(attribution)[:, None, None]
    return products.sum(dim=-1).clamp(max=1)  # rounding may exceed 1


def global_iav(scores: Scores) -> Float[Tensor, "layers heads"]:
    """Mean over images, head by head; with scores of an AAV it is the global-AAV.

    Source: IAV Eq. 3, described as an average and printed as a plain sum, which is as many times
    as large as there are images, so that it cannot be compared across numbers of images.
    """
    return scores.mean(dim=0)


def attention_entropy(attention: Attention) -> Scores:
    """Entropy of each attention row in nats: log(patches) when uniform, 0 on a single patch.

    Source: IAV Eq. 4, -sum_p A log A. A row is divided by its sum first, so that it is a
    distribution over the patches whatever other tokens got; the paper does not say. 0 log 0 is 0.
    """
    rows = _float(attention)
    return torch.special.entr(rows / rows.sum(dim=-1, keepdim=True)).sum(dim=-1)


@torch.no_grad()
def class_attention(
    model: nn.Module, images: Float[Tensor, "batch 3 height width"], *, chunk: int = CHUNK
) -> Attention:
    """Attention from the class token to the patches, layer by layer and head by head.

    Source: IAV Eq. 1, the class token's row of each head. Values are the softmax's own, so a
    row sums to 1 less what the class token, a distillation token and registers get; these
    are left out because an attribution has no value for them. `images` are normalised.
    A model whose head averages the patches has no class token that anybody reads. What its
    head reads of the last layer is the mean of the patches' outputs, and that is the values
    weighed by the mean of the patches' rows. So this mean is taken, in every layer, so that
    layers can be compared; a head that reads both gets the sum of the two (differences D5). The
    paper has class-token models only.
    `chunk` images run at once, whose maps are all in memory together: chunk x layers x heads x
    tokens squared numbers. The model runs in the mode it is in.
    """
    parts = []
    for part in images.split(chunk):
        seen = observe(model, part)
        rows = [seen.pool(seen.rows(attention.flatten(0, 1))) for attention in seen.maps]
        heads = [layer.unflatten(0, (len(part), -1)) for layer in rows]
        parts.append(torch.stack(heads, dim=1))
    return torch.cat(parts)


# Ours beside the paper's


def uniform_score(attribution: Float[Tensor, "batch patches"]) -> Float[Tensor, " batch"]:
    """The IA-score of attention that is the same everywhere: what a head scores for no choice.

    High where the attribution is flat, and 1 at most. Ours; the paper does not hold its scores
    against it.
    """
    flat = torch.ones_like(attribution)[:, None, None]
    return ia_scores(flat, attribution)[:, 0, 0]


def centred_scores(attention: Attention, attribution: Float[Tensor, "batch patches"]) -> Scores:
    """Correlation of every head's row with the attribution, in [-1, 1]: Eq. 1 without the means.

    Uniform attention scores 0 here, whatever the attribution, so that spread alone earns nothing;
    a head that looks away from what matters scores below 0. Ours, not the paper's.
    """
    rows, values = _without_mean(attention), _without_mean(attribution)
    products = unit_norm(rows) * unit_norm(values)[:, None, None]
    return products.sum(dim=-1).clamp(-1, 1)  # rounding may exceed 1


def unit_norm(maps: Float[Tensor, "*batch patches"]) -> Float[Tensor, "*batch patches"]:
    """Each map divided by its Euclidean length, in float32 or better; a zero map stays zero."""
    maps = _float(maps)
    # First by the largest value: squares of gradients can be too small for single precision.
    maps = _divided(maps, maps.abs().amax(dim=-1, keepdim=True))
    return _divided(maps, maps.norm(dim=-1, keepdim=True))


def patch_average(
    pixels: Shaped[Tensor, "batch *channel height width"], grid: tuple[int, int]
) -> Float[Tensor, "batch patches"]:
    """Mean of a pixel map or mask over each patch, patches row by row.

    Source: IAV averages an attribution over each patch (Eq. 1); a mask of 0 and 1 becomes the
    share of the patch that it covers. `grid` is of the patches (`patch_grid`). `channel` is
    none or one: take absolute values and sum over colours before.
    Raises: ValueError for several channels; as `patch_cells`.
    """
    if pixels.ndim == 4 and pixels.shape[1] != 1:
        raise ValueError(f"patch_average: {pixels.shape[1]} channels; sum over colours before")
    pixels = pixels[:, 0] if pixels.ndim == 4 else pixels
    return patch_cells(_float(pixels), grid).mean(dim=2)


def map_drift(
    maps: Float[Tensor, "batch *rows patches"], last: Float[Tensor, "batch *rows patches"]
) -> Float[Tensor, " batch"]:
    """Mean absolute difference of each image's maps from those of the last epoch.

    Source: IAV Fig. 4, epoch t against epoch 30. The paper does not say how maps are scaled:
    here every map has unit norm over its patches, as in Eq. 1, so that a gradient that grows
    without moving is no change. `rows` may be layers and heads: their differences are
    averaged, as the paper averages over layers. Two maps on different patches differ
    by 2 / patches if each is on a single one: compare models with as many patches.
    """
    return (unit_norm(maps) - unit_norm(last)).abs().flatten(1).mean(dim=1)


def _float(values: Tensor) -> Tensor:
    return values if values.dtype == torch.float64 else values.float()


def _without_mean(maps: Tensor) -> Tensor:
    """A map that is the same everywhere becomes zero, not what rounding leaves of it."""
    maps = _float(maps)
    flat = maps.amax(dim=-1, keepdim=True) == maps.amin(dim=-1, keepdim=True)
    return torch.where(flat, 0.0, maps - maps.mean(dim=-1, keepdim=True))


def _divided(maps: Tensor, by: Tensor) -> Tensor:
    return maps / torch.where(by > 0, by, 1.0)
