"""A classifier in bfloat16 that falls back on float32 where rounding could change the answer.

Some processors multiply bfloat16 several times faster than float32, but round every number to
three digits, which moves the logits. An answer is sure when no two logits that decide it are
closer than `margin`; all others are computed a second time, in float32. With a margin of twice
the largest error of a logit seen on a sample, the answers are those of float32.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from relevit.precision import Precision

Doubt = Callable[[Float[Tensor, "batch classes"], float], Bool[Tensor, " batch"]]


class Answers:
    """Logits of a copy of `model` in evaluation mode, on the CPU; the model itself stays as it is.

    `precision` None keeps the model's own format. With `bfloat16` and a `margin` above 0,
    inputs whose logits leave doubt are answered again in float32; `repeated` counts them.
    """

    def __init__(
        self, model: nn.Module, precision: Precision | None = None, margin: float = 0.0
    ) -> None:
        self._fast = copy.deepcopy(model).eval()
        self._exact = copy.deepcopy(model).float().eval() if precision == "bfloat16" else None
        if precision is not None:
            self._fast = self._fast.to(getattr(torch, precision))
        self.margin = margin
        self.repeated = 0

    @property
    def like(self) -> Tensor:
        """A tensor with the device and the format that inputs should have."""
        model = self._fast if self._exact is None else self._exact
        return next(model.parameters())

    @torch.inference_mode()
    def __call__(
        self, pixels: Float[Tensor, "batch 3 height width"], doubt: Doubt | None = None
    ) -> Float[Tensor, "batch classes"]:
        """Logits, in float32 or better; `doubt` says which could mislead, as by `unsure_*`."""
        logits = _logits(self._fast, pixels)
        if self._exact is None or doubt is None or self.margin == 0:
            return logits
        again = doubt(logits, self.margin)
        if again.any():
            logits[again] = _logits(self._exact, pixels[again.to(pixels.device)])
            self.repeated += int(again.sum())
        return logits

    @torch.inference_mode()
    def largest_error(self, batches: Iterable[Float[Tensor, "batch 3 height width"]]) -> float:
        """By how much a logit in bfloat16 is off on these inputs, at most; 0 in other formats.

        Logits are compared after taking off their mean, which decides nothing. NaN where a
        logit is no number.
        """
        if self._exact is None:
            return 0.0
        errors = []
        for pixels in batches:
            apart = _logits(self._fast, pixels) - _logits(self._exact, pixels)
            errors.append((apart - apart.mean(dim=1, keepdim=True)).abs().max())
        return float(torch.stack(errors).max())


def unsure_prediction(
    logits: Float[Tensor, "batch classes"], margin: float
) -> Bool[Tensor, " batch"]:
    """Where a change of the logits' differences by less than `margin` could win another class."""
    first, second = logits.topk(2, dim=1).values.unbind(dim=1)
    return ~(first - second >= margin)  # so written, NaN is unsure


def unsure_rank(
    logits: Float[Tensor, "batch classes"], labels: Int[Tensor, " batch"], margin: float, k: int
) -> Bool[Tensor, " batch"]:
    """Where such a change could bring the label into the first `k` classes, or out of them."""
    if k >= logits.shape[1]:
        return torch.zeros(len(logits), dtype=torch.bool)
    borders = logits.topk(k + 1, dim=1).values[:, k - 1 :]
    own = logits.gather(1, labels[:, None])
    inside = own >= borders[:, :1]
    rival = torch.where(inside, borders[:, 1:], borders[:, :1])
    return ~((own - rival).abs() >= margin)[:, 0]


def _logits(model: nn.Module, pixels: Tensor) -> Tensor:
    like = next(model.parameters())
    logits = model(pixels.to(like)).cpu()
    return logits if logits.dtype == torch.float64 else logits.float()
