"""Generic attention explainability (GAE): the relevance map that RobustViT trains on.

Source: Chefer, Gur, Wolf 2021 (ICCV), as used in RobustViT Sec. 3 and App. B. With A the
attention map of a block and grad A the gradient of one class's logit,

    R <- I,   A_bar = mean over heads of (grad A * A)^+,   R <- R + A_bar R,

block by block, and the class token's row of R over the patches is the relevance map. A model
whose head averages the patches has no such row: there it is the mean of the patches' rows
(Beyond Intuition, differences D1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import wraps
from operator import index
from typing import Any, SupportsIndex

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import interpolate

from relevit.attention.recording import Inputs, alone, evaluating, frozen_weights, record_attention
from relevit.attention.token_rows import (
    carry_rows,
    head_pooling,
    pool_rows,
    prefix_tokens,
    read_rows,
)
from relevit.config.words import Explanation, Protocol
from relevit.protocols import check_protocol

# One class for all images or one for each, None for the predicted ones.
Target = SupportsIndex | Sequence[SupportsIndex] | np.ndarray | Tensor | None


def explaining(method: Callable[..., Any]) -> Callable[..., Any]:
    """What holds for every attribution method, which this decorates.

    The model works in eval mode, but with `create_graph=True` in its own, for a training may go
    on from there; afterwards each part has the mode that it had. Other threads that explain the
    same model wait. Inside `torch.inference_mode()` gradients are taken all the same, and of a
    model of `torch.compile` the one that was compiled is explained.
    Raises: ValueError for an unknown protocol, for what is no model, for images that it does not
    take, or for weights made inside `torch.inference_mode()`.
    """

    @wraps(method)
    def explain(model: nn.Module, images: Inputs, *args: Any, **options: Any) -> Any:
        check_protocol(options.get("protocol", "published"))
        model = getattr(model, "_orig_mod", model)  # the compiled graph heeds no hooks
        _need_inputs(model, images)
        if any(weights.is_inference() for weights in model.parameters()):
            raise ValueError(
                f"model: this {type(model).__name__} was made inside torch.inference_mode(), and "
                "has no gradients; make it outside, or take its copy.deepcopy, made outside"
            )
        with ExitStack() as stack:
            if torch.is_inference_mode_enabled():
                stack.enter_context(torch.inference_mode(False))
            stack.enter_context(alone(model) if options.get("create_graph") else evaluating(model))
            return method(
                model, images.clone() if images.is_inference() else images, *args, **options
            )

    return explain


def _need_inputs(model: nn.Module, images: Inputs) -> None:
    """Raise ValueError for what is no model, and for images that it does not take."""
    if not isinstance(model, nn.Module):
        raise ValueError(
            f"model: a {type(model).__name__} is no network; give a timm Vision Transformer, such "
            "as load_model('tiny')"
        )
    embedding = getattr(model, "patch_embed", None)  # a text encoder has none
    sizes = embedding.img_size if getattr(embedding, "strict_img_size", False) else None
    wanted = {weights.dtype for weights in model.parameters()}
    given = f"a {type(images).__name__}"
    if isinstance(images, Tensor):
        given = f"{list(images.shape)} of {images.dtype}"
        fits = embedding is None or (images.ndim == 4 and sizes in (None, tuple(images.shape[2:])))
        cast = torch.is_autocast_enabled(images.device.type)
        if fits and images.is_floating_point() and (cast or not wanted or images.dtype in wanted):
            return
    height, width = sizes or ("height", "width")
    kinds = " or ".join(sorted(map(str, wanted))) or "floating point"
    raise ValueError(
        f"images: {given}; this {type(model).__name__} takes a tensor [batch, channels, {height}, "
        f"{width}] of {kinds}: put a single image into a batch (image[None]), resize, and "
        "normalise what is 0..255 (ModelSpec.normalise)"
    )


@explaining
def gae(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    protocol: Protocol = "published",
    create_graph: bool = False,
) -> Float[Tensor, "batch patches"]:
    """Relevance of every patch for one class, patches row by row.

    Source: RobustViT App. B. `images` are normalised. `target` is one class for all images or one
    for each; None means the predicted class (differences A5: training uses the label, the
    segmentation test the prediction). Identity over class token and patches (A3), clamp before
    the head mean (A4): text and code agree on both, so `protocol` does not change this map; every
    attribution takes it. With `create_graph=True` the result is differentiable through A and
    through grad A (A2), of the model in its own mode; otherwise it is detached and cheaper, with
    the weights frozen and the model in eval mode.
    Raises: ValueError for an unknown protocol, a target out of range, or a model that has no
    global self-attention. The model's mode, hooks and `requires_grad` are left as they were.
    """
    if create_graph:
        return relevance_and_logits(model, images, target, exact=True)[0]
    with frozen_weights(model), torch.enable_grad():
        relevance, _ = relevance_and_logits(model, images, target, keep_graph=False)
    return relevance.detach()


def relevance_and_logits(
    model: nn.Module,
    images: Inputs,
    target: Target = None,
    *,
    exact: bool = False,
    keep_graph: bool = True,
    explanation: Explanation = "gae",
) -> tuple[Float[Tensor, "batch patches"], Float[Tensor, "batch classes"]]:
    """One forward pass, one gradient call: the relevance map in the graph, and the logits.

    For training: the model works in the mode that it has, with its dropout in train mode.
    `exact=False` takes grad A as a constant, as the published code does (differences A2).
    `exact=True` keeps its graph too: the gradient that the text's formulas have.
    Only the rows that the head reads are carried through the recursion, see
    `relevit.attention.token_rows`.
    `explanation` puts another map in GAE's place (RobustViT supp. J; no published code, B21):
    `attention` is the last block's, averaged over heads, `rollout` the rows of
    (A_L + I) ... (A_1 + I). Neither depends on the class, so `target` is only checked.
    """
    pooling, prefix = head_pooling(model), prefix_tokens(model)
    with record_attention(model, class_row=True, last_only=explanation == "attention") as tape:
        logits = model(images)
    classes = checked_target(logits, target)
    if explanation == "attention":
        rows = read_rows(tape.maps[0].mean(dim=1), pooling, prefix)
    elif explanation == "rollout":
        rows = carry_rows([a.mean(dim=1) for a in tape.maps], pooling, prefix)
    else:
        score = logits.gather(1, classes[:, None]).sum()
        gradients = torch.autograd.grad(
            score, tape.maps, retain_graph=keep_graph or exact, create_graph=exact
        )
        pairs = zip(gradients, tape.maps, strict=True)
        matrices = [(slope * attention).clamp(min=0).mean(dim=1) for slope, attention in pairs]
        rows = carry_rows(matrices, pooling, prefix)
    return pool_rows(rows, pooling, prefix), logits


def to_pixels(
    maps: Float[Tensor, "batch patches"], size: tuple[int, int], *, normalise: bool = True
) -> Float[Tensor, "batch 1 height width"]:
    """Bilinear heatmaps of `size` (height, width), each scaled to [0, 1] (differences A1).

    The patches must form a square. Gradients flow through minimum and maximum. A constant
    map has no range to scale: its heatmap is zero everywhere, with zero gradient.
    Raises: ValueError when the number of patches is no square.
    """
    batch, patches = maps.shape
    side = round(patches**0.5)
    if side * side != patches:
        raise ValueError(f"to_pixels: {patches} patches form no square; give a square grid")
    heat = interpolate(
        maps.reshape(batch, 1, side, side), size=size, mode="bilinear", align_corners=False
    )
    if not normalise:
        return heat
    low = heat.amin(dim=(1, 2, 3), keepdim=True)
    span = heat.amax(dim=(1, 2, 3), keepdim=True) - low
    # Judged on the patches: interpolation rounds, and would stretch its last bits to [0, 1].
    flat = (maps.amax(dim=1) <= maps.amin(dim=1)).reshape(batch, 1, 1, 1)
    constant = flat | (span <= 0)
    return torch.where(constant, 0.0, (heat - low) / torch.where(constant, 1.0, span))


def foreground_iou_pct(
    heatmaps: Float[Tensor, "batch 1 height width"], masks: Bool[Tensor, "batch 1 height width"]
) -> Float[Tensor, " batch"]:
    """Overlap of each heatmap, cut at its own mean, with its object mask, in percent.

    The cut is the one of the papers' segmentation test (differences E1).
    Raises: ValueError for masks of another shape, or that are not boolean.
    """
    if masks.shape != heatmaps.shape or masks.dtype != torch.bool:
        raise ValueError(
            f"foreground_iou_pct: heatmaps {list(heatmaps.shape)} and masks {list(masks.shape)} of "
            f"{masks.dtype}; give booleans of the heatmaps' shape, say masks > 0.5"
        )
    found = heatmaps > heatmaps.mean(dim=(1, 2, 3), keepdim=True)
    both = (found & masks).sum(dim=(1, 2, 3))
    either = (found | masks).sum(dim=(1, 2, 3))
    return 100 * both / either.clamp(min=1)


def checked_target(logits: Float[Tensor, "batch classes"], target: Target) -> Int[Tensor, " batch"]:
    """The classes to explain, one for each image: the predicted ones for None.

    Raises: ValueError for classes that are no whole numbers, are out of range, or are not one for
    all images nor one for each.
    """
    if target is None:
        return logits.argmax(dim=1)
    batch, classes = logits.shape
    listed = target.tolist() if isinstance(target, Tensor | np.ndarray | np.generic) else target
    several = isinstance(listed, Sequence) and not isinstance(listed, str)
    try:
        if any(isinstance(value, bool) for value in (listed if several else [listed])):
            raise TypeError
        chosen = [index(value) for value in listed] if several else [index(listed)] * batch
    except TypeError:
        raise ValueError(
            f"target {listed!r} for {batch} images: classes are whole numbers; give one for all, "
            "one for each image, or None for the predicted one"
        ) from None
    if len(chosen) != batch or not all(0 <= value < classes for value in chosen):
        raise ValueError(
            f"target {chosen} for {batch} images and {classes} classes; give one class in "
            f"0..{classes - 1} for each image, one for all, or None for the predicted one"
        )
    return torch.tensor(chosen, dtype=torch.int64, device=logits.device)
