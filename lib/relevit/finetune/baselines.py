"""What the baselines GradMask and RRR train on, measured: gradients, weights and step sizes.

RobustViT's code takes the background term's gradient without `create_graph` (differences B9,
B10). If that leaves the term without effect, then the gradient of the total must equal that of
the cross-entropy alone, and training on either must give the same weights, to the last bit.
The cross-entropy here is a plain forward pass that knows nothing of masks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import dataclass

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from relevit.attention.recording import unfused_attention
from relevit.config.words import Baseline, Protocol
from relevit.finetune.hyperparameters import BASELINE_WEIGHTS, LossWeights
from relevit.finetune.settings import FinetuneSettings
from relevit.finetune.step import StepLosses, make_optimizer, step_losses

Gradients = dict[str, Tensor]  # parameter name -> gradient


@dataclass(frozen=True)
class Case:
    """One way to train a baseline.

    `exact_gradient=True` mends the published code by the one argument that it lacks. `weights` are
    those of the published scripts by default.
    """

    method: Baseline
    protocol: Protocol = "published"
    exact_gradient: bool | None = None
    weights: LossWeights = BASELINE_WEIGHTS["script"]["gradmask"]

    @property
    def settings(self) -> FinetuneSettings:
        """Of a run like that, whose learning rate nobody asks for."""
        own = {"exact_gradient": self.exact_gradient}
        return FinetuneSettings(
            lr=1.0, method=self.method, protocol=self.protocol, options=own, weights=self.weights
        )

    @property
    def exact(self) -> bool:
        """Whether the background term is in the graph."""
        return self.settings.rules["exact_gradient"]

    @property
    def name(self) -> str:
        """`published`, `described`, or `mended`: published with the exact gradient."""
        return "mended" if self.exact and self.protocol == "published" else self.protocol


@dataclass(frozen=True)
class Sample:
    """Images for one step: normalised images, masks in [0, 1], labels."""

    images: Float[Tensor, "batch 3 height width"]
    masks: Float[Tensor, "batch 1 height width"]
    labels: Int[Tensor, " batch"]

    def split(self, size: int) -> Iterator[Sample]:
        """The sample in parts of `size` images, in order."""
        parts = (part.split(size) for part in (self.images, self.masks, self.labels))
        return (Sample(*part) for part in zip(*parts, strict=True))


def losses_of(model: nn.Module, sample: Sample, case: Case) -> StepLosses:
    """All terms of the baseline. Errors: as `step_losses`."""
    return step_losses(model, sample.images, sample.masks, sample.labels, case.settings)


def total_loss(model: nn.Module, sample: Sample, case: Case) -> Float[Tensor, ""]:
    """The loss of the baseline: both terms with their weights. Errors: as `step_losses`."""
    return losses_of(model, sample, case).total


def label_loss(model: nn.Module, sample: Sample, case: Case) -> Float[Tensor, ""]:
    """Plain finetuning: the labels' cross-entropy times its weight. No mask, no second term."""
    with _attention(model, case):
        return case.weights.classification * cross_entropy(model(sample.images), sample.labels)


def gradients(model: nn.Module, loss: Float[Tensor, ""]) -> Gradients:
    """Gradient of a loss by each weight, zero where it does not reach. Leaves `.grad` alone."""
    named = dict(model.named_parameters())
    found = torch.autograd.grad(loss, list(named.values()), materialize_grads=True)
    return dict(zip(named, found, strict=True))


def gradient_gap(model: nn.Module, sample: Sample, case: Case) -> pd.DataFrame:
    """Gradient of the total against that of the cross-entropy alone, one row a parameter.

    Columns: `parameter`, `values` (how many), `largest_difference` (of any value; exactly 0.0
    when the background term trains nothing), `alone_norm`, `difference_norm`.
    """
    total = gradients(model, total_loss(model, sample, case))
    alone = gradients(model, label_loss(model, sample, case))
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


def gap_summary(case: Case, gap: pd.DataFrame) -> dict[str, str | float | int]:
    """One row on all parameters: the largest difference, and its norm over the gradient's."""
    differing = int((gap["largest_difference"] > 0).sum())
    squares = gap[["difference_norm", "alone_norm"]].pow(2).sum()
    return {
        "method": case.method,
        "protocol": case.name,
        "weight_background": case.weights.background,
        "weight_classification": case.weights.classification,
        "parameters": len(gap),
        "parameters_differing": differing,
        "largest_difference": float(gap["largest_difference"].max()),
        "relative": float((squares["difference_norm"] / squares["alone_norm"]) ** 0.5),
    }


def weights_apart(
    model: nn.Module, samples: Sequence[Sample], case: Case, lr: float
) -> pd.DataFrame:
    """Train two copies, one on the total, one on the labels alone; one row an AdamW step.

    `samples` has one batch a step. The optimiser is that of finetuning (differences A10).
    Columns: `step` (0: before), `largest_difference` of any weight, `moved` (largest change of a
    weight since step 0, of the copy trained on the total). `model` itself is left alone.
    """
    ours, plain = deepcopy(model), deepcopy(model)
    steps = [make_optimizer(copy, FinetuneSettings(lr=lr)) for copy in (ours, plain)]
    rows = [{"step": 0, "largest_difference": 0.0, "moved": 0.0}]
    for number, sample in enumerate(samples, start=1):
        for copy, optimizer, loss in zip(
            (ours, plain), steps, (total_loss, label_loss), strict=True
        ):
            optimizer.zero_grad(set_to_none=True)
            loss(copy, sample, case).backward()
            optimizer.step()
        rows.append(
            {
                "step": number,
                "largest_difference": _largest_difference(ours, plain),
                "moved": _largest_difference(ours, model),
            }
        )
    return pd.DataFrame(rows)


def first_step_size(model: nn.Module, slopes: Gradients, *, weight: float, lr: float) -> float:
    """Root mean square of AdamW's first change of the weights, divided by the learning rate.

    `slopes` are the gradients of a loss, `weight` its factor. Adam divides the gradient by its
    own size plus eps (1e-8), so a factor does not matter (about 1) until the scaled gradient is
    near eps; below that the step shrinks with it (differences B12). Weight decay is left out.
    """
    copy = deepcopy(model).double()
    for name, parameter in copy.named_parameters():
        parameter.grad = weight * slopes[name].double()
    before = torch.cat([p.detach().flatten() for p in copy.parameters()]).clone()
    make_optimizer(copy, FinetuneSettings(lr=lr, weight_decay=0.0)).step()
    after = torch.cat([p.detach().flatten() for p in copy.parameters()])
    return float((after - before).square().mean().sqrt() / lr)


def pixel_gradients(
    model: nn.Module, sample: Sample, method: Baseline
) -> Float[Tensor, "batch 1 height width"]:
    """What a baseline looks at: the size of its answer's gradient by each pixel.

    Norm over the colour channels. GradMask's answer is the label's logit, RRR's the sum of all
    log-probabilities.
    """
    images = sample.images.detach().requires_grad_()
    with torch.enable_grad():
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


def _attention(model: nn.Module, case: Case) -> AbstractContextManager[None]:
    """The same kernels as in the total's forward pass, so that rounding is the same."""
    return unfused_attention(model) if case.exact else nullcontext()


def _largest_difference(one: nn.Module, other: nn.Module) -> float:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return max(float((a - b).detach().abs().max()) for a, b in pairs)
