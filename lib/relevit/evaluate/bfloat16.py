"""A classifier in bfloat16 that falls back on float32 where rounding could change the answer.

Some processors multiply bfloat16 several times faster than float32, but round every number to
three digits, which moves the logits. An answer is sure when no two logits that decide it are
closer than a margin; all others are computed a second time, in float32. With a margin of twice
the largest error of a logit seen on a sample, the answers are those of float32.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from relevit.base.device import Precision
from relevit.models.answers import need_classes
from relevit.models.trunk import Frozen, kept_tokens, open_trunk

# How far apart the logits are that decide an answer, by `prediction_gap` and the like.
Gap = Callable[[Float[Tensor, "batch classes"]], Float[Tensor, " batch"]]
Logits = Callable[[], Float[Tensor, "batch classes"]]


class Answers:
    """Logits of a copy of `model` in evaluation mode, on the CPU; the model itself stays as it is.

    The copy shares the weights that keep their format. `precision` None keeps the model's own.
    With `bfloat16`, once `measure` has set the `margin`, inputs whose logits leave doubt are
    answered again in float32; `repeated` counts them. Tokens of `frozen` blocks are kept.
    """

    def __init__(
        self, model: nn.Module, precision: Precision | None = None, frozen: Frozen | None = None
    ) -> None:
        self._fast = _copy(model, None if precision is None else getattr(torch, precision))
        self._exact = _copy(model, torch.float32) if precision == "bfloat16" else None
        self._trunk = open_trunk(self._fast, frozen)
        self.margin = 0.0
        self.repeated = 0

    @property
    def like(self) -> Tensor:
        """A tensor with the device and the format that inputs should have."""
        model = self._fast if self._exact is None else self._exact
        return next(model.parameters())

    @torch.inference_mode()
    def measure(self, batches: Iterable[Shaped[Tensor, "_ 3 height width"]]) -> float:
        """Take twice the largest error of a logit on these inputs as the margin from now on.

        Returns the share of their predictions that are in doubt then. Logits are compared after
        taking off their mean, which decides nothing. Formats but bfloat16 are as they are.
        """
        if self._exact is None:
            return 0.0
        errors, gaps = [], []
        for pixels in batches:
            logits = _logits(self._fast, pixels)
            apart = logits - _logits(self._exact, pixels)
            errors.append((apart - apart.mean(dim=1, keepdim=True)).abs().max())
            gaps.append(prediction_gap(logits))
        self.margin = 2 * float(torch.stack(errors).max())
        return float(self.doubtful(torch.cat(gaps)).float().mean())

    def __call__(
        self, pixels: Shaped[Tensor, "batch 3 height width"], gap: Gap | None = None
    ) -> Float[Tensor, "batch classes"]:
        """Logits, in float32 or better. Inputs whose `gap` is below the margin are repeated."""
        return self.later(pixels, gap)()

    @torch.inference_mode()
    def later(
        self, pixels: Shaped[Tensor, "batch 3 height width"], gap: Gap | None = None
    ) -> Logits:
        """As a call, but a GPU is not waited for until the logits are, by calling the result."""
        with kept_tokens(self._trunk, pixels):
            logits, arrived = _begin(self._fast, pixels)
        checked = self._exact is not None and gap is not None and self.margin != 0

        @torch.inference_mode()
        def end() -> Tensor:
            if arrived is not None:
                arrived.synchronize()
            if checked and (again := self.doubtful(gap(logits))).any():
                logits[again] = _logits(self._exact, pixels[again.to(pixels.device)])
                self.repeated += int(again.sum())
            return logits

        return end

    def doubtful(self, gaps: Float[Tensor, " batch"]) -> Bool[Tensor, " batch"]:
        """Where rounding could change the answer."""
        return ~(gaps >= self.margin)  # so written, NaN is doubtful


def right_classes(
    labels: Int[Tensor, " batch"], classes: int, accepted: Mapping[int, Sequence[int]]
) -> Bool[Tensor, "batch classes"]:
    """Which classes are right: those that `accepted` gives for the label, else the label itself.

    Raises: ValueError for a class that the model has no output for.
    """
    several = [accepted.get(label, (label,)) for label in labels.tolist()]
    places = [(row, column) for row, columns in enumerate(several) for column in columns]
    wrong = sorted({column for _, column in places if not 0 <= column < classes})
    if wrong:
        raise ValueError(
            f"answers: the classes {wrong[:5]} are right, and the model has {classes} outputs; "
            "give a model with an output for each class, as of ImageNet-1k for its sets"
        )
    right = torch.zeros(len(labels), classes, dtype=torch.bool)
    right[tuple(torch.tensor(places).unbind(dim=1))] = True
    return right


def prediction_gap(logits: Float[Tensor, "batch classes"]) -> Float[Tensor, " batch"]:
    """By how much the differences of logits must change for another class to win."""
    first, second = logits.topk(2, dim=1).values.unbind(dim=1)
    return first - second


def label_gap(
    logits: Float[Tensor, "batch classes"], labels: Int[Tensor, " batch"], k: int
) -> Float[Tensor, " batch"]:
    """By how much, for the label to come into the first `k` classes or out of them."""
    return rank_gap(logits, right_classes(labels, logits.shape[1], {}), k)


def rank_gap(
    logits: Float[Tensor, "batch classes"], right: Bool[Tensor, "batch classes"], k: int
) -> Float[Tensor, " batch"]:
    """By how much, for the first right class to come into the first `k` or out of them.

    It is among them when it comes before the k-th of the wrong classes.
    """
    if k >= logits.shape[1]:
        return logits.new_full((len(logits),), torch.inf)
    own = logits.masked_fill(~right, -torch.inf).amax(dim=1)
    rival = logits.masked_fill(right, -torch.inf).topk(k, dim=1).values[:, -1]
    return (own - rival).abs()


def _copy(model: nn.Module, dtype: torch.dtype | None) -> nn.Module:
    """A copy in evaluation mode. Tensors are copied when the format of one changes."""
    tensors = [*model.parameters(), *model.buffers()]
    if dtype is None or all(t.dtype == dtype for t in tensors if t.is_floating_point()):
        return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors}).eval()
    return copy.deepcopy(model).to(dtype).eval()


def _begin(model: nn.Module, pixels: Tensor) -> tuple[Tensor, torch.cuda.Event | None]:
    """Logits on the CPU, and when they have arrived there; None: they have."""
    logits = model(pixels.to(next(model.parameters())))
    need_classes(logits)
    logits = logits if logits.dtype == torch.float64 else logits.float()
    if not logits.is_cuda:
        return logits.cpu(), None
    copied = logits.to("cpu", non_blocking=True)
    return copied, torch.cuda.current_stream(logits.device).record_event()


def _logits(model: nn.Module, pixels: Tensor) -> Tensor:
    logits, arrived = _begin(model, pixels)
    if arrived is not None:
        arrived.synchronize()
    return logits
