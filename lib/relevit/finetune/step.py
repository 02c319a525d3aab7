"""One step of finetuning: the losses of a batch, for RobustViT's method and for its baselines.

RobustViT (Sec. 3) wants the relevance map R of a class on the object S and not off it, while the
answers M stay as they are:

    L_background = MSE(R * (1 - S), 0)
    L_foreground = MSE(R * S, 1)
    L_class = CE(M, arg max M)

    total = w_relevance (w_background L_background + w_foreground L_foreground) + w_class L_class

The baselines (appendices C and D, after Simpson et al. 2019 and Ross, Hughes, Doshi-Velez 2017)
want the gradient of the answer small on the background, with the label's cross-entropy. Their
published term has no gradient (differences B9, B10): `relevit.finetune.baselines` measures that.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from relevit.attribution import patch_grid, relevance_and_logits, to_heatmap
from relevit.base.device import Precision, autocast
from relevit.choices.words import Method
from relevit.finetune.settings import BASELINES, FinetuneSettings
from relevit.losses import CLASS_TERMS, Step
from relevit.maps import attention_for_gradients, unfused_attention
from relevit.models.answers import need_classes
from relevit.models.trunk import to_train

Images = Float[Tensor, "batch 3 height width"]
Labels = Int[Tensor, " batch"]


@dataclass(frozen=True)
class StepLosses:
    """The terms of one batch, by name and unweighted; their weighted sums; the maps.

    All are in the graph. Neither a baseline nor a control in training has heatmaps.
    """

    terms: Mapping[str, Float[Tensor, ""]]
    relevance: Float[Tensor, ""]
    classification: Float[Tensor, ""]
    total: Float[Tensor, ""]
    heatmaps: Float[Tensor, "batch 1 height width"] | None
    logits: Float[Tensor, "batch classes"]

    @property
    def named(self) -> dict[str, Float[Tensor, ""]]:
        """The terms that were computed, as the log calls them, their weighted sums, and the total.

        Where there is no term, there is no `relevance` either.
        """
        found = dict(self.terms) | ({"relevance": self.relevance} if self.terms else {})
        found |= {"classification": self.classification, "total": self.total}
        return {f"loss_{name}": value for name, value in found.items()}

    def numbers(self) -> dict[str, float]:
        """The same as plain numbers."""
        return {name: float(value.detach()) for name, value in self.named.items()}


def step_losses(
    model: nn.Module,
    images: Images,
    masks: Float[Tensor, "batch 1 height width"],
    labels: Labels,
    settings: FinetuneSettings,
    *,
    outlined: Bool[Tensor, " batch"] | None = None,
    train: bool = True,
) -> StepLosses:
    """All losses of a batch from one forward pass, shared by the maps and the class term.

    `images` are normalised, `masks` in [0, 1], 1 on the object. `train=False` leaves out the graph
    of second derivatives, which the numbers alone do not need. In training a control, whose
    relevance terms weigh nothing, makes no maps and has no terms. Images that are not `outlined`
    have no mask: losses of the map are means over the others.
    Raises: ValueError for masks that do not fit the images, a head with one output, or a baseline
    with `outlined`, whose terms are of whole batches.
    """
    weights, losses = settings.weights, settings.terms
    if outlined is not None and settings.method in BASELINES:
        but = "needs masks of all images; leave none out"
        raise ValueError(f"step_losses: {settings.method} {but}")
    control = weights["relevance"] == 0 and train
    if control or (outlined is not None and not outlined.any()):
        losses = {}
    exact = settings.rules["exact_gradient"] and train
    rules = settings.rules | {"exact_gradient": exact}
    seen = Step(images, masks, labels)
    if settings.method in BASELINES:
        seen = replace(seen, **look_at_pixels(model, images, exact_gradient=exact))
    elif losses:
        seen = replace(seen, **look_at_maps(model, images, labels, settings, exact))
    else:
        with (
            autocast(images.device, settings.precision),
            attention_for_gradients(model, last=settings.trained_blocks),
        ):
            seen = replace(seen, logits=_at_least_float32(model(images)))
    need_classes(seen.logits)

    with autocast(images.device, "float32"):  # a caller's would reach the baselines' gradients
        part = seen if outlined is None else seen.select(outlined)
        terms = {name: term.value(part, rules) for name, term in losses.items()}
    relevance = sum((weights[name] * value for name, value in terms.items()), torch.zeros(()))
    classification = CLASS_TERMS[settings.class_loss].value(seen, rules)
    total = weights["relevance"] * relevance + weights["classification"] * classification
    return StepLosses(terms, relevance, classification, total, seen.heatmaps, seen.logits)


def look_at_maps(
    model: nn.Module,
    images: Images,
    labels: Labels,
    settings: FinetuneSettings,
    exact_gradient: bool,
) -> dict[str, Tensor]:
    """The model's heatmaps of the class to explain, and its logits."""
    with autocast(images.device, settings.precision):
        relevance, logits = relevance_and_logits(
            model,
            images,
            labels if settings.target == "label" else None,
            exact_gradient=exact_gradient,
            explanation=settings.explanation,
            last=settings.trained_blocks or None,
        )
    heatmaps = to_heatmap(
        relevance,
        tuple(images.shape[-2:]),
        patch_grid(model, images),
        normalise=settings.rules["normalise"],
    )
    return {"heatmaps": heatmaps, "logits": _at_least_float32(logits)}


def look_at_pixels(model: nn.Module, images: Images, *, exact_gradient: bool) -> dict[str, Tensor]:
    """The images as leaves, whose gradients the baselines' terms take, and their logits (B13).

    In the precision of the weights, whatever autocast the caller is in: second derivatives need the
    digits, and attention that is not fused.
    """
    images = images.detach().requires_grad_()  # a new tensor: the caller's is left alone
    attention = unfused_attention(model) if exact_gradient else nullcontext()
    with autocast(images.device, "float32"), attention:
        return {"images": images, "logits": model(images)}


def products(method: Method, asked: Precision) -> Precision:
    """The format that a method is trained in: baselines need the digits (second derivatives)."""
    return "float32" if method in BASELINES else asked


def make_optimizer(model: nn.Module, settings: FinetuneSettings) -> torch.optim.AdamW:
    """AdamW with weight decay on all that is trained, biases and norms too (differences A10)."""
    return torch.optim.AdamW(
        trained_weights(model, settings.trained_blocks),
        lr=settings.lr,
        weight_decay=settings.weight_decay,
        fused=True,
    )


def trained_weights(model: nn.Module, blocks: int | None) -> list[nn.Parameter]:
    """The weights of a Vision Transformer that are trained.

    None: all; else those of the last `blocks` blocks, of the norm after them and of the head, or
    of the head alone where it is 0 (Kirichenko et al. 2023). Those that are frozen (their
    requires_grad is False, as of what lies under a LoRA) stay so and are left out.
    Raises: ValueError for more blocks than there are, a head that has no weights, or where all
    that would be trained is frozen.
    """
    asked = to_train(model, blocks)
    found = [weight for weight in asked.values() if weight.requires_grad]
    if not found:
        raise ValueError(
            f"trained_blocks: all {len(asked)} weights that would be trained are frozen, "
            f"{next(iter(asked))} the first; call model.requires_grad_(True), or give other blocks"
        )
    return found


def frozen_part(model: nn.Module, blocks: int | None) -> dict[str, list[str]]:
    """The names of frozen weights among those that `blocks` asks for, as a part of what makes a
    run: `frozen`, or nothing."""
    names = [name for name, each in to_train(model, blocks).items() if not each.requires_grad]
    return {"frozen": names} if names else {}


def _at_least_float32(values: Tensor) -> Tensor:
    return values if values.dtype == torch.float64 else values.float()
