"""What the baselines GradMask and RRR train on, measured: gradients, weights and step sizes.

RobustViT's code takes the background term's gradient without `create_graph` (differences B9,
B10). If that leaves the term without effect, then the gradient of the total must equal that of
the cross-entropy alone, and training on either must give the same weights, to the last bit.
The cross-entropy here is a plain forward pass that knows nothing of masks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from copy import deepcopy
from typing import Any, NamedTuple

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from relevit.choices.words import Baseline
from relevit.finetune.settings import FinetuneSettings
from relevit.finetune.step import make_optimizer, step_losses
from relevit.maps import unfused_attention

Gradients = dict[str, Tensor]  # parameter name -> gradient

# How a baseline is trained; `mended` is the published code with the one argument that it lacks.
CASES: dict[str, dict[str, Any]] = {
    "published": {"protocol": "published"},
    "mended": {"protocol": "published", "options": {"exact_gradient": True}},
    "described": {"protocol": "described"},
}


class Sample(NamedTuple):
    """Images for one step: normalised images, masks in [0, 1], labels."""

    images: Float[Tensor, "batch 3 height width"]
    masks: Float[Tensor, "batch 1 height width"]
    labels: Int[Tensor, " batch"]

    def split(self, size: int) -> Iterator[Sample]:
        """The sample in parts of `size` images, in order."""
        return (Sample(*part) for part in zip(*(part.split(size) for part in self), strict=True))


def settings_of(method: Baseline, case: str, **others: Any) -> FinetuneSettings:
    """A baseline in one of CASES, at a rate of 1 and with the scripts' weights unless told."""
    return FinetuneSettings(**{"lr": 1.0, "method": method} | CASES[case] | others)


def total_loss(model: nn.Module, sample: Sample, settings: FinetuneSettings) -> Float[Tensor, ""]:
    """The loss of the baseline: both terms with their weights."""
    return step_losses(model, *sample, settings).total


def label_loss(model: nn.Module, sample: Sample, settings: FinetuneSettings) -> Float[Tensor, ""]:
    """Plain finetuning: the labels' cross-entropy times its weight. No mask, no second term.

    By the same kernels as in the total's forward pass, so that rounding is the same.
    """
    with unfused_attention(model) if settings.rules["exact_gradient"] else nullcontext():
        logits = model(sample.images)
    return settings.weights["classification"] * cross_entropy(logits, sample.labels)


def gradients(model: nn.Module, loss: Float[Tensor, ""]) -> Gradients:
    """Gradient of a loss by each weight, zero where it does not reach. Leaves `.grad` alone."""
    named = dict(model.named_parameters())
    found = torch.autograd.grad(loss, list(named.values()), materialize_grads=True)
    return dict(zip(named, found, strict=True))


def gradient_gap(model: nn.Module, sample: Sample, settings: FinetuneSettings) -> pd.DataFrame:
    """Gradient of the total against that of the cross-entropy alone, one row a parameter.

    Columns: `parameter`, `values` (how many), `largest_difference` (of any value; exactly 0.0
    when the background term trains nothing), `alone_norm`, `difference_norm`.
    """
    total = gradients(model, total_loss(model, sample, settings))
    alone = gradients(model, label_loss(model, sample, settings))
    rows = [
        {
            "parameter": name,
            "values": alone[name].numel(),
            "largest_difference": float((total[name] - alone[name]).abs().max()),
            "alone_norm": float(alone[name].norm()),
            "difference_norm": float((total[name] - alone[name]).norm()),
        }
        for name in alone
    ]
    return pd.DataFrame(rows)


def weights_apart(
    model: nn.Module, samples: Sequence[Sample], settings: FinetuneSettings
) -> pd.DataFrame:
    """Train two copies, one on the total, one on the labels alone; one row an AdamW step.

    `samples` has one batch a step. The optimiser is that of finetuning (differences A10).
    Columns: `step` (0: before), `largest_difference` of any weight, `moved` (largest change of a
    weight since step 0, of the copy trained on the total). `model` itself is left alone.
    """
    ours, plain = deepcopy(model), deepcopy(model)
    trained = [
        (copy, loss, make_optimizer(copy, settings))
        for copy, loss in ((ours, total_loss), (plain, label_loss))
    ]
    rows = [{"step": 0, "largest_difference": 0.0, "moved": 0.0}]
    for number, sample in enumerate(samples, start=1):
        for copy, loss, optimizer in trained:
            optimizer.zero_grad(set_to_none=True)
            loss(copy, sample, settings).backward()
            optimizer.step()
        apart, moved = _largest_difference(ours, plain), _largest_difference(ours, model)
        rows.append({"step": number, "largest_difference": apart, "moved": moved})
    return pd.DataFrame(rows)


def pixel_gradients(
    model: nn.Module, sample: Sample, method: Baseline
) -> Float[Tensor, "batch 1 height width"]:
    """What a baseline looks at: the size of its answer's gradient by each pixel.

    Norm over the colour channels. GradMask's answer is the label's logit, RRR's the sum of all
    log-probabilities.
    """
    images = sample.images.detach().requires_grad_()
    logits = model(images)
    answer = logits.gather(1, sample.labels[:, None])
    if method == "rrr":
        answer = logits.log_softmax(dim=1)
    (slopes,) = torch.autograd.grad(answer.sum(), images)
    return slopes.norm(dim=1, keepdim=True)


def background_share_pct(
    maps: Float[Tensor, "batch 1 height width"], masks: Float[Tensor, "batch 1 height width"]
) -> Float[Tensor, " batch"]:
    """Share of the squared gradient that lies off the object, in percent of each image's."""
    squares = maps.square()
    total = squares.sum(dim=(1, 2, 3)).clamp_min(torch.finfo(squares.dtype).tiny)
    return 100 * (squares * (1 - masks)).sum(dim=(1, 2, 3)) / total


def _largest_difference(one: nn.Module, other: nn.Module) -> float:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return max(float((a - b).detach().abs().max()) for a, b in pairs)
