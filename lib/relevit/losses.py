"""The losses of RobustViT (Sec. 3), of its baselines (App. C and D), and others of the same maps.

total = w_relevance (w_background L_background + w_foreground L_foreground) + w_class L_class.

A loss takes one `Step` and gives a scalar. Its options are its own keyword arguments, and their
defaults the text's. The published code's are in `relevit.protocols`: a `Term` names those that its
loss gets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import binary_cross_entropy, cross_entropy

from relevit.choices.words import MORE_LOSSES as MORE_LOSSES  # by others

Heatmaps = Float[Tensor, "batch 1 height width"]
Masks = Float[Tensor, "batch 1 height width"]
Images = Float[Tensor, "batch channels height width"]
Logits = Float[Tensor, "batch classes"]
Labels = Int[Tensor, " batch"]
Value = Float[Tensor, ""]
Loss = Callable[..., Value]


@dataclass(frozen=True)
class Step:
    """What the losses of a batch look at; what a loss does not look at may be left out.

    Heatmaps and masks are in [0, 1] (unitless), masks 1 on the object. `images` are normalised.
    Heatmaps and logits are in the graph; for the baselines, which have no heatmaps, images
    require grad.
    """

    images: Images | None = None
    masks: Masks | None = None
    labels: Labels | None = None
    logits: Logits | None = None
    heatmaps: Heatmaps | None = None

    def select(self, chosen: Tensor) -> Step:
        """The same of some images alone, which places or truth values choose."""
        parts = {name: part for name, part in vars(self).items() if part is not None}
        return Step(**{name: part[chosen] for name, part in parts.items()})


class Term(NamedTuple):
    """A loss, its weight where nobody gives one, and which rules of a run are its options."""

    loss: Loss
    weight: float
    rules: tuple[str, ...] = ()

    def value(self, step: Step, rules: Mapping[str, Any]) -> Value:
        """The loss of a step of a run with these rules; what they do not say is the text's."""
        return self.loss(step, **{name: rules[name] for name in self.rules if name in rules})


def background_loss(step: Step, *, edges_in_both: bool = False) -> Value:
    """Mean squared relevance on the background: MSE(R * (1 - S), 0).

    Source: RobustViT Eq. 1. Averages over all pixels, so the term grows with the background's
    area (differences A6). `edges_in_both` as in `background_of` (A7).
    """
    background = background_of(step.masks, step.heatmaps, edges_in_both)
    return (step.heatmaps * background).square().mean()


def foreground_loss(step: Step, *, towards_mask: bool = False) -> Value:
    """Mean squared distance of the object's relevance from one: MSE(R * S, 1).

    Source: RobustViT Eq. 2, where every background pixel adds a constant 1. `towards_mask` takes
    the mask itself as the target, so that the background contributes nothing (differences A6).
    """
    masks = _fitting(step.masks, step.heatmaps)
    goal = masks if towards_mask else torch.ones_like(masks)
    return (step.heatmaps * masks - goal).square().mean()


def confidence_loss(step: Step, *, temperature: float = 1.0) -> Value:
    """Cross-entropy with the model's own current answer, in nats.

    Source: RobustViT Eq. 4. The target is the arg-max of the model as it is now, not of the
    original (differences A9). `temperature` divides the logits, after the arg-max; the text has
    none, the published code has one for DeiT (A8).
    """
    return cross_entropy(step.logits / temperature, step.logits.argmax(dim=1))


def label_loss(step: Step, *, temperature: float = 1.0) -> Value:
    """Cross-entropy with the label, in nats: of the baselines, and in the ablation (B23)."""
    return cross_entropy(step.logits / temperature, step.labels)


def gradmask_loss(
    step: Step,
    *,
    mean_square: bool = False,
    exact_gradient: bool = True,
    edges_in_both: bool = False,
) -> Value:
    """Size of the gradient of the label's logit by the image, on the background.

    Source: RobustViT Eq. 9: the L2 norm of each image, averaged over the batch. `mean_square` is
    over batch, channels and pixels (differences B8). Without `exact_gradient` the term is a
    constant to autograd and trains nothing (B9); with it, attention must not be fused
    (`relevit.maps.unfused_attention`). `images` require grad.
    """
    answer = step.logits.gather(1, step.labels[:, None]).sum()
    slopes = _slopes_off_object(answer, step, exact_gradient, edges_in_both)
    return slopes.square().mean() if mean_square else slopes.flatten(1).norm(dim=1).mean()


def rrr_loss(
    step: Step,
    *,
    least_probability: float = 0.0,
    sum_over_batch: bool = False,
    exact_gradient: bool = True,
    edges_in_both: bool = False,
) -> Value:
    """Squared gradient of all log-probabilities together by the image, on the background.

    Source: RobustViT Eq. 10 ("right for the right reasons"). Squares are summed over channels and
    pixels, so the term grows with the resolution, and averaged over the batch, or summed there,
    too; `least_probability` is added before the logarithm (both differences B11).
    `exact_gradient` (B10) and `images` as in `gradmask_loss`; all classes count.
    """
    if least_probability:
        answer = (step.logits.softmax(dim=1) + least_probability).log().sum()
    else:
        answer = step.logits.log_softmax(dim=1).sum()
    slopes = _slopes_off_object(answer, step, exact_gradient, edges_in_both)
    return slopes.square().sum() / (1 if sum_over_batch else len(slopes))


def cft_loss(step: Step, *, margin: float = 1e-4) -> Value:
    """Binary cross-entropy of the map with the mask, in nats, mean over pixels.

    Source: Elisha, Barkan, Koenigstein 2026 (CFT). Its published code takes the logarithm of a map
    that has been scaled to [0, 1], whose ends are exact zeros and ones: infinite there, and with
    a gradient that is none. Here the map is kept `margin` away from both ends, so that such a
    pixel costs at most 9.2 nats and teaches nothing.
    """
    maps, masks = step.heatmaps, _fitting(step.masks, step.heatmaps)
    return binary_cross_entropy(maps.clamp(margin, 1 - margin), masks.to(maps.dtype))


def energy_loss(step: Step) -> Value:
    """The share of the map's positive mass that lies off the object, mean over images.

    Source: Rao et al. 2023 (ICCV), Eq. 5: one minus the energy pointing game, so that the size of
    the map does not matter, and nor does where on the object it lies. A map without any
    positive mass costs 1.
    """
    mass, masks = step.heatmaps.clamp(min=0), _fitting(step.masks, step.heatmaps)
    whole = mass.sum(dim=(1, 2, 3))
    whole = torch.where(whole > 0, whole, 1)  # a tiny number would make slopes of 1e38
    return (1 - (mass * masks).sum(dim=(1, 2, 3)) / whole).mean()


def l1_loss(step: Step) -> Value:
    """Mean distance of the map from the mask: the absolute of R - S.

    Source: Rao et al. 2023 (ICCV), Eq. 4, there of the map divided by its largest value.
    """
    return (step.heatmaps - _fitting(step.masks, step.heatmaps)).abs().mean()


BOTH = ("exact_gradient", "edges_in_both")  # of both baselines
# What a method trains beside its class term. Weights are those of RobustViT Table 5; of the
# baselines the published scripts', for Tables 6 and 7 have other ones for each model
# (`relevit.finetune.settings`).
LOSSES: dict[str, dict[str, Term]] = {
    "relevance": {
        "background": Term(background_loss, 2.0, ("edges_in_both",)),
        "foreground": Term(foreground_loss, 0.3, ("towards_mask",)),
    },
    "cft": {"cft": Term(cft_loss, 1.0)},
    "energy": {"energy": Term(energy_loss, 1.0)},
    "l1": {"l1": Term(l1_loss, 1.0)},
    "gradmask": {"background": Term(gradmask_loss, 0.8, ("mean_square", *BOTH))},
    "rrr": {"background": Term(rrr_loss, 0.8, ("least_probability", "sum_over_batch", *BOTH))},
}
CLASS_TERMS: dict[str, Term] = {
    "confidence": Term(confidence_loss, 1.0, ("temperature",)),
    "label": Term(label_loss, 1.0, ("temperature",)),
}


def background_of(masks: Masks, pixels: Tensor, edges_in_both: bool = False) -> Masks:
    """The background's share of each pixel: 1 - S.

    `edges_in_both` turns only zeros and ones round, so that a fractional pixel at the object's
    edge counts with S on both sides (differences A7). `pixels` are those that the masks are of.
    """
    masks = _fitting(masks, pixels)
    background = 1 - masks
    if not edges_in_both:
        return background
    return torch.where((masks == 0) | (masks == 1), background, masks)


def _fitting(masks: Masks, pixels: Tensor) -> Masks:
    """The masks of these pixels.

    A GPU would have to be waited for to see their values: off [0, 1] its losses are NaN.
    Raises: ValueError for those of another size or, on a processor, off [0, 1].
    """
    # They would broadcast, or turn the loss round.
    fits = masks.shape == (len(pixels), 1, *pixels.shape[2:])
    inside = (masks >= 0) & (masks <= 1)  # NaN is in no range
    if fits and masks.device.type != "cpu":
        return torch.where(inside, masks, torch.nan)
    if not (fits and bool(inside.all())):
        raise ValueError(
            f"losses: masks {list(masks.shape)} from {float(masks.min()):g} to "
            f"{float(masks.max()):g} for pixels {list(pixels.shape)}; give one for each pixel, "
            "[batch, 1, height, width], in [0, 1], 1 on the object"
        )
    return masks


def _slopes_off_object(
    answer: Value, step: Step, exact_gradient: bool, edges_in_both: bool
) -> Images:
    # Without a graph of its own the gradient is a number to autograd: nothing learns from it.
    how = {"retain_graph": True, "create_graph": exact_gradient}
    slopes = torch.autograd.grad(answer, step.images, **how)[0]
    return slopes * background_of(step.masks, step.images, edges_in_both)
