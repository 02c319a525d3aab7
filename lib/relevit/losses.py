"""The three terms of RobustViT's loss (Sec. 3), and the background terms of its baselines.

total = w_relevance (w_bg L_bg + w_fg L_fg) + w_class L_class, with the paper's weights
0.8, 2, 0.3 and 0.2 (Table 5). The relevance is a heatmap in [0, 1] (differences A1).

GradMask and RRR (App. C, D) have no heatmap: they want the gradient of the answer by the image
to be small off the object. The published code asks for that gradient without `create_graph`,
so to autograd the term is a constant and trains nothing (B9, B10).
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from relevit.protocols import Protocol, check_protocol

SMALL_PROBABILITY = 1e-11  # added before RRR's logarithm (B11)


def background_loss(
    relevance: Float[Tensor, "batch 1 height width"],
    mask: Float[Tensor, "batch 1 height width"],
    *,
    protocol: Protocol = "published",
) -> Float[Tensor, ""]:
    """Mean squared relevance on the background.

    Source: RobustViT Eq. 1, MSE(R * (1 - S), 0).
    Shapes: relevance in [0, 1] (unitless), mask in [0, 1], 1 on the object.
    The background is `inverse_mask`, which the protocols take differently (differences A7).
    Averages over all pixels, so the term grows with the background's area (A6).
    Raises: ValueError when the shapes differ or a mask leaves [0, 1].
    """
    _check(relevance, mask)
    return (relevance * inverse_mask(mask, protocol)).square().mean()


def foreground_loss(
    relevance: Float[Tensor, "batch 1 height width"],
    mask: Float[Tensor, "batch 1 height width"],
    *,
    protocol: Protocol = "published",
) -> Float[Tensor, ""]:
    """Mean squared distance of the object's relevance from one.

    Source: RobustViT Eq. 2, MSE(R * S, 1). `published` takes the mask itself as the target,
    so the background contributes nothing; `described` takes one everywhere, so that every
    background pixel adds a constant 1 (differences A6).
    Shapes and errors: as `background_loss`.
    """
    check_protocol(protocol)
    _check(relevance, mask)
    mask = _as_numbers(mask)
    goal = mask if protocol == "published" else torch.ones_like(mask)
    return (relevance * mask - goal).square().mean()


def confidence_loss(
    logits: Float[Tensor, "batch classes"], temperature: float = 1.0
) -> Float[Tensor, ""]:
    """Cross-entropy with the model's own current prediction, in nats.

    Source: RobustViT Eq. 4. The target is the arg-max of the model as it is now, not of the
    original (differences A9). `temperature` divides the logits, after the arg-max; the paper
    has none (1.0), the published code 0.65 for DeiT-B and 0.55 for DeiT-S (A8).
    Raises: ValueError unless the temperature is positive.
    """
    if not temperature > 0:
        raise ValueError(f"confidence_loss: temperature is {temperature}; it must be above 0")
    return cross_entropy(logits / temperature, logits.argmax(dim=1))


def gradmask_loss(
    logits: Float[Tensor, "batch classes"],
    images: Float[Tensor, "batch channels height width"],
    mask: Float[Tensor, "batch 1 height width"],
    labels: Int[Tensor, " batch"],
    *,
    protocol: Protocol = "published",
    create_graph: bool | None = None,
) -> Float[Tensor, ""]:
    """Size of the gradient of the label's logit by the image, on the background.

    Source: RobustViT Eq. 9. `logits` must come from `images`, which require grad; `mask` is in
    [0, 1], 1 on the object. `published` is the mean of squares over batch, channels and pixels
    (differences B8) and a constant to autograd (B9); `described` is the L2 norm of each image,
    averaged over the batch, and in the graph. `create_graph` parts the graph from the formula;
    None leaves it to the protocol. With it, attention must not be fused
    (`relevit.attention.recording.unfused_attention`).
    Raises: ValueError for a mask or labels that do not fit, for images that the logits do not
    come from, and for an unknown protocol.
    """
    answer = logits.gather(1, labels[:, None]).sum()
    slopes = _background_slopes(answer, images, mask, protocol, create_graph)
    if protocol == "published":
        return slopes.square().mean()
    return slopes.flatten(1).norm(dim=1).mean()


def rrr_loss(
    logits: Float[Tensor, "batch classes"],
    images: Float[Tensor, "batch channels height width"],
    mask: Float[Tensor, "batch 1 height width"],
    *,
    protocol: Protocol = "published",
    create_graph: bool | None = None,
) -> Float[Tensor, ""]:
    """Squared gradient of all log-probabilities together by the image, on the background.

    Source: RobustViT Eq. 10 ("right for the right reasons"). Squares are summed over channels
    and pixels, so the term grows with the resolution. `published` sums over the batch too and
    takes log(p + 1e-11) (differences B11), a constant to autograd (B10); `described` averages
    over the batch, takes log p and is in the graph.
    Arguments and errors: as `gradmask_loss`; no labels, all classes count.
    """
    if protocol == "published":
        answer = (logits.softmax(dim=1) + SMALL_PROBABILITY).log().sum()
    else:
        answer = logits.log_softmax(dim=1).sum()
    squares = _background_slopes(answer, images, mask, protocol, create_graph).square()
    return squares.sum() / (1 if protocol == "published" else len(images))


def inverse_mask(
    mask: Float[Tensor, "batch 1 height width"], protocol: Protocol = "published"
) -> Float[Tensor, "batch 1 height width"]:
    """The background's share of each pixel.

    `published` turns only exact zeros and ones round, so that a fractional edge pixel counts
    on both sides; `described` is 1 - S (differences A7).
    Raises: ValueError for an unknown protocol or a mask outside [0, 1].
    """
    check_protocol(protocol)
    _check_range(mask)
    mask = _as_numbers(mask)
    background = 1 - mask
    if protocol == "described":
        return background
    return torch.where((mask == 0) | (mask == 1), background, mask)


def _background_slopes(
    answer: Float[Tensor, ""],
    images: Float[Tensor, "batch channels height width"],
    mask: Float[Tensor, "batch 1 height width"],
    protocol: Protocol,
    create_graph: bool | None,
) -> Float[Tensor, "batch channels height width"]:
    """The gradient of `answer` by the pixels, times the background's share of each."""
    background = inverse_mask(mask, protocol)
    if mask.shape != (len(images), 1, *images.shape[2:]):
        raise ValueError(
            f"losses: images {tuple(images.shape)} and mask {tuple(mask.shape)} differ; "
            "give one mask pixel for each image pixel"
        )
    # Without a graph of its own the gradient is a number to autograd: nothing learns from it.
    graph = protocol == "described" if create_graph is None else create_graph
    slopes = None
    if images.requires_grad and answer.requires_grad:
        (slopes,) = torch.autograd.grad(
            answer, images, retain_graph=True, create_graph=graph, allow_unused=True
        )
    if slopes is None:
        raise ValueError(
            "losses: the logits do not depend on images that require grad; "
            "call images.requires_grad_() before the model, with gradients enabled"
        )
    return slopes * background


def _check(relevance: Tensor, mask: Tensor) -> None:
    if relevance.shape != mask.shape:
        raise ValueError(
            f"losses: relevance {tuple(relevance.shape)} and mask {tuple(mask.shape)} differ; "
            "give one mask pixel for each heatmap pixel"
        )
    _check_range(mask)


def _as_numbers(mask: Tensor) -> Tensor:
    """Zeros and ones of booleans, from which torch subtracts nothing."""
    return mask if mask.is_floating_point() else mask.float()


def _check_range(mask: Tensor) -> None:
    if not bool(((mask >= 0) & (mask <= 1)).all()):  # NaN is in no range
        raise ValueError(
            f"losses: the mask spans [{float(mask.min()):g}, {float(mask.max()):g}]; "
            "it must lie in [0, 1], 1 on the object"
        )
