"""The door to every attribution method: what is checked, and what a protocol stands for."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import wraps
from operator import index
from typing import Any, SupportsIndex

import numpy as np
import torch
from jaxtyping import Float, Int
from timm.layers import PatchEmbed
from torch import Tensor, nn

from relevit.attention.recording import alone, attention_layers, evaluating
from relevit.attention.token_rows import head_pooling, need_head
from relevit.protocols import Options, check_protocol, options

# One class for all images or one for each, None for the predicted ones.
Target = SupportsIndex | Sequence[SupportsIndex] | np.ndarray | Tensor | None
PAPER_DEPTH = 12  # blocks of the models whose first block the protocols give


def method(
    *shared: str, float64: bool = False, of_class: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a formula `(model, images, target=None, **options)` one of METHODS.

    It then takes `protocol`, whose options for it (and for the `shared` parts that it uses) are
    looked up by its name; options that are given go before them. What else holds for all methods:
    the model works in eval mode, but with `exact_gradient=True` in its own, for a training may go
    on from there; afterwards each part has the mode that it had. Other threads that explain the
    same model wait. Inside `torch.inference_mode()` gradients are taken all the same, and of a
    model of `torch.compile` the one that was compiled is explained.
    `float64`: it divides by what may be nearly 0, so that a model in another type is copied and
    worked out in float64 (in float32 on devices that have none). `of_class`: it explains a class,
    and a model without a head has none.
    Raises: ValueError for an unknown protocol, for what is no model, for images that it does not
    take, for a model without a head, for weights made inside `torch.inference_mode()`, or a
    `start_block` that is none.
    """

    def decorate(formula: Callable[..., Any]) -> Callable[..., Any]:
        # Without types: what is wrong with an argument is said here, in a sentence.
        @wraps(formula, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
        def explain(model, images, target=None, *, protocol="published", **given):
            check_protocol(protocol)
            model = getattr(model, "_orig_mod", model)  # the compiled graph heeds no hooks
            _need_inputs(model, images)
            if of_class or target is not None:
                need_head(model)
            _need_start(model, given.get("start_block"), protocol)
            row: Options = {}
            for name in (formula.__name__, *shared):
                row |= method_options(model, name, protocol)
            with ExitStack() as stack:
                if torch.is_inference_mode_enabled():
                    stack.enter_context(torch.inference_mode(False))
                own_mode = given.get("exact_gradient", False)
                stack.enter_context(alone(model) if own_mode else evaluating(model))
                images = images.clone() if images.is_inference() else images
                target = target.cpu() if isinstance(target, Tensor) else target  # to be checked
                if not float64:
                    return formula(model, images, target, **(row | given))
                kind = next(model.parameters(), images).dtype
                wide = torch.float32 if images.device.type == "mps" else torch.float64
                stack.enter_context(torch.autocast(images.device.type, enabled=False))
                exact = model if kind == wide else in_precision(model, wide)
                return formula(exact, images.to(wide), target, **(row | given)).to(kind)

        return explain

    return decorate


def in_precision(model: nn.Module, kind: torch.dtype) -> nn.Module:
    """A copy of this type, with the tensors that modules have beside weights and buffers.

    Adapters keep factors there, and the old `weight_norm` and pruning the weight itself, which is
    in a graph and would not be copied.
    """
    beside = [value for module in model.modules() for value in vars(module).values()]
    kept = [value for value in beside if isinstance(value, Tensor) and value.is_floating_point()]
    return copy.deepcopy(model, {id(value): value.detach().to(kind) for value in kept}).to(kind)


def method_options(model: nn.Module, name: str, protocol: str) -> Options:
    """The options that `protocol` stands for in the method `name`, on this model.

    First blocks are given for models of 12 blocks: on a shallower one it is the same share.
    """
    row = options(protocol, name, model_family(model))
    if "start_block" in row:
        share = min(1, len(attention_layers(model)) / PAPER_DEPTH)
        row["start_block"] = math.ceil(row["start_block"] * share)
    return row


def model_family(model: nn.Module) -> str:
    """Whose published settings belong to a model: `vit` unless it says otherwise, or is DINO's."""
    if hasattr(model, "family"):
        return model.family
    return "dino" if head_pooling(model) == "both" else "vit"


def checked_target(logits: Float[Tensor, "batch classes"], target: Any) -> Int[Tensor, " batch"]:
    """The classes to explain, one for each image: the predicted ones for None.

    Labels that lie on a GPU, as in training, are taken as they are: to see them it would have to
    be waited for.
    Raises: ValueError for classes that are no whole numbers, are out of range, or are not one for
    all images nor one for each.
    """
    if target is None:
        return logits.argmax(dim=1)
    batch, classes = logits.shape
    if isinstance(target, Tensor) and target.device.type != "cpu":
        if target.shape == (batch,) and target.dtype == torch.int64:
            return target
        target = target.cpu()
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


def _need_inputs(model: Any, images: Any) -> None:
    """Raise ValueError for what is no model, and for images that it does not take."""
    if not isinstance(model, nn.Module):
        raise ValueError(
            f"model: a {type(model).__name__} is no network; give a timm Vision Transformer, such "
            "as load_model('tiny')"
        )
    if any(weights.is_inference() for weights in model.parameters()):
        raise ValueError(
            f"model: this {type(model).__name__} was made inside torch.inference_mode(), and "
            "has no gradients; make it outside, or take its copy.deepcopy, made outside"
        )
    embedding = getattr(model, "patch_embed", None)  # a text encoder has none
    sizes = embedding.img_size if getattr(embedding, "strict_img_size", False) else None
    any_size = isinstance(embedding, PatchEmbed) and not (sizes or embedding.dynamic_img_pad)
    sides = embedding.patch_size if any_size else (1, 1)
    wanted = {weights.dtype for weights in model.parameters()}
    given = f"a {type(images).__name__}"
    if isinstance(images, Tensor):
        given = f"{list(images.shape)} of {images.dtype}"
        fits = embedding is None or (
            images.ndim == 4
            and sizes in (None, tuple(images.shape[2:]))
            and not any(whole % side for whole, side in zip(images.shape[2:], sides, strict=True))
        )
        cast = torch.is_autocast_enabled(images.device.type)
        if fits and images.is_floating_point() and (cast or not wanted or images.dtype in wanted):
            return
    height, width = sizes or ("height", "width")
    if max(sides) > 1:
        height, width = (f"a multiple of {side}" for side in sides)
    kinds = " or ".join(sorted(map(str, wanted))) or "floating point"
    raise ValueError(
        f"images: {given}; this {type(model).__name__} takes a tensor [batch, channels, {height}, "
        f"{width}] of {kinds}: put a single image into a batch (image[None]), resize, and "
        "normalise what is 0..255 (ModelSpec.normalise)"
    )


def _need_start(model: nn.Module, start_block: Any, protocol: str) -> None:
    """Raise ValueError for a first block that is none.

    One beyond the last leaves nothing: a map of zeros, which the published code gives as well.
    """
    depth = len(attention_layers(model))
    if start_block is None or 1 <= start_block <= depth:
        return
    if start_block < 1 or protocol == "described":
        raise ValueError(
            f"start_block {start_block}: blocks are counted from 1 and this model has {depth}; "
            f"choose one in 1..{depth}"
        )
